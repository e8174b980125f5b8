package renewal

import (
	"testing"
	"time"
)

// A depot that takes a share in soon is known to have it soon, also while another that takes long is still to come; and of many
// shares, or in a long time, the visits are few.
func TestWhatADepotHasIsKnownSoon(t *testing.T) {
	for _, c := range []struct {
		shares int
		takes  time.Duration // of all
		known  time.Duration // ... at the latest
		visits int           // at the most
	}{
		{1, 300 * time.Millisecond, time.Second, 2},
		{1, 5 * time.Second, 10 * time.Second, 5},
		{100, 5 * time.Second, 10 * time.Second, 5},
		{1, 3 * time.Hour, 6 * time.Hour, 16},
	} {
		d := newDesk(t)
		slow := Want{ID: 1, Share: shareID(200), Bytes: 9, Depots: abc[:1]}
		d.s.Want(slow, d.now) // comes for the whole test
		d.visits()
		d.pass(24 * time.Hour)
		visits, began := 0, d.now
		for n := range c.shares {
			d.s.Want(Want{ID: int64(2 + n), Share: shareID(n), Bytes: 9, Depots: abc[:1]}, d.now)
		}
		for known := 0; known < c.shares; known = stable(d.s) {
			if due := d.s.Due(d.now); len(due) == 0 {
				d.now = d.s.Wake()
				continue
			}
			if visits++; d.now.Sub(began) >= c.takes {
				for n := range c.shares {
					d.arrive("a", shareID(n))
				}
			}
			d.visit("a")
		}
		if took := d.now.Sub(began); took > c.known || visits > c.visits {
			t.Errorf("%d shares in %v are known after %v and %d visits", c.shares, c.takes, took, visits)
		}
	}
}

func stable(s *Service) (n int) {
	for _, h := range s.depots["a"].holds {
		if h.State == Stable {
			n++
		}
	}
	return n
}

// That a depot was looked at often, while it fetched, does not put off what waits for another member.
func TestATurnIsWaitedForAsLongAsEver(t *testing.T) {
	d := newDesk(t)
	d.s.Want(Want{ID: 1, Share: shareID(1), Bytes: 9, Depots: abc[:1]}, d.now)
	d.visits()
	d.pass(time.Minute)
	for _, want := range []time.Duration{10 * time.Minute, 20 * time.Minute} {
		d.s.Want(Want{ID: 2, Share: shareID(2), Bytes: 9, Depots: abc[:1], Fleet: true}, d.now)
		d.s.Hurry("a", d.now)
		d.s.Due(d.now)
		d.s.Visited("a", []Heard{d.has[Key{"a", shareID(1)}]}, d.now)
		d.s.Deferred(Key{"a", shareID(2)}, "another's turn", d.now)
		if next := d.s.Wake().Sub(d.now); next != want {
			t.Errorf("it is asked again after %v, not %v", next, want)
		}
	}
}
