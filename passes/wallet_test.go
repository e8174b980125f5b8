package passes

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"
)

func pass(n byte, size Size, change ...func(*Held)) Held {
	h := Held{Pass: Pass{Nonce: [32]byte{n}}, Size: size, Epoch: EpochAt(now), Depot: "depot"}
	for _, c := range change {
		c(&h)
	}
	return h
}

func TestReserveTakesWhatCanBeSpent(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 1))
	w := Load([]Held{pass(1, 64), pass(2, 1), pass(3, 1), pass(4, 4096),
		pass(10, 1, func(h *Held) { h.Depot = "another" }),
		pass(11, 1, func(h *Held) { h.Epoch -= 2 }),
		pass(12, 1, func(h *Held) { h.Epoch++ }),
		pass(13, 1, func(h *Held) { h.Bad = true }),
		pass(14, 1, func(h *Held) { h.Request = RequestID{9} }),
	}, nil)
	if u := w.Units("depot", now); u != 4096+64+2 {
		t.Fatalf("%d units", u)
	}
	c, err := w.Reserve("depot", 65, RequestID{1}, now, chance)
	if err != nil || len(c.Put) != 2 || worth(c.Put) != 65 || c.Put[0].Request != (RequestID{1}) {
		t.Fatal(c, err)
	}
	if u := w.Units("depot", now); u != 4096+64+2 {
		t.Errorf("%d units: it was changed before it was written", u)
	}
	w.Apply(c)
	if again, err := w.Reserve("depot", 65, RequestID{1}, now, chance); err != nil || len(again.Put) != 0 {
		t.Errorf("again: %v %v", again, err)
	}
	if _, err := w.Reserve("depot", 66, RequestID{1}, now, chance); !errors.Is(err, ErrReserved) {
		t.Errorf("another sum for the same request: %v", err)
	}
	var short *ShortError
	if _, err := w.Reserve("depot", 5000, RequestID{2}, now, chance); !errors.As(err, &short) || short.Missing != 5000-4097 || err.Error() != "passes missing: 903" {
		t.Errorf("too much: %v", err)
	}
	var change *ChangeError
	if _, err := w.Reserve("depot", 3, RequestID{2}, now, chance); !errors.As(err, &change) || change.Break.Size != 4096 {
		t.Errorf("no change: %v", err)
	}
	for _, bad := range []struct {
		units int64
		id    RequestID
	}{{0, RequestID{2}}, {-1, RequestID{2}}, {1, RequestID{}}} {
		if _, err := w.Reserve("depot", bad.units, bad.id, now, chance); err == nil {
			t.Errorf("%d units for %x", bad.units, bad.id)
		}
	}
	w.Apply(w.Refused(RequestID{1}, func(n Name) bool { return n[0] == 1 }))
	if u := w.Units("depot", now); u != 4096+2 {
		t.Errorf("%d units after one of 64 was not taken", u)
	}
}

// Of one size, passes that end first are spent first; of equal ones, chance decides.
func TestTheOldestPassesGoFirst(t *testing.T) {
	later := now.AddDate(0, 0, EpochDays)
	first := map[byte]bool{}
	for seed := range uint64(30) {
		w := Load([]Held{pass(1, 1, func(h *Held) { h.Epoch++ }), pass(2, 1), pass(3, 1), pass(4, 1, func(h *Held) { h.Epoch++ })}, nil)
		c, err := w.Reserve("depot", 1, RequestID{1}, later, rand.New(rand.NewPCG(seed, 1)))
		if err != nil {
			t.Fatal(err)
		}
		first[c.Put[0].Nonce[0]] = true
	}
	if len(first) != 2 || !first[2] || !first[3] {
		t.Errorf("spent: %v", first)
	}
}

func TestLateAnswersChangeNothing(t *testing.T) {
	w := Load([]Held{pass(1, 64)}, nil)
	o := Order{ID: RequestID{5}, Depot: "depot"}
	w.Apply(w.Break(pass(1, 64), o))
	if len(w.Orders()) != 1 || len(w.Reserved(o.ID)) != 1 {
		t.Fatal("not broken")
	}
	if c := w.Break(pass(1, 64), Order{ID: RequestID{6}}); len(c.Put) > 0 || c.Order != nil {
		t.Errorf("a pass that pays for an order pays for another: %+v", c)
	}
	small := []Held{pass(2, 1), pass(3, 1)}
	w.Apply(w.Got(o.ID, small))
	c, err := w.Reserve("depot", 2, RequestID{7}, now, rand.New(rand.NewPCG(1, 1)))
	if err != nil {
		t.Fatal(err)
	}
	w.Apply(c)
	w.Apply(w.Spent(RequestID{7}))
	w.Apply(w.Got(o.ID, small)) // the same answer again
	if u := w.Units("depot", now); u != 0 {
		t.Errorf("%d units are back", u)
	}
	w.Apply(w.Ask(o))
	w.Apply(w.Refused(o.ID, func(Name) bool { return false }))
	if len(w.Orders()) != 0 {
		t.Error("a refused order stays")
	}
}

// A pass is dropped when our clock and the keys of its issuer say that it has ended, and not by the word of one of them.
func TestWalletsForgetWhatIssuersForget(t *testing.T) {
	w := Load([]Held{pass(1, 1, func(h *Held) { h.Issuer = "issuer" })}, nil)
	forget := EpochAt(now).Forget()
	listed := func(at time.Time) Listing { return Listing{{Size: 1, Epoch: EpochAt(at)}} }
	for _, x := range []struct {
		what, issuer string
		keys         Listing
		at           time.Time
		drop         int
	}{
		{"both", "issuer", listed(forget.AddDate(0, 6, 0)), forget, 1},
		{"our clock is before that", "issuer", listed(forget.AddDate(0, 6, 0)), forget.Add(-time.Second), 0},
		{"our clock is years ahead", "issuer", listed(now), now.AddDate(9, 0, 0), 0},
		{"the issuer may still know", "issuer", listed(forget), forget, 0},
		{"the issuer was not asked", "issuer", nil, forget, 0},
		{"another issuer", "another", listed(forget.AddDate(0, 6, 0)), forget, 0},
	} {
		if c := w.Forget(x.issuer, x.keys, x.at); len(c.Drop) != x.drop {
			t.Errorf("%s: %d are dropped", x.what, len(c.Drop))
		}
	}
}

// An order that could not be sent is not made: it would stay in the wallet.
func TestAnOrderIsOfAsManyAsAreSignedAtOnce(t *testing.T) {
	key := newKey(t, Sizes[0], 1)
	order := func(n int64) (Order, error) {
		return NewOrder(RequestID{1}, Seed{1}, "issuer", "depot", Listing{&key.PublicKey}, n*int64(Sizes[0]), Sizes[0], now)
	}
	if o, err := order(MaxBatch); err != nil || o.Counts[0] != MaxBatch {
		t.Error(o.Counts, err)
	}
	if _, err := order(MaxBatch + 1); err == nil {
		t.Error("one more was ordered")
	}
}
