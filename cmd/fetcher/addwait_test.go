package main

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/rig"
)

// Exit code 0 of add --wait says that the share is here. An entry that somebody pauses meanwhile, or that is added paused, is not.
func TestAddThatWaitsDoesNotTakeAPauseForTheEnd(t *testing.T) {
	t.Parallel()
	n := startNode(t, t.TempDir())
	away := fmt.Sprintf("/ip4/127.0.0.1/tcp/%d/p2p/12D3KooWJcge8xRZ5k8JqvEmhYiX4BRtBjinpdRf5jNBvhX5ycZN", rig.FreePort(t))
	const id = "bafyr4ifgcunp3sqsvlkco4k7begv57hsxkbbgilud4gi3irmmkeq44q53a" // of which nobody has anything
	for i, more := range []string{"--json=false", "--paused"} {
		entry, ended := int64(i+1), make(chan int, 1)
		errs, to := io.Pipe()
		go func() {
			ended <- run([]string{"add", id, "--peer", away, "-o", t.TempDir(), "--wait", "--dir", n.dir, more}, strings.NewReader(""), io.Discard, to, t.Context())
			to.Close()
		}()
		lines := bufio.NewScanner(errs)
		lines.Scan() // it waits
		_, err := n.client.Set(t.Context(), entry, api.Set{Paused: &[]bool{true}[0]})
		must(t, err)
		for says := lines.Text(); !strings.Contains(says, "paused") && lines.Scan(); says = lines.Text() {
		}
		_, err = n.client.Remove(t.Context(), entry, false)
		must(t, err)
		io.Copy(io.Discard, errs)
		if <-ended == exitOK {
			t.Errorf("%s: it ended as if the share were here", more)
		}
	}
}
