package scenarios

import (
	"fmt"
	"time"

	"github.com/piecelease/fetcher/fleet"
	"github.com/piecelease/fetcher/simnet"
)

// elections are scenarios of fleets that elect a coordinator: whichever node is killed,
// paused or cut off, what enters a fleet enters it about once, and terms only grow.
var elections = []*simnet.Scenario{
	{
		Name:  "election",
		Says:  "Nodes of one owner elect who coordinates, and each byte enters their fleet once.",
		Nodes: 3,
		Only:  storeIsModelled,
		Set: func(r *simnet.Run) {
			f := newElectors(r, 12, r.Nodes)
			f.joinAll(simnet.FetchOptions{})
			f.copies(1.02)
			r.Finally(func() {
				for _, x := range f.fetches { // the source's line needs 5.1 s, and the last pieces spread
					r.Expect(r.Soon(x.Took(), 7500*time.Millisecond), "%s took %v", x.Node().Name(), x.Took())
				}
			})
			f.elected(1)
		},
	},
	{
		Name:   "election-killed",
		Says:   "The coordinator that a fleet has elected is killed, and so is the next; both come back later.",
		Nodes:  4,
		Fewest: 2,
		Only:   storeIsModelled,
		Set: func(r *simnet.Run) {
			f := joined(r, 12, r.Nodes, 8*simnet.Mbit)
			rng := r.Rand("killed")
			at := time.Duration(0)
			for range 2 {
				at += time.Duration(500+rng.IntN(4000)) * time.Millisecond
				gone := time.Duration(100+rng.IntN(8000)) * time.Millisecond
				r.After(at, func() {
					x := f.store.Holder()
					if !x.Running() {
						return
					}
					x.Kill()
					f.takeover(2 * fleet.DefaultHeartbeat)
					r.After(gone, x.Start)
				})
				at += gone
			}
			f.copies(1.1)
		},
	},
	{
		Name:   "election-leaves",
		Says:   "The coordinator that a fleet has elected leaves in good order, and so does the next; both come back later.",
		Nodes:  4,
		Fewest: 3,
		Only:   storeIsModelled,
		Set: func(r *simnet.Run) {
			f := joined(r, 12, r.Nodes, 8*simnet.Mbit)
			rng := r.Rand("leaves")
			at := time.Duration(0)
			for range 2 {
				at += time.Duration(1500+rng.IntN(3000)) * time.Millisecond
				gone := time.Duration(100+rng.IntN(8000)) * time.Millisecond
				r.AtLeast(at + gone)
				r.After(at, func() {
					x := f.store.Holder()
					if !x.Running() {
						return
					}
					x.Stop()
					f.takeover(fleet.DefaultHeartbeat)
					f.leases(2*fleet.DefaultHeartbeat + settling)
					r.After(gone, x.Start)
				})
			}
			f.copies(1.1)
		},
	},
	{
		Name: "election-found-late",
		Says: "The coordinator that a fleet has elected is killed, and members that have different pieces find the next one late.",
		Only: storeIsModelled,
		Set: func(r *simnet.Run) {
			f := newElectors(r, 12, 5)
			slowly(f.members)
			f.slowly(12 * simnet.Mbit)
			f.joinAll(simnet.FetchOptions{Config: patient()})
			rng := r.Rand("late")
			r.After(time.Duration(2000+rng.IntN(2500))*time.Millisecond, func() {
				old := f.store.Holder()
				old.Kill()
				f.takeover(2 * fleet.DefaultHeartbeat)
				r.After(time.Second, old.Start)
				terms := len(f.store.Terms())
				r.When(func() bool { return len(f.store.Terms()) > terms }, func() {
					for _, x := range f.members {
						if next := f.store.Holder(); x != next {
							r.After(time.Duration(1000+rng.IntN(6000))*time.Millisecond, r.Partition([]*simnet.Node{next}, []*simnet.Node{x}))
						}
					}
				})
			})
			f.copies(1.1)
		},
	},
	{
		Name: "election-store-away",
		Says: "The store by which a fleet elects is away for a minute: nobody waits for it, and nobody else coordinates.",
		Only: storeIsModelled,
		Set: func(r *simnet.Run) {
			f := newElectors(r, 12, 3)
			f.slowly(1.2 * simnet.Mbit)
			f.joinAll(simnet.FetchOptions{})
			r.After(time.Duration(3000+r.Rand("store").IntN(3000))*time.Millisecond, func() {
				f.store.Stop()
				r.After(time.Minute, f.store.Start)
			})
			f.copies(1.02)
			f.elected(1)
			r.Finally(func() {
				for _, x := range f.fetches {
					r.Expect(x.Took() < 90*time.Second, "%s took %v; the source's line needs 84 s", x.Node().Name(), x.Took())
				}
			})
		},
	},
	{
		Name: "election-store-older",
		Says: "The store by which a fleet elects is restored from a copy that knows nothing of the last election.",
		Only: storeIsModelled,
		Set: func(r *simnet.Run) {
			f := joined(r, 12, 4, 8*simnet.Mbit)
			rng := r.Rand("older")
			at := time.Duration(500+rng.IntN(2000)) * time.Millisecond
			older := at + 4*time.Second + time.Duration(rng.IntN(3000))*time.Millisecond
			back := at + 100*time.Millisecond + time.Duration(rng.IntN(8000))*time.Millisecond
			r.After(at, func() {
				r.After(older-at, f.store.Copy())
				x := f.store.Holder()
				x.Kill()
				r.After(back-at, x.Start)
			})
			r.AtLeast(back)
			f.entered(1.1)
		},
	},
	{
		Name:  "election-store-parted",
		Says:  "Some members of a fleet, and perhaps its coordinator, cannot reach the store by which it elects; others can.",
		Nodes: 4,
		Only:  storeIsModelled,
		Set: func(r *simnet.Run) {
			f := joined(r, 12, r.Nodes, 3*simnet.Mbit)
			rng := r.Rand("parted")
			for i := range 3 { // each combination of members, one after another
				at := time.Duration(1+10*i)*time.Second + time.Duration(rng.IntN(2000))*time.Millisecond
				r.After(at, func() {
					f.store.Heal()
					for _, x := range f.members {
						if rng.IntN(2) == 0 {
							f.store.Cut(x)
						}
					}
				})
			}
			r.After(40*time.Second, f.store.Heal)
			f.copies(1.02)
		},
	},
	{
		Name: "election-answers-lost",
		Says: "The store by which a fleet elects does what it is asked to do, but its answer is often lost.",
		Only: storeIsModelled,
		Set: func(r *simnet.Run) {
			f := newElectors(r, 12, 3)
			f.store.Lose(0.3)
			f.slowly(4 * simnet.Mbit)
			f.joinAll(simnet.FetchOptions{Config: patient()})
			f.copies(1.02)
		},
	},
	{
		Name: "election-upstart",
		Says: "A member of a fleet says that it was elected, in a later term or in the greatest there could be.",
		Only: storeIsModelled,
		Set: func(r *simnet.Run) {
			f := newElectors(r, 12, 4)
			f.slowly(3 * simnet.Mbit)
			rng := r.Rand("upstart")
			x, term := f.members[rng.IntN(len(f.members))], uint64(1000)
			absurd := rng.IntN(2) == 0
			if absurd { // it is ignored even without the store, which a later term needs
				term = 1<<64 - 1
				r.After(4*time.Second, f.store.Stop)
				r.After(30*time.Second, f.store.Start)
			}
			x.Become(simnet.Upstart(x.ID(), term))
			f.joinAll(simnet.FetchOptions{Config: patient()})
			r.After(5*time.Second, func() { // it shows its term when it joins
				r.After(15*time.Second, r.Partition([]*simnet.Node{x}, []*simnet.Node{f.store.Holder()}))
			})
			f.copies(1.02)
			f.elected(1)
		},
	},
	{
		Name: "election-clock-ahead",
		Says: "The clock of a member is an hour ahead; that member does not take over from a coordinator that is alive.",
		Only: storeIsModelled,
		Set: func(r *simnet.Run) {
			f := newElectors(r, 12, 3)
			f.slowly(3 * simnet.Mbit)
			f.members[r.Rand("clock").IntN(3)].SetClock(time.Hour)
			f.joinAll(simnet.FetchOptions{})
			f.copies(1.02)
			f.elected(1)
		},
	},
	{
		Name: "election-paused",
		Says: "The coordinator that a fleet has elected stands still for a while, and goes on when another has been elected.",
		Only: storeIsModelled,
		Set: func(r *simnet.Run) {
			f := joined(r, 48, 3, 10*simnet.Mbit)
			rng := r.Rand("paused")
			r.After(time.Duration(500+rng.IntN(8000))*time.Millisecond, func() {
				x := f.store.Holder()
				x.Freeze()
				f.takeover(2*fleet.DefaultHeartbeat + time.Second)
				r.After(time.Duration(5000+rng.IntN(10_000))*time.Millisecond, x.Thaw)
			})
			f.copies(1.02)
		},
	},
	{
		Name: "election-parted",
		Says: "Two parts of a fleet cannot reach each other for half a minute; both reach the source and the store.",
		Only: storeIsModelled,
		Set: func(r *simnet.Run) {
			f := joined(r, 12, 4, 3*simnet.Mbit)
			rng := r.Rand("parted")
			r.After(time.Duration(1000+rng.IntN(5000))*time.Millisecond, func() {
				r.After(30*time.Second, r.Partition(f.members[:2], f.members[2:]))
			})
			f.copies(2)
		},
	},
	{
		Name: "election-late",
		Says: "A node joins a fleet when the others have everything and the source is gone, and gets it from them.",
		Only: storeIsModelled,
		Set: func(r *simnet.Run) {
			f := newElectors(r, 12, 3)
			f.joinAll(simnet.FetchOptions{})
			r.After(20*time.Second, func() {
				f.source.Kill()
				x := r.Add(simnet.NodeConfig{Name: "late", Store: f.store, Line: simnet.Line{Up: 100 * simnet.Mbit, Down: 100 * simnet.Mbit, Latency: 2 * time.Millisecond}})
				late := x.Elect(f.c, simnet.FetchOptions{}, f.source)
				r.Finally(func() { r.Expect(late.Took() <= 2*time.Second, "the node that joined late took %v", late.Took()) })
			})
			r.AtLeast(25 * time.Second)
			f.copies(1.02)
		},
	},
}

const storeIsModelled = "the store of the rounds is modelled"

// electors are a fleet that elects, and the one source outside it.
type electors struct {
	r       *simnet.Run
	c       *simnet.Content
	store   *simnet.Store
	source  *simnet.Node
	members []*simnet.Node
	fetches []*simnet.Fetch
}

// newElectors makes a share of this many MiB outside, and members.
func newElectors(r *simnet.Run, size, members int) *electors {
	f := &electors{r: r, c: r.Folder("photos", 4*size, 256<<10), store: r.Store()}
	f.source = r.Add(simnet.NodeConfig{Name: "source", Line: simnet.Line{Up: 20 * simnet.Mbit, Down: 20 * simnet.Mbit, Latency: 30 * time.Millisecond}}).Seed(f.c)
	for i := range members {
		f.members = append(f.members, r.Add(simnet.NodeConfig{Name: fmt.Sprint("member", i), Store: f.store,
			Line: simnet.Line{Up: 100 * simnet.Mbit, Down: 100 * simnet.Mbit, Latency: 2 * time.Millisecond}}))
	}
	return f
}

// joined are new electors that fetch, with patience, from a source that sends at most up.
func joined(r *simnet.Run, size, members int, up float64) *electors {
	f := newElectors(r, size, members)
	f.slowly(up)
	f.joinAll(simnet.FetchOptions{Config: patient()})
	return f
}

func (f *electors) joinAll(opt simnet.FetchOptions) {
	for _, x := range f.members {
		f.fetches = append(f.fetches, x.Elect(f.c, opt, f.source))
	}
}

// entered expects that no more than this many copies came from the source.
func (f *electors) entered(most float64) {
	f.r.Finally(func() {
		sent := float64(f.source.Sent()) / float64(f.c.Bytes())
		f.r.Timeline().Note("%.3f copies entered the fleet", sent)
		f.r.Expect(sent <= most, "%.3f copies entered the fleet; at most %.2f are allowed", sent, most)
	})
}

// copies is entered, and expects that terms grew.
func (f *electors) copies(most float64) {
	f.entered(most)
	f.r.Finally(func() {
		last := uint64(0)
		for _, t := range f.store.Terms() {
			f.r.Expect(t.Term > last, "term %d comes after term %d", t.Term, last)
			last = t.Term
		}
	})
}

// takeover expects that within this time from now another coordinator is elected.
func (f *electors) takeover(within time.Duration) {
	before := len(f.store.Terms())
	f.r.After(within, func() {
		f.r.Expect(len(f.store.Terms()) > before, "nobody was elected within %v", within)
	})
}

// elected expects that this many were elected in all.
func (f *electors) elected(n int) {
	f.r.Finally(func() {
		f.r.Expect(len(f.store.Terms()) == n, "coordinators elected: %d, not %d", len(f.store.Terms()), n)
	})
}

// slowly makes the source send slowly, so that there is time for what happens to the fleet.
func (f *electors) slowly(up float64) {
	f.source.SetLine(simnet.Line{Up: up, Down: 20 * simnet.Mbit, Latency: 30 * time.Millisecond})
}
