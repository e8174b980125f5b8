package fetcher

import (
	"path/filepath"
	"testing"
	"time"
)

// Whoever keeps a part of a share hears that it is not served any more when a fetch of more of it has opened the place, or would have opened
// another, and failed.
func TestATransferTellsThatAFetchOfMoreHasEndedWhatItKept(t *testing.T) {
	t.Parallel()
	src := filepath.Join(t.TempDir(), "stuff")
	writeRandom(t, filepath.Join(src, "a"), 300_000, 7)
	writeRandom(t, filepath.Join(src, "b"), 300_000, 8)
	for _, elsewhere := range []bool{false, true} {
		s := shareOf(t, src)
		n, dir := openNode(t), t.TempDir()
		x, err := n.Fetch(t.Context(), s.Ticket(), FetchOptions{Dir: dir, Keep: true, Only: []string{"a"}})
		must(t, err)
		must(t, x.Wait(t.Context()))
		must(t, s.Stop(t.Context()))
		if elsewhere {
			dir = t.TempDir()
			writeRandom(t, filepath.Join(dir, "stuff"), 100, 9) // in the way
		}
		more, err := n.Fetch(t.Context(), s.Ticket(), FetchOptions{Dir: dir, Keep: true, Stall: time.Second})
		must(t, err)
		if err := more.Wait(t.Context()); err == nil {
			t.Fatal("it was fetched")
		}
		n.leaving.Wait()
		select {
		case <-x.Unserved():
		default:
			t.Errorf("elsewhere: %v: it is not served, and whoever keeps it is not told", elsewhere)
		}
	}
}
