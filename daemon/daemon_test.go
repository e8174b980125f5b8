package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// begun starts a daemon on this machine alone, which the test may stop and start again.
func begun(t testing.TB, dir string, change ...func(*Config)) *Daemon {
	t.Helper()
	cfg := Config{Dir: dir, Settings: Settings{Into: filepath.Join(dir, "in"), Listen: []string{"127.0.0.1:0"}, NoLAN: true}}
	for _, f := range change {
		f(&cfg)
	}
	d, err := Open(context.Background(), cfg)
	must(t, err)
	t.Cleanup(func() { d.Close() })
	return d
}

// file writes a file, with the folders that it needs.
func file(t testing.TB, content string, at ...string) string {
	t.Helper()
	p := filepath.Join(at...)
	must(t, os.MkdirAll(filepath.Dir(p), 0o700))
	must(t, os.WriteFile(p, []byte(content), 0o600))
	return p
}

// servedTree is an entry of a node that serves a folder, tree, with files of these names.
func servedTree(t testing.TB, names ...string) api.Entry {
	t.Helper()
	src := t.TempDir()
	for _, n := range names {
		file(t, "content of "+n, src, "tree", n)
	}
	return added(t, begun(t, t.TempDir()), api.Add{Paths: []string{filepath.Join(src, "tree")}})
}

func added(t testing.TB, d *Daemon, a api.Add) api.Entry {
	t.Helper()
	e, err := d.Add(t.Context(), a)
	must(t, err)
	return e
}

// until waits until an entry is as it should be.
func until(t testing.TB, d *Daemon, id int64, what string, is func(api.Entry) bool) api.Entry {
	t.Helper()
	cursor := d.Feed().From("")
	end := time.After(30 * time.Second)
	for {
		e, err := d.Entry(t.Context(), id)
		must(t, err)
		if is(e) {
			return e
		}
		if _, ok, more, _ := cursor.Next(); !ok {
			select {
			case <-more:
			case <-end:
				t.Fatalf("entry %d is not %s: %+v", id, what, e)
			}
		}
	}
}

func in(state string) func(api.Entry) bool {
	return func(e api.Entry) bool { return e.State == state }
}

func same(t testing.TB, path, want string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil || string(b) != want {
		t.Errorf("%s has %d bytes, not the %d that were served: %v", path, len(b), len(want), err)
	}
}

// large returns content of several pieces.
func large(seed byte) string {
	b := make([]byte, 3<<20+5)
	for i := range b {
		b[i] = byte(i*i>>8) + seed + byte(i)
	}
	return string(b)
}

func TestAShareGoesFromNodeToNodeAndStaysOverARestart(t *testing.T) {
	t.Parallel()
	content := large(1)
	src := filepath.Dir(file(t, content, t.TempDir(), "tree", "a", "f"))
	dirA, dirB := t.TempDir(), t.TempDir()
	a := begun(t, dirA)
	served := added(t, a, api.Add{Paths: []string{filepath.Dir(src)}})
	if served.State != api.Served || served.Name != "tree" || served.Ticket == "" {
		t.Fatalf("added: %+v", served)
	}
	b := begun(t, dirB)
	got := added(t, b, api.Add{Ticket: served.Ticket, Priority: "high"})
	got = until(t, b, got.ID, "here", in(api.Served))
	same(t, filepath.Join(got.Path, "a", "f"), content)
	if got.Share != served.Share || got.Done == nil || got.Verified != int64(len(content)) || got.Priority != "high" {
		t.Errorf("fetched: %+v", got)
	}
	must(t, a.Close()) // from here on only b has it
	must(t, b.Close())
	b = begun(t, dirB)
	again := until(t, b, got.ID, "served again", in(api.Served))
	if again.Share != got.Share || !again.Done.Equal(*got.Done) {
		t.Errorf("after a restart: %+v", again)
	}
	c := begun(t, t.TempDir())
	third := added(t, c, api.Add{Ticket: again.Ticket})
	third = until(t, c, third.ID, "here", in(api.Served))
	same(t, filepath.Join(third.Path, "a", "f"), content)
}

// A client that waits until an entry is served may rely on it: the files are read once more, to be
// served from where they lie, but that is not another state.
func TestWhatHasArrivedStaysServed(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	a, b := begun(t, t.TempDir()), begun(t, t.TempDir())
	cursor := b.Feed().From("")
	got := added(t, b, api.Add{Ticket: added(t, a, api.Add{Paths: []string{file(t, large(4), t.TempDir(), "f")}}).Ticket})
	until(t, b, got.ID, "served from its place", func(e api.Entry) bool { return e.State == api.Served && len(b.node.Shares()) == 1 && e.Reason == "" })
	var states []string
	for e, ok, _, _ := cursor.Next(); ok; e, ok, _, _ = cursor.Next() {
		if e.Entry != nil && (len(states) == 0 || states[len(states)-1] != e.Entry.State) {
			states = append(states, e.Entry.State)
		}
	}
	if i := slices.Index(states, api.Served); i < 0 || i != len(states)-1 || slices.Contains(states, api.Opening) {
		t.Errorf("the states were %v", states)
	}
}

func TestAChangedFolderIsServedAsANewVersion(t *testing.T) {
	t.Parallel()
	src := t.TempDir()
	file(t, "one", src, "f")
	d := begun(t, t.TempDir())
	e := added(t, d, api.Add{Paths: []string{src}})
	if d.watch == nil {
		t.Skip("this system does not tell of changes")
	}
	file(t, "two, longer", src, "f")
	now := until(t, d, e.ID, "a new version", func(x api.Entry) bool { return x.State == api.Served && x.Share != e.Share })
	if len(now.Older) != 1 || now.Older[0] != e.Share || now.Bytes != 11 {
		t.Errorf("the new version: %+v", now)
	}
	if _, err := d.Add(t.Context(), api.Add{Ticket: e.Ticket}); !errors.Is(err, api.ErrRequest) {
		t.Errorf("the own ticket of the earlier version: %v", err)
	}
	// It also happens without the watch, if its owner asks for it.
	d.watch.close()
	d.watch = nil
	file(t, "three, longest", src, "f")
	_, err := d.Set(t.Context(), e.ID, api.Set{Rescan: true})
	must(t, err)
	until(t, d, e.ID, "another version", func(x api.Entry) bool { return x.State == api.Served && len(x.Older) == 2 })
}

// Whoever has the ticket of an earlier version is told that there is a newer one, over a restart too, and not which.
func TestAnOldTicketIsSaidToBeOld(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src, dir := t.TempDir(), t.TempDir()
	file(t, "one", src, "f")
	d := begun(t, dir)
	e := added(t, d, api.Add{Paths: []string{src}})
	file(t, "two, longer", src, "f")
	_, err := d.Set(t.Context(), e.ID, api.Set{Rescan: true})
	must(t, err)
	now := until(t, d, e.ID, "a new version", func(x api.Entry) bool { return x.State == api.Served && x.Share != e.Share })
	for range 2 {
		b := begun(t, t.TempDir())
		f := added(t, b, api.Add{Ticket: e.Share, Peers: d.node.Addrs()})
		f = until(t, b, f.ID, "told", func(x api.Entry) bool {
			return strings.Contains(x.Reason, "shares a newer version, which has a ticket of its own")
		})
		if strings.Contains(f.Reason, now.Share) {
			t.Errorf("it says which: %s", f.Reason)
		}
		must(t, d.Close())
		d = begun(t, dir)
		until(t, d, e.ID, "served", in(api.Served))
	}
}

func TestAPathThatVanishesIsAStateWithASentence(t *testing.T) {
	t.Parallel()
	src := t.TempDir()
	at := file(t, "one", src, "x", "f")
	dir := t.TempDir()
	d := begun(t, dir)
	e := added(t, d, api.Add{Paths: []string{filepath.Dir(at)}})
	must(t, d.Close())
	must(t, os.Rename(filepath.Dir(at), filepath.Join(src, "y")))
	d = begun(t, dir)
	gone := until(t, d, e.ID, "missing", in(api.Missing))
	if !strings.Contains(gone.Reason, "there is no file or folder "+filepath.Dir(at)) || gone.Ticket != "" {
		t.Errorf("missing: %+v", gone)
	}
	cursor, states := d.feed.From(""), []string{}
	if still := set(t, d, e.ID, api.Set{Rescan: true}); still.State != api.Missing {
		t.Errorf("looked at again: %+v", still)
	}
	for ev, ok, _, _ := cursor.Next(); ok; ev, ok, _, _ = cursor.Next() {
		states = append(states, ev.Entry.State)
	}
	if i := slices.Index(states, api.Opening); i < 0 || !slices.Contains(states[i:], api.Missing) {
		t.Errorf("the answer does not wait for what comes of it: %q", states)
	}
	must(t, os.Rename(filepath.Join(src, "y"), filepath.Dir(at)))
	_, err := d.Set(t.Context(), e.ID, api.Set{Rescan: true})
	must(t, err)
	back := until(t, d, e.ID, "back", func(e api.Entry) bool { return e.State == api.Served && e.Reason == "" })
	if back.Share != e.Share {
		t.Errorf("back: %+v", back)
	}
}

// What cannot be shared as it is is no path that is missing: its owner has to mend it, and it is served once that is done.
func TestAFolderThatCannotBeSharedAnyMoreHasFailed(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("names have no control characters here")
	}
	d := begun(t, t.TempDir())
	good := file(t, "x", t.TempDir(), "tree", "ab")
	bad := filepath.Join(filepath.Dir(good), "a\x01b")
	e := added(t, d, api.Add{Paths: []string{filepath.Dir(good)}})
	must(t, os.Rename(good, bad))
	_, err := d.Set(t.Context(), e.ID, api.Set{Rescan: true})
	must(t, err)
	if e = until(t, d, e.ID, "failed", in(api.Failed)); !strings.Contains(e.Reason, "control character") || !strings.Contains(e.Reason, "as soon as that is mended") {
		t.Errorf("%+v", e)
	}
	if _, err := d.Hold(t.Context(), api.Hold{Entry: e.ID, Depots: []string{"nowhere"}}); err == nil || !strings.Contains(err.Error(), "not whole here") || !strings.Contains(err.Error(), e.Reason) {
		t.Errorf("a hold of it: %v", err)
	}
	must(t, os.Rename(bad, good))
	until(t, d, e.ID, "served", in(api.Served))
}

// A fetched folder with a file that may not be read, and a socket, is served again as soon as both are mended.
func TestAFetchedFolderThatCannotBeSharedIsServedOnceMended(t *testing.T) {
	t.Parallel()
	if os.Getuid() <= 0 { // root reads all
		t.Skip("only for a user with a user ID that is not root")
	}
	_, ticket := photos(t)
	to := t.TempDir()
	d := begun(t, t.TempDir())
	if d.watch == nil {
		t.Skip("this system does not tell of changes")
	}
	e := until(t, d, added(t, d, api.Add{Ticket: ticket, Dir: to}).ID, "here", in(api.Served))
	shut := filepath.Join(to, "tree", "3")
	must(t, os.Chmod(shut, 0))
	must(t, aSocket(filepath.Join(to, "tree")))
	says := func(what, says string) {
		until(t, d, e.ID, what, func(e api.Entry) bool { return e.State == api.Missing && strings.HasSuffix(e.Reason, says) })
	}
	says("a socket", "as soon as that is mended")
	must(t, os.Remove(filepath.Join(to, "tree", "s")))
	says("unreadable", "Let that user read it, or remove the entry")
	must(t, os.Chmod(shut, 0o600))
	until(t, d, e.ID, "here again", in(api.Served))
}

// What cannot be shared from the start is not added: nothing of it is left.
func TestWhatCannotBeSharedIsNotAdded(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("names have no control characters here")
	}
	dir := t.TempDir()
	d := begun(t, dir)
	at, links := filepath.Dir(file(t, "x", t.TempDir(), "tree", "a\x01b")), filepath.Dir(file(t, "x", t.TempDir(), "links", "a"))
	must(t, os.Symlink("a", filepath.Join(links, "b")))
	for why, x := range map[string]struct {
		a     api.Add
		class error
	}{
		"control character":           {api.Add{Paths: []string{at}}, share.ErrPath},
		"so nothing is left to share": {api.Add{Paths: []string{at}, Exclude: []string{"*"}}, api.ErrRequest},
		"it is a device":              {api.Add{Paths: []string{os.DevNull}}, api.ErrRequest},
		"symlinks are refused":        {api.Add{Paths: []string{links}, Links: "refuse"}, api.ErrRequest},
	} {
		_, err := d.Add(t.Context(), x.a)
		if p := api.ProblemOf(err); (len(p.Unshared) == 0) != (len(x.a.Exclude) > 0) {
			t.Errorf("it lists %q", p.Unshared)
		}
		if !errors.Is(err, x.class) || !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), "not added") || strings.Contains(err.Error(), "as soon as that is mended") {
			t.Error(err)
		}
	}
	if all, err := d.Entries(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
	must(t, d.Close())
	if all, _ := begun(t, dir).Entries(t.Context()); len(all) != 0 {
		t.Errorf("after a restart: %+v", all)
	}
	if added(t, begun(t, t.TempDir()), api.Add{Paths: []string{at}, Exclude: []string{"a*"}, Paused: true}).State != api.Paused {
		t.Error("what is paused is not looked at")
	}
}

func TestAKeptShareThatIsEditedIsNotServedAndNotFetchedAgain(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	a := begun(t, t.TempDir())
	served := added(t, a, api.Add{Paths: []string{file(t, "content", t.TempDir(), "f")}})
	dir := t.TempDir()
	b := begun(t, dir)
	got := until(t, b, added(t, b, api.Add{Ticket: served.Ticket}).ID, "here", in(api.Served))
	must(t, b.Close())
	file(t, "edited!", got.Path)
	b = begun(t, dir)
	now := until(t, b, got.ID, "missing", in(api.Missing))
	if !strings.Contains(now.Reason, "changed after it was fetched") {
		t.Errorf("it says %q", now.Reason)
	}
	same(t, got.Path, "edited!")
}

func TestAKeptShareThatIsEditedWhileItIsServedIsNoticed(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	a, b := begun(t, t.TempDir()), begun(t, t.TempDir())
	if b.watch == nil {
		t.Skip("this system does not tell of changes")
	}
	served := added(t, a, api.Add{Paths: []string{file(t, "content", t.TempDir(), "f")}})
	got := until(t, b, added(t, b, api.Add{Ticket: served.Ticket}).ID, "served from its place", func(e api.Entry) bool { return e.State == api.Served && len(b.node.Shares()) == 1 && e.Reason == "" })
	file(t, "edited!", got.Path)
	until(t, b, got.ID, "missing", in(api.Missing))
	file(t, "content", got.Path)
	until(t, b, got.ID, "served again", in(api.Served))
}

func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	d := begun(t, t.TempDir())
	e := added(t, d, api.Add{Paths: []string{file(t, "content", t.TempDir(), "f")}})
	_, err := d.Set(t.Context(), e.ID, api.Set{Paused: &yes})
	must(t, err)
	p := until(t, d, e.ID, "paused", in(api.Paused))
	if p.Ticket != "" {
		t.Errorf("paused: %+v", p)
	}
	b := begun(t, t.TempDir())
	f := added(t, b, api.Add{Ticket: e.Share, Peers: d.node.Addrs()})
	until(t, b, f.ID, "waiting", func(x api.Entry) bool {
		return x.State == api.Waiting && strings.Contains(x.Reason, "; the fetch is tried again at 20") && x.Share == e.Share
	})
	_, err = d.Set(t.Context(), e.ID, api.Set{Paused: &no})
	must(t, err)
	until(t, d, e.ID, "served", in(api.Served))
	x, err := b.Set(t.Context(), f.ID, api.Set{Rescan: true})
	must(t, err)
	if strings.Contains(x.Reason, "tried again") {
		t.Errorf("asked to try at once: %+v", x)
	}
	until(t, b, f.ID, "here", in(api.Served))
}

func TestTwoEntriesWithTheSameContent(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	dir := t.TempDir()
	one, two := file(t, "content", dir, "1", "f"), file(t, "content", dir, "2", "f")
	d := begun(t, t.TempDir())
	a, b := added(t, d, api.Add{Paths: []string{one}}), added(t, d, api.Add{Paths: []string{two}})
	if a.Share != b.Share {
		t.Fatal("equal content, two shares")
	}
	until(t, d, b.ID, "served", in(api.Served))
	represented := func(e api.Entry) bool { return strings.Contains(e.Reason, "served for another entry") }
	until(t, d, a.ID, "represented, or the other", func(e api.Entry) bool {
		other, err := d.Entry(t.Context(), b.ID)
		must(t, err)
		if represented(other) {
			a, b = b, a
		}
		return represented(e) || represented(other)
	})
	_, err := d.Remove(t.Context(), b.ID, false)
	must(t, err)
	until(t, d, a.ID, "served", func(e api.Entry) bool { return e.State == api.Served && e.Reason == "" })
	c := begun(t, t.TempDir())
	f := added(t, c, api.Add{Ticket: a.Ticket})
	until(t, c, f.ID, "here", in(api.Served))
}

func TestWhatTheCatalogHasIsRefusedByName(t *testing.T) {
	t.Parallel()
	d := begun(t, t.TempDir())
	at := file(t, "content", t.TempDir(), "f")
	e := added(t, d, api.Add{Paths: []string{at}})
	_, err := d.Add(t.Context(), api.Add{Paths: []string{at + string(filepath.Separator)}})
	if !errors.Is(err, api.ErrHave) || !strings.HasSuffix(err.Error(), fmt.Sprint("entry ", e.ID)) {
		t.Errorf("the same path again: %v", err)
	}
	_, err = d.Add(t.Context(), api.Add{Paths: []string{at}, Exclude: []string{"*.o"}})
	if !errors.Is(err, api.ErrHave) || !strings.HasSuffix(err.Error(), "; to serve it with other options, remove it first") {
		t.Errorf("the same path with other files left out: %v", err)
	}
	for what, a := range map[string]api.Add{
		"nothing": {}, "not there": {Paths: []string{at + "x"}}, "relative": {Paths: []string{"f"}}, "no ticket": {Ticket: "x"},
		"no source": {Ticket: e.Share}, "priority": {Paths: []string{filepath.Dir(at)}, Priority: "x"}, "time": {Ticket: e.Ticket, SeedTime: "x"},
		"negative time": {Ticket: e.Ticket, SeedTime: "-1h"}, "ratio": {Ticket: e.Ticket, SeedRatio: -1},
	} {
		if _, err := d.Add(t.Context(), a); !errors.Is(err, api.ErrRequest) && !errors.Is(err, share.ErrPath) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if all, _ := d.Entries(t.Context()); len(all) != 1 {
		t.Errorf("%d entries", len(all))
	}
}

func TestAFetchThatCannotBeSaysSoAndWaitsForItsOwner(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	a := begun(t, t.TempDir())
	served := added(t, a, api.Add{Paths: []string{file(t, "content", t.TempDir(), "f")}})
	b := begun(t, t.TempDir())
	at := file(t, "another", b.setting().Into, "f")
	f := added(t, b, api.Add{Ticket: served.Ticket})
	failed := until(t, b, f.ID, "failed", in(api.Failed))
	if !strings.Contains(failed.Reason, "f") {
		t.Errorf("it says %q", failed.Reason)
	}
	must(t, os.Remove(at))
	_, err := b.Set(t.Context(), f.ID, api.Set{Rescan: true})
	must(t, err)
	until(t, b, f.ID, "here", in(api.Served))
}

func TestRemoveTakesOnlyWhatTheNodeMade(t *testing.T) {
	t.Parallel()
	src := t.TempDir()
	file(t, "one", src, "tree", "a", "1")
	file(t, "two", src, "tree", "a", "2")
	file(t, "three", src, "tree", "b", "3")
	a := begun(t, t.TempDir())
	served := added(t, a, api.Add{Paths: []string{filepath.Join(src, "tree")}})
	if _, err := a.Remove(t.Context(), served.ID, true); err == nil {
		t.Error("files that the node did not make were to be removed")
	}
	b := begun(t, t.TempDir())
	got := until(t, b, added(t, b, api.Add{Ticket: served.Ticket}).ID, "here", in(api.Served))
	file(t, "mine", got.Path, "a", "mine")
	file(t, "edited", got.Path, "a", "2")
	must(t, os.Mkdir(filepath.Join(got.Path, "empty"), 0o700))
	r, err := b.Remove(t.Context(), got.ID, true)
	must(t, err)
	if len(r.Data) != 2 || !strings.Contains(r.Kept, "stay") {
		t.Errorf("removed: %+v", r)
	}
	same(t, filepath.Join(got.Path, "a", "mine"), "mine")
	same(t, filepath.Join(got.Path, "a", "2"), "edited")
	for _, p := range []string{"a/1", "b"} {
		if _, err := os.Stat(filepath.Join(got.Path, p)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there: %v", p, err)
		}
	}
	if _, err := os.Stat(filepath.Join(got.Path, "empty")); err != nil {
		t.Errorf("an empty folder that the node did not make: %v", err)
	}
	if _, err := b.Entry(t.Context(), got.ID); !errors.Is(err, api.ErrNoEntry) {
		t.Errorf("it is still in the catalog: %v", err)
	}
}

// What was at its place before an entry was added belongs to the owner, even if it is exactly the
// share, or a part of it.
func TestRemoveLeavesWhatLayThereBefore(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src := t.TempDir()
	file(t, large(1), src, "tree", "big")
	file(t, "two", src, "tree", "small")
	a := begun(t, t.TempDir())
	served := added(t, a, api.Add{Paths: []string{filepath.Join(src, "tree")}})
	for _, repair := range []bool{false, true} {
		to := t.TempDir()
		file(t, large(1), to, "tree", "big")
		if !repair {
			file(t, "two", to, "tree", "small")
		}
		state := t.TempDir()
		b := begun(t, state)
		got := until(t, b, added(t, b, api.Add{Ticket: served.Ticket, Dir: to, Repair: repair}).ID, "here", in(api.Served))
		must(t, b.Close())
		b = begun(t, state) // and that is remembered
		r, err := b.Remove(t.Context(), got.ID, true)
		must(t, err)
		if len(r.Data) > 0 || !strings.Contains(r.Kept, "before") {
			t.Errorf("removed: %+v", r)
		}
		same(t, filepath.Join(to, "tree", "big"), large(1))
	}
}

func TestAPartOfAShareAndThenMore(t *testing.T) {
	t.Parallel()
	src := t.TempDir()
	file(t, "one", src, "tree", "1")
	file(t, "two", src, "tree", "2")
	a := begun(t, t.TempDir())
	served := added(t, a, api.Add{Paths: []string{filepath.Join(src, "tree")}})
	dir := t.TempDir()
	b := begun(t, dir)
	got := until(t, b, added(t, b, api.Add{Ticket: served.Ticket, Only: []string{"1"}}).ID, "here", in(api.Served))
	if _, err := os.Stat(filepath.Join(got.Path, "2")); err == nil {
		t.Error("what was not chosen was fetched")
	}
	other := begun(t, t.TempDir())
	none := until(t, other, added(t, other, api.Add{Ticket: served.Ticket, Only: []string{"nix"}}).ID, "of no file", in(api.Failed))
	if none.Name != "tree" || none.Code != "usage" || !strings.Contains(none.Reason, "nix") || other.all()[0].entry().Title != "" { // a Title says that some of it is the entry's own
		t.Errorf("an entry that selects nothing: %q, %s", none.Name, none.Reason)
	}
	if e, err := other.db.Get(t.Context(), other.all()[0].id); err != nil || newKeeper(other, e).view().Name != "tree" { // as after a restart
		t.Errorf("it will have the name %q, %v", newKeeper(other, e).view().Name, err)
	}
	must(t, b.Close())
	b = begun(t, dir)
	until(t, b, got.ID, "here again", in(api.Served))
	before := b.all()[0].entry()
	for what, s := range map[string]api.Set{"no such file": {Only: &[]string{"nix"}}, "all is left out": {Skip: &[]string{"**"}}} {
		if _, err := b.Set(t.Context(), got.ID, s); !errors.Is(err, fetcher.ErrNothingSelected) || !strings.HasSuffix(err.Error(), "; nothing was changed") || !reflect.DeepEqual(b.all()[0].entry(), before) {
			t.Errorf("%s: %v", what, err)
		}
	}
	all := []string{}
	_, err := b.Set(t.Context(), got.ID, api.Set{Only: &all})
	must(t, err)
	until(t, b, got.ID, "whole", func(e api.Entry) bool { return e.State == api.Served && e.Files == 2 })
	same(t, filepath.Join(got.Path, "2"), "two")
}

func TestFilesAreReadWhileTheyComeIn(t *testing.T) {
	t.Parallel()
	content := large(2)
	a := begun(t, t.TempDir(), func(c *Config) { c.Up = 1 << 20 })
	served := added(t, a, api.Add{Paths: []string{file(t, content, t.TempDir(), "f")}})
	b := begun(t, t.TempDir())
	e := added(t, b, api.Add{Ticket: served.Ticket})
	until(t, b, e.ID, "fetching", func(x api.Entry) bool { return x.State == api.Fetching && x.Files == 1 })
	read := func(from int64) string {
		f, err := b.OpenFile(t.Context(), e.ID, "f")
		must(t, err)
		defer f.Close()
		_, err = f.Seek(from, io.SeekStart)
		must(t, err)
		got, err := io.ReadAll(io.LimitReader(f, 100))
		must(t, err)
		return string(got)
	}
	if got := read(1 << 20); got != content[1<<20:1<<20+100] {
		t.Error("wrong bytes while it comes in")
	}
	until(t, b, e.ID, "here in part", func(x api.Entry) bool {
		p, err := b.Pieces(t.Context(), e.ID)
		if err != nil || p.Pieces < 2 || len(p.Map) != (p.Pieces+7)/8 {
			t.Errorf("of the pieces are here %+v, %v", p, err)
		}
		return p.Here > 0
	})
	until(t, b, e.ID, "here", in(api.Served))
	if p, err := b.Pieces(t.Context(), e.ID); err != nil || p.Here != p.Pieces {
		t.Errorf("of all pieces are here %+v, %v", p, err)
	}
	if got := read(2 << 20); got != content[2<<20:2<<20+100] {
		t.Error("wrong bytes when it is here")
	}
	for _, p := range []string{"../f", "/etc/passwd", "", "g", "f/", "./f"} {
		if _, err := b.OpenFile(t.Context(), e.ID, p); !errors.Is(err, api.ErrNoEntry) {
			t.Errorf("%q: %v", p, err)
		}
	}
}

// A file that was edited since it was read or fetched, and is of the same size, is not passed off as the share's.
func TestAnEditedFileIsNotRead(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	content := large(2)
	src := file(t, content, t.TempDir(), "f")
	a, b := begun(t, t.TempDir()), begun(t, t.TempDir())
	served := added(t, a, api.Add{Paths: []string{src}})
	got := until(t, b, added(t, b, api.Add{Ticket: served.Ticket}).ID, "here", in(api.Served))
	for _, x := range []struct {
		d    *Daemon
		id   int64
		path string
	}{{a, served.ID, src}, {b, got.ID, got.Path}} {
		f, err := x.d.OpenFile(t.Context(), x.id, "f")
		must(t, err)
		defer f.Close()
		file(t, strings.Replace(content, content[len(content)-6:], "edited", 1), filepath.Dir(x.path), "f")
		if read, err := io.ReadAll(f); !errors.Is(err, share.ErrChanged) || !strings.HasPrefix(content, string(read)) {
			t.Errorf("%s: %d bytes, of which some are not the share's: %v; %v", x.path, len(read), !strings.HasPrefix(content, string(read)), err)
		}
	}
}

func TestOneDaemonForAStateDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	keeps := func(c *Config) { c.Depot = filepath.Join(dir, "depot") }
	begun(t, dir, keeps)
	for _, s := range []Settings{{}, {Depot: filepath.Join(dir, "depot")}} {
		if _, err := Open(t.Context(), Config{Dir: dir, Settings: s}); !errors.Is(err, share.ErrHeld) || !strings.HasPrefix(err.Error(), "another fetcher is using the state directory "+dir) {
			t.Errorf("a second one, with %q as depot: %v", s.Depot, err)
		}
	}
}

// Nothing is made beside a file that is no socket: its folder may be shared.
func TestAFileWhereTheSocketIsToBeStaysAlone(t *testing.T) {
	t.Parallel()
	notes := file(t, "x", t.TempDir(), "notes.txt")
	d := begun(t, t.TempDir(), func(c *Config) { c.Socket = notes })
	if _, err := d.Listen(); err == nil || !strings.Contains(err.Error(), "is left alone") {
		t.Error(err)
	}
	if in, err := os.ReadDir(filepath.Dir(notes)); err != nil || len(in) != 1 {
		t.Errorf("%v, %v", in, err)
	}
}

func TestADamagedCatalogIsSaid(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	dir := t.TempDir()
	must(t, begun(t, dir).Close())
	db := filepath.Join(dir, "catalog.db")
	must(t, os.WriteFile(db, bytes.Repeat([]byte("x"), 9999), 0o600))
	os.Remove(db + "-wal") // if there still is one, it has the whole catalog
	s, err := begun(t, dir).Status(t.Context())
	if err != nil || len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], "catalog.db.bad-1") {
		t.Errorf("%q, %v", s.Warnings, err)
	}
}

// What cannot be shared stands under a heading that is true of all of it: only if nothing else is wrong is it put down to what
// the user of the node may not read.
func TestWhatOfAFolderIsLocked(t *testing.T) {
	shut, pipe, all := store.Problem{Path: "a", Err: fs.ErrPermission}, store.Problem{Path: "b", Err: errors.New("it is a pipe")}, store.Problem{Path: ".", Err: fs.ErrPermission}
	user := fmt.Sprintf("the user of the node, %q, ", userName())
	for name, x := range map[string]struct {
		bad  []store.Problem
		in   []string
		want string
		more bool
	}{
		"locked":    {[]store.Problem{shut}, []string{"/x"}, user + "is not allowed to read all of /x:\n  \"a\": permission denied", false},
		"both":      {[]store.Problem{shut, pipe}, []string{"/x"}, user + "cannot share all of /x:\n  \"a\": permission denied\n  \"b\": it is a pipe", true},
		"of two":    {[]store.Problem{shut, pipe}, []string{"/x", "/y"}, "x: cannot be shared:\n  \"a\": permission denied\n  \"b\": it is a pipe", true},
		"a pipe":    {[]store.Problem{pipe}, []string{"/x"}, "", false},
		"all of it": {[]store.Problem{all}, []string{"/x"}, "the path cannot be read by " + user[:len(user)-2] + ": x: cannot be shared:\n  \".\": permission denied", false},
	} {
		if why, more := unreadable(fmt.Errorf("x: %w", &store.ProblemsError{Problems: x.bad, Count: len(x.bad)}), x.in); why != x.want || more != x.more {
			t.Errorf("%s: %q, %v", name, why, more)
		}
	}
	if why, _ := unreadable(fs.ErrPermission, []string{"/x"}); !strings.HasPrefix(why, "the path cannot be read by ") {
		t.Error(why)
	}
}

// What is advised for what cannot be shared leaves something to be shared.
func TestWhatIsMendedIsServed(t *testing.T) {
	dir := t.TempDir()
	pipe := file(t, "", dir, "pipe")
	for says, x := range map[string]struct {
		err   error
		paths []string
	}{
		"add it again with fewer exclusions": {fetcher.ErrNothingSelected, []string{dir}},
		"Or remove the entry":                {share.ErrPath, []string{pipe}},
		"cannot be shared left out":          {share.ErrPath, []string{dir}},
		"and add it again with what":         {share.ErrPath, []string{pipe, dir}},
	} {
		if got := mended(x.err, x.paths); !strings.HasPrefix(got, ". The entry is served as soon as ") || !strings.Contains(got, says) || strings.HasSuffix(says, "remove the entry") && !strings.HasSuffix(got, says) {
			t.Errorf("%q does not say %q", got, says)
		}
	}
}

// A folder with files that the node may not read is not added, nor is a fetch into what is a file: a second try that
// is right finds nothing of the first.
func TestWhatTheNodeMayNotUseIsNotAdded(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	d := begun(t, t.TempDir())
	at := t.TempDir()
	one := file(t, "x", at, "tree", "open")
	ticket := added(t, begun(t, t.TempDir()), api.Add{Paths: []string{one}}).Ticket
	for _, dir := range []string{one, filepath.Join(one, "below")} {
		if _, err := d.Add(t.Context(), api.Add{Ticket: ticket, Dir: dir}); !errors.Is(err, api.ErrRequest) || !strings.Contains(err.Error(), one+" is not a folder") {
			t.Error(err)
		}
	}
	if os.Getuid() > 0 { // root reads all
		must(t, os.Chmod(file(t, "y", at, "tree", "shut"), 0))
		if _, err := d.Add(t.Context(), api.Add{Paths: []string{filepath.Dir(one)}}); !errors.Is(err, api.ErrRequest) || !strings.Contains(err.Error(), "not added: the user of the node, ") || strings.Contains(err.Error(), "remove the entry") {
			t.Error(err)
		}
		shut, below := t.TempDir(), t.TempDir()
		must(t, os.Mkdir(filepath.Join(shut, "empty"), 0o500))
		must(t, os.Chmod(below, 0))
		for _, dir := range []string{filepath.Join(shut, "empty"), filepath.Join(shut, "empty", "new"), filepath.Join(below, "x")} {
			if _, err := d.Add(t.Context(), api.Add{Ticket: ticket, Dir: dir}); !errors.Is(err, api.ErrRequest) || !strings.Contains(err.Error(), "may not write to "+shut) && !strings.Contains(err.Error(), "may not write to "+below) {
				t.Error(err)
			}
		}
		must(t, os.Chmod(shut, 0o500)) // what is there may be the share
		e := until(t, d, added(t, d, api.Add{Ticket: ticket, Dir: shut}).ID, "failed", in(api.Failed))
		if !strings.HasSuffix(e.Reason, " cannot be made: permission denied") {
			t.Error(e.Reason)
		}
		_, err := d.Remove(t.Context(), e.ID, false)
		must(t, err)
		must(t, os.Chmod(shut, 0o700))
		must(t, os.Chmod(below, 0o700))
	}
	if all, err := d.Entries(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
	added(t, d, api.Add{Paths: []string{filepath.Dir(one)}, Exclude: []string{"shut"}})
}
