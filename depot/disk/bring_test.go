package disk

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/storetest"
	"github.com/piecelease/fetcher/store/vfs"
)

// small is a share of one file.
func small(t *testing.T) (*share.Manifest, []byte) {
	t.Helper()
	content := bytes.Repeat([]byte("film"), 1000)
	_, v := share.HashPiece(nil, content, 0, true)
	m, err := share.NewManifest("film", []share.Entry{{Path: "film", Size: int64(len(content)), Root: share.FileRoot([]share.Hash{v}), PieceExp: share.PieceExp(int64(len(content)))}})
	if err != nil {
		t.Fatal(err)
	}
	return m, content
}

// from reads the pieces of small.
func from(content []byte) func(share.Piece, []byte) ([]share.Hash, error) {
	return func(_ share.Piece, buf []byte) ([]share.Hash, error) {
		copy(buf, content)
		values, _ := share.HashPiece(nil, buf, 0, true)
		return values, nil
	}
}

var errCut = errors.New("cut")

// A share is brought whole, with its leases, or not at all: whatever fails, and also after a power cut
// right afterwards.
func TestAShareIsBroughtWholeOrNotAtAll(t *testing.T) {
	for whole, at := false, 0; !whole; at++ {
		for seed := range uint64(4) {
			whole = brought(t, at, seed)
		}
	}
}

// brought brings a share while everything from change number at on fails, and cuts the power. whole says that
// nothing failed.
func brought(t *testing.T, at int, seed uint64) (whole bool) {
	m, content := small(t)
	promise := []depot.Promise{{Account: "a", Expires: time.Unix(1e9, 0)}}
	disk, b, names := storetest.New(1<<20), &book{}, 0
	begin := func() *Root {
		r := New(func() (vfs.FS, error) { return disk.FS(), nil }, func() string { names++; return fmt.Sprint("d", names) })
		r.Workers = 1
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
	err := r.Bring(t.Context(), m, promise, from(content))
	disk.Fault = nil
	disk.CutPower()
	r.Close()
	disk.Restart(seed)
	r = begin()
	defer r.Close()
	is := func() bool {
		t.Helper()
		absent, err2 := r.Absent(m.ID())
		seen, err3 := r.Look(m.ID())
		if good := seen.Whole && seen.Bad.Count() == 0 && len(seen.Leases) == 1; err2 != nil || err3 != nil || good == absent {
			t.Fatalf("fault %d, seed %d: absent %v, %+v, %v, %v", at, seed, absent, seen, err2, err3)
		}
		return !absent
	}
	if here := is(); err == nil && !here {
		t.Fatalf("fault %d, seed %d: what was brought is lost", at, seed)
	} else if !here {
		if err := r.Bring(t.Context(), m, promise, from(content)); err != nil || !is() {
			t.Fatalf("fault %d, seed %d, again: %v", at, seed, err)
		}
	}
	if err := r.Sweep(); err != nil {
		t.Fatal(err)
	}
	if _, err := disk.FS().Lstat("bringing"); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("fault %d, seed %d: something is left: %v", at, seed, err)
	}
	return err == nil
}

func TestABroughtShareTakesNoPlace(t *testing.T) {
	r, dir := ready(t)
	m, _ := small(t)
	cut := func(share.Piece, []byte) ([]share.Hash, error) { return nil, errCut }
	if err := r.Bring(t.Context(), m, nil, cut); !errors.Is(err, errCut) {
		t.Error(err)
	}
	if absent, err := r.Absent(m.ID()); err != nil || !absent {
		t.Error("a part of it is here:", err)
	}
	promise := []depot.Promise{{Account: "holder", Expires: time.Unix(1e9, 0)}}
	if err := writeWhole(r, m.ID(), promise); err != nil {
		t.Fatal(err)
	}
	if err := r.Bring(t.Context(), m, nil, cut); !errors.Is(err, errCut) {
		t.Error(err)
	}
	if got, err := r.Promises(m.ID()); err != nil || len(got) != 1 {
		t.Error("the leases of a share that is held are lost:", got, err)
	}
	if err := vfs.EnsureDir(r.dir, "bringing"); err != nil {
		t.Fatal(err)
	}
	r.bring.Lock() // one is under way
	err := r.Sweep()
	r.bring.Unlock()
	if _, err2 := r.dir.Lstat("bringing"); err != nil || err2 != nil {
		t.Error("what is being brought was swept away:", err, err2, dir)
	}
}

// What is brought is booked beforehand: nobody else is promised its room meanwhile. On a disk that is full in the
// middle nothing is left of it, and it can be brought once there is room.
func TestWhatIsBroughtHasItsRoom(t *testing.T) {
	m, content := small(t)
	disk := storetest.New(1 << 20)
	r := New(func() (vfs.FS, error) { return disk.FS(), nil }, func() string { return "d" })
	r.Workers = 1
	if err := r.Ready(t.Context(), &book{}); err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	free := func() int64 {
		t.Helper()
		n, err := r.Free()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before, full := free(), true
	disk.Fault = func(op storetest.Op) error {
		if full && op.Kind == "write" && op.Name != "" && strings.Contains(op.Name, "/data/") {
			return fmt.Errorf("no room: %w", share.ErrDiskFull)
		}
		return nil
	}
	read := func(p share.Piece, buf []byte) ([]share.Hash, error) {
		if n := free(); n > before-int64(len(content)) {
			t.Errorf("%d bytes are free for others, of %d, while %d are coming", n, before, len(content))
		}
		return from(content)(p, buf)
	}
	if err := r.Bring(t.Context(), m, nil, read); !errors.Is(err, share.ErrDiskFull) {
		t.Fatal(err)
	}
	if absent, err := r.Absent(m.ID()); err != nil || !absent {
		t.Error("a part of it is here:", err)
	}
	if n := free(); n <= before-int64(len(content)) {
		t.Errorf("%d bytes are free, of %d, when nothing comes any more", n, before)
	}
	full = false
	if err := r.Bring(t.Context(), m, nil, read); err != nil {
		t.Fatal(err)
	}
	if is, err := r.Look(m.ID()); err != nil || !is.Whole || is.Bad.Count() != 0 {
		t.Error(is, err)
	}
}

// A share that has a place already, or gets one while it is brought, keeps its leases and gets what it lacks; after
// a fault and a power cut they are still there, and it can be brought again.
func TestAShareThatHasAPlaceIsBrought(t *testing.T) {
	m, content := small(t)
	id := m.ID()
	promise := []depot.Promise{{Account: "holder", Expires: time.Unix(1e9, 0)}}
	held := func(r *Root) error { return writeWhole(r, id, promise) }
	for what, has := range map[string]struct{ before, meanwhile func(r *Root) error }{
		"held":           {before: held},
		"held meanwhile": {meanwhile: held},
		"cut": {before: func(r *Root) error {
			if err := errors.Join(r.Bring(t.Context(), m, promise, from(content)), held(r)); err != nil {
				return err
			}
			return vfs.WriteFile(r.dir, Folder(id)+"/data/film", Folder(id)+"/data/new", content[:9], true)
		}},
	} {
		t.Run(what, func(t *testing.T) {
			for broken, at := true, 0; broken; at++ {
				disk, b, names := storetest.New(1<<20), &book{}, 0
				begin := func() *Root {
					r := New(func() (vfs.FS, error) { return disk.FS(), nil }, func() string { names++; return fmt.Sprint("d", names) })
					r.Workers = 1
					if err := r.Ready(t.Context(), b); err != nil {
						t.Fatal(err)
					}
					return r
				}
				r, n := begin(), 0
				if has.before != nil {
					if err := has.before(r); err != nil {
						t.Fatal(err)
					}
				}
				held := has.before != nil
				fault := func(op storetest.Op) error {
					if op.Changes() {
						if n++; n > at {
							return errors.New("broken")
						}
					}
					return nil
				}
				disk.Fault = fault
				err := r.Bring(t.Context(), m, promise[:0], func(p share.Piece, buf []byte) ([]share.Hash, error) {
					if !held && has.meanwhile != nil {
						disk.Fault = nil
						if err := has.meanwhile(r); err != nil {
							t.Fatal(err)
						}
						held, disk.Fault = true, fault
					}
					return from(content)(p, buf)
				})
				broken, disk.Fault = err != nil, nil
				disk.CutPower()
				r.Close()
				disk.Restart(uint64(at))
				r = begin()
				for again := false; ; again = true {
					seen, err := r.Look(id)
					if err != nil || held && len(seen.Leases) != 1 {
						t.Fatalf("fault %d: %+v, %v", at, seen, err)
					}
					whole := seen.Manifest != nil && seen.Whole && seen.Bad.Count() == 0
					if whole {
						break
					}
					if !broken || again {
						t.Fatalf("fault %d: what was brought is not here: %+v", at, seen)
					}
					if err := r.Bring(t.Context(), m, promise, from(content)); err != nil {
						t.Fatalf("fault %d, again: %v", at, err)
					}
				}
				r.Close()
			}
		})
	}
}

// A share that is being fetched, or begins to be while it is brought, is left to that.
func TestAShareThatIsFetchedIsNotBrought(t *testing.T) {
	r, _ := ready(t)
	m, content := small(t)
	var p io.Closer
	begin := func() {
		var err error
		if p, err = r.Open(t.Context(), m, nil); err != nil {
			t.Fatal(err)
		}
	}
	err := r.Bring(t.Context(), m, nil, func(piece share.Piece, buf []byte) ([]share.Hash, error) {
		begin()
		return from(content)(piece, buf)
	})
	if !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
	if err := r.Bring(t.Context(), m, nil, from(content)); !errors.Is(err, share.ErrHeld) {
		t.Error(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.Bring(t.Context(), m, nil, from(content)); err != nil {
		t.Error(err)
	}
}
