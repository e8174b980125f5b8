package transfer

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// A list of files is waited for as long as it comes at the rate that is enough, and no longer; what is said is that it
// comes. The same again and again is no sign of life.
func TestAListThatComesIsWaitedFor(t *testing.T) {
	t.Parallel()
	cut := fmt.Errorf("it closed the stream: %w", peers.ErrStream)
	for name, c := range map[string]struct {
		rate  int // bytes a second
		parts int // seconds, after which it is cut; 0: never
		lasts time.Duration
	}{
		"fast enough": {listRate, 0, 100 * time.Second},
		"too slow":    {listRate / 4, 0, 27 * time.Second}, // a second for each four, and then the stall
		"always cut":  {listRate, 10, 54 * time.Second},
		"in one go":   {100 * listRate, 1, 26 * time.Second},
	} {
		w := newWorld(t, Config{Stall: 20 * time.Second}, Fetch{Share: theManifest.ID()})
		w.find("a")
		for n := 0; w.now.Sub(theStart) < 100*time.Second && w.x.ending == nil; {
			w.pass(time.Second)
			if !w.asks["a"] || w.x.ending != nil {
				n = 0
				continue
			}
			n++
			w.happens(func() { w.x.ManifestComes("a", n*c.rate, 64<<20, w.now) })
			if n == 4 {
				if p := w.progress(); p.Wait != ForBytes || p.Reason != "getting the list of files from a: "+share.Size(n*c.rate)+" of 67.1 MB so far" && c.rate == listRate && p.Reason != "" {
					t.Errorf("%s: waits for %v: %s", name, p.Wait, p.Reason)
				}
			}
			if n == c.parts {
				w.replied("a", wire.Reply{}, cut)
				n = 0
			}
		}
		lasted := w.now.Sub(theStart)
		if w.x.ending == nil {
			if c.lasts != 100*time.Second {
				t.Errorf("%s: goes on", name)
			}
			continue
		}
		end := w.isOver()
		if lasted < c.lasts-3*time.Second || lasted > c.lasts+3*time.Second {
			t.Errorf("%s: ended after %v", name, lasted)
		}
		if !errors.Is(end.Err, share.ErrStalled) || strings.Contains(end.Err.Error(), "no connection") || strings.Contains(end.Err.Error(), "no answer yet") {
			t.Errorf("%s: ended with %v", name, end.Err)
		}
	}
}

// While a list comes, what is said does not come more often because it says how much.
func TestAListThatComesIsNotSaidForEachByte(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{}, Fetch{Share: theManifest.ID()})
	w.find("a")
	said := 0
	for n := range 40 {
		w.pass(250 * time.Millisecond)
		said += len(got[Stalled](w))
		w.happens(func() { w.x.ManifestComes("a", n*listRate, 64<<20, w.now) })
		said += len(got[Stalled](w))
	}
	if said < 2 || said > 4 {
		t.Errorf("said %d times in 10 s", said)
	}
}

// That a source could not be reached before, or had nothing to send, says nothing of its list: that is waited for all the same.
func TestAListIsWaitedForFromOneThatFailedBefore(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"unreachable":               fmt.Errorf("no answer: %w", peers.ErrUnreachable),
		"given up for others":       fmt.Errorf("many come at once: %w", peers.ErrCrowded),
		"lost before anything came": fmt.Errorf("it closed the stream: %w", peers.ErrStream),
	} {
		w := newWorld(t, Config{Stall: 20 * time.Second}, Fetch{Share: theManifest.ID()})
		w.find("a")
		for range maxRestarts {
			if errors.Is(err, peers.ErrCrowded) {
				w.happens(func() { w.x.ManifestComes("a", listRate, 64<<20, w.now) })
			}
			w.replied("a", wire.Reply{}, err)
			for !w.asks["a"] && w.x.ending == nil {
				w.pass(time.Second)
			}
		}
		for n := 1; n < 100 && w.x.ending == nil; n++ {
			w.pass(time.Second)
			w.happens(func() { w.x.ManifestComes("a", n*listRate, 64<<20, w.now) })
		}
		if w.x.ending != nil {
			t.Errorf("%s: given up after %v while the list came: %v", name, w.now.Sub(theStart), w.isOver().Err)
		}
	}
}
