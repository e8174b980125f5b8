package renewal

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
)

// ofFleet is a fleet's want of a share for leases of 366 days at a depot, which is due.
func ofFleet() (s *Service, k Key) {
	s, k = New(Config{}, 1), Key{"d", shareID(1)}
	s.Want(Want{ID: 1, Share: k.Share, Bytes: 1 << 20, Length: 366 * day, Depots: []peers.ID{k.Depot}, Fleet: true}, epoch)
	s.Due(epoch)
	return s, k
}

// A depot that grants less than is asked for has just granted a lease to one member of a fleet. Another that sees it is told that no time
// is added to it: the lease is as long as it can be, and was not left unrenewed.
func TestALeaseThatAnotherMemberHasJustMadeIsNoFault(t *testing.T) {
	t.Parallel()
	for _, length := range []time.Duration{31 * day, 7 * day, day} {
		s, k := ofFleet()
		heard := Heard{Share: k.Share, State: Stable, Bytes: 1 << 20, Left: length}
		for range s.Visited(k.Depot, []Heard{heard}, epoch) {
			s.Renewed(k.Depot, heard, epoch)
		}
		if x := s.Holds(epoch)[0]; x.Why != "" || x.Late {
			t.Errorf("of a lease of %v that was made a moment ago it is said: %q, %v", length, x.Why, x.Late)
		}
		if next := s.Wake().Sub(epoch); next < length/40 || next > length/10 {
			t.Errorf("the depot of a lease of %v is visited again after %v", length, next)
		}
	}
}

// A member that has waited for another knows from the next report how long the leases are that the other has made, without asking for one,
// for which it may have no passes.
func TestWhatAnotherMemberHasMadeMeanwhileIsNotAskedFor(t *testing.T) {
	t.Parallel()
	for _, length := range []time.Duration{31 * day, 7 * day, day} {
		s, k := ofFleet()
		s.Visited(k.Depot, nil, epoch)
		s.Deferred(k, "another's turn", epoch)
		now := s.Wake()
		if now.Sub(epoch) > 10*time.Minute {
			t.Errorf("it waits for the other for %v", now.Sub(epoch))
		}
		s.Due(now)
		tasks := s.Visited(k.Depot, []Heard{{Share: k.Share, State: Stable, Bytes: 1 << 20, Left: length - now.Sub(epoch)}}, now)
		if x := s.Holds(now)[0]; len(tasks) > 0 || x.Why != "" || x.Late {
			t.Errorf("of a lease of %v: %+v, %q, %v", length, tasks, x.Why, x.Late)
		}
	}
}

// Of a depot that takes passes, and has granted nothing to a member yet, that does not expect that it grants a year.
func TestWhoIsToPayForAYearIsAskedForAMonth(t *testing.T) {
	t.Parallel()
	s, k := ofFleet()
	s.depots[k.Depot].Paid = true
	if tasks := s.Visited(k.Depot, nil, epoch); len(tasks) != 1 || tasks[0].Units != 1 {
		t.Errorf("%+v", tasks)
	}
}
