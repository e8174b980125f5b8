package system

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// sleeper sets its alarm to what it is sent, and notes when it rings.
type sleeper struct {
	s     *System
	wake  Alarm
	start time.Time
	until time.Time
	keep  bool // leave the alarm where it is when it rings
	rang  []time.Duration
}

func (r *sleeper) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		r.start = r.s.Now()
	case time.Duration:
		if r.until = r.start.Add(m); m < 0 {
			r.until = time.Time{}
		}
	case WakeDue:
		r.rang = append(r.rang, r.s.Now().Sub(r.start))
		if !r.keep {
			r.until = time.Time{}
		}
	case *actor.Stopping:
		r.until = time.Time{}
	}
	r.wake.Set(r.s, ctx, r.until)
}

func TestAlarm(t *testing.T) {
	const s = time.Second
	for name, c := range map[string]struct {
		send []time.Duration // a second apart
		rang []time.Duration
	}{
		"rings once":            {[]time.Duration{5 * s}, []time.Duration{5 * s}},
		"later replaces":        {[]time.Duration{5 * s, 9 * s}, []time.Duration{9 * s}},
		"earlier replaces":      {[]time.Duration{9 * s, 5 * s}, []time.Duration{5 * s}},
		"past rings at once":    {[]time.Duration{0}, []time.Duration{0}},
		"zero silences":         {[]time.Duration{5 * s, -1}, nil},
		"the same is no change": {[]time.Duration{5 * s, 5 * s, 5 * s}, []time.Duration{5 * s}},
		"again after ringing":   {[]time.Duration{s / 2, 5 * s}, []time.Duration{s / 2, 5 * s}},
	} {
		check := func(t *testing.T, got []time.Duration) {
			if len(got) != len(c.rang) {
				t.Fatalf("rang at %v, want %v", got, c.rang)
			}
			for i := range got {
				if got[i] != c.rang[i] {
					t.Errorf("rang at %v, want %v", got, c.rang)
				}
			}
		}
		t.Run(name+"/real", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys, _ := newNode(t)
				r := &sleeper{s: sys}
				pid := sys.Spawn(nil, "sleeper", 10, func() actor.Actor { return r }, OnPanicStop)
				for _, d := range c.send {
					sys.Send(pid, d)
					time.Sleep(s)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				check(t, r.rang)
			})
		})
		t.Run(name+"/virtual", func(t *testing.T) {
			w, n, _ := newWorld(1, "a")
			r := &sleeper{s: n[0]}
			pid := n[0].Spawn(nil, "sleeper", 10, func() actor.Actor { return r }, OnPanicStop)
			for _, d := range c.send {
				n[0].Send(pid, d)
				w.Run(s)
			}
			w.Run(time.Minute)
			check(t, r.rang)
			closeNode(t, n[0])
			if w.Step() {
				t.Error("something is left in the world")
			}
		})
	}
}

// An actor that does nothing about its alarm must neither spin nor stop time.
func TestNeglectedAlarmDoesNotSpin(t *testing.T) {
	w, n, _ := newWorld(1, "a")
	r := &sleeper{s: n[0], keep: true}
	pid := n[0].Spawn(nil, "sleeper", 10, func() actor.Actor { return r }, OnPanicStop)
	n[0].Send(pid, time.Duration(0))
	w.Run(time.Second)
	if len(r.rang) < 500 || len(r.rang) > 1001 {
		t.Errorf("rang %d times in a second", len(r.rang))
	}
	closeNode(t, n[0])
}

// A ring that a full mailbox refused would never come again.
func TestAlarmRingsThroughAFullMailbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newNode(t)
		rang := false
		pid := s.Spawn(nil, "busy", 2, func() actor.Actor {
			var wake Alarm
			return actor.ReceiveFunc(func(ctx actor.Context) {
				switch ctx.Message().(type) {
				case *actor.Started:
					wake.Set(s, ctx, s.Now().Add(time.Second))
				case ping:
					time.Sleep(10 * time.Second)
				case WakeDue:
					rang = true
				}
			})
		}, OnPanicStop)
		for s.Send(pid, ping{}) {
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if !rang {
			t.Error("the alarm was lost")
		}
	})
}

func TestSeedsDifferByUseNodeAndWorld(t *testing.T) {
	seen := map[uint64]string{}
	note := func(seed uint64, what string) {
		if was := seen[seed]; was != "" {
			t.Errorf("%s and %s have the same seed", was, what)
		}
		seen[seed] = what
	}
	for _, world := range []uint64{1, 2} {
		w := NewWorld(world)
		for _, name := range []string{"a", "ab"} {
			for _, use := range []string{"c", "bc"} {
				note(w.Runtime(name).Seed(use), name+"/"+use)
				if first := w.Runtime(name).Seed(use); w.Runtime(name).Seed(use) != first {
					t.Error("the same use has two seeds")
				}
			}
		}
	}
	note(Real(nil).Seed("c"), "real")
	note(Real(nil).Seed("c"), "another real")
}

func TestWallIsConfigured(t *testing.T) {
	r := Real(nil)
	if d := time.Since(r.Wall()); d < 0 || d > time.Minute {
		t.Error("wall time is off by", d)
	}
	at := time.Date(2031, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
	r.SetWall(func() time.Time { return at })
	if got := r.Wall(); !got.Equal(at) || got.Location() != time.UTC {
		t.Error("wall time is", got)
	}
	w := NewWorld(1)
	w.Run(time.Hour)
	if got, want := w.Runtime("a").Wall(), epoch.Add(time.Hour); !got.Equal(want) {
		t.Errorf("virtual wall time is %v, want %v", got, want)
	}
}
