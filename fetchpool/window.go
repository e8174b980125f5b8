package fetchpool

import (
	"math"
	"time"

	"github.com/piecelease/fetcher/share"
)

// window measures a path and says how many bytes may be in flight on it.
//
// It is built after BBR (Cardwell et al., ACM Queue 14/5, 2016) for a receiver
// that asks instead of a sender that paces. Each request remembers how much had
// been delivered when it was sent; when it ends, what was delivered since, over the
// time since, is a sample of the rate. The window is
//
//	1.25 · rate · rtt  +  rate · slack  +  one request
//
// with the highest rate of the last few round trips and the least round trip.
// Below the path's capacity the rate follows the window, so the window grows by a
// quarter each round; at capacity only the delay grows, and the window stands
// still with a queue of a quarter round trip. At the start it doubles each round
// until the rate no longer follows.
//
// A round trip can only be seen when no queue of ours is in the way. So every
// Recheck, unless it was seen by chance, the window is halved until a few requests
// sent so have begun to arrive. What is seen then may hold the queues of others,
// our own pools among them; so that they do not drive each other up, the round
// trip is never taken for more than three times the least of the link, and 20 ms.
//
// Samples taken while there was too little to ask for say only how fast the path is at
// least; but one that would be slow even without its round trip shows that the
// path is slower than was thought. So does what has come of a request that still runs:
// it lowers the rate, of which others hear, and not the window. A sample taken while the
// node's own limit held us back does not show that: the time in it is ours.
type window struct {
	cfg  *Config
	size int // bytes that may be in flight, except while probing

	delivered   int64 // bytes arrived, ever
	deliveredAt time.Time
	limitedTo   int64 // requests sent before this much was delivered were limited
	slowedTo    int64 // ... by ourselves, so that they say nothing about a slow path either

	rate     float64 // bytes per second, smoothed; 0 until measured
	rateAt   time.Time
	openedAt time.Time
	peaks    [8]float64 // highest sample of each of the last spans; a span is a round or 125 ms
	peak     int        // index of the span that runs
	peakAt   time.Time
	started  bool    // the start is over
	best     float64 // during the start: the rate to be beaten
	stuck    int     // ... and the rounds since
	round    int64   // a request sent after this much was delivered ends the round
	learned  bool    // the round had a sample that was not limited

	rtt      time.Duration // 0 until known
	least    time.Duration // ... of this link
	rttAt    time.Time     // when it was last confirmed
	probe    int           // samples still wanted by the probe that runs; 0 when none does
	probeMin time.Duration
}

// sent is what a request must remember to give a sample.
type sent struct {
	at          time.Time
	delivered   int64
	deliveredAt time.Time
	limited     bool
	slowed      bool
	probe       bool // nothing or little was in flight: its first byte shows the round trip
}

const (
	leastTrip    = 50 * time.Microsecond // that is believed
	spanLeast    = 125 * time.Millisecond
	slackBytes   = 3 << 20
	probeSamples = 4
	requestTime  = 25 * time.Millisecond // of the rate, in one request
)

func (w *window) init(cfg *Config, now time.Time) {
	w.cfg, w.size = cfg, cfg.FirstWindow
	w.deliveredAt, w.rttAt, w.openedAt = now, now, now
}

// opened begins a new connection: the path may have changed, so its round trip and
// the window are found anew, from size on; the rate stays as a first guess.
func (w *window) opened(rtt time.Duration, size int, now time.Time) {
	if rtt < leastTrip { // of a node on this machine: what it takes is seen soon
		rtt = 0
	}
	w.rtt, w.least, w.probe = rtt, rtt, 0
	w.rttAt = now.Add(-w.cfg.Recheck * 9 / 10) // it is only what another said
	w.size, w.started, w.best, w.stuck, w.learned = size, false, 0, 0, false
	w.round, w.limitedTo, w.slowedTo, w.deliveredAt = w.delivered, 0, 0, now
	w.peaks, w.openedAt = [8]float64{}, now
}

// limit is the bytes that may be in flight now.
func (w *window) limit() int {
	if w.probe > 0 {
		return w.size / 2
	}
	return w.size
}

// turn begins a probe when it is time.
func (w *window) turn(now time.Time) {
	if w.started && w.probe == 0 && now.Sub(w.rttAt) >= w.cfg.Recheck {
		w.probe, w.probeMin = probeSamples, math.MaxInt64
	}
}

// request is the bytes to ask for in one request: whole blocks.
func (w *window) request() int {
	n := int(min(w.rate*requestTime.Seconds(), float64(w.limit()/4), float64(w.cfg.MaxRequest)))
	return max(n/share.BlockSize, 1) * share.BlockSize
}

// send returns what a request sent with inFlight bytes before it must remember.
func (w *window) send(inFlight int, now time.Time) sent {
	if inFlight == 0 {
		w.deliveredAt = now // time without work is not the source's
	}
	return sent{now, w.delivered, w.deliveredAt, w.delivered < w.limitedTo, w.delivered < w.slowedTo, inFlight == 0 || w.probe > 0 && inFlight <= w.size/2}
}

// lacked says that there was room for more requests than there was to ask for.
func (w *window) lacked(inFlight int) { w.limitedTo = w.delivered + int64(inFlight) + 1 }

// slowed says, after lacked, that this was our own choice.
func (w *window) slowed() { w.slowedTo = w.limitedTo }

// arrived counts n bytes, without those that partial has counted; s is of their request, and
// first says that they are its first.
func (w *window) arrived(s sent, n, counted int, first bool, now time.Time) {
	w.delivered += int64(n - counted)
	w.deliveredAt = now
	if first {
		w.sawTrip(s, n, now)
	}
}

// sawTrip takes the time to the first n bytes of a request as a round trip.
//
// It includes the time of the bytes themselves, which is known only when the rate is
// the path's and not our window's. So as it is it may only lower the known round trip;
// to confirm that, or in a probe to raise it, the bytes' own time is subtracted.
func (w *window) sawTrip(s sent, n int, now time.Time) {
	trip := max(now.Sub(s.at), leastTrip)
	if w.rtt == 0 || trip < w.rtt {
		w.rtt = trip
	}
	if w.least == 0 || trip < w.least {
		w.least = trip
	}
	if top := w.top(); w.started && top > 0 {
		trip = max(trip-time.Duration(float64(n)/top*float64(time.Second)), leastTrip)
	}
	switch {
	case trip <= w.rtt+w.rtt/8+time.Millisecond:
		w.rttAt, w.probe = now, 0
	case w.probe > 0 && s.probe:
		w.probeMin = min(w.probeMin, trip)
		if w.probe--; w.probe == 0 { // it has really grown, or others fill a queue
			w.rtt, w.rttAt = min(w.probeMin, 3*w.least+20*time.Millisecond), now
		}
	}
}

// finished takes a sample from a request of n bytes whose last byte just arrived.
func (w *window) finished(s sent, n int, now time.Time) {
	took := max(now.Sub(s.deliveredAt), 10*time.Microsecond)
	bytes := float64(w.delivered - s.delivered)
	rate := bytes / took.Seconds()
	limited := s.limited
	top := w.top()
	if limited && !s.slowed {
		alone := took - w.rtt
		if most := bytes / alone.Seconds(); alone > 0 && most < top/2 {
			rate, limited = most, false // the path is slower than it was, whatever was lacking
		}
	}
	w.peaks[w.peak] = max(w.peaks[w.peak], rate)
	if !limited || rate > w.rate {
		w.smooth(rate, now)
	}
	if !limited {
		w.learned = true
		if !w.started {
			w.size += n
		}
	}
	if s.delivered >= w.round {
		w.endRound(now)
	}
	if !limited {
		w.fit()
	}
}

// partial counts n bytes of a run that is not complete. A path that has become a hundred times
// slower shows in them seconds before a request ends: what it has brought, over the time without
// the round trip, is the most that it does. The window stays: it may only have stopped for a moment.
func (w *window) partial(s sent, n int, now time.Time) {
	w.delivered += int64(n)
	w.deliveredAt = now
	alone := now.Sub(s.deliveredAt) - w.rtt
	if most := float64(w.delivered-s.delivered) / alone.Seconds(); alone > 0 && !s.slowed && most < w.rate/2 {
		w.smooth(most, now)
	}
}

// late takes a sample from a request that did not come in time: if what has come
// since is much less than expected, that is the rate now.
func (w *window) late(s sent, now time.Time) {
	rate := float64(w.delivered-s.delivered) / max(now.Sub(s.deliveredAt), time.Millisecond).Seconds()
	if rate >= w.top()/2 {
		return
	}
	w.peaks = [8]float64{}
	w.peaks[w.peak] = rate
	if rate > 0 {
		w.rate, w.rateAt = min(w.rate, rate), now
	}
	w.started = true
	w.fit()
}

func (w *window) smooth(rate float64, now time.Time) {
	if w.rate == 0 {
		w.rate = rate
	} else {
		// The memory is a second, but while the link is young a quarter of its age:
		// what it gave at the start says little.
		memory := min(time.Second, now.Sub(w.openedAt)/4+time.Millisecond)
		w.rate += (rate - w.rate) * min(max(now.Sub(w.rateAt).Seconds()/memory.Seconds(), 1e-4), 0.5)
	}
	w.rateAt = now
}

// top is the highest rate seen lately.
func (w *window) top() (top float64) {
	for _, r := range w.peaks {
		top = max(top, r)
	}
	return top
}

func (w *window) endRound(now time.Time) {
	w.round = w.delivered
	if !w.learned {
		return // and nothing is forgotten
	}
	w.learned = false
	if !w.started {
		if top := w.top(); top >= 1.25*w.best {
			w.best, w.stuck = top, 0
		} else if w.stuck++; w.stuck == 3 {
			w.started = true
		}
	}
	if now.Sub(w.peakAt) >= spanLeast {
		w.peakAt = now
		w.peak = (w.peak + 1) % len(w.peaks)
		w.peaks[w.peak] = 0
	}
}

// fit sets the window by what was measured.
func (w *window) fit() {
	top := w.top()
	slack := min(top*w.cfg.Turnaround.Seconds(), slackBytes)
	gain := 1.25
	if !w.started {
		gain = 2.5 // room to double in
	}
	n := gain*top*w.rtt.Seconds() + slack + float64(w.request())
	if !w.started {
		n = min(n, float64(w.size))
	}
	w.size = int(min(max(n, float64(w.cfg.MinWindow)), float64(w.cfg.MaxWindow)))
}
