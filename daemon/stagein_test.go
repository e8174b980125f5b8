package daemon

import (
	"errors"
	"io/fs"
	"os"
	"testing"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/share"
)

// What was fetched is served, and removed with its data, also if whoever shared it had an incomplete fetch in it that was not left out.
func TestWhatWasFetchedMayHaveAnIncompleteFetchInIt(t *testing.T) {
	t.Parallel()
	src, dir := t.TempDir(), t.TempDir()
	m, err := share.NewManifest("a", []share.Entry{{Path: "a", Kind: share.Dir}})
	must(t, err)
	file(t, string(m.Bytes()), src, "a.partial", "manifest")
	file(t, "half", src, "a.partial", "data", "f")
	from, err := begun(t, t.TempDir()).node.ShareFS(t.Context(), os.DirFS(src), fetcher.ShareOptions{Name: "tree"})
	must(t, err)
	looked := func(e api.Entry) bool { return e.State == api.Served || e.State == api.Missing }
	b := begun(t, dir)
	e := until(t, b, added(t, b, api.Add{Ticket: from.Ticket()}).ID, "here", looked)
	must(t, b.Close())
	b = begun(t, dir)
	if e = until(t, b, e.ID, "looked at", looked); e.State != api.Served {
		t.Errorf("it is %s: %s", e.State, e.Reason)
	}
	r, err := b.Remove(t.Context(), e.ID, true)
	must(t, err)
	if _, err := os.Lstat(e.Path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it stays: %v; %s", r.Data, r.Kept)
	}
}
