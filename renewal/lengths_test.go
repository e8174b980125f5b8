package renewal

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
)

// A depot keeps one share under short leases and another under leases of 31 days. The long lease is renewed in its last third all the
// same, so it outlives a day for which the depot is away, and a week.
func TestALongLeaseBesideAShortOneIsRenewedInItsLastThird(t *testing.T) {
	t.Parallel()
	for name, short := range map[string]time.Duration{"an hour": time.Hour, "a day": day, "5 days": 5 * day} {
		t.Run(name, func(t *testing.T) {
			s := New(Config{}, 1)
			long, brief := Key{"d", shareID(1)}, Key{"d", shareID(2)}
			s.Want(Want{ID: 1, Share: long.Share, Bytes: 1, Depots: []peers.ID{"d"}}, epoch)
			s.Want(Want{ID: 2, Share: brief.Share, Bytes: 1, Length: short, Depots: []peers.ID{"d"}}, epoch)
			ends := map[Key]time.Time{}
			least, late := 31*day, false
			for now := epoch; now.Before(epoch.Add(70 * day)); now = s.Wake() {
				s.Due(now)
				var heard []Heard
				for k, end := range ends {
					if end.After(now) {
						heard = append(heard, Heard{Share: k.Share, State: Stable, Bytes: 1, Left: end.Sub(now)})
					}
				}
				if end, ok := ends[long]; ok {
					least = min(least, end.Sub(now))
					late = late || s.Holds(now)[1].Late
				}
				for _, x := range s.Visited("d", heard, now) {
					k := Key{"d", x.Share}
					added := Added(ends[k], now.Add(x.Length), now)
					ends[k] = now.Add(x.Length)
					s.Renewed("d", Heard{Share: x.Share, State: Stable, Bytes: 1, Left: x.Length, Added: added}, now)
				}
			}
			if least < 7*day {
				t.Errorf("a lease of 31 days is renewed when %v of it are left; the owner was warned: %v", least, late)
			}
		})
	}
}

// Two entries with the same files are held at one depot, the first for an hour at a time, the second for 31 days: the lease that both
// share is as long as the longer of them wants.
func TestALeaseIsAsLongAsTheLongestThatIsWanted(t *testing.T) {
	t.Parallel()
	s := New(Config{}, 1)
	s.Want(Want{ID: 1, Share: shareID(1), Bytes: 1, Length: time.Hour, Depots: []peers.ID{"d"}}, epoch)
	s.Want(Want{ID: 2, Share: shareID(1), Bytes: 1, Depots: []peers.ID{"d"}}, epoch)
	s.Due(epoch)
	if tasks := s.Visited("d", nil, epoch); len(tasks) != 1 || tasks[0].Length != 31*day {
		t.Errorf("a lease of 31 days is wanted, and asked for is %+v", tasks)
	}
}
