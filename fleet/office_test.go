package fleet

import (
	"errors"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/wire"
)

const theSecret = Secret("a secret of the fleet")

const beat = DefaultHeartbeat

// bureau is an Office of the node "me" that the test drives.
type bureau struct {
	t    *testing.T
	o    *Office
	now  time.Time
	todo OfficeTodo // the last one
}

func newBureau(t *testing.T) *bureau {
	b := &bureau{t: t, now: theStart}
	b.o = NewOffice(OfficeConfig{Share: theShare, Self: "me", Secret: theSecret}, b.now)
	b.next()
	return b
}

func (b *bureau) next() OfficeTodo {
	b.todo = b.o.Next(b.now)
	return b.todo
}

func (b *bureau) answer(a Answer) OfficeTodo {
	b.t.Helper()
	b.o.Answer(a, b.now)
	return b.next()
}

// until lets time pass until the office wants something from the store.
func (b *bureau) until() (time.Duration, Call) {
	b.t.Helper()
	began := b.now
	for range 100 {
		if b.todo.Wake.IsZero() {
			b.t.Fatal("it waits for ever")
		}
		if b.todo.Wake.After(b.now) {
			b.now = b.todo.Wake
		}
		if b.next().Call != NoCall {
			return b.now.Sub(began), b.todo.Call
		}
	}
	b.t.Fatal("it wakes again and again")
	return 0, 0
}

func (b *bureau) seatOf(term uint64, who peers.ID) Seat {
	return Seat{term, peers.Addr{ID: who, Addrs: []string{"/ip4/192.0.2.1/tcp/1"}}}
}

func (b *bureau) report(from peers.ID, term uint64, of peers.ID) OfficeTodo {
	m := wire.FleetTerm{Share: theShare, Term: term, Coordinator: peers.Addr{ID: of}, Proof: theSecret.Proof(theShare, from, "me")}
	b.o.Report(from, m, b.now)
	return b.next()
}

// member sets the state of this node's member.
func (b *bureau) member(joined, fetches bool, fellows ...peers.ID) {
	b.o.Seen(View{Of: Port{Node: "me", Name: "m"}, Seated: joined, Fetches: fetches, Fellows: fellows}, false, b.now)
	b.next()
}

func TestAnOfficeThatIsWonIsBegunAndKept(t *testing.T) {
	b := newBureau(t)
	if b.todo.Call != TakeOffice {
		t.Fatalf("it begins with call %d", b.todo.Call)
	}
	todo := b.answer(Answer{Outcome: Won, Seat: b.seatOf(7, "me"), Members: []peers.ID{"a", "b"}})
	if !todo.Begin || !todo.Follow || todo.Seat.Term != 7 || !reflect.DeepEqual(todo.Members, []peers.ID{"a", "b"}) {
		t.Fatalf("won: %+v", todo)
	}
	for range 3 {
		if took, call := b.until(); took != beat || call != KeepOffice {
			t.Fatalf("after %v call %d", took, call)
		}
		if todo := b.answer(Answer{Outcome: Kept}); todo.Begin || todo.End || todo.Follow {
			t.Fatalf("kept: %+v", todo)
		}
	}
	todo = b.lose(Answer{Outcome: Lost, Seat: b.seatOf(9, "b")})
	if !todo.End || !todo.Follow || todo.Seat.Peer.ID != "b" {
		t.Fatalf("lost: %+v", todo)
	}
	if _, call := b.until(); call != TakeOffice {
		t.Fatalf("then call %d", call)
	}
}

func (b *bureau) lose(a Answer) OfficeTodo {
	b.t.Helper()
	b.until()
	return b.answer(a)
}

func TestAnOfficeWhoseNewHolderCannotBeReadIsOver(t *testing.T) {
	b := newBureau(t)
	b.answer(Answer{Outcome: Won, Seat: b.seatOf(7, "me")})
	if todo := b.lose(Answer{Outcome: Lost, Why: "damaged"}); !todo.End {
		t.Fatalf("%+v", todo)
	}
}

func TestOneCallAtATime(t *testing.T) {
	b := newBureau(t)
	b.now = b.now.Add(time.Hour)
	if todo := b.next(); todo.Call != NoCall {
		t.Fatalf("a second call: %+v", todo)
	}
}

func TestTheStoreSaysWhoIsFollowed(t *testing.T) {
	b := newBureau(t)
	if todo := b.answer(Answer{Outcome: Held, Seat: b.seatOf(5, "a"), Again: time.Hour}); !todo.Follow || todo.Begin || todo.Seat.Peer.ID != "a" {
		t.Fatalf("%+v", todo)
	}
	b.until()
	if todo := b.answer(Answer{Outcome: Held, Seat: b.seatOf(5, "a")}); todo.Follow {
		t.Fatalf("followed again: %+v", todo)
	}
	b.until()
	if todo := b.answer(Answer{Outcome: Held}); todo.Follow || todo.Seat.Term != 5 { // somebody changed the record at the same moment
		t.Fatalf("%+v", todo)
	}
}

// A coordinator that is reached elsewhere than when it was elected says so with its heartbeats: who cannot join it tries there.
func TestACoordinatorIsFollowedToAnotherAddress(t *testing.T) {
	b := newBureau(t)
	seat := b.seatOf(5, "a")
	b.answer(Answer{Outcome: Held, Seat: seat})
	b.until()
	seat.Peer.Addrs = []string{"/ip4/198.51.100.7/tcp/1"}
	if todo := b.answer(Answer{Outcome: Held, Seat: seat}); !todo.Follow || !reflect.DeepEqual(todo.Seat, seat) {
		t.Errorf("it is followed %v, at %v; want %v", todo.Follow, todo.Seat.Peer.Addrs, seat.Peer.Addrs)
	}
}

func TestHowOftenTheStoreIsAsked(t *testing.T) {
	many := []peers.ID{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n"}
	for _, c := range []struct {
		name    string
		joined  bool
		fetches bool
		fellows []peers.ID
		want    time.Duration
	}{
		{"not joined", false, true, many, beat / 4},
		{"one of few", true, true, many[:3], beat / 4},
		{"one of many that fetches", true, true, many, beat * 7 / 10},
		{"one of many that is done", true, false, many, 5 * beat},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBureau(t)
			b.o.cfg.Self = "zz" // the last of them by weight
			if len(c.fellows) > deputies && b.o.weight("zz") < b.o.weight("a") {
				b.o.cfg.Self = "me"
			}
			b.member(c.joined, c.fetches, c.fellows...)
			if got := b.o.rank() < deputies; c.joined && got != (len(c.fellows) < deputies) {
				t.Skip("by chance it looks often")
			}
			b.answer(Answer{Outcome: Held, Seat: b.seatOf(1, "a"), Again: time.Hour})
			if took, _ := b.until(); took != c.want {
				t.Errorf("asked after %v, want %v", took, c.want)
			}
		})
	}
}

func TestALostCoordinatorIsLookedForAtOnce(t *testing.T) {
	b := newBureau(t)
	b.member(true, false, "a", "b", "c", "d", "e", "f", "g", "h")
	b.answer(Answer{Outcome: Held, Seat: b.seatOf(1, "a"), Again: time.Hour})
	b.now = b.now.Add(beat / 2)
	b.member(false, false)
	if b.todo.Call != TakeOffice {
		t.Fatalf("%+v", b.todo)
	}
	b.answer(Answer{Outcome: Held, Seat: b.seatOf(1, "a")})
	b.member(true, false)
	b.member(false, false)
	if took, _ := b.until(); took > beat/4 {
		t.Fatalf("asked after %v", took)
	}
}

func TestASilentStoreUnseatsNobody(t *testing.T) {
	b := newBureau(t)
	b.answer(Answer{Outcome: Won, Seat: b.seatOf(7, "me")})
	calls, end := 0, b.now.Add(time.Minute)
	for b.now.Before(end) {
		b.until()
		b.now = b.now.Add(10 * time.Millisecond)
		if todo := b.answer(Answer{Outcome: CallFailed, Why: "for a test"}); todo.End {
			t.Fatalf("%+v", todo)
		}
		calls++
	}
	if b.now = b.now.Add(time.Second); calls < 50 || calls > 70 {
		t.Errorf("%d calls in a minute", calls)
	}
	if seat, ours := b.o.Seat(); !ours || seat.Term != 7 || b.o.Why() != "the store of the fleet does not say who coordinates: for a test" {
		t.Errorf("%v, %v, %q", seat, ours, b.o.Why())
	}
}

func TestALaterTermCountsWhileTheStoreIsSilent(t *testing.T) {
	b := newBureau(t)
	b.answer(Answer{Outcome: Won, Seat: b.seatOf(7, "me")})
	b.until()
	if todo := b.report("a", 8, "b"); todo.End || todo.Follow {
		t.Fatalf("the store has answered a moment ago: %+v", todo)
	}
	b.now = b.now.Add(beat * 2)
	todo := b.report("a", 9, "b")
	if !todo.End || !todo.Follow || todo.Seat.Term != 9 || todo.Seat.Peer.ID != "b" {
		t.Fatalf("%+v", todo)
	}
	// The store comes back, and says that the office is ours: another term is taken.
	b.answer(Answer{Outcome: Kept})
	if b.todo.Call != TakeOffice {
		t.Fatalf("%+v", b.todo)
	}
	if todo := b.answer(Answer{Outcome: Won, Seat: b.seatOf(10, "me")}); !todo.Begin {
		t.Fatalf("%+v", todo)
	}
}

func TestAReportOnlyCausesAReadWhileTheStoreAnswers(t *testing.T) {
	b := newBureau(t)
	b.answer(Answer{Outcome: Won, Seat: b.seatOf(7, "me")})
	b.now = b.now.Add(beat / 2)
	todo := b.report("a", 9, "b")
	if todo.End || todo.Follow || todo.Call != KeepOffice || len(todo.Heard) != 1 || todo.Heard[0].From != "a" {
		t.Fatalf("%+v", todo)
	}
}

func TestReportsThatDoNotCount(t *testing.T) {
	b := newBureau(t)
	b.answer(Answer{Outcome: Held, Seat: b.seatOf(7, "a"), Again: time.Hour})
	b.now = b.now.Add(time.Minute)
	b.next()
	for _, c := range []struct {
		name string
		m    wire.FleetTerm
	}{
		{"a stranger", wire.FleetTerm{Share: theShare, Term: 9, Coordinator: peers.Addr{ID: "x"}, Proof: Secret("another secret of a fleet").Proof(theShare, "x", "me")}},
		{"another's proof", wire.FleetTerm{Share: theShare, Term: 9, Coordinator: peers.Addr{ID: "x"}, Proof: theSecret.Proof(theShare, "y", "me")}},
		{"a proof for another", wire.FleetTerm{Share: theShare, Term: 9, Coordinator: peers.Addr{ID: "x"}, Proof: theSecret.Proof(theShare, "x", "y")}},
		{"another share", wire.FleetTerm{Share: another, Term: 9, Coordinator: peers.Addr{ID: "x"}, Proof: theSecret.Proof(another, "x", "me")}},
		{"absurd", wire.FleetTerm{Share: theShare, Term: math.MaxUint64, Coordinator: peers.Addr{ID: "x"}, Proof: theSecret.Proof(theShare, "x", "me")}},
		{"nobody", wire.FleetTerm{Share: theShare, Term: 9, Proof: theSecret.Proof(theShare, "x", "me")}},
		{"this node", wire.FleetTerm{Share: theShare, Term: 9, Coordinator: peers.Addr{ID: "me"}, Proof: theSecret.Proof(theShare, "x", "me")}},
	} {
		b.o.Report("x", c.m, b.now)
		todo := b.next()
		if todo.Follow || todo.Seat.Term != 7 {
			t.Errorf("%s: %+v", c.name, todo)
		}
		if absurd := len(todo.Absurd) == 1 && todo.Absurd[0].From == "x"; absurd != (c.name == "absurd") {
			t.Errorf("%s: %+v", c.name, todo)
		}
	}
}

func TestWhoGoesByAnEarlierTermIsToldTheLater(t *testing.T) {
	b := newBureau(t)
	b.answer(Answer{Outcome: Held, Seat: b.seatOf(7, "a"), Again: time.Hour})
	todo := b.report("x", 5, "old")
	if len(todo.Tell) != 1 || todo.Tell[0].Peer != "x" || todo.Tell[0].Term.Term != 7 || todo.Tell[0].Term.Coordinator.ID != "a" ||
		!theSecret.Proves(todo.Tell[0].Term.Proof, theShare, "me", "x") {
		t.Fatalf("%+v", todo)
	}
	if todo := b.report("x", 7, "a"); len(todo.Tell) != 0 {
		t.Fatalf("%+v", todo)
	}
}

func TestOthersAreAskedWhenThereIsNeitherStoreNorCoordinator(t *testing.T) {
	b := newBureau(t)
	b.answer(Answer{Outcome: Held, Seat: b.seatOf(7, "a"), Again: time.Hour})
	var fellows []peers.ID
	for i := range 20 {
		fellows = append(fellows, peers.ID(rune('a'+i)))
	}
	told := func() int {
		b.now = b.now.Add(2 * beat)
		return len(b.next().Tell)
	}
	b.member(true, true, fellows...)
	if n := told(); n != 0 {
		t.Errorf("%d are asked though there is a coordinator", n)
	}
	b.member(false, true, fellows...)
	if n := told(); n != askAtOnce {
		t.Errorf("%d are asked", n)
	}
	asked := map[peers.ID]bool{}
	for range 5 {
		b.now = b.now.Add(2 * beat)
		for _, m := range b.next().Tell {
			asked[m.Peer] = true
		}
	}
	if len(asked) != len(fellows) {
		t.Errorf("%d of %d are asked after a while", len(asked), len(fellows))
	}
	b.answer(Answer{Outcome: Held, Seat: b.seatOf(7, "a")})
	b.now = b.now.Add(beat)
	if n := len(b.next().Tell); n != 0 {
		t.Errorf("%d are asked though the store answers", n)
	}
}

func TestARunThatFailedIsFollowedByAnotherTerm(t *testing.T) {
	b := newBureau(t)
	b.answer(Answer{Outcome: Won, Seat: b.seatOf(7, "me")})
	b.o.Failed(b.now)
	b.next()
	if took, call := b.until(); took != beat || call != TakeOffice {
		t.Fatalf("after %v call %d", took, call)
	}
}

func TestSecretsProveAndSeal(t *testing.T) {
	if Secret("").Proves(Secret("").Proof(theShare, "a", "b"), theShare, "a", "b") {
		t.Error("no secret proves something")
	}
	type note struct{ Text string }
	sealed := theSecret.Seal("key", note{"said"})
	var got note
	if err := theSecret.Open("key", sealed, &got); err != nil || got.Text != "said" {
		t.Errorf("%v, %v", got, err)
	}
	for name, c := range map[string]struct {
		s     Secret
		key   string
		value []byte
	}{
		"another secret": {"another secret of a fleet", "key", sealed},
		"another key":    {theSecret, "other", sealed},
		"no secret":      {"", "key", Secret("").Seal("key", note{"said"})},
		"changed":        {theSecret, "key", []byte(`{"is":{"Text":"shout"},"mac":"` + theSecret.seal("key", []byte(`{"Text":"said"}`)) + `"}`)},
	} {
		if err := c.s.Open(c.key, c.value, &got); !errors.Is(err, ErrSeal) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, bad := range []string{"", "null", "[]", `{"is":`} {
		if theSecret.Open("key", []byte(bad), &got) == nil {
			t.Errorf("%q opens", bad)
		}
	}
	if theSecret.Open("key", theSecret.Seal("key", "a text"), &got) == nil {
		t.Error("a text opens as a note")
	}
}

func FuzzOpenSealed(f *testing.F) {
	f.Add(theSecret.Seal("key", map[string]int{"n": 1}))
	f.Add([]byte(`{"is":{},"mac":""}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var v map[string]any
		if theSecret.Open("key", b, &v) == nil && string(theSecret.Seal("key", v)) == "" {
			t.Fatal("it cannot be sealed again")
		}
	})
}
