package fetchpool

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher/share"
)

// measuredWindow is a window that has seen 100 MB/s and 10 ms.
func measuredWindow() *window {
	cfg := Config{}.withDefaults()
	w := &window{}
	w.init(&cfg, start)
	w.started, w.rate, w.rtt, w.least, w.size = true, 100e6, 10*time.Millisecond, 10*time.Millisecond, 4<<20
	w.peaks[0] = 100e6
	return w
}

func TestOnlyATripLikeTheKnownOneConfirmsIt(t *testing.T) {
	now := start.Add(time.Minute)
	for _, c := range []struct {
		top     float64
		trip    time.Duration
		confirm bool
	}{
		{100e6, 11 * time.Millisecond, true},
		{100e6, 40 * time.Millisecond, false},
		{0, 40 * time.Millisecond, false}, // nothing is known of the rate
	} {
		w := measuredWindow()
		w.peaks[0] = c.top
		w.sawTrip(sent{at: now.Add(-c.trip)}, share.BlockSize, now)
		if got := w.rttAt.Equal(now); got != c.confirm || w.rtt != 10*time.Millisecond {
			t.Errorf("%+v: confirmed %v, round trip %v", c, got, w.rtt)
		}
	}
}

// A sample taken while there was too little to ask for lowers the rate only if it is
// slow even without its round trip.
func TestALimitedSampleLowersTheRateOnlyIfThePathIsSlow(t *testing.T) {
	now := start.Add(time.Minute)
	for took, lowers := range map[time.Duration]bool{22 * time.Millisecond: false, 60 * time.Millisecond: true} {
		w := measuredWindow()
		s := sent{at: now.Add(-took), deliveredAt: now.Add(-took), limited: true}
		w.delivered = 1e6
		w.finished(s, 1e6, now)
		if got := w.rate < 100e6; got != lowers {
			t.Errorf("1 MB in %v: the rate is %.0f", took, w.rate)
		}
	}
}

func TestALateRequestOfAFastPathIsNoSample(t *testing.T) {
	now := start.Add(time.Minute)
	w := measuredWindow()
	w.delivered = 9e6
	w.late(sent{at: now.Add(-100 * time.Millisecond), deliveredAt: now.Add(-100 * time.Millisecond)}, now)
	if w.top() != 100e6 || w.rate != 100e6 {
		t.Errorf("90 MB/s made of 100 MB/s: top %.0f, rate %.0f", w.top(), w.rate)
	}
	w.late(sent{at: now.Add(-time.Second), deliveredAt: now.Add(-time.Second)}, now)
	if w.top() != 9e6 || w.rate != 9e6 {
		t.Errorf("9 MB/s made of 100 MB/s: top %.0f, rate %.0f", w.top(), w.rate)
	}
}

// What comes of a request lowers the rate before it ends, if not even the time without the round
// trip explains it; never the window.
func TestWhatComesOfARequestShowsASlowPath(t *testing.T) {
	now := start.Add(time.Minute)
	for _, c := range []struct {
		bytes  int
		took   time.Duration
		slowed bool // by our own limit
		lowers bool
	}{
		{bytes: 100e3, took: 210 * time.Millisecond, lowers: true},
		{bytes: 100e3, took: 210 * time.Millisecond, slowed: true},
		{bytes: 11e6, took: 210 * time.Millisecond}, // more than half of the rate
		{bytes: 1e6, took: 15 * time.Millisecond},
		{bytes: 1, took: 10 * time.Millisecond},
	} {
		w := measuredWindow()
		w.partial(sent{at: now.Add(-c.took), deliveredAt: now.Add(-c.took), slowed: c.slowed}, c.bytes, now)
		if got := w.rate < 100e6; got != c.lowers || w.size != 4<<20 || w.top() != 100e6 {
			t.Errorf("%+v: the rate is %.0f, the window %d", c, w.rate, w.size)
		}
	}
}

// How long a node on this machine takes is seen with its first reply.
func TestTheTripToANodeOfThisMachineIsMeasured(t *testing.T) {
	w := measuredWindow()
	w.opened(time.Microsecond, 256<<10, start)
	w.sawTrip(sent{at: start}, share.BlockSize, start.Add(3*time.Millisecond))
	if w.rtt != 3*time.Millisecond {
		t.Errorf("the round trip is %v", w.rtt)
	}
}
