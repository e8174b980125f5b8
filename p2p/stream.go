package p2p

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/libp2p/go-yamux/v5"

	"github.com/piecelease/fetcher/internal/words"
)

// writeAll writes b. It gives up when the peer takes not one byte for stall; a
// slow peer that goes on reading is served for as long as it takes.
// Only one goroutine may write to s.
func writeAll(s *counted, b []byte, stall time.Duration) error {
	return writePatiently(s, b, stall, stall, func(int) {})
}

// leastTaken is how many bytes a peer takes in a pause, or its turn goes to others: less than a packet.
const leastTaken = 1 << 10

// writePatiently is writeAll that calls silent each time the peer has taken less than leastTaken
// for about pause: at most twice that, as it is noticed only at a deadline.
// left bytes are not taken yet.
func writePatiently(s *counted, b []byte, stall, pause time.Duration, silent func(left int)) error {
	pause = min(pause, stall)
	since := time.Now() // nothing was taken
	for again := false; ; again = true {
		// A deadline costs a timer, so one set a moment ago will do.
		if now := time.Now(); again || now.Sub(s.armed) > pause/8 {
			s.armed = now
			if err := s.SetWriteDeadline(now.Add(pause)); err != nil {
				return err
			}
		}
		n, err := s.Write(b)
		b = b[n:]
		switch {
		case err == nil || len(b) == 0:
			return nil
		case !timedOut(err):
			return err
		case n > 0:
			since = time.Now()
		case time.Since(since) >= stall:
			return fmt.Errorf("not a byte was taken for %s: %w", words.Duration(stall), err)
		}
		if n < leastTaken {
			silent(len(b))
		}
	}
}

// frameWithin gives the next frame until d from now to arrive whole. A
// deadline costs a timer, so one set a moment ago will do: armed is when that was;
// frameWithin returns the new value.
func frameWithin(s *counted, d time.Duration, armed time.Time) time.Time {
	if now := time.Now(); now.Sub(armed) > d/8 {
		armed = now
		s.SetReadDeadline(now.Add(d))
	}
	return armed
}

// timedOut says whether a read or write ended at the deadline of its stream. The
// end of a whole connection is also called a time-out, by QUIC and yamux, but no
// new deadline helps there.
func timedOut(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, yamux.ErrTimeout)
}
