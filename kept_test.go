package fetcher

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
)

// Whoever keeps a share after its fetch hears of it when that ends, and why.
func TestATransferTellsWhenWhatItKeptIsNotServedAnyMore(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "f")
	writeRandom(t, src, 300_000, 7)
	s := shareOf(t, src)
	fetch := func(n *Node, keep bool) *Transfer {
		x, err := n.Fetch(t.Context(), s.Ticket(), FetchOptions{Dir: t.TempDir(), Keep: keep})
		must(t, err)
		must(t, x.Wait(t.Context()))
		return x
	}
	ends := func(what string, x *Transfer, want error) {
		t.Helper()
		select {
		case <-x.Unserved():
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: it is served", what)
		}
		if err := x.UnservedErr(); !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	ends("not kept", fetch(openNode(t), false), nil)

	n := openNode(t)
	x := fetch(n, true)
	select {
	case <-x.Unserved():
		t.Fatal("it is not served")
	default:
	}
	_, err := n.StopSharing(t.Context(), x.ID())
	must(t, err)
	ends("stopped", x, nil)

	n = openNode(t)
	x = fetch(n, true)
	must(t, os.WriteFile(x.Path(), []byte("edited"), 0o600))
	child, err := openNode(t).Fetch(t.Context(), n.Ticket(x.ID()), FetchOptions{Dir: t.TempDir(), Stall: time.Second})
	must(t, err)
	if err := child.Wait(t.Context()); err == nil {
		t.Error("it was fetched")
	}
	ends("edited", x, share.ErrChanged)
	if e, _ := n.Entry(x.Entry()); e.State != EntryMissing {
		t.Errorf("its entry is %s", e.State)
	}

	n = openNode(t)
	x = fetch(n, true)
	must(t, n.Close())
	ends("closed", x, nil)
}
