package fetcher

import (
	"path/filepath"
	"testing"

	"github.com/piecelease/fetcher/internal/rig"
)

func TestANodeIsToldOfItsChildren(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "f.bin")
	writeRandom(t, src, 3<<20, 1)
	told := make(chan Child, 10)
	s := shareOf(t, src, func(c *Config) { c.OnChild = func(x Child) { told <- x } })
	n := openNode(t)
	x, err := n.Fetch(t.Context(), s.Ticket(), FetchOptions{Dir: t.TempDir()})
	must(t, err)
	began := <-told
	if began.State != ChildTakes || began.Peer != n.ID() || began.Share != s.ID() || began.Bytes != 0 {
		t.Errorf("it began with %+v", began)
	}
	must(t, x.Wait(t.Context()))
	done := <-told
	if done.State != ChildDone || done.Peer != n.ID() || done.Bytes != 3<<20 || done.At.Before(done.Since) {
		t.Errorf("it ended with %+v", done)
	}
	if list, err := s.node.Children(t.Context()); err != nil || len(list) > 0 {
		t.Errorf("the children that take something are %+v, %v", list, err)
	}
}
