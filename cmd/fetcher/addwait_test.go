package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/rig"
)

// Exit code 0 of add --wait says that the share is here. An entry that somebody pauses meanwhile, or that is added paused, is not.
func TestAddThatWaitsDoesNotTakeAPauseForTheEnd(t *testing.T) {
	t.Parallel()
	n := startNode(t, t.TempDir())
	away := fmt.Sprintf("/ip4/127.0.0.1/tcp/%d/p2p/12D3KooWJcge8xRZ5k8JqvEmhYiX4BRtBjinpdRf5jNBvhX5ycZN", rig.FreePort(t))
	const id = "bafyr4ifgcunp3sqsvlkco4k7begv57hsxkbbgilud4gi3irmmkeq44q53a" // of which nobody has anything
	for i, paused := range []bool{false, true} {
		args := []string{"add", id, "--peer", away, "-o", t.TempDir(), "--wait", "--dir", n.dir}
		if paused {
			args = append(args, "--paused")
		}
		ended := make(chan int, 1)
		go func() {
			_, _, code := inside(args...)
			ended <- code
		}()
		entry := int64(i + 1)
		must(t, n.client.Events(t.Context(), "0-0", func(api.Event) bool {
			_, err := n.client.Entry(t.Context(), entry)
			return err == nil
		}))
		_, err := n.client.Set(t.Context(), entry, api.Set{Paused: &[]bool{true}[0]})
		must(t, err)
		select {
		case code := <-ended:
			if code == exitOK {
				t.Errorf("added paused %v: it ended as if the share were here", paused)
			}
		case <-time.After(3 * time.Second): // it waits on
		}
		_, err = n.client.Remove(t.Context(), entry, false)
		must(t, err)
	}
}
