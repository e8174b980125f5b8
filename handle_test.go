package fetcher

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
)

// What was known of one transfer does not affect the next one of the same share.
func TestATransferThatHasEndedDoesNothingToItsSuccessor(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "f.bin")
	writeRandom(t, src, 2<<20, 1)
	source := shareOf(t, src)
	n := openNode(t)
	first, err := fetchInto(t, n, source.Ticket(), t.TempDir(), FetchOptions{})
	must(t, err)
	source.node.SetUploadRate(1) // the second begins, and does not end by itself
	second, err := n.Fetch(t.Context(), source.Ticket(), FetchOptions{Dir: t.TempDir()})
	must(t, err)
	r, err := second.Open(t.Context(), "f.bin")
	must(t, err)
	defer r.Close()
	must(t, first.Stop(t.Context()))
	if _, err := n.program.Progress(t.Context(), second.handle); err != nil { // asked after the Stop
		t.Error(err)
	}
	source.node.SetUploadRate(0)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must(t, second.Wait(ctx))
}
