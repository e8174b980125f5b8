package scenarios

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/renewal"
	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/simnet"
	"github.com/piecelease/fetcher/simnet/depots"
	"github.com/piecelease/fetcher/store/storetest"
	"github.com/piecelease/fetcher/wire"
)

// standing are scenarios of nodes that have depots keep something, for as long as they want.
var standing = []*simnet.Scenario{
	ofDepot("held-folder-edited", "A folder that a depot keeps is edited again and again, while its node and the depot are killed: the depot has a whole version at all times.", func(s *depots.Story) {
		edited(s, 20, 0)
	}),
	ofDepot("held-versions", "A depot keeps the latest version of a folder that is edited again and again, and the three before it: a version that is whole there stays until four newer ones are whole there.", func(s *depots.Story) {
		edited(s, 20, 3)
	}),
	ofDepot("fleet-holds", "Three members of a fleet have a depot keep one thing; often the one that is about to renew its lease is killed: each time the lease is due it is renewed once, by another member if need be, and it never lapses.", func(s *depots.Story) {
		heldByFleet(s, 12*time.Hour, 4*day)
	}),
}

// chance draws a duration below most.
func chance(rng *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(most)))
}

// edited has an owner edit what a depot keeps for it n times, with some versions before the latest, and both be killed at random.
func edited(s *depots.Story, n, keep int) {
	rng := s.Rand("edits")
	d := depots.New(s.Net, depots.Config{Name: "depot"})
	d.Excuse()
	version := func(i int) *simnet.Content { return s.Folder(fmt.Sprint("version", i), 2, 20_000) }
	all := []*simnet.Content{version(0)}
	o := depots.NewOwner(s.Net, simnet.NodeConfig{Name: "anna"}, renewal.Config{Length: 2 * time.Hour}, renewal.Want{Keep: keep}, all[0], d)
	o.MayComplain(true)
	d.Account("anna", 1e9, o.Node)
	s.Kept(d, all[0])
	watch := oneWhole(s, d, &all)
	watch.keep = keep
	for i := range n {
		if rng.IntN(3) == 0 {
			d.CrashIn(1+rng.IntN(60), rng.IntN(2) == 0)
		}
		if rng.IntN(4) == 0 {
			[]func(){o.Kill, o.PowerOff}[rng.IntN(2)]()
			s.After(chance(rng, 20*time.Second), o.Start)
		}
		all = append(all, version(i+1))
		o.Edit(all[i+1])
		s.Pass(chance(rng, []time.Duration{300 * time.Millisecond, 10 * time.Second, 5 * time.Minute}[rng.IntN(3)]))
		watch.ask(o)
	}
	d.CrashIn(0, false)
	s.Pass(time.Minute)
	s.Kept(d, all[n])
	s.Expect(watch.looks > n, "times that the depot was looked at: %d", watch.looks)
	s.Until("the depot holds the last version, and as many before it as are to be kept", time.Hour, func() bool {
		got, err := s.Holdings(o.Node, d)
		return err == nil && len(got) == keep+1 && slices.ContainsFunc(got, func(h wire.Holding) bool { return h.Share == all[n].ID() })
	})
	s.Expect(watch.told > n/10, "versions that the owner was told are whole: %d", watch.told)
	watch.over = true
	o.Release()
	s.Gone(d, all[n])
	holds(s, o.Node, d)
}

// heldByFleet has three members of a fleet hold one thing in one account. Whoever has the turn to renew is killed as it
// begins, or soon after; with the longest leases they also sleep, restart, and have clocks that are off.
func heldByFleet(s *depots.Story, length, long time.Duration) {
	rng, store, ends := s.Rand("fleet"), s.Store(), s.Elapsed()+long
	d := depots.New(s.Net, depots.Config{Name: "depot"})
	d.Excuse()
	c := s.File("file", 20_000)
	var all []*depots.Owner
	var nodes []*simnet.Node
	kills, others := 0, 0
	for i := range 3 {
		o := depots.NewOwner(s.Net, simnet.NodeConfig{Name: fmt.Sprint("member", i)}, renewal.Config{Length: length}, renewal.Want{Fleet: true}, c, d)
		o.MayComplain(true)
		o.Turn = turnsOf(s, store, o, func() {
			if d.Promised("fleet", c).IsZero() {
				return
			}
			if rng.IntN(4) == 0 { // another member had the turn just before
				others++
				d.HoldAs("fleet", c, d.Reading().Wall.Add(length))
			}
			if rng.IntN(2) == 0 {
				return
			}
			kills++
			s.After(chance(rng, 300*time.Millisecond), func() {
				if o.Running() {
					o.Kill()
					s.After(chance(rng, length/10), o.Start)
				}
			})
		})
		all, nodes = append(all, o), append(nodes, o.Node)
	}
	d.Account("fleet", 1e9, nodes...)
	s.Is(d, c, depot.Stable)
	renewals := 0
	d.Renewed = func(_ share.ID, added time.Duration) {
		renewals++
		s.Expect(added >= length*2/3-length/300, "a lease that has just been renewed is renewed again, and is extended by only %v", added)
	}
	y := &longHeld{}
	y.watch(s, d, "fleet", c, &y.lapsed)
	for _, o := range all {
		if length == renewal.DefaultLength {
			y.befalls(s, o, rng, ends)
		}
	}
	s.Pass(ends - s.Elapsed())
	s.Expect(y.lapsed == 0, "no lease for %v", y.lapsed)
	s.Expect(renewals+others >= int(long/length), "renewals: %d, and %d by another member, in %v", renewals, others, long)
	s.Timeline().Note("renewals: %d; members killed while it was their turn: %d", renewals, kills)
}

// turnsOf has a member renew in rounds of a store; took is called when it has the turn.
func turnsOf(s *depots.Story, store *simnet.Store, o *depots.Owner, took func()) func(context.Context, peers.ID, int64) (func(), error) {
	clock := func() rounds.Now { return rounds.Now{Wall: time.Unix(1e9, 0).Add(s.Elapsed()), Mono: s.Elapsed()} }
	return func(ctx context.Context, depot peers.ID, _ int64) (func(), error) {
		r, err := rounds.New(store.For(o.Node), rounds.Config{Name: "holds", Holder: string(o.ID()), Run: fmt.Sprint(o.ID(), s.Elapsed()), Clock: clock})
		if err != nil {
			return nil, err
		}
		g, err := r.TryAcquire(ctx, 10*time.Minute)
		if err != nil {
			return nil, err
		}
		took()
		return func() { g.Abandon(context.Background(), "visited") }, nil
	}
}

// wholeness is checked all the time: that a depot has one whole version, and of those that its owner knows to be whole none
// goes before more than keep newer ones are.
type wholeness struct {
	*depots.Story
	d     *depots.Depot
	all   *[]*simnet.Content
	now   int // the version that was whole last
	keep  int
	known map[int]bool // versions that the owner knows to be whole
	told  int          // how many those have been
	looks int
	soon  bool
	over  bool
}

func oneWhole(s *depots.Story, d *depots.Depot, all *[]*simnet.Content) *wholeness {
	w := &wholeness{Story: s, d: d, all: all, known: map[int]bool{}}
	d.Trouble = func(op storetest.Op) error {
		if op.Changes() && !w.soon {
			w.soon = true
			s.After(0, func() { w.soon = false; w.look() })
		}
		return nil
	}
	s.Every(10*time.Second, func() bool { w.look(); return !w.over })
	return w
}

func (w *wholeness) look() {
	if w.over || !w.d.Running() || w.d.Dying() {
		return
	}
	w.looks++
	w.lookBack()
	err := w.d.Has("anna", (*w.all)[w.now])
	if err == nil {
		return
	}
	for i := w.now + 1; i < len(*w.all); i++ {
		if w.d.Has("anna", (*w.all)[i]) == nil {
			w.now = i
			return
		}
	}
	w.over = true // report it only once
	w.Expect(false, "none of the %d versions is whole: %v", len(*w.all), err)
}

// ask asks the owner which versions it knows to be whole.
func (w *wholeness) ask(o *depots.Owner) {
	if !o.Running() {
		return
	}
	o.Program().Hear(actors.HoldsQuery{}, func(m any) {
		l, _ := m.(actors.HoldList)
		for i, c := range *w.all {
			if !w.known[i] && w.d.Has("anna", c) == nil && slices.ContainsFunc(l.Holds, func(h renewal.Standing) bool { return h.Share == c.ID() && h.Kept && h.State == renewal.Stable }) {
				w.known[i] = true
				w.told++
			}
		}
	})
}

// lookBack checks what the owner knows to be whole.
func (w *wholeness) lookBack() {
	for _, i := range slices.Sorted(maps.Keys(w.known)) {
		if w.d.Has("anna", (*w.all)[i]) == nil {
			continue
		}
		delete(w.known, i)
		newer := 0
		for _, c := range (*w.all)[i+1:] {
			if w.d.Has("anna", c) == nil {
				newer++
			}
		}
		w.Expect(newer > w.keep, "version %d is gone; newer versions that are whole: %d", i, newer)
	}
}

// longHeld is what happens to leases over a long time.
type longHeld struct {
	years                float64 // of leases, in all
	lapsed               time.Duration
	founding, uncovered  time.Duration // of the founding defaults: all time, and that without a lease
	good, failed, starts int
}

// heldForLong has owners hold something at two of four depots, with the defaults, and one more
// with the founding design: a visit every 24 to 28 days, which renews what has lapsed.
func heldForLong(s *depots.Story, owners int, long time.Duration) *longHeld {
	y, rng, ends := &longHeld{}, s.Rand("years"), s.Elapsed()+long
	var all []*depots.Depot
	for i := range 4 {
		d := depots.New(s.Net, depots.Config{Name: fmt.Sprint("depot", i)})
		d.Excuse()
		all = append(all, d)
		recurs(s, ends, 180*day+chance(rng, 30*day), func() time.Duration {
			d.Kill()
			s.After(7*day, d.Start)
			return 120*day + chance(rng, 120*day)
		})
		recurs(s, ends, chance(rng, 60*day), func() time.Duration {
			d.SetClock(chance(rng, 2*time.Hour) - time.Hour)
			return chance(rng, 120*day)
		})
	}
	var kept []*depots.Owner
	for i := range owners {
		c := s.File(fmt.Sprint("file", i), 20_000)
		on := []*depots.Depot{all[i%4], all[(i+1+i/4%3)%4]}
		o := depots.NewOwner(s.Net, simnet.NodeConfig{Name: fmt.Sprint("owner", i)}, renewal.Config{}, renewal.Want{}, c, on...)
		o.MayComplain(true)
		kept = append(kept, o)
		for _, d := range on {
			d.Account(o.Name(), 1e9, o.Node)
			s.Is(d, c, depot.Stable)
			y.watch(s, d, o.Name(), c, &y.lapsed)
			y.years += inYears(long)
			recurs(s, ends, chance(rng, day), func() time.Duration { // one hour of twenty
				s.Cut([]*simnet.Node{o.Node}, []*simnet.Node{d.Node})
				s.After(time.Hour, func() { s.Heal([]*simnet.Node{o.Node}, []*simnet.Node{d.Node}) })
				return time.Hour + chance(rng, 38*time.Hour)
			})
		}
		y.befalls(s, o, rng, ends)
	}
	y.founds(s, all[0], rng, long)
	s.Pass(ends - s.Elapsed())
	for _, o := range kept {
		y.good, y.failed = y.good+o.Good, y.failed+o.Failed
	}
	return y
}

func inYears(d time.Duration) float64 { return d.Hours() / 24 / 365 }

// recurs does something after a while, and then again after the time that it returns, until all is over.
func recurs(s *depots.Story, ends, first time.Duration, do func() time.Duration) {
	s.After(first, func() {
		if s.Elapsed() < ends {
			recurs(s, ends, do(), do)
		}
	})
}

// befalls makes an owner sleep at night, restart, and have a clock that is off.
func (y *longHeld) befalls(s *depots.Story, o *depots.Owner, rng *rand.Rand, ends time.Duration) {
	recurs(s, ends, chance(rng, day), func() time.Duration {
		o.Freeze()
		s.After(8*time.Hour, o.Thaw)
		return day
	})
	recurs(s, ends, chance(rng, 40*day), func() time.Duration {
		y.starts++
		[]func(){o.Kill, o.PowerOff}[rng.IntN(2)]()
		s.After(time.Minute+chance(rng, 2*time.Hour), o.Start)
		return chance(rng, 80*day)
	})
	recurs(s, ends, chance(rng, 60*day), func() time.Duration {
		o.SetClock(chance(rng, 2*time.Hour) - time.Hour)
		return chance(rng, 120*day)
	})
}

// watch adds to lapsed the time in which an account has no lease, whether its depot runs or not.
func (y *longHeld) watch(s *depots.Story, d *depots.Depot, account string, c *simnet.Content, lapsed *time.Duration) {
	const step = 10 * time.Minute
	left := d.Promised(account, c).Sub(d.Reading().Wall)
	if left <= 0 {
		*lapsed += step
		left = step
	}
	s.After(left, func() { y.watch(s, d, account, c, lapsed) })
}

// founds has a node hold something by the founding design.
func (y *longHeld) founds(s *depots.Story, d *depots.Depot, rng *rand.Rand, long time.Duration) {
	c := s.File("founding", 20_000)
	x := s.Add(simnet.NodeConfig{Name: "founding"}).Seed(c)
	d.Account(x.Name(), 1e9, x)
	s.Hold(x, d, c, renewal.DefaultLength)
	s.Is(d, c, depot.Stable)
	y.watch(s, d, x.Name(), c, &y.uncovered)
	y.founding = long
	recurs(s, s.Elapsed()+long, 24*day+chance(rng, 4*day), func() time.Duration {
		if left := d.Promised(x.Name(), c).Sub(d.Reading().Wall); left <= 0 {
			depots.AskLater(x, d, s.HoldOf(d, c, renewal.DefaultLength), func(any, error) {}) // done, whatever the result
		}
		return 24*day + chance(rng, 4*day)
	})
}
