package renewal

import (
	"slices"
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// A desk is a set of depots that do what they are asked, unless they are away or refuse.
type desk struct {
	*testing.T
	s       *Service
	now     time.Time
	has     map[Key]Heard
	away    map[peers.ID]bool
	refuses map[peers.ID]string
	did     []string
}

func newDesk(t *testing.T) *desk {
	return &desk{T: t, s: New(Config{}, 1), now: epoch, has: map[Key]Heard{}, away: map[peers.ID]bool{}, refuses: map[peers.ID]string{}}
}

// visits makes all visits that are due now, and those that follow at once.
func (d *desk) visits() {
	d.Helper()
	for range 20 {
		due := d.s.Due(d.now)
		if len(due) == 0 {
			return
		}
		for _, id := range due {
			d.visit(id)
		}
	}
	d.Fatal("visits without end")
}

func (d *desk) visit(id peers.ID) {
	if d.away[id] {
		d.s.Failed(id, "away", d.now)
		return
	}
	var all []Heard
	for k, h := range d.has {
		if k.Depot == id {
			all = append(all, h)
		}
	}
	for _, t := range d.s.Visited(id, all, d.now) {
		k := Key{id, t.Share}
		d.did = append(d.did, [...]string{"", "renew", "offer", "release"}[t.Verb]+" "+string(id))
		switch {
		case t.Verb == Release:
			delete(d.has, k)
			d.s.Released(k, d.now)
		case d.refuses[id] != "":
			d.s.Refused(k, d.refuses[id], d.now)
		default:
			d.has[k] = Heard{Share: t.Share, State: max(d.has[k].State, Coming), Bytes: t.Bytes, Left: t.Length}
			d.s.Renewed(id, d.has[k], d.now)
		}
	}
}

// pass lets the time t go by, with all visits in it.
func (d *desk) pass(t time.Duration) {
	d.Helper()
	for end := d.now.Add(t); ; d.visits() {
		next := d.s.Wake()
		if next.IsZero() || next.After(end) {
			next = end
		}
		for k, h := range d.has {
			if h.Left -= next.Sub(d.now); h.Left <= 0 {
				delete(d.has, k)
			} else {
				d.has[k] = h
			}
		}
		if d.now = next; next.Equal(end) {
			return
		}
	}
}

func (d *desk) arrive(id peers.ID, x share.ID) {
	k := Key{id, x}
	h := d.has[k]
	h.State = Stable
	d.has[k] = h
}

// at returns the depots that keep a share now.
func (d *desk) at(x share.ID) (out []peers.ID) {
	for k := range d.has {
		if k.Share == x {
			out = append(out, k.Depot)
		}
	}
	slices.Sort(out)
	return out
}

func (d *desk) expect(x share.ID, want ...peers.ID) {
	d.Helper()
	if got := d.at(x); !slices.Equal(got, want) {
		d.Fatalf("it is kept at %v, not at %v", got, want)
	}
}

var abc = []peers.ID{"a", "b", "c"}

// What is to end keeps the name under which it was wanted, so that its owner can speak of it, also after a restart.
func TestWhatIsToEndKeepsItsName(t *testing.T) {
	d := newDesk(t)
	d.s.Want(Want{ID: 1, Share: shareID(1), Bytes: 9, Depots: abc[:1], Name: "q"}, d.now)
	d.visits()
	d.away["a"] = true
	d.s.Unwant(1, d.now)
	d.visits()
	again := New(Config{}, 1)
	again.Resume(d.s.Book(), d.now)
	for _, s := range []*Service{d.s, again} {
		if h := s.Holds(d.now); len(h) != 1 || h[0].Kept || h[0].Name != "q" {
			t.Errorf("%+v", h)
		}
	}
}

// The older version is renewed until the newer one is there, and released then.
func TestAVersionIsKeptUntilTheNextIsThere(t *testing.T) {
	d := newDesk(t)
	first, second := shareID(1), shareID(2)
	w := Want{ID: 1, Share: first, Bytes: 9, Depots: abc[:1]}
	d.s.Want(w, d.now)
	d.visits()
	d.expect(first, "a")
	d.arrive("a", first)
	d.pass(time.Hour)
	w.Share = second
	d.s.Want(w, d.now)
	d.visits()
	w.Share = shareID(3) // before it is there
	d.s.Want(w, d.now)
	d.visits()
	d.expect(second)
	d.expect(shareID(3), "a")
	w.Share = second
	d.s.Want(w, d.now)
	d.visits()
	d.pass(100 * 24 * time.Hour) // it never arrives
	d.expect(first, "a")
	d.expect(second, "a")
	d.arrive("a", second)
	d.pass(12 * time.Hour)
	d.expect(first)
	d.expect(second, "a")
	d.s.Unwant(1, d.now)
	d.visits()
	d.expect(second)
	if !d.s.Wake().IsZero() || len(d.s.Accounts()) != 0 {
		t.Error("something is left", d.s.Accounts(), d.s.Holds(d.now))
	}
}

// A depot that refuses, or is away until the lease nearly ends, is replaced by another; the
// first is not renewed, and is released when the other has the share.
func TestACopyMovesToAnotherDepot(t *testing.T) {
	d := newDesk(t)
	x := shareID(1)
	d.refuses["a"] = "over quota"
	d.s.Want(Want{ID: 1, Share: x, Bytes: 9, Depots: abc, Copies: 1}, d.now)
	d.visits()
	d.expect(x, "b")
	d.arrive("b", x)
	d.pass(24 * time.Hour)
	d.away["b"] = true
	d.pass(31 * 24 * time.Hour / 2)
	d.expect(x, "b") // there is time
	d.refuses["a"] = ""
	d.pass(10 * 24 * time.Hour)
	if at := d.at(x); !slices.Contains(at, "a") {
		t.Fatalf("it was not moved: %v", at)
	}
	d.away["b"] = false
	d.pass(24 * time.Hour)
	if !slices.Contains(d.at(x), "b") {
		t.Fatal("released before the other has the share")
	}
	d.arrive("a", x)
	d.did = nil
	d.pass(5 * 24 * time.Hour)
	d.expect(x, "a")
	if slices.Contains(d.did, "renew b") {
		t.Error("renewed where it is not wanted any more")
	}
}

// Two of three depots keep the share; one that loses it gets it again, and one that is damaged
// is repaired without a longer lease.
func TestCopiesAreRepaired(t *testing.T) {
	d := newDesk(t)
	x := shareID(1)
	d.s.Want(Want{ID: 1, Share: x, Bytes: 9, Depots: abc, Copies: 2}, d.now)
	d.visits()
	d.expect(x, "a", "b")
	d.arrive("a", x)
	d.arrive("b", x)
	d.pass(24 * time.Hour)
	delete(d.has, Key{"a", x})
	d.pass(3 * 24 * time.Hour)
	d.expect(x, "a", "b")
	left := d.has[Key{"b", x}].Left
	h := d.has[Key{"b", x}]
	h.State = Corrupt
	d.has[Key{"b", x}] = h
	d.did = nil
	d.pass(3 * 24 * time.Hour)
	if !slices.Contains(d.did, "offer b") || d.has[Key{"b", x}].Left >= left {
		t.Error(d.did, left, d.has[Key{"b", x}].Left)
	}
	d.s.Want(Want{ID: 1, Share: x, Bytes: 9, Depots: abc, Copies: 1, At: abc[1:2]}, d.now)
	d.arrive("b", x)
	d.pass(5 * 24 * time.Hour)
	d.expect(x, "b")
}

// What two wants need is released with the second.
func TestASharedHoldStaysUntilNobodyNeedsIt(t *testing.T) {
	d := newDesk(t)
	x := shareID(1)
	for id := range int64(2) {
		d.s.Want(Want{ID: id + 1, Share: x, Bytes: 9, Depots: abc[:1]}, d.now)
	}
	d.visits()
	d.s.Unwant(1, d.now)
	d.visits()
	d.expect(x, "a")
	d.away["a"] = true
	d.s.Unwant(2, d.now)
	d.visits()
	if len(d.s.Holds(d.now)) != 1 {
		t.Fatal("forgotten before it was released")
	}
	d.away["a"] = false
	d.pass(time.Hour)
	d.expect(x)
	if len(d.s.Holds(d.now)) != 0 {
		t.Error(d.s.Holds(d.now))
	}
}

// If the want that made a hold is gone, or wants something else, the hold is kept for the want
// that still needs it as if that had made it: until its next version is there.
func TestAVersionIsKeptForWhomeverNeedsItLast(t *testing.T) {
	for _, first := range []func(*desk){
		func(d *desk) { d.s.Unwant(1, d.now) },
		func(d *desk) {
			d.s.Want(Want{ID: 1, Share: shareID(3), Bytes: 9, Depots: abc[:1]}, d.now)
			d.visits()
			d.arrive("a", shareID(3))
			d.pass(12 * time.Hour)
		},
		func(d *desk) {
			b := d.s.Book()
			d.s = New(Config{}, 2)
			d.s.Resume(b, d.now)
			d.s.Unwant(1, d.now)
		},
	} {
		d := newDesk(t)
		x := shareID(1)
		for id := range int64(2) {
			d.s.Want(Want{ID: id + 1, Share: x, Bytes: 9, Depots: abc[:1]}, d.now)
		}
		d.visits()
		d.arrive("a", x)
		d.pass(12 * time.Hour)
		first(d)
		d.s.Want(Want{ID: 2, Share: shareID(2), Bytes: 9, Depots: abc[:1]}, d.now)
		d.pass(12 * time.Hour)
		d.expect(x, "a")
		d.arrive("a", shareID(2))
		d.pass(12 * time.Hour)
		d.expect(x)
	}
}

// When two wants change to the same share, what each had before is released once that is there.
func TestWantsThatComeTogetherKeepNothingElse(t *testing.T) {
	d := newDesk(t)
	for id := range int64(2) {
		d.s.Want(Want{ID: id + 1, Share: shareID(int(id)), Bytes: 9, Depots: abc[:1]}, d.now)
	}
	d.visits()
	d.arrive("a", shareID(0))
	d.arrive("a", shareID(1))
	d.pass(12 * time.Hour)
	for id := range int64(2) {
		d.s.Want(Want{ID: id + 1, Share: shareID(2), Bytes: 9, Depots: abc[:1], At: abc[:1]}, d.now)
	}
	d.visits()
	d.arrive("a", shareID(2))
	d.pass(12 * time.Hour)
	d.expect(shareID(0))
	d.expect(shareID(1))
	d.expect(shareID(2), "a")
}

// A version that another want takes up and drops again is kept until the next is there.
func TestAVersionIsKeptThoughAnotherWantDropsIt(t *testing.T) {
	d := newDesk(t)
	d.s.Want(Want{ID: 1, Share: shareID(1), Bytes: 9, Depots: abc[:1]}, d.now)
	d.visits()
	d.arrive("a", shareID(1))
	d.pass(12 * time.Hour)
	d.s.Want(Want{ID: 1, Share: shareID(2), Bytes: 9, Depots: abc[:1], At: abc[:1]}, d.now)
	d.visits()
	d.s.Want(Want{ID: 2, Share: shareID(1), Bytes: 9, Depots: abc[:1]}, d.now)
	d.visits()
	d.s.Unwant(2, d.now)
	d.pass(12 * time.Hour)
	d.expect(shareID(1), "a")
	d.arrive("a", shareID(2))
	d.pass(12 * time.Hour)
	d.expect(shareID(1))
}

// What is wanted again before it was released is treated as if it had been wanted all along.
func TestAVersionThatIsWantedAgainIsKeptUntilTheNextIsThere(t *testing.T) {
	d := newDesk(t)
	x := shareID(1)
	d.s.Want(Want{ID: 1, Share: x, Bytes: 9, Depots: abc[:1]}, d.now)
	d.visits()
	d.arrive("a", x)
	d.pass(12 * time.Hour)
	d.away["a"] = true
	d.s.Unwant(1, d.now)
	d.visits()
	d.s.Want(Want{ID: 2, Share: x, Bytes: 9, Depots: abc[:1]}, d.now)
	d.away["a"] = false
	d.pass(24 * time.Hour)
	d.s.Want(Want{ID: 2, Share: shareID(2), Bytes: 9, Depots: abc[:1]}, d.now)
	d.pass(12 * time.Hour)
	d.expect(x, "a")
}

// The only depot that has all of a share keeps it, even if its copy was to move and the
// replacement never gets there.
func TestTheOnlyWholeCopyIsKept(t *testing.T) {
	d := newDesk(t)
	x := shareID(1)
	d.s.Want(Want{ID: 1, Share: x, Bytes: 9, Depots: abc[:2], Copies: 1}, d.now)
	d.visits()
	d.arrive("a", x)
	d.pass(24 * time.Hour)
	d.away["a"] = true
	for !slices.Contains(d.at(x), "b") { // it moves
		d.pass(time.Hour)
	}
	d.away["a"] = false
	d.pass(100 * 24 * time.Hour) // b never gets it: nobody else has it
	d.expect(x, "a")
}

// A change or the end of a want makes each depot that has something for it due at once, even
// one that was removed from it before.
func TestEachDepotOfAWantIsVisitedAtOnce(t *testing.T) {
	for _, change := range []func(*desk){
		func(d *desk) { d.s.Unwant(1, d.now) },
		func(d *desk) { d.s.Want(Want{ID: 1, Share: shareID(1), Bytes: 9, Depots: abc[2:]}, d.now) },
	} {
		d := newDesk(t)
		d.s.Want(Want{ID: 1, Share: shareID(1), Bytes: 9, Depots: abc}, d.now)
		d.visits()
		d.s.Want(Want{ID: 1, Share: shareID(1), Bytes: 9, Depots: abc[1:]}, d.now) // it is not whole anywhere: a's stays
		d.visits()
		change(d)
		if due := d.s.Due(d.now); !slices.Contains(due, "a") {
			t.Errorf("%v are visited, and a has a hold of it: %+v", due, d.s.Holds(d.now))
		}
	}
}

// A depot that did not answer an offer may have granted it; the lease is released when it is
// not wanted any more.
func TestWhatMayHaveBeenGrantedIsReleased(t *testing.T) {
	d := newDesk(t)
	x := shareID(1)
	d.s.Want(Want{ID: 1, Share: x, Bytes: 9, Depots: abc[:1]}, d.now)
	d.s.Due(d.now)
	for _, task := range d.s.Visited("a", nil, d.now) {
		d.has[Key{"a", task.Share}] = Heard{Share: task.Share, State: Coming, Bytes: task.Bytes, Left: task.Length}
	}
	d.s.Failed("a", "its answer was lost", d.now)
	d.s.Unwant(1, d.now)
	d.pass(24 * time.Hour)
	d.expect(x)
}

// A new want is offered at once to a depot that failed before, or refused another share.
func TestADepotThatFailedIsAskedForWhatIsWantedAnew(t *testing.T) {
	for name, fails := range map[string]func(*desk){
		"away":    func(d *desk) { d.away["a"] = true },
		"refuses": func(d *desk) { d.refuses["a"] = "over quota" },
	} {
		d := newDesk(t)
		fails(d)
		d.s.Want(Want{ID: 1, Share: shareID(1), Bytes: 9, Depots: abc[:1]}, d.now)
		d.pass(time.Hour)
		d.away["a"], d.refuses["a"] = false, ""
		d.s.Want(Want{ID: 2, Share: shareID(2), Bytes: 9, Depots: abc[:1]}, d.now)
		if d.visits(); !slices.Equal(d.at(shareID(2)), abc[:1]) {
			t.Errorf("%s before: it was not asked at once: %+v", name, d.s.Holds(d.now))
		}
	}
}

// Among depots that may keep a share, one that failed lately comes last.
func TestADepotThatFailedIsChosenLast(t *testing.T) {
	d := newDesk(t)
	d.away["a"] = true
	d.s.Want(Want{ID: 1, Share: shareID(1), Bytes: 9, Depots: abc[:1]}, d.now)
	d.visits()
	d.s.Want(Want{ID: 2, Share: shareID(2), Bytes: 9, Depots: abc[:2], Copies: 1}, d.now)
	d.visits()
	d.expect(shareID(2), "b")
}

// A depot that is away when a short lease is released is asked again long before that ends.
func TestAReleaseIsNotLeftToTheEndOfAShortLease(t *testing.T) {
	for _, length := range []time.Duration{30 * time.Second, 10 * time.Minute} {
		d := newDesk(t)
		d.s.Want(Want{ID: 1, Share: shareID(1), Bytes: 9, Length: length, Depots: abc[:1]}, d.now)
		d.visits()
		d.arrive("a", shareID(1))
		d.away["a"] = true
		d.pass(length / 10)
		d.s.Unwant(1, d.now)
		d.visits()
		if h := d.s.Holds(d.now); len(h) != 1 || h[0].Next.Sub(d.now) > max(length/15, 6*time.Second) {
			t.Fatalf("a lease of %v that is to end: %+v", length, h)
		}
		d.away["a"] = false
		d.pass(length / 4)
		d.expect(shareID(1))
		if got := d.s.Holds(d.now); len(got) > 0 {
			t.Errorf("%+v", got)
		}
	}
}

// A refusal concerns one hold, and is shown for that alone; a depot that is away is shown for all.
func TestARefusalIsSaidOfItsHoldAlone(t *testing.T) {
	d := newDesk(t)
	for n := range 2 {
		d.s.Want(Want{ID: int64(n + 1), Share: shareID(n), Bytes: 9, Depots: abc[:1]}, d.now)
		d.visits()
		d.refuses["a"] = "over quota"
	}
	for _, h := range d.s.Holds(d.now) {
		if refused := h.Share == shareID(1); refused != (h.Why != "") {
			t.Errorf("%+v", h)
		}
	}
	d.away["a"] = true
	d.pass(time.Hour)
	for _, h := range d.s.Holds(d.now) {
		if h.Why == "" {
			t.Errorf("a is away: %+v", h)
		}
	}
}
