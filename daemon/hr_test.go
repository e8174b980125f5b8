package daemon

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
)

// A folder that may not be removed from its parent is not said to have files of others.
func TestHRRemoveSaysWhichFolderMayNotBeRemoved(t *testing.T) {
	t.Parallel()
	if os.Getuid() <= 0 {
		t.Skip("only for a user that is not root")
	}
	src := filepath.Join(t.TempDir(), "tree")
	file(t, "one", src, "docs", "1")
	must(t, os.MkdirAll(filepath.Join(src, "void", "in"), 0o700))
	a := begun(t, t.TempDir())
	ticket := added(t, a, api.Add{Paths: []string{src}}).Ticket
	b := begun(t, t.TempDir())
	for _, shut := range []string{"tree", "tree/void"} {
		to := t.TempDir()
		got := until(t, b, added(t, b, api.Add{Ticket: ticket, Dir: to}).ID, "here", in(api.Served))
		must(t, os.Chmod(filepath.Join(to, shut), 0o500))
		r, err := b.Remove(t.Context(), got.ID, true)
		must(t, err)
		must(t, os.Chmod(filepath.Join(to, shut), 0o700))
		if strings.Contains(r.Kept, "did not make") || !strings.Contains(r.Kept, "permission denied") {
			t.Errorf("%s: removed: %v; %s", shut, r.Data, r.Kept)
		}
	}
}

// The own socket by another spelling is refused as such, and not called another fetcher's.
func TestHRTheOwnersSocketByAnotherSpelling(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "l")
	must(t, os.Symlink(dir, link))
	for _, at := range []string{filepath.Join(link, SocketName), dir + "/x/../" + SocketName, dir + "//" + SocketName, dir + "/" + SocketName + "/"} {
		d := begun(t, dir, func(c *Config) { c.Socket = at })
		l, err := d.Listen()
		if err == nil {
			l.close()
		}
		if !errors.Is(err, ErrSettings) || errors.Is(err, share.ErrHeld) {
			t.Errorf("%s: %v", at, err)
		}
		must(t, d.Close())
	}
}

// A file that vanished from a folder while that was looked at does not mean that nothing is left there.
func TestHROneFileThatVanishedIsNotAll(t *testing.T) {
	bad := &store.ProblemsError{Problems: []store.Problem{{Path: "a", Err: fs.ErrNotExist}}, Count: 1}
	if why := unlooked("/x", bad); strings.Contains(why, "there is nothing at") {
		t.Error(why)
	}
}

// What was named by its ID alone while it could be found says what to do when the node no longer looks for anybody, and is fetched again once it does.
func TestHRALoneIDOutlivesASetting(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	table := func(c *Config) { c.DHT = []string{"own"} }
	a := begun(t, dir, table)
	e := added(t, a, api.Add{Ticket: share.IDOf([]byte("x")).String()})
	must(t, a.Close())
	b := begun(t, dir)
	got := until(t, b, e.ID, "settled", func(e api.Entry) bool { return e.State == api.Failed || e.State == api.Waiting && e.Reason != "" })
	t.Logf("%s: %s", got.State, got.Reason)
	if !strings.Contains(got.Reason, "dht") && !strings.Contains(got.Reason, "ticket") {
		t.Errorf("%s: %q says nothing of what to do", got.State, got.Reason)
	}
	must(t, b.Close())
	c := begun(t, dir, table)
	until(t, c, e.ID, "fetched again", in(api.Fetching))
}

// After a reload with lan = true the file has no lan = false any more: what helps is a restart.
func TestHRVisibleAfterAReload(t *testing.T) {
	t.Parallel()
	d := begun(t, t.TempDir())
	s := d.setting()
	s.NoLAN = false
	_, err := d.Reload(s)
	must(t, err)
	if _, err := d.Add(t.Context(), api.Add{Paths: []string{t.TempDir()}, Visible: "lan"}); err == nil || strings.Contains(err.Error(), "which is in its node.toml") {
		t.Error(err)
	}
}

// A fetched folder in which a socket lies is served again by itself once that is gone; also after a restart.
func TestHRASocketInAFetchedFolder(t *testing.T) {
	t.Parallel()
	_, ticket := photos(t)
	to, dir := t.TempDir(), t.TempDir()
	b := begun(t, dir)
	got := until(t, b, added(t, b, api.Add{Ticket: ticket, Dir: to}).ID, "here", in(api.Served))
	for _, restart := range []bool{false, true} {
		must(t, aSocket(filepath.Join(to, "tree")))
		e := until(t, b, got.ID, "missing", in(api.Missing))
		t.Logf("%s", e.Reason)
		if restart {
			must(t, b.Close())
			b = begun(t, dir)
			until(t, b, got.ID, "missing", in(api.Missing))
		}
		must(t, os.Remove(filepath.Join(to, "tree", "s")))
		until(t, b, got.ID, "here again", in(api.Served))
	}
}

// Adding it again, or another entry that has it, changes nothing.
func TestHROwnTickets(t *testing.T) {
	t.Parallel()
	a := begun(t, t.TempDir())
	src := file(t, "content", t.TempDir(), "f")
	e := added(t, a, api.Add{Paths: []string{src}})
	must(t, os.WriteFile(src, []byte("later"), 0o600))
	set(t, a, e.ID, api.Set{Rescan: true})
	until(t, a, e.ID, "a new version", func(x api.Entry) bool { return x.State == api.Served && x.Share != e.Share })
	_, err := a.Add(t.Context(), api.Add{Ticket: e.Ticket})
	t.Log(err)
	if !errors.Is(err, api.ErrRequest) {
		t.Error(err)
	}
}

// Of a fetched folder both an unreadable file and a socket are told of, and it comes back by itself once both are mended.
func TestHRUnreadableAndSpecial(t *testing.T) {
	t.Parallel()
	if os.Getuid() <= 0 {
		t.Skip("only for a user that is not root")
	}
	_, ticket := photos(t)
	to := t.TempDir()
	b := begun(t, t.TempDir())
	got := until(t, b, added(t, b, api.Add{Ticket: ticket, Dir: to}).ID, "here", in(api.Served))
	must(t, os.Chmod(filepath.Join(to, "tree", "3"), 0))
	must(t, aSocket(filepath.Join(to, "tree")))
	e := until(t, b, got.ID, "missing", in(api.Missing))
	t.Log(e.Reason)
	must(t, os.Remove(filepath.Join(to, "tree", "s")))
	e = until(t, b, got.ID, "unreadable", func(e api.Entry) bool { return e.State == api.Missing && !strings.Contains(e.Reason, "socket") })
	t.Log(e.Reason)
	began := time.Now()
	must(t, os.Chmod(filepath.Join(to, "tree", "3"), 0o600))
	until(t, b, got.ID, "here again", in(api.Served))
	t.Log(time.Since(began))
}
