package main

import (
	"context"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/piecelease/fetcher/internal/rig"
)

// A signal that comes while a command starts ends it as one does that comes later: the state directory is not to blame.
func TestASignalAtTheStartIsNoError(t *testing.T) {
	t.Parallel()
	src := filepath.Join(t.TempDir(), "f")
	rig.WriteRandom(t, src, 1000, 1)
	for args, want := range map[string]int{"node run --listen none": exitOK, "share " + src: exitInterrupted, "fetch bafyr4ifgcunp3sqsvlkco4k7begv57hsxkbbgilud4gi3irmmkeq44q53a --peer " + nobody: exitInterrupted} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(signalled{syscall.SIGTERM})
		var out, errs buffer
		code := run(append(strings.Fields(args), "--dir", t.TempDir()), strings.NewReader(""), &out, &errs, ctx)
		if says := errs.String(); code != want || says != "ended by SIGTERM\n" {
			t.Errorf("%s: exit %d, want %d: %s", args, code, want, says)
		}
	}
}

const nobody = "/ip4/127.0.0.1/tcp/9/p2p/12D3KooWJcge8xRZ5k8JqvEmhYiX4BRtBjinpdRf5jNBvhX5ycZN"
