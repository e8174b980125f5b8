package scenarios

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/piecelease/fetcher/fleet"
	"github.com/piecelease/fetcher/simnet"
)

// electing are scenarios of fleets that elect, besides those of one mishap each: many
// members, every way of being cut off, and how soon a member leases.
var electing = []*simnet.Scenario{
	{
		Name:   "election-fleet",
		Says:   "Many members share a thin line; two coordinators and a member are killed, and the store is away for a minute.",
		Nodes:  10,
		Fewest: 3,
		Only:   storeIsModelled,
		Set:    func(r *simnet.Run) { fleetOfMany(r, 192, 1.0389) },
	},
	{
		Name:   "election-sources",
		Says:   "A fleet has two sources with thin lines, of which one may be slower or be killed midway.",
		Nodes:  6,
		Fewest: 3,
		Only:   storeIsModelled,
		Set:    func(r *simnet.Run) { twoSources(r, 96) },
	},
	{
		Name: "election-cut",
		Says: "Members of a fleet cannot reach the store, or each other: each run tries one of the combinations.",
		Only: storeIsModelled,
		Set:  func(r *simnet.Run) { cutOff(r, r.Rand("cut").IntN(1<<cuttable)) },
	},
	{
		Name: "election-takeover",
		Says: "The coordinator of a fleet is killed, and is back at once, late, or never: soon some coordinator leases pieces again.",
		Only: storeIsModelled,
		Set: func(r *simnet.Run) {
			f := newElectors(r, 12, 4)
			f.slowly(8 * simnet.Mbit)
			f.joinAll(simnet.FetchOptions{Config: patient(), MayFail: true})
			rng := r.Rand("takeover")
			back := []time.Duration{500 * time.Millisecond, 5 * time.Second, time.Hour}[rng.IntN(3)]
			r.After(3*time.Second+time.Duration(rng.IntN(3000))*time.Millisecond, func() {
				f.store.Holder().Kill()
				r.After(back, f.store.Holder().Start)
				f.takeover(2 * fleet.DefaultHeartbeat)
				f.leases(2*fleet.DefaultHeartbeat + min(back+2*time.Second, settling))
			})
			f.copies(1.1)
		},
	},
	{
		Name: "election-late-large",
		Says: "A node joins a fleet when the others have everything, and is done about as soon as its line allows.",
		Only: storeIsModelled,
		Set: func(r *simnet.Run) {
			f := newElectors(r, 48, 3)
			f.joinAll(simnet.FetchOptions{})
			r.After(40*time.Second, func() {
				line := even(100*simnet.Mbit, 2*time.Millisecond)
				late := r.Add(simnet.NodeConfig{Name: "late", Store: f.store, Line: line}).Elect(f.c, simnet.FetchOptions{}, f.source)
				r.Finally(func() {
					limit := time.Duration(float64(f.c.Bytes()) / line.Down * float64(time.Second))
					r.Expect(late.Took() <= limit*11/10, "the node that joined late took %v, and its line needs %v", late.Took(), limit)
				})
			})
			r.AtLeast(45 * time.Second)
			f.copies(1.02)
		},
	},
}

// settling is how long a new coordinator waits for the previous members.
const settling = 10 * time.Second

// fleetOfMany makes one copy over the line take 100 s. Besides one copy there enter the list of
// files, the names of other members, and what three members were fetching when they were killed, two
// pieces each: of 192 pieces that is 0.039, of 384 it is within 0.02.
func fleetOfMany(r *simnet.Run, pieces int, most float64) {
	f := newElectors(r, 1, r.Nodes)
	f.c = r.Folder("many", pieces, 64<<10)
	f.source.Seed(f.c)
	line := float64(f.c.Bytes()) / 100
	f.slowly(line)
	f.joinAll(simnet.FetchOptions{Config: patient()})
	rng := r.Rand("fleet")
	kill := func(x *simnet.Node) {
		x.Kill()
		r.After(5*time.Second, x.Start)
	}
	for _, at := range []time.Duration{8 * time.Second, 22 * time.Second} {
		r.After(at+time.Duration(rng.IntN(2000))*time.Millisecond, func() {
			kill(f.store.Holder())
			f.takeover(2 * fleet.DefaultHeartbeat)
		})
	}
	r.After(36*time.Second, func() {
		x := f.members[rng.IntN(len(f.members))]
		for x == f.store.Holder() {
			x = f.members[rng.IntN(len(f.members))]
		}
		kill(x)
	})
	r.After(55*time.Second, func() {
		f.store.Stop()
		r.After(time.Minute, f.store.Start)
	})
	f.copies(most)
	f.elected(3)
	r.Finally(func() {
		limit := 115*time.Second + settling
		for _, x := range f.fetches {
			r.Expect(x.Took() <= limit, "%s took %v, and at most %v is allowed", x.Node().Name(), x.Took(), limit)
		}
	})
}

// twoSources makes one copy over both lines take a minute. What waits at the slower source moves to the other when that has nothing to do, 106 s
// at the median. Of 200 seeds the worst takes 123 s, in which one was killed, and the other's line alone needs 120.
func twoSources(r *simnet.Run, pieces int) {
	f := newElectors(r, 1, r.Nodes)
	f.c = r.Folder("many", pieces, 64<<10)
	half := float64(f.c.Bytes()) / 120
	f.source.Seed(f.c)
	f.slowly(half)
	rng := r.Rand("sources")
	most, limit := 1.1, 90*time.Second
	if rng.IntN(2) == 0 {
		half, limit = half/4, 125*time.Second // both lines need 96 s
	}
	second := r.Add(simnet.NodeConfig{Name: "source2", Line: simnet.Line{Up: half, Down: 20 * simnet.Mbit, Latency: 30 * time.Millisecond}}).Seed(f.c)
	for _, x := range f.members {
		f.fetches = append(f.fetches, x.Elect(f.c, simnet.FetchOptions{Config: patient()}, f.source, second))
	}
	if rng.IntN(3) == 0 {
		most, limit = 1.3, 130*time.Second
		r.After(time.Duration(10+rng.IntN(20))*time.Second, second.Kill)
	}
	r.Finally(func() {
		sent := float64(f.source.Sent()+second.Sent()) / float64(f.c.Bytes())
		r.Timeline().Note("%.3f copies entered the fleet", sent)
		r.Expect(sent <= most, "%.3f copies entered the fleet; at most %.2f are allowed", sent, most)
		for _, x := range f.fetches {
			r.Expect(x.Took() <= limit, "%s took %v, and at most %v is allowed", x.Node().Name(), x.Took(), limit)
		}
	})
}

// cuttable is how many paths there are between three members and the store of cutOff.
const cuttable = 6

// cutOff has three members. For 25 s, some of them cannot reach the store (bits 0 to 2)
// and some cannot reach each other (3 to 5). Parts that cannot reach one another fetch a copy
// each at most, and once they can, nothing that was already fetched enters again.
func cutOff(r *simnet.Run, which int) {
	f := joined(r, 6, 3, 1.2*simnet.Mbit)
	at := 2*time.Second + time.Duration(r.Rand("when").IntN(8000))*time.Millisecond
	var cut []string
	for i, x := range f.members {
		if which>>i&1 != 0 {
			cut = append(cut, x.Name()+" from the store")
			r.After(at, func() { f.store.Cut(x) })
		}
		if y := f.members[(i+1)%3]; which>>(3+i)&1 != 0 {
			cut = append(cut, x.Name()+" from "+y.Name())
			r.After(at, func() { r.After(25*time.Second, r.Partition([]*simnet.Node{x}, []*simnet.Node{y})) })
		}
	}
	r.Timeline().Note("cut off for 25 s: %s", cmp.Or(strings.Join(cut, ", "), "nobody"))
	r.After(at+25*time.Second, f.store.Heal)
	parts, most := 1.0, 1.02
	switch which >> 3 {
	case 0b001, 0b010, 0b100: // a way round is left, and for a while two may lease
		most = 1.2
	case 0b011, 0b101, 0b110:
		parts, most = 2, 2
	case 0b111:
		parts, most = 3, 3
	}
	f.copies(most)
	r.Finally(func() {
		for _, x := range f.fetches { // the source's line needs 42 s
			r.Expect(x.Took() <= time.Duration(parts)*60*time.Second, "%s took %v", x.Node().Name(), x.Took())
		}
	})
}

// leases expects that from now it takes no longer than this until another coordinator leases
// what was leased to nobody.
func (f *electors) leases(within time.Duration) {
	began, last := f.r.Elapsed(), f.store.Terms()[len(f.store.Terms())-1].Term
	done := false
	f.r.OnLease(func(term uint64) {
		if done || term <= last {
			return
		}
		done = true
		took := f.r.Elapsed() - began
		f.r.Timeline().Note("%v after the coordinator was gone, somebody leases again", took)
		f.r.Expect(took <= within, "it took %v to lease anything, and at most %v is allowed", took, within)
	})
	f.r.Finally(func() { f.r.Expect(done, "nobody leased anything") })
}

// everyCut is a scenario for each way of being cut off.
func everyCut() (all []*simnet.Scenario) {
	for which := range 1 << cuttable {
		all = append(all, &simnet.Scenario{Name: fmt.Sprintf("cut %06b", which), Only: storeIsModelled, Set: func(r *simnet.Run) { cutOff(r, which) }})
	}
	return all
}
