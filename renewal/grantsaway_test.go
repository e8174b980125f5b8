package renewal

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
)

// A depot that added no time to a lease when it was asked last, and is away since then or refuses to make another, is not asked every few
// seconds once that lease has ended.
func TestADepotThatGrantedNothingAndIsAwayIsAskedNoMoreThanAnother(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string]func(s *Service, k Key, now time.Time){
		"away": func(s *Service, k Key, now time.Time) { s.Failed(k.Depot, "away", now) },
		"adds nothing": func(s *Service, k Key, now time.Time) {
			for range s.Visited(k.Depot, nil, now) {
				s.Renewed(k.Depot, Heard{Share: k.Share, State: Stable, Bytes: 1}, now)
			}
		},
	} {
		s := New(Config{}, 1)
		k := Key{"d", shareID(1)}
		s.Want(Want{ID: 1, Share: k.Share, Bytes: 1, Depots: []peers.ID{"d"}}, epoch)
		end, visits := epoch.Add(day), 0
		for now := epoch; now.Before(end.Add(10 * day)); now = s.Wake() {
			s.Due(now)
			switch left := end.Sub(now); {
			case now.Equal(epoch):
				s.Visited(k.Depot, nil, now)
				s.Renewed(k.Depot, Heard{Share: k.Share, State: Stable, Bytes: 1, Left: left, Added: left}, now)
			case left > 0:
				for range s.Visited(k.Depot, []Heard{{Share: k.Share, State: Stable, Bytes: 1, Left: left}}, now) {
					s.Renewed(k.Depot, Heard{Share: k.Share, State: Stable, Bytes: 1, Left: left}, now)
				}
			default:
				visits++
				ends(s, k, now)
			}
		}
		if visits > 1500 { // one in twelve minutes, as of any that grants a day
			t.Errorf("%s: %d visits in ten days", name, visits)
		}
	}
}
