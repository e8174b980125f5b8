package scenarios

import (
	"fmt"
	"time"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/simnet"
)

// fleets are scenarios of fleets: what enters a fleet enters it about once, whatever happens to
// any node, and no node waits without a reason or for ever.
var fleets = []*simnet.Scenario{
	{
		Name:  "fleet",
		Says:  "Nodes of one owner fetch together, and each byte enters their fleet once.",
		Nodes: 4,
		Set: func(r *simnet.Run) {
			f, source, members, _ := newFleet(r, 12, r.Nodes)
			fetches := joinAll(f, members, simnet.FetchOptions{}, source)
			whole(r, f, source, 1.02)
			r.Finally(func() {
				for _, x := range fetches {
					r.Expect(r.Soon(x.Took(), 20*time.Second), "%s took %v; the source's line needs 5 s", x.Node().Name(), x.Took())
				}
			})
		},
	},
	{
		Name: "coordinator-killed",
		Says: "The coordinator of a fleet, on a node that is not a member, is killed and started again some seconds later.",
		Set: func(r *simnet.Run) {
			f, source, members, seat := newFleet(r, 12, 3)
			joinAll(f, members, simnet.FetchOptions{Config: patient()}, source)
			rng := r.Rand("coordinator")
			at := time.Duration(300+rng.IntN(3500)) * time.Millisecond
			r.After(at, seat.Kill)
			r.After(at+time.Duration(50+rng.IntN(15_000))*time.Millisecond, seat.Start)
			whole(r, f, source, 1.02)
		},
	},
	{
		Name:   "coordinator-found-again",
		Says:   "The coordinator of a larger fleet is started again, and members that have different pieces find it one after the other.",
		Nodes:  6,
		Fewest: 2,
		Set: func(r *simnet.Run) {
			f, source, members, seat := newFleet(r, 12, r.Nodes)
			slowly(members)
			joinAll(f, members, simnet.FetchOptions{Config: patient()}, source)
			rng := r.Rand("coordinator")
			at := time.Duration(1000+rng.IntN(3000)) * time.Millisecond
			back := at + time.Duration(50+rng.IntN(3000))*time.Millisecond
			r.After(at, seat.Kill)
			r.After(back, seat.Start)
			for _, x := range members {
				found := back + time.Duration(rng.IntN(5000))*time.Millisecond
				r.After(at, func() { r.After(found-at, r.Partition([]*simnet.Node{seat}, []*simnet.Node{x})) })
			}
			whole(r, f, source, 1.02)
		},
	},
	{
		Name: "coordinator-cut-off",
		Says: "The coordinator of a fleet is cut off from the members for half a minute, and found again.",
		Set: func(r *simnet.Run) {
			f, source, members, seat := newFleet(r, 12, 3)
			fetches := joinAll(f, members, simnet.FetchOptions{Config: patient()}, source)
			rng := r.Rand("coordinator")
			said := 0
			r.After(time.Duration(300+rng.IntN(2500))*time.Millisecond, func() {
				heal := r.Partition([]*simnet.Node{seat}, members)
				r.After(29*time.Second, func() {
					for _, x := range fetches {
						if over(x) || x.Progress().Reason != "" {
							said++
						}
					}
				})
				r.After(30*time.Second, heal)
			})
			whole(r, f, source, 1.15)
			r.Finally(func() { r.Expect(said == len(fetches), "%d of %d members said why they waited", said, len(fetches)) })
		},
	},
	{
		Name: "member-killed",
		Says: "A member of a fleet is killed while it holds leases; other nodes get them, and the one that was killed comes back later.",
		Set: func(r *simnet.Run) {
			f, source, members, _ := newFleet(r, 12, 3)
			joinAll(f, members, simnet.FetchOptions{Config: patient()}, source)
			rng := r.Rand("member")
			at := time.Duration(500+rng.IntN(2500)) * time.Millisecond
			x := members[rng.IntN(len(members))]
			r.After(at, x.Kill)
			r.After(at+time.Duration(rng.IntN(20_000))*time.Millisecond, x.Start)
			whole(r, f, source, 1.4)
		},
	},
	{
		Name:  "fleet-troubles",
		Says:  "Members of a fleet and their coordinator are killed, frozen and cut off, one after the other.",
		Nodes: 3,
		Set: func(r *simnet.Run) {
			f, source, members, seat := newFleet(r, 12, r.Nodes)
			joinAll(f, members, simnet.FetchOptions{Config: patient()}, source)
			rng := r.Rand("troubles")
			all := append([]*simnet.Node{seat}, members...)
			at, healed := time.Duration(0), time.Duration(0)
			for range 6 {
				at += time.Duration(300+rng.IntN(1500)) * time.Millisecond
				gone := time.Duration(rng.IntN(5000)) * time.Millisecond
				healed = max(healed, at+gone)
				x, i := all[rng.IntN(len(all))], rng.IntN(3)
				r.After(at, func() {
					switch i {
					case 0:
						x.Kill()
						r.After(gone, x.Start)
					case 1:
						x.Freeze()
						r.After(gone, x.Thaw)
					case 2:
						var others []*simnet.Node
						for _, y := range append([]*simnet.Node{source}, all...) {
							if y != x {
								others = append(others, y)
							}
						}
						r.After(gone, r.Partition([]*simnet.Node{x}, others))
					}
				})
			}
			r.Patience(45 * time.Second)
			r.AtLeast(healed + time.Second) // before, the coordinator may not have heard that all is done
			whole(r, f, source, 2)
		},
	},
	{
		Name: "alone-and-joined",
		Says: "The coordinator of a fleet is not there; after a while members go on alone, and join when it comes.",
		Set: func(r *simnet.Run) {
			f, source, members, seat := newFleet(r, 24, 2)
			seat.Kill()
			opt := simnet.FetchOptions{Config: patient()}
			opt.Config.Fleet.Alone = 3 * time.Second
			joinAll(f, members, opt, source)
			r.After(6*time.Second, seat.Start)
			whole(r, f, source, 1.6)
		},
	},
	{
		Name: "stranger",
		Says: "A node that is not on the list of a fleet asks its coordinator for leases, and is told that it may not have any.",
		Set: func(r *simnet.Run) {
			f, source, members, _ := newFleet(r, 4, 2)
			joinAll(f, members, simnet.FetchOptions{}, source)
			x := r.Add(simnet.NodeConfig{Name: "stranger"})
			opt := simnet.FetchOptions{Want: share.ErrNotAllowed}
			opt.Config.Stall = 20 * time.Second
			f.Join(x, opt, source)
			r.Patience(-1)
			whole(r, f, source, 1.02)
		},
	},
	{
		Name: "garbled-member",
		Says: "A member of a fleet garbles some of what it tells the others.",
		Set: func(r *simnet.Run) {
			f, source, members, _ := newFleet(r, 8, 4)
			members[3].Become(simnet.Garbler(0.2))
			joinAll(f, members[:3], simnet.FetchOptions{Config: patient()}, source)
			f.Join(members[3], simnet.FetchOptions{MayFail: true}, source)
			whole(r, f, source, 2)
		},
	},
	{
		Name: "member-claims-all",
		Says: "A member of a fleet says that it has every piece, to all or to the coordinator alone, before it has any.",
		Set: func(r *simnet.Run) {
			f, source, members, _ := newFleet(r, 8, 4)
			rng := r.Rand("claims")
			boaster, toAll, bound := members[rng.IntN(len(members))], rng.IntN(2) == 0, 25*time.Second
			if toAll { // a peer that asks it for a piece is told that it does not have it
				bound = 10 * time.Second
			}
			boaster.Become(simnet.Boaster(toAll))
			for _, x := range members {
				y := f.Join(x, simnet.FetchOptions{Config: patient(), MayFail: x == boaster}, source)
				r.Finally(func() {
					r.Expect(x == boaster || r.Soon(y.Took(), bound), "%s took %v; the source's line needs 4 s", x.ID(), y.Took())
				})
			}
			whole(r, f, source, 1.1)
		},
	},
	{
		Name: "member-slanders",
		Says: "A member of a fleet says again and again that the others do not have what they say they have.",
		Set: func(r *simnet.Run) {
			f, source, members, _ := newFleet(r, 8, 3)
			slowly(members)
			slanderer := members[r.Rand("slanders").IntN(len(members))]
			slanderer.Become(simnet.Slanderer(f.Content().Manifest.Layout().Pieces()))
			for _, x := range members {
				if x == slanderer { // it knows no source, so it does not fetch what it may
					f.Join(x, simnet.FetchOptions{Config: patient(), Manifest: true})
				} else {
					f.Join(x, simnet.FetchOptions{Config: patient()}, source)
				}
			}
			r.Finally(func() {
				sent := float64(source.Sent()) / float64(f.Content().Bytes())
				r.Expect(sent <= 1.02, "%.3f copies entered the fleet", sent)
			})
		},
	},
	{
		Name: "fleet-leaves",
		Says: "Members of a fleet leave as soon as they have everything; the coordinator fetches, too.",
		Set: func(r *simnet.Run) {
			f, source, members, seat := newFleet(r, 12, 3)
			joinAll(f, members, simnet.FetchOptions{Config: patient(), Leave: true}, source)
			f.Join(seat, simnet.FetchOptions{Config: patient()}, source)
			r.Finally(func() {
				sent := float64(source.Sent()) / float64(f.Content().Bytes())
				r.Expect(sent <= 1.3, "%.3f copies entered the fleet", sent)
			})
		},
	},
}

// newFleet makes a share of this many MiB outside, a coordinator, and members.
func newFleet(r *simnet.Run, size, members int) (f *simnet.Fleet, source *simnet.Node, all []*simnet.Node, seat *simnet.Node) {
	c := r.Folder("photos", 4*size, 256<<10)
	source = r.Add(simnet.NodeConfig{Name: "source", Line: even(20*simnet.Mbit, 30*time.Millisecond)}).Seed(c)
	seat = r.Add(simnet.NodeConfig{Name: "seat", Line: even(100*simnet.Mbit, 2*time.Millisecond)})
	for i := range members {
		all = append(all, r.Add(simnet.NodeConfig{Name: fmt.Sprint("member", i), Line: even(100*simnet.Mbit, 2*time.Millisecond)}))
	}
	return seat.Coordinate(c, all...), source, all, seat
}

// slowly makes members send slowly: the others do not get at once what one has.
func slowly(members []*simnet.Node) {
	for _, x := range members {
		x.SetLine(simnet.Line{Up: 6 * simnet.Mbit, Down: 100 * simnet.Mbit, Latency: 2 * time.Millisecond})
	}
}

// joinAll makes all members fetch.
func joinAll(f *simnet.Fleet, members []*simnet.Node, opt simnet.FetchOptions, source *simnet.Node) (out []*simnet.Fetch) {
	for _, x := range members {
		out = append(out, f.Join(x, opt, source))
	}
	return out
}

// whole expects that the fleet has everything, that nothing is leased any more, and that
// no more copies than this came from the source.
func whole(r *simnet.Run, f *simnet.Fleet, source *simnet.Node, copies float64) {
	r.Finally(func() {
		sent := float64(source.Sent()) / float64(f.Content().Bytes())
		r.Timeline().Note("%.3f copies entered the fleet", sent)
		r.Expect(sent <= copies, "%.3f copies entered the fleet; at most %.2f are allowed", sent, copies)
		st, err := f.Status()
		// A coordinator that has just restarted does not know yet what its members have.
		begun := st.Absent > 0
		rest := ""
		switch {
		case err != nil:
			rest = ": " + err.Error()
		case st.Waiting != "":
			rest = ": " + st.Waiting
		}
		r.Expect(err == nil && (begun || st.Wanted == 0 && st.Leased == 0 && st.Waiting == ""), "when all is over, nothing should be left to do in the fleet; pieces wanted: %d, leased: %d%s",
			st.Wanted, st.Leased, rest)
	})
}
