package renewal

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

var seeds = flag.Int("seeds", rig.Most(4, 2), "histories of TestWhateverHappensOneWholeVersionIsKept")

// A chaos is a desk to which everything happens at random: what is wanted changes, also during
// a visit; depots are away, refuse, lose and damage shares, and answers of theirs are lost; the
// node restarts, and its clock is set.
type chaos struct {
	*desk
	rng   *rand.Rand
	skew  time.Duration // of the node's clock
	made  int
	wants map[int64]*chaosWant
	back  map[peers.ID]time.Time // when a depot that is away comes back, or came
	full  map[peers.ID]bool      // it takes no further share
	calm  bool
	moves bool // there are more depots than copies
	twice bool // wants want the same
}

// chaosWant is what the owner wants, and whether a depot has had some version of it whole.
type chaosWant struct {
	Want
	versions []share.ID
	safe     bool
}

// keys are what depots have, in an order that a seed repeats.
func (c *chaos) keys() []Key {
	return slices.SortedFunc(maps.Keys(c.has), func(a, b Key) int { return cmp.Or(cmp.Compare(a.Depot, b.Depot), a.Share.Compare(b.Share)) })
}

func (c *chaos) clock() time.Time { return c.now.Add(c.skew) }

func (c *chaos) one(n int) bool { return c.rng.IntN(n) == 0 }

// mishap is one of n, unless all is to be well.
func (c *chaos) mishap(n int) bool { return !c.calm && c.one(n) }

// whole are the depots that have a whole version of a want by a hold of its own, the newest that each has.
func (c *chaos) whole(w *chaosWant) (out []Key) {
	for _, id := range abc {
		for _, x := range slices.Backward(w.versions) {
			d, k := c.s.depots[id], Key{id, x}
			if d != nil && d.holds[x] != nil && (d.holds[x].Of(w.ID) || c.s.wants[w.ID].at(k)) && c.has[k].State == Stable {
				out = append(out, Key{id, x})
				break
			}
		}
	}
	return out
}

func (c *chaos) want(id int64) {
	w := c.wants[id]
	if w == nil {
		w = &chaosWant{Want: Want{ID: c.s.NextID(), Bytes: 9, Depots: abc, Copies: 1 + c.rng.IntN(3)}}
		if !c.moves {
			w.Copies = 0 // each of them
		}
		c.wants[id] = w
	}
	if c.one(4) && len(w.versions) > 1 { // an earlier one again, or what another has
		w.Share = w.versions[c.rng.IntN(len(w.versions))]
	} else if o := c.wants[id%3+1]; c.twice && c.one(4) && o != nil && o != w {
		w.Share = o.Share
	} else {
		c.made++
		w.Share = shareID(c.made)
	}
	w.versions = append(slices.DeleteFunc(w.versions, func(x share.ID) bool { return x == w.Share }), w.Share)
	for _, known := range c.s.Wants() {
		if known.ID == w.ID {
			w.At = known.At
		}
	}
	c.s.Want(w.Want, c.clock())
}

func (c *chaos) unwant(id int64) {
	w := c.wants[id]
	if w == nil {
		return
	}
	delete(c.wants, id)
	c.s.Unwant(w.ID, c.clock())
	if c.one(3) {
		c.s.Unwant(w.ID, c.clock()) // twice
	}
}

// act has something happen.
func (c *chaos) act() {
	id, at := int64(1+c.rng.IntN(3)), abc[c.rng.IntN(len(abc))]
	switch c.rng.IntN(12) {
	case 0, 1, 2:
		c.want(id)
	case 3:
		if c.one(3) {
			c.unwant(id)
		}
	case 4:
		if c.now.Sub(c.back[at]) > 31*day {
			c.back[at] = c.now.Add(time.Duration(c.rng.Int64N(int64(7 * day))))
		}
	case 5:
		c.full[at] = c.one(2)
	case 6:
		c.damage(at)
	case 7:
		book := c.s.Book()
		c.s = New(Config{}, c.rng.Uint64())
		c.s.Resume(book, c.clock())
	case 8:
		c.skew = []time.Duration{0, time.Hour, -time.Hour, 40 * day, -40 * day}[c.rng.IntN(5)]
		if !c.moves && !c.twice { // by a clock that is off by more than a lease, what a depot that is away has might have ended
			c.skew = min(max(c.skew, -day), day)
		}
	default:
		c.arrivals(2)
	}
}

// damage has a depot lose or damage what it has of a want of which another has a whole version.
func (c *chaos) damage(at peers.ID) {
	for _, k := range c.keys() {
		h := c.has[k]
		alone := k.Depot != at || h.State != Stable
		for _, w := range c.wants {
			others := slices.DeleteFunc(c.whole(w), func(x Key) bool { return x.Depot == at })
			alone = alone || slices.Contains(w.versions, k.Share) && len(others) == 0
		}
		switch {
		case alone:
		case c.one(2):
			delete(c.has, k)
		default:
			h.State = Corrupt
			c.has[k] = h
		}
	}
}

// arrivals have one in n of what depots lack arrive there: what the node serves still, or another depot has.
func (c *chaos) arrivals(n int) {
	for _, k := range c.keys() {
		h := c.has[k]
		served := false
		for _, w := range c.wants {
			served = served || w.Share == k.Share
		}
		for _, id := range abc {
			served = served || c.has[Key{id, k.Share}].State == Stable
		}
		if served && h.State != Stable && !c.now.Before(c.back[k.Depot]) && c.one(n) {
			h.State = Stable
			c.has[k] = h
		}
	}
}

// visit visits a depot, while other things happen.
func (c *chaos) visit(id peers.ID) {
	if c.now.Before(c.back[id]) || c.mishap(20) {
		c.s.Failed(id, "away", c.clock())
		return
	}
	var all []Heard
	for k, h := range c.has {
		if k.Depot == id {
			all = append(all, h)
		}
	}
	for _, t := range c.s.Visited(id, all, c.clock()) {
		if c.mishap(10) {
			c.act()
		}
		k := Key{id, t.Share}
		lost := c.mishap(20)
		switch {
		case t.Verb == Release:
			delete(c.has, k)
			if !lost {
				c.s.Released(k, c.clock())
			}
		case t.Verb == Offer && c.full[id] && c.has[k].State == Unknown:
			c.s.Refused(k, "over quota", c.clock())
			continue
		case t.Verb == Renew && c.has[k].State == Unknown: // it was lost meanwhile
			c.s.Refused(k, "no lease", c.clock())
			continue
		default:
			h := c.has[k]
			c.has[k] = Heard{Share: t.Share, State: max(h.State, Coming), Bytes: t.Bytes, Left: max(h.Left, t.Length)}
			if h.State == Corrupt {
				c.has[k] = Heard{Share: t.Share, State: Corrupt, Bytes: t.Bytes, Left: max(h.Left, t.Length)}
			}
			if !lost {
				c.s.Renewed(id, c.has[k], c.clock())
			}
		}
		if lost {
			c.s.Failed(id, "no answer", c.clock())
			return
		}
		c.check("in a visit")
	}
}

// check fails if a want of which there was a whole version has none any more.
func (c *chaos) check(when string) {
	for _, w := range c.wants {
		n := len(c.whole(w))
		if w.safe && n == 0 && !c.moves && !c.twice {
			c.Fatalf("%s, at %v: no version of want %d is whole any more: %+v\n%+v", when, c.now.Sub(epoch), w.ID, c.has, c.s.Book())
		}
		w.safe = n > 0
	}
}

// passes lets time go by, with all visits.
func (c *chaos) passes(d time.Duration) {
	for end := c.now.Add(d); c.now.Before(end); {
		next := end
		if at := c.s.Wake(); !at.IsZero() && at.Add(-c.skew).Before(end) {
			next = at.Add(-c.skew)
		}
		next = slices.MinFunc([]time.Time{later(next, c.now.Add(time.Second)), c.now.Add(time.Hour)}, time.Time.Compare)
		for k, h := range c.has {
			if h.Left -= next.Sub(c.now); h.Left <= 0 {
				delete(c.has, k)
			} else {
				c.has[k] = h
			}
		}
		c.now = next
		c.check("as time passes")
		for _, id := range c.s.Due(c.clock()) {
			c.visit(id)
		}
		c.check("after visits")
	}
}

// settle lets all troubles end, and expects what is wanted to be there, and nothing else.
func (c *chaos) settle() {
	c.calm = true
	defer func() { c.calm = false }()
	clear(c.full)
	for id := range c.back {
		c.back[id] = slices.MinFunc([]time.Time{c.back[id], c.now}, time.Time.Compare)
	}
	for range 20 {
		c.passes(2 * day)
		c.arrivals(1)
	}
	needed := map[share.ID]int{}
	for _, w := range c.wants {
		needed[w.Share] = max(needed[w.Share], w.copies())
	}
	for x, n := range needed {
		if at := c.at(x); len(at) < n {
			c.Fatalf("%v is kept at %v, and wanted at %d depots", x, at, n)
		}
	}
	for k := range c.has {
		if needed[k.Share] == 0 {
			c.Fatalf("%+v is kept, and nobody wants it: %+v", k, c.s.Book())
		}
	}
}

// Whatever happens, a depot has a whole version of what is wanted from when one first had, as long as all
// depots are to keep it and nobody else wants the same; and when all is well again, what is wanted is kept at so
// many depots as are wanted, and nothing else is.
func TestWhateverHappensOneWholeVersionIsKept(t *testing.T) {
	for seed := range uint64(*seeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			c := &chaos{desk: newDesk(t), rng: rand.New(rand.NewPCG(seed, 1)), wants: map[int64]*chaosWant{}, back: map[peers.ID]time.Time{}, full: map[peers.ID]bool{}, moves: seed%2 == 1, twice: seed%4 >= 2}
			for range 5 {
				for range 60 {
					c.act()
					c.check("as things happen")
					c.passes(time.Duration(c.rng.Int64N(int64([]time.Duration{time.Minute, 3 * time.Hour, 3 * day}[c.rng.IntN(3)]))) + time.Second)
				}
				c.settle()
			}
		})
	}
}
