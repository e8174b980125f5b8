package fetcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
)

// A reader that waits for the share to be open gets its bytes once it is, however many have come since and gone away again.
func TestAReaderThatWaitsForTheShareGetsItsBytesAfterManyHaveGone(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "f")
	writeRandom(t, src, 8<<20, 1)
	at := fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", rig.FreePort(t))
	dir, key := t.TempDir(), func(c *Config) { c.Listen = []string{at} }
	first := openNode(t, key, func(c *Config) { c.Dir = dir })
	s, err := first.Share(t.Context(), src, ShareOptions{})
	must(t, err)
	ticket := s.Ticket()
	must(t, first.Close())

	x, err := openNode(t).Fetch(t.Context(), ticket, FetchOptions{Dir: t.TempDir(), OnDemand: true})
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		r, err := x.Open(ctx, "f")
		if err == nil {
			_, err = io.ReadFull(r, make([]byte, 10))
			r.Close()
		}
		done <- err
	}()
	gone, leave := context.WithCancel(t.Context())
	leave()
	for range 2 << 12 { // more than are remembered, wherever the first is among them
		if _, err := x.Open(gone, "f"); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	again := openNode(t, key, func(c *Config) { c.Dir = dir })
	_, err = again.Share(t.Context(), src, ShareOptions{})
	must(t, err)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
