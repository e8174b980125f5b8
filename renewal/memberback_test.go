package renewal

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
)

// A fleet has one of two depots keep a share, under one account. A member that was off for four weeks and starts before its network is up
// does not end the lease that another member has renewed and paid all that time, and soon wants no second copy.
func TestAMemberThatComesBackEndsNoLeaseOfItsFleet(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ off, without time.Duration }{
		"at once": {28 * day, time.Second}, "a day": {28 * day, day}, "a lease later": {40 * day, time.Second},
	} {
		t.Run(name, func(t *testing.T) { comesBack(t, c.off, c.without) })
	}
}

// comesBack is such a member, which is off, and then without a network for a while.
func comesBack(t *testing.T, off, without time.Duration) {
	want := Want{ID: 1, Share: shareID(1), Bytes: 1 << 20, Depots: []peers.ID{"d1", "d2"}, Copies: 1, Fleet: true}
	ends, released := map[peers.ID]time.Time{}, map[peers.ID]int{} // leases of the one account at each depot
	visit := func(s *Service, id peers.ID, now time.Time) {
		var said []Heard
		if ends[id].After(now) {
			said = append(said, Heard{Share: want.Share, State: Stable, Bytes: want.Bytes, Left: ends[id].Sub(now)})
		}
		for _, x := range s.Visited(id, said, now) {
			k := Key{id, x.Share}
			if x.Verb == Release {
				delete(ends, id)
				released[id]++
				s.Released(k, now)
				continue
			}
			added := Added(ends[id], now.Add(x.Length), now)
			ends[id] = now.Add(x.Length)
			s.Renewed(id, Heard{Share: x.Share, State: Stable, Bytes: want.Bytes, Left: x.Length, Added: added}, now)
		}
	}
	run := func(s *Service, from, until time.Time) {
		for now := from; now.Before(until); now = s.Wake() {
			for _, id := range s.Due(now) {
				visit(s, id, now)
			}
		}
	}
	a, b := New(Config{}, 1), New(Config{}, 2)
	for _, s := range []*Service{a, b} {
		s.Want(want, epoch)
		run(s, epoch, epoch.Add(time.Hour))
	}
	book, back := b.Book(), epoch.Add(off) // it is off
	run(a, epoch.Add(time.Hour), back)
	if !ends["d1"].After(back) || len(ends) != 1 {
		t.Fatal("the other has not renewed it:", ends)
	}
	b = New(Config{}, 3)
	b.Resume(book, back)
	now := back
	for ; now.Before(back.Add(without)); now = b.Wake() {
		for _, id := range b.Due(now) {
			b.Failed(id, "no network", now)
		}
	}
	run(b, now, now.Add(day))
	if released["d1"] > 0 {
		t.Errorf("the lease that the other member renewed and paid is released; it is told %+v", a.Holds(now)[0].State)
	}
	if len(ends) > 1 {
		t.Errorf("one copy is wanted, and %d are kept: %v", len(ends), ends)
	}
}
