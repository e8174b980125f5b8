package disk

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/storetest"
	"github.com/piecelease/fetcher/store/vfs"
)

// book is what a database knows about itself.
type book struct {
	is     Identity
	folder string
}

func (b *book) Meta(context.Context) (depot.Meta, error) {
	return depot.Meta{Depot: b.is.Depot, Self: b.is.Database, Folder: b.folder}, nil
}

func (b *book) SetIdentity(_ context.Context, depot, self string) error {
	b.is = Identity{depot, self}
	return nil
}

func (b *book) SetFolder(_ context.Context, folder string) error {
	b.folder = folder
	return nil
}

func open(dir string) *Root {
	n := 0
	return New(func() (vfs.FS, error) { return vfs.PrivateDir(dir) }, func() string { n++; return fmt.Sprint(filepath.Base(dir), "-", n) })
}

func ready(t *testing.T) (*Root, string) {
	t.Helper()
	dir := t.TempDir()
	r := open(dir)
	if err := r.Ready(t.Context(), &book{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r, dir
}

// writeWhole replaces the leases beside a share.
func writeWhole(r *Root, id share.ID, leases []depot.Promise) error {
	return r.Write([]depot.Promised{{Share: id, Leases: leases}})
}

func TestFolderIsTheDepotsOrIsLeftAlone(t *testing.T) {
	dir, b := t.TempDir(), &book{}
	r := open(dir)
	if err := r.Ready(t.Context(), b); err != nil || b.is.Depot == "" || b.is.Database == "" {
		t.Fatal(err, b.is)
	}
	first := b.is
	if err := open(dir).Ready(t.Context(), b); !errors.Is(err, share.ErrHeld) {
		t.Error("two processes have one folder:", err)
	}
	id := share.IDOf([]byte("x"))
	away := func(what string) {
		t.Helper()
		for name, err := range map[string]error{"ready": r.Ready(t.Context(), b), "write": writeWhole(r, id, nil), "remove": r.Remove(id), "sweep": r.Sweep(),
			"sources": r.SaveSources(id, "by", nil)} {
			if !errors.Is(err, ErrAway) {
				t.Errorf("%s, %s: %v", what, name, err)
			}
		}
		if _, err := r.Last(id); !errors.Is(err, ErrAway) {
			t.Errorf("%s: the leases beside a share are said to be known: %v", what, err)
		}
		if _, err := r.Look(id); !errors.Is(err, ErrAway) {
			t.Errorf("%s: %v", what, err)
		}
	}
	identity, kept := filepath.Join(dir, "depot"), filepath.Join(dir, "kept")
	os.Rename(identity, kept)
	for says, record := range map[string][]byte{
		"another depot's folder is in its place":         vfs.EncodeRecord(vfs.DepotRecord, []byte("another\nx")),
		"it belongs to the database of another node now": vfs.EncodeRecord(vfs.DepotRecord, []byte(first.Depot+"\nx")),
		"its identity cannot be read: ":                  nil,
	} {
		os.WriteFile(identity, record, 0o600)
		if _, err := r.Look(id); !errors.Is(err, ErrAway) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	os.Remove(identity)
	away("without an identity")
	os.WriteFile(identity, vfs.EncodeRecord(vfs.DepotRecord, []byte("another\nx")), 0o600)
	away("with another's")
	os.Rename(kept, identity)
	if err := r.Ready(t.Context(), b); err != nil || b.is != first {
		t.Error("it does not come back:", err, b.is)
	}
	r.Close()
	os.Rename(identity, kept)
	if err := r.Ready(t.Context(), b); !errors.Is(err, ErrAway) {
		t.Error(err)
	}
	if err := r.Ready(t.Context(), &book{}); !errors.Is(err, ErrAway) {
		t.Error("a new depot takes a folder with something in it:", err)
	}
	os.Rename(kept, identity)
	if err := r.Ready(t.Context(), &book{is: Identity{"other", "y"}}); !errors.Is(err, ErrAway) {
		t.Error("another depot takes it:", err)
	}
	lost := &book{}
	if err := r.Ready(t.Context(), lost); err != nil || lost.is.Depot != first.Depot || lost.is.Database == first.Database {
		t.Error("a new database of the same depot:", err, lost.is)
	}
	r.Close()
	old := &book{is: first}
	if err := r.Ready(t.Context(), old); err != nil || old.is.Database == first.Database || old.is.Database == lost.is.Database {
		t.Error("a database that was not the last keeps its name, and is taken for complete:", err, old.is)
	}
	r.Close()
}

// A folder in which the lock cannot be made cannot be used, and no other process has it.
func TestALockThatCannotBeMade(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "lock"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := open(dir).Ready(t.Context(), &book{}); !errors.Is(err, ErrAway) || errors.Is(err, share.ErrHeld) {
		t.Error(err)
	}
}

func TestLeasesAndSourcesLieBesideAShare(t *testing.T) {
	r, dir := ready(t)
	id := share.IDOf([]byte("x"))
	if last, err := r.Last(id); err != nil || !last.IsZero() {
		t.Error(last, err)
	}
	want := []depot.Promise{{Account: "a", Expires: time.Unix(5, 0)}, {Account: "b é", Expires: time.Unix(1<<33, 0)}}
	if err := writeWhole(r, id, want); err != nil {
		t.Fatal(err)
	}
	if got, err := r.Promises(id); err != nil || !slices.Equal(got, want) {
		t.Error(got, err)
	}
	if last, err := r.Last(id); err != nil || last.Unix() != 1<<33 {
		t.Error(last, err)
	}
	from := []peers.Addr{{ID: "p", Addrs: []string{"/ip4/192.0.2.1/tcp/1"}}}
	if err := r.SaveSources(id, "by", from); err != nil {
		t.Fatal(err)
	}
	if got := r.Sources(id); len(got) != 1 || got[0].ID != "p" || !slices.Equal(got[0].Addrs, from[0].Addrs) {
		t.Error(got)
	}
	at := filepath.Join(dir, filepath.FromSlash(Folder(id)), "leases")
	b, err := os.ReadFile(at)
	if err != nil {
		t.Fatal(err)
	}
	for i := range b { // bit rot must not end a lease
		b[i] ^= 1
		os.WriteFile(at, b, 0o600)
		if last, err := r.Last(id); err == nil {
			t.Fatalf("byte %d is damaged, and the last lease ends at %v", i, last)
		}
		b[i] ^= 1
	}
}

func TestSharesAreWalkedInTheOrderOfTheirIDs(t *testing.T) {
	r, dir := ready(t)
	var want []share.ID
	for i := range rig.Most(300, 100) {
		id := share.IDOf(binary.AppendVarint(nil, int64(i)))
		if err := writeWhole(r, id, nil); err != nil {
			t.Fatal(err)
		}
		want = append(want, id)
	}
	os.MkdirAll(filepath.Join(dir, "shares", "00", "no share"), 0o755)
	os.MkdirAll(filepath.Join(dir, "shares", shard(want[0]), want[1].String()), 0o755) // at the wrong place, unless by chance
	slices.SortFunc(want, share.ID.Compare)
	var got []share.ID
	for at := (share.ID{}); ; at = got[len(got)-1] {
		next, err := r.After(at)
		if err != nil {
			t.Fatal(err)
		}
		if len(next) == 0 {
			break
		}
		got = append(got, next[:(len(next)+1)/2]...) // from the middle of a folder too
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d shares, want %d", len(got), len(want))
	}
}

// kept puts a share into the folder, as if it had been fetched.
func kept(t *testing.T, r *Root, dir string) (*share.Manifest, string) {
	t.Helper()
	src := filepath.Join(t.TempDir(), "x")
	os.MkdirAll(filepath.Join(src, "d"), 0o755)
	big := make([]byte, 3<<20+5)
	for i := range big {
		big[i] = byte(i % 251)
	}
	os.WriteFile(filepath.Join(src, "a"), big, 0o644)
	os.WriteFile(filepath.Join(src, "d", "b"), []byte("hello"), 0o644)
	imp, err := store.Import(t.Context(), src, store.ImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	imp.Tree.Close()
	m := imp.Manifest
	if err := writeWhole(r, m.ID(), nil); err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(dir, filepath.FromSlash(Folder(m.ID())))
	os.WriteFile(filepath.Join(at, "manifest"), m.Bytes(), 0o600)
	if err := os.CopyFS(filepath.Join(at, "data", "x"), os.DirFS(src)); err != nil {
		t.Fatal(err)
	}
	return m, at
}

func TestDamageIsFoundWhereItIs(t *testing.T) {
	r, dir := ready(t)
	m, at := kept(t, r, dir)
	scrub := func() (bad []share.Piece) {
		t.Helper()
		set := share.NewSet(m.Layout().Pieces())
		for p := share.Piece(0); int(p) < m.Layout().Pieces(); {
			next, err := r.Scrub(m, p, set, func(int) bool { return true })
			if err != nil || next != p+1 {
				t.Fatal(p, next, err)
			}
			p = next
		}
		return slices.Collect(set.All())
	}
	if seen, err := r.Look(m.ID()); err != nil || !seen.Whole || seen.Bad.Count() != 0 || seen.Manifest.ID() != m.ID() {
		t.Errorf("%+v, %v", seen, err)
	}
	if bad := scrub(); len(bad) != 0 {
		t.Error(bad)
	}
	tree, err := r.Tree(m.ID())
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	buf := make([]byte, 1<<20)
	if _, err := tree.ReadRun(0, 0, 4, buf); err != nil {
		t.Error(err)
	}
	b, _ := os.ReadFile(filepath.Join(at, "data", "x", "a"))
	b[2<<20+7] ^= 1
	info, _ := os.Stat(filepath.Join(at, "data", "x", "a"))
	f, _ := os.OpenFile(filepath.Join(at, "data", "x", "a"), os.O_WRONLY, 0)
	f.WriteAt(b[2<<20:2<<20+8], 2<<20)
	f.Close()
	os.Chtimes(filepath.Join(at, "data", "x", "a"), info.ModTime(), info.ModTime()) // bits rot without a trace
	if bad := scrub(); !slices.Equal(bad, []share.Piece{2}) {
		t.Error(bad)
	}
	if _, err := tree.ReadRun(2, 0, 1, buf); !errors.Is(err, share.ErrChanged) {
		t.Error("what rotted is served:", err)
	}
	if _, err := tree.ReadRun(1, 0, 1, buf); err != nil {
		t.Error(err)
	}
	os.Truncate(filepath.Join(at, "data", "x", "d", "b"), 2)
	if seen, err := r.Look(m.ID()); err != nil || !seen.Whole || !slices.Equal(slices.Collect(seen.Bad.All()), []share.Piece{4}) {
		t.Errorf("%+v, %v", seen, err)
	}
	os.RemoveAll(filepath.Join(at, "data", "x"))
	if seen, err := r.Look(m.ID()); err != nil || seen.Whole || seen.Bad.Count() != 5 {
		t.Errorf("%+v, %v", seen, err)
	}
	if bad := scrub(); len(bad) != 5 {
		t.Error(bad)
	}
	os.WriteFile(filepath.Join(at, "manifest"), []byte("rot"), 0o600)
	if seen, err := r.Look(m.ID()); err != nil || seen.Manifest != nil {
		t.Errorf("%+v, %v", seen, err)
	}
}

// A crash in the first write of a lease leaves a folder with nothing in it, which is no share.
func TestAnEmptyFolderIsNoShare(t *testing.T) {
	r, dir := ready(t)
	id := share.IDOf([]byte("x"))
	at := filepath.Join(dir, filepath.FromSlash(Folder(id)))
	os.MkdirAll(at, 0o755)
	os.WriteFile(filepath.Join(at, "leases.new"), []byte("half"), 0o600)
	if seen, err := r.Look(id); err != nil || !seen.Gone {
		t.Errorf("%+v, %v", seen, err)
	}
	os.MkdirAll(filepath.Join(at, "data"), 0o755)
	if seen, err := r.Look(id); err != nil || seen.Gone {
		t.Errorf("with data in it: %+v, %v", seen, err)
	}
}

func TestRemovedIsSeenToBeGone(t *testing.T) {
	r, dir := ready(t)
	id := share.IDOf([]byte("x"))
	if err := writeWhole(r, id, nil); err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(dir, filepath.FromSlash(Folder(id)))
	os.MkdirAll(filepath.Join(at, "data", "x", "deep"), 0o755)
	os.WriteFile(filepath.Join(at, "data", "x", "deep", "file"), []byte("1"), 0o600)
	os.Symlink("/etc", filepath.Join(at, "data", "x", "link"))
	os.MkdirAll(filepath.Join(dir, "going", id.String(), "left"), 0o755) // left by a kill
	for range 2 {
		if err := r.Remove(id); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []string{at, filepath.Join(dir, "going", id.String())} {
		if _, err := os.Lstat(p); !errors.Is(err, os.ErrNotExist) {
			t.Error(p, err)
		}
	}
	if _, err := os.Stat("/etc"); err != nil {
		t.Error(err)
	}
}

func FuzzParseLeases(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 'a'})
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := parseLeases(b)
		if err != nil {
			return
		}
		if again := encodeLeases(all); string(again) != string(b) {
			t.Fatalf("%x is read as %x", b, again)
		}
	})
}

// A lease that was written is there after a power cut, even if an earlier attempt was
// interrupted anywhere: the share's folder may exist without being durable.
func TestALeaseSurvivesThePowerWhateverFailedBefore(t *testing.T) {
	for whole, at := false, 0; !whole; at++ {
		for seed := range uint64(8) {
			whole = leaseAfterFailure(t, at, seed)
		}
	}
}

// leaseAfterFailure writes a lease, where everything from change number at on fails, writes it
// again, and cuts the power. whole says that the first attempt succeeded.
func leaseAfterFailure(t *testing.T, at int, seed uint64) (whole bool) {
	id, until := share.IDOf([]byte("x")), time.Unix(1e9, 0)
	disk, b, names := storetest.New(1<<20), &book{}, 0
	begin := func() *Root {
		r := New(func() (vfs.FS, error) { return disk.FS(), nil }, func() string { names++; return fmt.Sprint("d", names) })
		if err := r.Ready(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		return r
	}
	r, n := begin(), 0
	disk.Fault = func(op storetest.Op) error {
		if op.Changes() {
			if n++; n > at {
				return errors.New("broken")
			}
		}
		return nil
	}
	promise := []depot.Promise{{Account: "a", Expires: until}}
	whole = writeWhole(r, id, promise) == nil
	disk.Fault = nil
	if err := writeWhole(r, id, promise); err != nil {
		t.Fatal(err)
	}
	disk.CutPower()
	r.Close()
	disk.Restart(seed)
	r = begin()
	defer r.Close()
	if last, err := r.Last(id); err != nil || !last.Equal(until) {
		t.Errorf("a try failed at its change %d; after a power cut, seed %d: %v, %v", at, seed, last, err)
	}
	return whole
}

// A share that was removed does not come back after a power cut, even if an earlier process
// was killed anywhere while removing it.
func TestWhatWasRemovedStaysGoneWhateverFailedBefore(t *testing.T) {
	for _, sweeps := range []bool{false, true} {
		for whole, at := false, 0; !whole; at++ {
			for seed := range uint64(8) {
				whole = removedAfterKill(t, at, seed, sweeps)
			}
		}
	}
}

func removedAfterKill(t *testing.T, at int, seed uint64, sweeps bool) (whole bool) {
	id := share.IDOf([]byte("x"))
	disk, b, names := storetest.New(1<<20), &book{}, 0
	begin := func() *Root {
		r := New(func() (vfs.FS, error) { return disk.FS(), nil }, func() string { names++; return fmt.Sprint("d", names) })
		if err := r.Ready(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		return r
	}
	r, n := begin(), 0
	if err := errors.Join(writeWhole(r, id, []depot.Promise{{Account: "a", Expires: time.Unix(1e9, 0)}}), disk.FS().SyncAll()); err != nil {
		t.Fatal(err)
	}
	disk.Fault = func(op storetest.Op) error {
		if op.Changes() {
			if n++; n > at {
				return storetest.ErrPower
			}
		}
		return nil
	}
	whole = r.Remove(id) == nil
	disk.Fault = nil
	disk.Kill()
	r.Close()
	r = begin()
	if sweeps {
		if err := r.Sweep(); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Remove(id); err != nil {
		t.Fatal(err)
	}
	disk.CutPower()
	r.Close()
	disk.Restart(seed)
	r = begin()
	defer r.Close()
	if _, err := disk.FS().Lstat(Folder(id)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("killed at change %d; after a power cut, seed %d, swept %v, it is there again: %v", at, seed, sweeps, err)
	}
	return whole
}
