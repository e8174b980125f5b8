package renewal

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
)

// A task of a visit stands while what the owner said last needs it, for no longer than it says; else it is done, and the depot is visited again.
func TestATaskStandsWhileItIsNeeded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		verb       Verb
		said       []Heard
		has, turns *Want // before the visit, and during it; nil: no Want
		stands     bool
	}{
		"renewed":               {Renew, []Heard{{State: Stable, Left: day}}, &Want{}, &Want{}, true},
		"renewed for longer":    {Renew, []Heard{{State: Stable, Left: day}}, &Want{}, &Want{Length: 366 * day}, true},
		"renewed for a fleet":   {Renew, []Heard{{State: Stable, Left: day}}, &Want{Fleet: true}, &Want{}, true},
		"left to a fleet":       {Renew, []Heard{{State: Stable, Left: day}}, &Want{}, &Want{Fleet: true}, false},
		"offered by a fleet":    {Offer, nil, &Want{}, &Want{Fleet: true}, false},
		"renewed for less long": {Renew, []Heard{{State: Stable, Left: day}}, &Want{Length: 366 * day}, &Want{}, false},
		"not to be renewed":     {Renew, []Heard{{State: Stable, Left: day}}, &Want{}, nil, false},
		"offered":               {Offer, nil, &Want{}, &Want{}, true},
		"offered for less long": {Offer, nil, &Want{Length: 366 * day}, &Want{}, false},
		"not to be offered":     {Offer, nil, &Want{}, nil, false},
		"repaired":              {Offer, []Heard{{State: Corrupt, Left: 300 * day}}, &Want{}, &Want{}, true},
		"released":              {Release, []Heard{{State: Stable, Left: day}}, nil, nil, true},
		"not to be released":    {Release, []Heard{{State: Stable, Left: day}}, nil, &Want{}, false},
	} {
		s, k := New(Config{}, 1), Key{"d", shareID(1)}
		tell := func(w *Want) {
			if w == nil {
				s.Unwant(1, epoch)
				return
			}
			said := *w
			said.ID, said.Share, said.Bytes, said.Depots = 1, k.Share, 1, []peers.ID{k.Depot}
			s.Want(said, epoch)
		}
		hold(s, Hold{Key: k, Bytes: 1, Expires: epoch.Add(day), State: Stable}, epoch)
		tell(c.has)
		s.Hurry(k.Depot, epoch)
		s.Due(epoch)
		for i := range c.said {
			c.said[i].Share, c.said[i].Bytes = k.Share, 1
		}
		tasks := s.Visited(k.Depot, c.said, epoch)
		if len(tasks) != 1 || tasks[0].Verb != c.verb {
			t.Fatalf("%s: %+v", name, tasks)
		}
		tell(c.turns)
		d := s.depots[k.Depot]
		now := epoch.Add(time.Second)
		if s.Stands(k.Depot, tasks[0], now) != c.stands {
			t.Errorf("%s: a task that stands is not done, or one that does not is", name)
		}
		if d.busy != c.stands || !c.stands && d.Next.After(now) {
			t.Errorf("%s: the visit goes on: %v; the next is after %v", name, d.busy, d.Next.Sub(epoch))
		}
	}
}
