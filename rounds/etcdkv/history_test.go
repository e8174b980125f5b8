package etcdkv_test

import (
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/rounds/kvtest"
)

// An office is kept for long, as that of each share of a fleet is. A server that was started as docs/rounds.md says has room for
// 2 GiB, and 4 MiB here: the heartbeats of before do not take all of it.
func TestHeartbeatsDoNotFillTheServer(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	addr := free(t)
	start(t, t.TempDir(), "http", addr, "--quota-backend-bytes", "4194304")
	r, _ := kvtest.NewRound(t, open(t, addr), rounds.Config{Name: "office", Office: true, Holder: "a", Data: strings.Repeat("x", 2<<10)})
	g := kvtest.Free(t, r, time.Minute)
	for i := range 4_000 {
		if err := g.Extend(t.Context()); err != nil {
			t.Fatalf("after %d heartbeats: %v", i, err)
		}
	}
}
