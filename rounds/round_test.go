package rounds_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/rounds/kvtest"
	"github.com/piecelease/fetcher/rounds/memkv"
)

func TestAJobIsHeldForItsTTLWhateverBecomesOfItsHolder(t *testing.T) {
	m := memkv.New()
	a, b := job(t, m, "a"), job(t, m, "b")
	a.free(t, time.Hour, 1).Close()
	a.told(t, rounds.Unresolved)
	b.Pass(time.Hour - time.Millisecond)
	if held := b.held(t, time.Hour); held.Record.Holder != "a" || held.Again != time.Millisecond {
		t.Errorf("held: %+v", held)
	}
	b.Pass(time.Millisecond) // now equal to its end: over
	b.free(t, time.Hour, 2)
}

func TestCompletingAJobDoesNotEndItsTime(t *testing.T) {
	m := memkv.New()
	a, b := job(t, m, "a"), job(t, m, "b")
	g := a.free(t, time.Hour, 1)
	a.Pass(time.Minute)
	ok(t, g.Complete(t.Context(), "42 files"))
	g.Close()
	a.told(t)
	if rec := current(t, m); rec.State != rounds.Completed || rec.Outcome != "42 files" || !rec.Ended.Equal(kvtest.Noon.Add(time.Minute)) || !rec.Acquired.Equal(kvtest.Noon) || rec.TTL != time.Hour {
		t.Errorf("record %+v", rec)
	}
	b.Pass(59 * time.Minute)
	b.held(t, time.Hour)
	b.Pass(time.Minute)
	b.free(t, time.Hour, 2)
}

func TestAnAbandonedRoundIsFreeAtOnce(t *testing.T) {
	for _, kind := range []bool{false, true} {
		m := memkv.New()
		a := newParty(t, m, rounds.Config{Holder: "a", Office: kind})
		b := newParty(t, m, rounds.Config{Holder: "b", Office: kind})
		g := a.free(t, time.Minute, 1)
		ok(t, g.Abandon(t.Context(), "exit status 3"))
		if rec := current(t, m); rec.State != rounds.Abandoned || rec.Outcome != "exit status 3" || rec.Term != 1 {
			t.Errorf("record %+v", rec)
		}
		b.free(t, time.Minute, 2)
	}
}

// A machine whose clock is ahead writes records of the future. They are reported,
// and block nobody for longer than their ttl.
func TestARecordOfTheFuture(t *testing.T) {
	m := memkv.New()
	ahead, b := job(t, m, "ahead"), job(t, m, "b")
	ahead.Jump(time.Hour)
	g := ahead.free(t, time.Hour, 1)
	b.held(t, time.Hour)
	b.told(t, rounds.ClockAhead)
	b.Pass(30 * time.Minute)
	ok(t, g.Complete(t.Context(), "done")) // does not restart the time
	b.held(t, time.Hour)
	b.told(t) // once
	b.Pass(30*time.Minute - time.Millisecond)
	b.held(t, time.Hour)
	b.Pass(time.Millisecond)
	b.free(t, time.Hour, 2)
	b.told(t)
}

func TestClocksThatDifferByLittleAreNotReported(t *testing.T) {
	m := memkv.New()
	a, b := job(t, m, "a"), job(t, m, "b")
	a.Jump(5 * time.Minute)
	a.free(t, time.Hour, 1)
	b.held(t, time.Hour)
	b.told(t)
}

// Invariant 58: no record wedges the fleet, whatever it says.
func TestInvariant58ARecordThatEndsTooLateIsFree(t *testing.T) {
	const max = 24 * time.Hour
	for _, c := range []struct {
		acquired time.Duration // after our now
		ttl      time.Duration
		free     bool
	}{
		{0, max, false},
		{5 * time.Minute, max, false}, // clocks differ a little
		{5*time.Minute + time.Millisecond, max, true},
		{max - time.Hour, time.Hour, false},
		{max, time.Hour, true},
		{365 * 24 * time.Hour, time.Minute, true},
		{-max, 365 * 24 * time.Hour, true}, // counts as max
		{-max + time.Millisecond, 365 * 24 * time.Hour, false},
	} {
		m := memkv.New()
		p := newParty(t, m, rounds.Config{Holder: "b", MaxTTL: max})
		overwrite(m, rounds.Record{Term: 7, Holder: "x", TTL: c.ttl, Acquired: kvtest.Noon.Add(c.acquired)})
		if c.free {
			p.free(t, time.Hour, 8)
		} else {
			p.held(t, time.Hour)
		}
	}
}

func TestATTLAboveTheLongestCountsAsThat(t *testing.T) {
	m := memkv.New()
	p := newParty(t, m, rounds.Config{Holder: "b", Office: true, MaxTTL: 3 * time.Second})
	overwrite(m, rounds.Record{Term: 7, Holder: "x", TTL: 1000 * time.Hour, Acquired: kvtest.Noon})
	p.held(t, time.Second)
	for range 2 {
		p.Pass(1500 * time.Millisecond)
		if p.Now().Mono < 3*time.Second {
			p.held(t, time.Second)
		}
	}
	p.free(t, time.Second, 8)
}

// For an office no wall clock counts, and a newcomer waits for one ttl.
func TestAnOfficeIsOverOnceItWasSeenUnchangedForItsTTL(t *testing.T) {
	const ttl = 3 * time.Second
	m := memkv.New()
	a, b := office(t, m, "a"), office(t, m, "b")
	g := a.free(t, ttl, 1)
	b.Jump(1000 * time.Hour)
	held := b.held(t, ttl)
	if held.Again != rounds.Heartbeat(ttl)/4 {
		t.Errorf("ask again after %v", held.Again)
	}
	for range 5 { // it is extended
		b.Pass(rounds.Heartbeat(ttl))
		ok(t, g.Extend(t.Context()))
		b.held(t, ttl)
	}
	b.Pass(ttl/2 - time.Millisecond)
	b.held(t, ttl)
	b.Pass(ttl / 2)
	if held := b.held(t, ttl); held.Again != time.Millisecond {
		t.Errorf("ask again after %v", held.Again)
	}
	b.Pass(time.Millisecond)
	b.free(t, ttl, 2)
	lost(t, g.Extend(t.Context()), "b", 2)
	a.told(t, rounds.Overtaken)
	if err := g.Extend(t.Context()); !errors.Is(err, rounds.ErrEnded) {
		t.Errorf("extended again: %v", err)
	}
}

// While the store is away, no holder can extend; so an outage counts for nothing.
func TestAnOutageOfTheStoreUnseatsNobody(t *testing.T) {
	const ttl = 3 * time.Second
	m := memkv.New()
	a, b := office(t, m, "a"), office(t, m, "b")
	a.free(t, ttl, 1)
	b.held(t, ttl)
	b.Pass(rounds.Heartbeat(ttl))
	b.held(t, ttl)
	b.Pass(rounds.Heartbeat(ttl) + 1) // unseen for longer than a heartbeat
	b.held(t, ttl)
	b.Pass(ttl / 2)
	b.held(t, ttl)
	b.Pass(ttl / 2)
	b.free(t, ttl, 2)
}

// Between sending a read and its answer anything may have happened: it counts as
// unseen.
func TestOnlyTheTimeBetweenAnswersCounts(t *testing.T) {
	const ttl = 3 * time.Second
	m := memkv.New()
	kv := &faultyKV{KV: m}
	a, b := office(t, m, "a"), office(t, kv, "b")
	a.free(t, ttl, 1)
	slow := time.Second
	kv.before = callsTake(b, &slow)
	b.held(t, ttl) // answered after 1 s: here the count begins
	slow = 0
	b.Pass(ttl / 2)
	b.held(t, ttl)
	b.Pass(ttl/2 - time.Millisecond)
	slow = 400 * time.Millisecond
	b.held(t, ttl) // sent after 2.999 s
	slow = 0
	b.free(t, ttl, 2)
}

// An office is never resumed: its restarted holder takes the next term, at once.
func TestAnOfficeOfOurOwnIsTakenAtOnce(t *testing.T) {
	const ttl = 3 * time.Second
	m := memkv.New()
	a := office(t, m, "a")
	old := a.free(t, ttl, 1)
	if _, err := a.TryAcquire(t.Context(), ttl); !errors.Is(err, rounds.ErrHolding) {
		t.Errorf("acquired twice by one run: %v", err)
	}
	again := newParty(t, m, rounds.Config{Holder: "a", Office: true, Run: "another run"})
	if _, err := again.Resume(t.Context(), 1); err == nil {
		t.Error("an office was resumed")
	}
	again.free(t, ttl, 2)
	lost(t, old.Extend(t.Context()), "a", 2)

	old = office(t, m, "b").stolen(t, m, ttl, 3)
	old.Close()
}

// Two processes that run in one name, as from a copied state directory, do not take an office from
// each other in turn: the later keeps it, and the other gets it when that one is gone.
func TestTwoProcessesOfOneNameDoNotFightForAnOffice(t *testing.T) {
	const ttl = 3 * time.Second
	m := memkv.New()
	a := office(t, m, "a")
	first := a.free(t, ttl, 1)
	b := newParty(t, m, rounds.Config{Holder: "a", Office: true, Run: "another run"})
	second := b.free(t, ttl, 2)
	lost(t, first.Extend(t.Context()), "a", 2)
	if n := a.notices[len(a.notices)-1]; n.Kind != rounds.Twin || !strings.Contains(n.String(), "state directory was copied") {
		t.Errorf("told: %v", n)
	}
	for range 3 {
		a.held(t, ttl)
		a.Pass(ttl / 2)
		if err := second.Extend(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	a.stolen(t, m, ttl, 3)
	lost(t, second.Extend(t.Context()), "a", 3)
	b.held(t, ttl)
}

// stolen waits until the office is over, and takes it.
func (p *party) stolen(t *testing.T, m *memkv.KV, ttl time.Duration, term uint64) *rounds.Guard {
	p.held(t, ttl)
	p.Pass(ttl / 2)
	p.held(t, ttl)
	p.Pass(ttl / 2)
	return p.free(t, ttl, term)
}

func TestAClosedOfficeIsTakenAgainWithANewTerm(t *testing.T) {
	m := memkv.New()
	a := office(t, m, "a")
	a.free(t, time.Second, 1).Close()
	a.free(t, time.Second, 2)
}

// Invariant 59.
func TestInvariant59AJobIsResumedWithItsTermAlone(t *testing.T) {
	m := memkv.New()
	a := job(t, m, "a")
	old := a.free(t, time.Hour, 1)
	again := newParty(t, m, rounds.Config{Holder: "a", Run: "another run"})
	again.Pass(10 * time.Minute)
	again.held(t, time.Hour)
	other := job(t, m, "b")
	_, err := other.Resume(t.Context(), 1)
	lost(t, err, "a", 1)
	_, err = again.Resume(t.Context(), 2)
	lost(t, err, "a", 1)
	g, err := again.Resume(t.Context(), 1)
	ok(t, err)
	if g.Left() != 50*time.Minute {
		t.Errorf("left %v", g.Left())
	}
	// The earlier run was only paused, and now has no say.
	lost(t, old.Complete(t.Context(), "old"), "a", 1)
	ok(t, g.Complete(t.Context(), "new"))
	if rec := current(t, m); rec.Outcome != "new" {
		t.Errorf("record %+v", rec)
	}
	third := newParty(t, m, rounds.Config{Holder: "a", Run: "third"})
	_, err = third.Resume(t.Context(), 1)
	lost(t, err, "a", 1)

	again.Pass(time.Hour)
	again.free(t, time.Hour, 2).Close()
	third.Pass(3 * time.Hour)
	_, err = third.Resume(t.Context(), 2)
	lost(t, err, "a", 2)
}

// Invariant 55, and terms that grow over what cannot be read.
func TestInvariant55DamagedAndDeletedRecordsAreFreeAndTermsGrow(t *testing.T) {
	for _, value := range []string{
		"", "garbage", "{}", "null", "[]", `{"term":0,"holder":"x","ttl_ms":1,"acquired":"2030-01-01T00:00:00Z"}`,
		`{"term":18446744073709551615,"holder":"x","ttl_ms":1000000,"acquired":"2030-01-01T12:00:00Z"}`,
		`{"term":3,"holder":"","ttl_ms":1000000,"acquired":"2030-01-01T12:00:00Z"}`,
		`{"term":3,"holder":"x","ttl_ms":0,"acquired":"2030-01-01T12:00:00Z"}`,
		`{"term":3,"holder":"x","ttl_ms":-1,"acquired":"2030-01-01T12:00:00Z"}`,
		`{"term":3,"holder":"x","ttl_ms":1000000}`,
		`{"term":3,"holder":"x","ttl_ms":1000000,"acquired":"2030-01-01T12:00:00Z","completed":"2030-01-01T12:00:00Z","abandoned":"2030-01-01T12:00:00Z"}`,
		`{"term":3,"holder":"x","ttl_ms":1000000,"acquired":"noon"}`,
		`{"term":3,"holder":"x","ttl_ms":1000000,"acquired":"2030-01-01T12:00:00Z"} and more`,
		`{"term":3,"holder":"` + strings.Repeat("x", 257) + `","ttl_ms":1000000,"acquired":"2030-01-01T12:00:00Z"}`,
		`{"term":3,"holder":"x","ttl_ms":1000000,"acquired":"2030-01-01T12:00:00Z","junk":"` + strings.Repeat("x", 50<<10) + `"}`,
	} {
		for _, kind := range []bool{false, true} {
			m := memkv.New()
			a := newParty(t, m, rounds.Config{Holder: "a", Office: kind})
			for term := range uint64(3) {
				g := a.free(t, time.Minute, term+1)
				ok(t, g.Abandon(t.Context(), ""))
			}
			m.Overwrite(recordKey, []byte(value))
			if _, err := rounds.Current(t.Context(), m, name); !errors.Is(err, rounds.ErrCorrupt) {
				t.Errorf("current of %.30q: %v", value, err)
			}
			fresh := newParty(t, m, rounds.Config{Holder: "b", Office: kind})
			g := kvtest.Free(t, fresh.Round, time.Minute)
			if g.Term() <= 3 {
				t.Errorf("term %d over %.30q, after 3", g.Term(), value)
			}
			if again := newParty(t, m, rounds.Config{Holder: "c", Office: kind}); again.held(t, time.Minute).Record.Holder != "b" {
				t.Error("taken twice")
			}
		}
	}
}

// A term is above all known terms.
func TestATermIsAboveAllSigns(t *testing.T) {
	publish := func(m *memkv.KV, term uint64) {
		p, err := rounds.NewPointer(m, name)
		ok(t, err)
		ok(t, p.Publish(t.Context(), rounds.Target{Term: term, Value: "x"}))
	}
	t.Run("pointer", func(t *testing.T) {
		m := memkv.New()
		publish(m, 41)
		job(t, m, "a").free(t, time.Hour, 42)
	})
	t.Run("record", func(t *testing.T) {
		m := memkv.New()
		publish(m, 3)
		overwrite(m, rounds.Record{Term: 41, Holder: "x", TTL: time.Second, Acquired: kvtest.Noon.Add(-time.Hour)})
		job(t, m, "a").free(t, time.Hour, 42)
	})
	t.Run("damaged pointer", func(t *testing.T) {
		m := memkv.New()
		for range 41 {
			m.Overwrite(pointerKey, []byte("garbage"))
		}
		job(t, m, "a").free(t, time.Hour, 42)
	})
	t.Run("what it read before", func(t *testing.T) {
		m := memkv.New()
		overwrite(m, rounds.Record{Term: 41, Holder: "x", TTL: time.Hour, Acquired: kvtest.Noon})
		a := job(t, m, "a")
		a.held(t, time.Hour)
		m.Overwrite(recordKey, []byte("garbage"))
		a.free(t, time.Hour, 42)
	})
	t.Run("what members say", func(t *testing.T) {
		m := memkv.New()
		overwrite(m, rounds.Record{Term: 10, Holder: "x", TTL: time.Second, Acquired: kvtest.Noon.Add(-time.Hour)})
		a := job(t, m, "a")
		a.Heard("honest", 41)
		a.Heard("honest", 7)
		a.Heard("liar", 1<<64-1)
		a.Heard("far", 11+1<<32)
		a.free(t, time.Hour, 42)
		a.told(t, rounds.Implausible, rounds.Implausible)
	})
	t.Run("just plausible", func(t *testing.T) {
		m := memkv.New()
		a := job(t, m, "a")
		a.Heard("far", 1<<32)
		a.free(t, time.Hour, 1<<32+1)
		a.told(t)
	})
	t.Run("too many members", func(t *testing.T) {
		m := memkv.New()
		a := job(t, m, "a")
		for i := range 5000 {
			a.Heard(fmt.Sprint("member ", i), uint64(i))
		}
		a.Heard("member 7", 2000) // it is known
		a.free(t, time.Hour, 2001)
	})
	t.Run("no more terms", func(t *testing.T) {
		m := memkv.New()
		overwrite(m, rounds.Record{Term: rounds.MaxTerm, Holder: "x", TTL: time.Second, Acquired: kvtest.Noon.Add(-time.Hour)})
		if g, err := job(t, m, "a").TryAcquire(t.Context(), time.Hour); err == nil {
			t.Errorf("term %d", g.Term())
		}
	})
}

// Invariant 56.
func TestInvariant56AnOvertakenGuardChangesNothing(t *testing.T) {
	for _, end := range []func(*rounds.Guard) error{
		func(g *rounds.Guard) error { return g.Complete(t.Context(), "late") },
		func(g *rounds.Guard) error { return g.Abandon(t.Context(), "late") },
	} {
		m := memkv.New()
		a, b := job(t, m, "a"), job(t, m, "b")
		g := a.free(t, time.Hour, 1)
		b.Jump(time.Hour)
		b.free(t, time.Hour, 2)
		before := current(t, m)
		lost(t, end(g), "b", 2)
		a.told(t, rounds.Overtaken)
		if after := current(t, m); after != before {
			t.Errorf("%+v became %+v", before, after)
		}
		if err := g.Complete(t.Context(), ""); !errors.Is(err, rounds.ErrEnded) {
			t.Errorf("ended twice: %v", err)
		}
		a.held(t, time.Hour) // and asks like any other process
	}
}

func TestALostRecordIsLost(t *testing.T) {
	m := memkv.New()
	a := job(t, m, "a")
	g := a.free(t, time.Hour, 1)
	m.Overwrite(recordKey, []byte("garbage"))
	lost(t, g.Complete(t.Context(), "done"), "", 0)
}

func TestANoticeSaysWhatHolds(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	job, office := rounds.Record{Term: 5, TTL: 23 * time.Hour, Acquired: at}, rounds.Record{Term: 5, TTL: time.Minute, Office: true, Acquired: at}
	later := at.Add(5 * time.Hour)
	for want, n := range map[string]rounds.Notice{
		"term 5 was neither completed nor abandoned; nobody gets the round for another 18 h": {Kind: rounds.Unresolved, Record: job, Clock: later},
		"term 5 was neither completed nor abandoned":                                         {Kind: rounds.Unresolved, Record: job, Clock: at.Add(job.TTL)},
		"term 5 was neither completed nor abandoned; nobody gets the round for another 60 s": {Kind: rounds.Unresolved, Record: office, Clock: later},
		"term 4 is over, and there is no record that can be read":                            {Kind: rounds.Overtaken, Term: 4, Clock: later},
		`term 4 is over; "" has term 5, acquired at 2026-01-02T03:04:05Z; here it is 2026-01-02T08:04:05Z; if these times do not fit together, set the clock that is wrong`: {
			Kind: rounds.Overtaken, Term: 4, Record: job, Clock: later},
		`term 5 is over; in the store it is "" that acquired this term, at 2026-01-02T03:04:05Z; here it is 2026-01-02T08:04:05Z; if these times do not fit together, set the clock that is wrong`: {
			Kind: rounds.Overtaken, Term: 5, Record: job, Clock: later},
	} {
		n.Round = "x"
		if got := n.String(); got != "round x: "+want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestAGuardKnowsHowMuchIsLeft(t *testing.T) {
	m := memkv.New()
	a := job(t, m, "a")
	g := a.free(t, time.Hour, 1)
	a.Pass(10 * time.Minute)
	a.Jump(-5 * time.Minute) // the wall clock was wrong; others may go by time that passed
	if g.Left() != 50*time.Minute {
		t.Errorf("left %v", g.Left())
	}
	a.Jump(20 * time.Minute)
	if g.Left() != 35*time.Minute {
		t.Errorf("left %v", g.Left())
	}
	a.Pass(time.Hour)
	if g.Left() != 0 {
		t.Errorf("left %v", g.Left())
	}

	m = memkv.New()
	kv := &faultyKV{KV: m}
	o := office(t, kv, "o")
	kv.before = callsTake(o, new(100*time.Millisecond))
	g = o.free(t, 3*time.Second, 1)
	if left := g.Left(); left != 2900*time.Millisecond {
		t.Errorf("left %v after a write that took 100 ms", left)
	}
	o.Jump(1000 * time.Hour)
	o.Pass(2 * time.Second)
	ok(t, g.Extend(t.Context()))
	if left := g.Left(); left != 2900*time.Millisecond {
		t.Errorf("left %v after an extension that took 100 ms", left)
	}
}

func TestTokensSortAsTermsDo(t *testing.T) {
	m := memkv.New()
	a := job(t, m, "a")
	last := ""
	for range 20 {
		g := kvtest.Free(t, a.Round, time.Hour)
		if g.Token() <= last {
			t.Errorf("%q after %q", g.Token(), last)
		}
		last = g.Token()
		ok(t, g.Abandon(t.Context(), ""))
	}
	b := newParty(t, m, rounds.Config{Holder: "a", Run: "another"})
	b.Heard("x", 1<<32)
	if g := kvtest.Free(t, b.Round, time.Hour); g.Token() <= last {
		t.Errorf("%q after %q", g.Token(), last)
	}
}

func TestNeverAndDamagedAreToldApart(t *testing.T) {
	m := memkv.New()
	if _, err := rounds.Current(t.Context(), m, name); !errors.Is(err, rounds.ErrNever) {
		t.Errorf("got %v", err)
	}
	m.Overwrite(recordKey, nil)
	if _, err := rounds.Current(t.Context(), m, name); !errors.Is(err, rounds.ErrCorrupt) || errors.Is(err, rounds.ErrNever) {
		t.Errorf("got %v", err)
	}
	if _, err := rounds.Current(t.Context(), m, "a b"); !errors.Is(err, rounds.ErrKey) {
		t.Errorf("got %v", err)
	}
	for n, want := range map[int]string{129: "not a name: it has 129 bytes, and a name has 1 to 128", 0: "not a name: it has 0 bytes, and a name has 1 to 128"} {
		if _, err := rounds.Current(t.Context(), m, strings.Repeat("a", n)); err == nil || err.Error() != want {
			t.Errorf("got %v", err)
		}
	}
}

func TestWhatIsWrongIsRefused(t *testing.T) {
	good := rounds.Config{Name: name, Holder: "a", Run: "r", Clock: rounds.ClockOf(time.Now)}
	for what, change := range map[string]func(*rounds.Config){
		"name":    func(c *rounds.Config) { c.Name = "a/b" },
		"long":    func(c *rounds.Config) { c.Name = strings.Repeat("x", 129) },
		"holder":  func(c *rounds.Config) { c.Holder = "" },
		"holder2": func(c *rounds.Config) { c.Holder = strings.Repeat("x", 257) },
		"holder3": func(c *rounds.Config) { c.Holder = "\xff" },
		"run":     func(c *rounds.Config) { c.Run = "" },
		"data":    func(c *rounds.Config) { c.Data = strings.Repeat("x", 5000) },
		"ttl":     func(c *rounds.Config) { c.MaxTTL = -1 },
		"clock":   func(c *rounds.Config) { c.Clock = nil },
	} {
		c := good
		change(&c)
		if _, err := rounds.New(memkv.New(), c); err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
	r, err := rounds.New(memkv.New(), good)
	ok(t, err)
	for _, ttl := range []time.Duration{0, -1, time.Microsecond, 32 * 24 * time.Hour} {
		if _, err := r.TryAcquire(t.Context(), ttl); err == nil {
			t.Errorf("a ttl of %v was accepted", ttl)
		}
	}
	g, err := r.TryAcquire(t.Context(), time.Second)
	ok(t, err)
	if g.Extend(t.Context()) == nil {
		t.Error("a job was extended")
	}
	good.Office = true
	r, err = rounds.New(memkv.New(), good)
	ok(t, err)
	if _, err := r.TryAcquire(t.Context(), time.Hour); err == nil {
		t.Error("an office of an hour was accepted")
	}
	g, err = r.TryAcquire(t.Context(), time.Second)
	ok(t, err)
	if g.Complete(t.Context(), "") == nil {
		t.Error("an office was completed")
	}
}

func TestDataIsThereForAll(t *testing.T) {
	m := memkv.New()
	newParty(t, m, rounds.Config{Holder: "a", Office: true, Data: "/ip4/192.0.2.1"}).free(t, time.Second, 1)
	if held := office(t, m, "b").held(t, time.Second); held.Record.Data != "/ip4/192.0.2.1" {
		t.Errorf("record %+v", held.Record)
	}
}

// A list has every round of the store, by name, damaged ones too, and nothing else of it.
func TestAllRoundsAreListed(t *testing.T) {
	m := memkv.New()
	if all, err := rounds.List(t.Context(), m); err != nil || len(all) != 0 {
		t.Errorf("of an empty store: %+v, %v", all, err)
	}
	a := job(t, m, "a")
	a.free(t, time.Hour, 1).Close()
	m.Overwrite("round.v1.damaged", []byte("x"))
	p, err := rounds.NewPointer(m, "pointed")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Publish(t.Context(), rounds.Target{Term: 1, Seq: 1, Value: "x"}); err != nil {
		t.Fatal(err)
	}
	all, err := rounds.List(t.Context(), m)
	if err != nil || len(all) != 2 || all[0].Name != "damaged" || !errors.Is(all[0].Err, rounds.ErrCorrupt) || all[1].Name != name || all[1].Err != nil || all[1].Record.Holder != "a" || all[1].Record.Term != 1 {
		t.Errorf("%+v, %v", all, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if all, err := rounds.List(ended, deafKV{m}); err == nil {
		t.Errorf("of a store that does not answer: %+v", all)
	}
}

// deafKV is a store that answers no watch.
type deafKV struct{ *memkv.KV }

func (deafKV) Watch(ctx context.Context, _ string, _ func([]rounds.Entry)) error {
	<-ctx.Done()
	return ctx.Err()
}
