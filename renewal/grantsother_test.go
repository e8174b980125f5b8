package renewal

import (
	"testing"

	"github.com/piecelease/fetcher/peers"
)

// A depot that grants less than is asked for has just granted a lease to one member of a fleet. Another that sees it is told that no time
// is added to it: the lease is as long as it can be, and was not left unrenewed.
func TestALeaseThatAnotherMemberHasJustMadeIsNoFault(t *testing.T) {
	t.Parallel()
	s := New(Config{}, 1)
	k, length := Key{"d", shareID(1)}, 31*day // that is granted, of 366 days
	s.Want(Want{ID: 1, Share: k.Share, Bytes: 1, Length: 366 * day, Depots: []peers.ID{k.Depot}, Fleet: true}, epoch)
	s.Due(epoch)
	heard := Heard{Share: k.Share, State: Stable, Bytes: 1, Left: length}
	for range s.Visited(k.Depot, []Heard{heard}, epoch) {
		s.Renewed(k.Depot, heard, epoch)
	}
	for _, x := range s.Holds(epoch) {
		if x.Why != "" {
			t.Errorf("of a lease that was made a moment ago it is said: %q", x.Why)
		}
	}
	if next := s.Wake(); next.Before(epoch.Add(day)) {
		t.Errorf("the depot is visited again after %v", next.Sub(epoch))
	}
}
