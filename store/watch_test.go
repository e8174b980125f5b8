package store_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	testrig "github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/storetest"
	"github.com/piecelease/fetcher/store/vfs"
)

// These tests are about files of NAME.partial that somebody else changes.

// begun is a share of two files of four pieces and one of one piece; the first three
// pieces of the large files and the small one are fetched, into a folder of this machine.
func begun(t *testing.T) (im *store.Imported, dir string) {
	t.Helper()
	src, dir := filepath.Join(t.TempDir(), "stuff"), t.TempDir()
	tree{"a": random(4 * share.MinPiece), "b": random(4 * share.MinPiece), "small": random(1000)}.make(t, src)
	im = importDir(t, src, store.ImportOptions{})
	p := openPart(t, dir, im.Manifest, store.PartialOptions{})
	for _, piece := range []share.Piece{0, 1, 2, 4, 5, 6, 8} {
		if err := copyPiece(p, im.Tree, piece, 16); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	return im, dir
}

// edit changes four bytes of a file in place.
func edit(t testing.TB, name string, at int64) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 4)
	if _, err := f.ReadAt(b, at); err != nil {
		t.Fatal(err)
	}
	for i := range b {
		b[i]++
	}
	if _, err := f.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
}

// endWell fetches what is missing, and again what turns out to be lost, until the
// share is at its target with the right bytes.
func endWell(t testing.TB, dir string, im *store.Imported, src string) {
	t.Helper()
	for range 4 {
		p := openPart(t, dir, im.Manifest, store.PartialOptions{})
		copyAll(t, p, im.Tree)
		at, err := p.Finish(context.Background())
		if err == nil {
			sameOnDisk(t, at, src)
			return
		}
		if !errors.As(err, new(*store.SyncError)) {
			t.Fatal(err)
		}
		p.Close()
	}
	t.Fatal("no end")
}

// Whatever somebody does to a file between two runs, the wrong parts are fetched again,
// the right ones are not, and only that file is hashed.
func TestFilesTouchedBetweenTwoRunsAreHashedAgain(t *testing.T) {
	testrig.Slow(t)
	needsChangeTimes(t)
	const file = 3 * share.MinPiece
	for what, c := range map[string]struct {
		touch  func(t *testing.T, name string)
		lost   []share.Piece
		hashed int64
	}{
		"nothing":            {func(*testing.T, string) {}, nil, 0},
		"edited":             {func(t *testing.T, name string) { edit(t, name, share.MinPiece+10) }, []share.Piece{1}, file},
		"edited, time back":  {func(t *testing.T, name string) { editBack(t, name, share.MinPiece+10) }, []share.Piece{1}, file},
		"edited twice":       {func(t *testing.T, name string) { edit(t, name, 10); edit(t, name, 2*share.MinPiece) }, []share.Piece{0, 2}, file},
		"edited beyond":      {func(t *testing.T, name string) { write(t, name, 3*share.MinPiece+5, "what is not fetched") }, nil, file},
		"permissions":        {func(t *testing.T, name string) { check(t, os.Chmod(name, 0o640)) }, nil, file},
		"cut":                {func(t *testing.T, name string) { check(t, os.Truncate(name, share.MinPiece+5)) }, []share.Piece{1, 2}, share.MinPiece},
		"cut and grown":      {func(t *testing.T, name string) { cutAndGrow(t, name) }, []share.Piece{1, 2}, file},
		"replaced by a copy": {func(t *testing.T, name string) { replace(t, name, nil) }, nil, file},
		"replaced by an edited copy": {func(t *testing.T, name string) {
			replace(t, name, func(b []byte) { b[5]++ })
		}, []share.Piece{0}, file},
		"replaced by another file": {func(t *testing.T, name string) { replace(t, name, func(b []byte) { copy(b, random(len(b))) }) }, []share.Piece{0, 1, 2}, file},
		"removed":                  {func(t *testing.T, name string) { check(t, os.Remove(name)) }, []share.Piece{0, 1, 2}, 0},
		"a folder":                 {func(t *testing.T, name string) { check(t, errors.Join(os.Remove(name), os.Mkdir(name, 0o777))) }, []share.Piece{0, 1, 2}, 0},
		"a link": {func(t *testing.T, name string) {
			check(t, errors.Join(os.Rename(name, name+".mine"), os.Symlink(filepath.Base(name)+".mine", name)))
		}, []share.Piece{0, 1, 2}, 0},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			im, dir := begun(t)
			name := filepath.Join(dir, "stuff.partial", "data", "a")
			c.touch(t, name)
			p := openPart(t, dir, im.Manifest, store.PartialOptions{})
			want := share.NewSet(9)
			for _, piece := range []share.Piece{0, 1, 2, 4, 5, 6, 8} {
				if !slices.Contains(c.lost, piece) {
					want.Add(piece)
				}
			}
			if got := p.Verified(); got.Count() != want.Count() || want.Minus(got).Count() > 0 {
				t.Errorf("verified %v, want %v", slices.Collect(got.All()), slices.Collect(want.All()))
			}
			if got := store.HashedAgain(p); got != c.hashed {
				t.Errorf("%d bytes hashed again, want %d", got, c.hashed)
			}
			check(t, p.Close())
			p = openPart(t, dir, im.Manifest, store.PartialOptions{})
			if got := store.HashedAgain(p); got != 0 {
				t.Errorf("%d bytes hashed once more", got)
			}
			check(t, p.Close())
			os.Remove(name + ".mine")
			_, err := os.Lstat(filepath.Join(dir, "stuff.partial", "others", "1", "a"))
			if foreign := what == "replaced by another file" || what == "a folder" || what == "a link"; foreign != (err == nil) {
				t.Error("moved aside:", err)
			}
			endWell(t, dir, im, im.Tree.Path())
		})
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t testing.TB, name string, at int64, what string) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	check(t, err)
	defer f.Close()
	_, err = f.WriteAt([]byte(what), at)
	check(t, err)
}

func cutAndGrow(t testing.TB, name string) {
	t.Helper()
	check(t, errors.Join(os.Truncate(name, share.MinPiece+5), os.Truncate(name, 3*share.MinPiece)))
}

// replace puts a copy of a file in its place, changed if change is given.
func replace(t testing.TB, name string, change func([]byte)) {
	t.Helper()
	b, err := os.ReadFile(name)
	check(t, err)
	if change != nil {
		change(b)
	}
	check(t, errors.Join(os.WriteFile(name+".new", b, 0o666), os.Rename(name+".new", name)))
}

// The same during a fetch: at the end the bytes are right, and nothing is fetched again
// without need.
func TestFilesTouchedDuringAFetchAreHashedBeforeTheEnd(t *testing.T) {
	testrig.Slow(t)
	needsChangeTimes(t)
	for what, c := range map[string]struct {
		touch func(t *testing.T, name string)
		lost  []share.Piece // nil: nothing
	}{
		"edited":            {func(t *testing.T, name string) { edit(t, name, share.MinPiece+10) }, []share.Piece{1}},
		"edited, time back": {func(t *testing.T, name string) { editBack(t, name, share.MinPiece+10) }, []share.Piece{1}},
		"permissions":       {func(t *testing.T, name string) { check(t, os.Chmod(name, 0o640)) }, nil},
		"linked":            {func(t *testing.T, name string) { check(t, os.Link(name, name+".link")) }, nil},
	} {
		for when, before := range map[string]share.Piece{"early": 3, "late": 9, "after a sync": 9} {
			t.Run(what+" "+when, func(t *testing.T) {
				t.Parallel()
				src, dir := filepath.Join(t.TempDir(), "stuff"), t.TempDir()
				tree{"a": random(4 * share.MinPiece), "b": random(4 * share.MinPiece), "small": random(1000)}.make(t, src)
				im := importDir(t, src, store.ImportOptions{})
				p := openPart(t, dir, im.Manifest, store.PartialOptions{})
				name := filepath.Join(dir, "stuff.partial", "data", "a")
				for piece := range share.Piece(9) {
					if piece == before {
						c.touch(t, name)
					}
					check(t, copyPiece(p, im.Tree, piece, 16))
				}
				if when == "after a sync" {
					_, err := p.Sync()
					check(t, err)
				}
				if before == 9 {
					c.touch(t, name)
				}
				os.Remove(name + ".link")
				_, err := p.Finish(context.Background())
				var lost *store.SyncError
				if errors.As(err, &lost) != (c.lost != nil) || lost != nil && !slices.Equal(lost.Lost, c.lost) || lost == nil && err != nil {
					t.Fatalf("%v, want %v to be lost", err, c.lost)
				}
				if lost != nil {
					copyAll(t, p, im.Tree)
					_, err = p.Finish(context.Background())
				}
				check(t, err)
				sameOnDisk(t, filepath.Join(dir, "stuff"), src)
			})
		}
	}
}

// However many small files somebody touches, they are hashed together before the end.
func TestManyFilesMayBeTouchedDuringAFetch(t *testing.T) {
	needsChangeTimes(t)
	src, dir := filepath.Join(t.TempDir(), "stuff"), t.TempDir()
	names := []string{"a", "b", "c", "d", "e", "f"}
	files := tree{}
	for _, name := range names {
		files[name] = random(1000)
	}
	files.make(t, src)
	im := importDir(t, src, store.ImportOptions{})
	p := openPart(t, dir, im.Manifest, store.PartialOptions{})
	copyAll(t, p, im.Tree)
	for _, name := range names {
		check(t, os.Chmod(filepath.Join(dir, "stuff.partial", "data", name), 0o640))
	}
	_, err := p.Finish(context.Background())
	check(t, err)
	sameOnDisk(t, filepath.Join(dir, "stuff"), src)
}

// If somebody touches the file of a piece in progress, the piece is hashed when it is
// complete: if it is right it is kept, otherwise it is lost.
func TestPiecesInProgressAreHashedIfTheirFileWasTouched(t *testing.T) {
	testrig.Slow(t)
	for what, change := range map[string]byte{"right": 0, "wrong": 1} {
		l := newLostRig(t)
		l.write(0, 0, 8)
		f, err := l.d.FS().Edit("stuff.partial/data/big")
		check(t, err)
		f.WriteAt([]byte{l.tree["big"][5] + change}, 5)
		l.write(0, 8, 16)
		l.complete(0)
		if change == 1 {
			l.wantLost(0)
			l.write(0, 0, 16)
			l.complete(0)
		}
		if got := l.durable(); !slices.Equal(got, []share.Piece{0}) {
			t.Errorf("%s: verified %v", what, got)
		}
	}
}

// What is served from a file that somebody changes is compared with its hashes.
func TestAPartialThatIsServedIsGuarded(t *testing.T) {
	testrig.Slow(t)
	needsChangeTimes(t)
	im, dir := begun(t)
	p := openPart(t, dir, im.Manifest, store.PartialOptions{})
	name := filepath.Join(dir, "stuff.partial", "data", "a")
	buf := make([]byte, share.MinPiece)
	read := func(piece share.Piece) error {
		_, err := p.ReadRun(piece, 0, 16, buf)
		return err
	}
	check(t, os.Chmod(name, 0o640))
	check(t, read(0)) // only its change time differs
	editBack(t, name, share.MinPiece+10)
	check(t, read(0))
	if err := read(1); !errors.Is(err, share.ErrChanged) {
		t.Error("edited:", err)
	}
	if _, err := p.ReadAt(0, buf[:100], share.MinPiece); !errors.Is(err, share.ErrChanged) {
		t.Error("edited, read by a person:", err)
	}
	var lost *store.SyncError
	if _, err := p.Sync(); !errors.As(err, &lost) || !slices.Equal(lost.Lost, []share.Piece{1}) {
		t.Fatal(err)
	}
	if err := read(1); !errors.Is(err, store.ErrNotYet) {
		t.Error("lost:", err)
	}
	check(t, p.Close())
	endWell(t, dir, im, im.Tree.Path())
}

// A file that is replaced or removed while it is fetched is not written to: the next
// opening finds out what to do, and nothing of the other file is lost.
func TestAFileReplacedDuringAFetchIsNotWrittenTo(t *testing.T) {
	testrig.Slow(t)
	needsChangeTimes(t)
	for what, touch := range map[string]func(name string) error{
		"replaced": func(name string) error {
			return errors.Join(os.WriteFile(name+".new", []byte("mine"), 0o666), os.Rename(name+".new", name))
		},
		"removed":  os.Remove,
		"a folder": func(name string) error { return errors.Join(os.Remove(name), os.Mkdir(name, 0o777)) },
	} {
		t.Run(what, func(t *testing.T) {
			im, dir := begun(t)
			p := openPart(t, dir, im.Manifest, store.PartialOptions{})
			check(t, touch(filepath.Join(dir, "stuff.partial", "data", "a")))
			if err := copyPiece(p, im.Tree, 3, 16); !errors.As(err, new(*store.SyncError)) {
				t.Fatal(err)
			}
			check(t, copyPiece(p, im.Tree, 7, 16)) // the others continue
			p.Close()
			endWell(t, dir, im, im.Tree.Path())
			theirs, err := os.ReadFile(filepath.Join(dir, "stuff.partial", "others", "1", "a"))
			if what == "replaced" && (err != nil || string(theirs) != "mine") {
				t.Errorf("the other file: %q, %v", theirs, err)
			}
		})
	}
}

// A part that nobody wants now is hashed when somebody wants it.
func TestAPartThatWasSkippedIsHashedIfItWasTouched(t *testing.T) {
	testrig.Slow(t)
	needsChangeTimes(t)
	src, dir := filepath.Join(t.TempDir(), "stuff"), t.TempDir()
	tree{"a": random(4 * share.MinPiece), "b": random(4 * share.MinPiece)}.make(t, src)
	im := importDir(t, src, store.ImportOptions{})
	p := openPart(t, dir, im.Manifest, store.PartialOptions{})
	for _, piece := range []share.Piece{0, 1, 4, 5} {
		check(t, copyPiece(p, im.Tree, piece, 16))
	}
	p.Select([]bool{true, false})
	for _, piece := range []share.Piece{2, 3} {
		check(t, copyPiece(p, im.Tree, piece, 16))
	}
	_, err := p.Finish(context.Background())
	check(t, err)
	check(t, p.Close())
	edit(t, filepath.Join(dir, "stuff.partial", "data", "b"), 10)
	endWell(t, dir, im, src)
}

// Killed, edited, and killed again while it hashes: the edit is not forgotten.
func TestAnEditBetweenTwoKillsIsNotForgotten(t *testing.T) {
	testrig.Slow(t)
	r := newRig(t, tree{"big": random(8 * share.MinPiece)})
	for n := 0; n < 40; n += stride {
		d := storetest.New(1 << 30)
		l := &lostRig{r, t, d, nil}
		l.open()
		for p := range share.Piece(6) {
			l.write(p, 0, 16)
			l.complete(p)
		}
		if n%2 == 0 {
			_, err := l.p.Sync()
			check(t, err)
		}
		d.Kill()
		f, err := d.FS().Edit("stuff.partial/data/big")
		check(t, err)
		f.WriteAt([]byte("edited"), share.MinPiece)
		fault, _ := nth(n/2, storetest.Op.Changes, storetest.ErrPower)
		dead := false
		d.Fault = func(op storetest.Op) error {
			if dead = dead || fault(op) != nil; dead {
				return storetest.ErrPower
			}
			return nil
		}
		if p, err := store.OpenPartialIn(t.Context(), d.FS(), r.m, store.PartialOptions{Workers: 1}); err == nil {
			copyPiece(p, r.im.Tree, 7, 16)
			p.Sync()
		}
		d.Fault = nil
		d.Kill()
		l.open()
		if l.p.Verified().Has(1) || n%2 == 0 && !l.p.Verified().Has(0) {
			t.Fatalf("killed at %d: verified %v", n, slices.Collect(l.p.Verified().All()))
		}
		for p := range l.p.Verified().All() {
			l.wantBytes(p)
		}
	}
}

// Killed in the middle of a write, and then edited: the times do not tell. The file
// is believed at first, and hashed before the end.
func TestAnEditAfterAKillInAWriteIsFound(t *testing.T) {
	testrig.Slow(t)
	r := newRig(t, tree{"big": random(4 * share.MinPiece)})
	d := storetest.New(1 << 30)
	l := &lostRig{r, t, d, nil}
	l.open()
	for p := range share.Piece(3) {
		l.write(p, 0, 16)
		l.complete(p)
	}
	_, err := l.p.Sync()
	check(t, err)
	writes := 0
	d.Fault = func(op storetest.Op) error {
		if writes > 0 {
			return storetest.ErrPower
		}
		if op.Name == "stuff.partial/data/big" && op.Kind == "write" {
			writes++
		}
		return nil
	}
	copyPiece(l.p, r.im.Tree, 3, 16)
	d.Fault = nil
	d.Kill()
	f, err := d.FS().Edit("stuff.partial/data/big")
	check(t, err)
	f.WriteAt([]byte("edited"), share.MinPiece)
	l.open()
	if n := l.p.Verified().Count(); n != 3 || store.HashedAgain(l.p) != 0 {
		t.Errorf("%d pieces verified, %d bytes hashed at once", n, store.HashedAgain(l.p))
	}
	if _, err := l.p.ReadRun(1, 0, 1, make([]byte, share.BlockSize)); !errors.Is(err, share.ErrChanged) {
		t.Error("it is served:", err)
	}
	l.wantLost(1)
	if got := store.HashedAgain(l.p); got != 3*share.MinPiece {
		t.Errorf("%d bytes hashed", got)
	}
	copyPiece(l.p, r.im.Tree, 1, 16)
	copyPiece(l.p, r.im.Tree, 3, 16)
	_, err = l.p.Finish(context.Background())
	check(t, errors.Join(err, r.checkDone(d.FS())))
}

// Killed in the first write to a file, which somebody then replaces with another one:
// that is not ours to remove.
func TestAFileReplacedAfterAKillInAWriteIsNotRemoved(t *testing.T) {
	l := newLostRig(t)
	l.write(0, 0, 1)
	l.d.Fault = func(op storetest.Op) error {
		if op.Kind == "write" && op.Name == "stuff.partial/data/big" {
			return storetest.ErrPower
		}
		return nil
	}
	copyPiece(l.p, l.im.Tree, 0, 1)
	l.d.Fault = nil
	l.d.Kill()
	d := l.d.FS()
	check(t, d.Remove("stuff.partial/data/big"))
	f, err := d.Create("stuff.partial/data/big", false)
	check(t, err)
	f.WriteAt(make([]byte, 2*share.BlockSize), 0)
	l.open()
	if at := l.p.Aside(); len(at) != 1 {
		t.Errorf("moved aside: %q", at)
	}
}

// A file that changes while it is hashed at an opening is hashed once more, and one
// that keeps changing is fetched again.
func TestAFileThatChangesWhileItIsHashedIsHashedAgain(t *testing.T) {
	testrig.Slow(t)
	for touches, want := range map[int][]share.Piece{1: {1, 2}, 1000: nil} {
		l := newLostRig(t)
		for p := range share.Piece(3) {
			l.write(p, 0, 16)
			l.complete(p)
		}
		check(t, l.p.Close())
		f, err := l.d.FS().Edit("stuff.partial/data/big")
		check(t, err)
		f.WriteAt([]byte(l.tree["big"][:1]), 0)
		reads := 0
		l.d.Fault = func(op storetest.Op) error {
			if op.Kind == "read" && op.Name == "stuff.partial/data/big" {
				if reads++; reads > 1 && touches > 0 {
					touches--
					l.d.TouchLocked(op.Name, false)
				}
			}
			return nil
		}
		l.open()
		if got := slices.Collect(l.p.Verified().All()); !slices.Equal(got, want) {
			t.Errorf("verified %v, want %v", got, want)
		}
	}
}

// What others touched is hashed bit by bit, and believed when all of it has been.
func TestDoubtsAreHashedBitByBit(t *testing.T) {
	testrig.Slow(t)
	l := newLostRig(t)
	for p := range share.Piece(3) {
		l.write(p, 0, 16)
		l.complete(p)
	}
	_, err := l.p.Sync()
	check(t, err)
	f, err := l.d.FS().Edit("stuff.partial/data/big")
	check(t, err)
	f.WriteAt([]byte("edited"), 2*share.MinPiece)
	l.write(0, 0, 1) // a late duplicate: the edit is noticed
	for i := range int64(3) {
		_, err := store.SyncSome(l.p, 1)
		if errors.As(err, new(*store.SyncError)) != (i == 2) {
			t.Errorf("sync %d: %v", i, err)
		}
		if got := store.HashedAgain(l.p); got != (i+1)*share.MinPiece {
			t.Errorf("sync %d: %d bytes hashed", i, got)
		}
	}
}

// Touched once more while it is hashed: that is not forgotten.
func TestAFileTouchedWhileItsDoubtIsHashedIsHashedAgain(t *testing.T) {
	testrig.Slow(t)
	r := newRig(t, tree{"big": random(3 * share.MinPiece)})
	l := &lostRig{r, t, storetest.New(1 << 30), nil}
	reads := 0
	d := reading{l.d.FS(), func() {
		if reads++; reads == 2 {
			edited, err := l.d.FS().Edit("stuff.partial/data/big")
			check(t, err)
			edited.WriteAt([]byte("edited"), 5)
			l.write(2, 0, 1)
		}
	}}
	var err error
	l.p, err = store.OpenPartialIn(t.Context(), d, r.m, store.PartialOptions{Workers: 1})
	check(t, err)
	for p := range share.Piece(2) {
		l.write(p, 0, 16)
		l.complete(p)
	}
	_, err = l.p.Sync()
	check(t, err)
	l.d.SetMTime("stuff.partial/data/big", 1)
	l.write(2, 0, 1)
	_, err = l.p.Sync()
	check(t, err)
	l.wantLost(0)
}

// Finish hashes everything that others touched, however much it is: a caller that stops
// does not wait for it, and nothing is forgotten.
func TestFinishStopsHashing(t *testing.T) {
	testrig.Slow(t)
	const pieces = 8
	r := newRig(t, tree{"big": random(pieces * share.MinPiece)})
	l := &lostRig{r, t, storetest.New(1 << 30), nil}
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	reads := 0
	d := reading{l.d.FS(), func() {
		if reads++; reads == 2 {
			cancel(enough)
		}
	}}
	var err error
	l.p, err = store.OpenPartialIn(t.Context(), d, r.m, store.PartialOptions{Workers: 1})
	check(t, err)
	for p := range share.Piece(pieces) {
		l.write(p, 0, 16)
		l.complete(p)
	}
	_, err = l.p.Sync()
	check(t, err)
	l.d.SetMTime("stuff.partial/data/big", 1)
	l.write(2, 0, 1) // a late duplicate: the touch is noticed
	if _, err := l.p.Finish(ctx); !errors.Is(err, enough) {
		t.Errorf("told to stop, it says %v", err)
	}
	if got := store.HashedAgain(l.p); got > 2*share.MinPiece {
		t.Errorf("%d bytes were hashed after that", got)
	}
	_, err = l.p.Finish(context.Background())
	check(t, err)
	if got := store.HashedAgain(l.p); got < pieces*share.MinPiece {
		t.Errorf("%d bytes were hashed in all", got)
	}
}

// reading is a disk on which something happens before a file is read.
type reading struct {
	vfs.FS
	before func()
}

func (d reading) Sub(name string) (vfs.FS, error) {
	sub, err := d.FS.Sub(name)
	return reading{sub, d.before}, err
}

func (d reading) Create(name string, exec bool) (vfs.File, error) {
	f, err := d.FS.Create(name, exec)
	if name == "big" {
		f = readFile{f, d.before}
	}
	return f, err
}

type readFile struct {
	vfs.File
	before func()
}

func (f readFile) ReadAt(b []byte, off int64) (int, error) {
	f.before()
	return f.File.ReadAt(b, off)
}

// A process that was killed has changed nothing except by its writes: nothing is hashed
// again, whenever it was killed.
func TestAfterAKillNothingIsHashedAgain(t *testing.T) {
	r := newRig(t, tree{"big": random(4 * share.MinPiece), "a/small": random(10), "b": random(100_000)})
	for n := 0; ; n++ {
		d := storetest.New(1 << 30)
		fault, count := nth(n, storetest.Op.Changes, storetest.ErrPower)
		d.Fault = func(op storetest.Op) error {
			if err := fault(op); *count > n {
				return errors.Join(err, storetest.ErrPower)
			}
			return nil
		}
		_, err := r.fetch(d.FS(), 2)
		d.Fault = nil
		d.Kill()
		p, e := store.OpenPartialIn(t.Context(), d.FS(), r.m, store.PartialOptions{Workers: 1})
		check(t, e)
		if got := store.HashedAgain(p); got != 0 {
			t.Fatalf("killed at %d: %d bytes hashed again", n, got)
		}
		if err == nil {
			t.Logf("%d operations", n)
			return
		}
	}
}

// Nothing that others put into NAME.partial is removed: not on resuming, not at the
// end, and not when the target turns out to exist already.
func TestFilesOfOthersInAPartialStay(t *testing.T) {
	testrig.Slow(t)
	theirs := tree{
		"notes": "n", "data/notes": "n", "data/sub/deep/notes": "n", "data/dir/notes": "n", "data/empty/": "",
		"data/link": "-> notes",
	}
	for what, end := range map[string]func(t *testing.T, im *store.Imported, dir, src string){
		"resumed": func(t *testing.T, im *store.Imported, dir, _ string) {
			check(t, openPart(t, dir, im.Manifest, store.PartialOptions{}).Close())
		},
		"file by file": func(t *testing.T, im *store.Imported, dir, src string) {
			for _, wanted := range [][]bool{{true, false}, nil} {
				p := openPart(t, dir, im.Manifest, store.PartialOptions{Wanted: wanted})
				check(t, copyWanted(p, im.Tree, wanted))
				_, err := p.Finish(context.Background())
				check(t, err)
				check(t, p.Close())
			}
			sameOnDisk(t, filepath.Join(dir, "stuff"), src)
		},
		"there already": func(t *testing.T, im *store.Imported, dir, src string) {
			check(t, os.CopyFS(filepath.Join(dir, "stuff"), os.DirFS(src)))
			for range 2 {
				p := openPart(t, dir, im.Manifest, store.PartialOptions{})
				if _, done := p.Done(); !done {
					t.Error("not done")
				}
				check(t, p.Close())
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			src, dir := filepath.Join(t.TempDir(), "stuff"), t.TempDir()
			tree{"a": random(3 * share.MinPiece), "dir/b": random(100)}.make(t, src)
			im := importDir(t, src, store.ImportOptions{})
			p := openPart(t, dir, im.Manifest, store.PartialOptions{})
			check(t, copyPiece(p, im.Tree, 0, 16))
			check(t, p.Close())
			staged := filepath.Join(dir, "stuff.partial")
			theirs.make(t, staged)
			check(t, openPart(t, dir, im.Manifest, store.PartialOptions{}).Close()) // that has touched ours too
			end(t, im, dir, src)
			for name := range theirs {
				if _, err := os.Lstat(filepath.Join(staged, name)); err != nil {
					t.Error(err)
				}
			}
			if _, err := os.Lstat(filepath.Join(staged, "data", "a")); what != "resumed" && !errors.Is(err, fs.ErrNotExist) {
				t.Error("what is ours is still there:", err)
			}
		})
	}
}

// timeless is a disk of a system that reports no change times, and for an open file only
// the times that it had when it was opened.
type timeless struct{ vfs.FS }

func (d timeless) Sub(name string) (vfs.FS, error) {
	sub, err := d.FS.Sub(name)
	return timeless{sub}, err
}

func (d timeless) Lstat(name string) (vfs.Info, error) {
	info, err := d.FS.Lstat(name)
	info.CTime = 0
	return info, err
}

func (d timeless) Create(name string, exec bool) (vfs.File, error) {
	return late(d.FS.Create(name, exec))
}

func (d timeless) Edit(name string) (vfs.File, error) { return late(d.FS.Edit(name)) }

type lateFile struct {
	vfs.File
	info vfs.Info
}

func late(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	info.CTime = 0
	return lateFile{f, info}, err
}

func (f lateFile) Stat() (vfs.Info, error) {
	now, err := f.File.Stat()
	f.info.Size = now.Size
	return f.info, err
}

// Without change times an edit between two runs is noticed, and nothing is hashed
// again without need.
func TestWithoutChangeTimesEditsBetweenTwoRunsAreFound(t *testing.T) {
	testrig.Slow(t)
	r := newRig(t, tree{"big": random(4 * share.MinPiece), "x*": random(100)})
	d := storetest.New(1 << 30)
	open := func() *store.Partial {
		t.Helper()
		p, err := store.OpenPartialIn(t.Context(), timeless{d.FS()}, r.m, store.PartialOptions{})
		check(t, err)
		return p
	}
	p := open()
	for _, piece := range []share.Piece{0, 1, 4} {
		check(t, copyPiece(p, r.im.Tree, piece, 4))
	}
	_, err := p.Sync()
	check(t, err)
	check(t, p.Write(2, 0, []byte(r.tree["big"][2*share.MinPiece:][:share.BlockSize]))) // not complete, and not synced
	check(t, p.Close())
	p = open()
	if got := store.HashedAgain(p); got != 0 {
		t.Errorf("%d bytes hashed again", got)
	}
	check(t, p.Close())
	f, err := d.FS().Edit("stuff.partial/data/big")
	check(t, err)
	f.WriteAt([]byte("edited"), 0)
	p = open()
	if p.Verified().Has(0) || !p.Verified().Has(1) {
		t.Errorf("verified %v", slices.Collect(p.Verified().All()))
	}
	copyAll(t, p, r.im.Tree)
	_, err = p.Finish(context.Background())
	check(t, errors.Join(err, r.checkDone(d.FS())))
	if got := store.HashedAgain(p); got != 2*share.MinPiece {
		t.Errorf("%d bytes hashed", got)
	}
}

// A file of somebody else that stands where one of the share will be is moved, and
// never removed, also if it was put there while the fetch ran.
func TestAFileOfOthersAtAPlaceOfTheShareIsMoved(t *testing.T) {
	testrig.Slow(t)
	src, dir := filepath.Join(t.TempDir(), "stuff"), t.TempDir()
	tree{"a": random(3 * share.MinPiece), "dir/b": random(100)}.make(t, src)
	im := importDir(t, src, store.ImportOptions{})
	p := openPart(t, dir, im.Manifest, store.PartialOptions{})
	check(t, copyPiece(p, im.Tree, 0, 16))
	check(t, os.MkdirAll(filepath.Join(dir, "stuff.partial/data/dir"), 0o777))
	check(t, os.WriteFile(filepath.Join(dir, "stuff.partial/data/dir/b"), []byte("mine"), 0o666))
	check(t, p.Close())
	p = openPart(t, dir, im.Manifest, store.PartialOptions{})
	if at := p.Aside(); !slices.Equal(at, []string{"stuff.partial/others/1/b"}) {
		t.Fatal("moved to", at)
	}
	check(t, p.Close())
	endWell(t, dir, im, src)
	if b, err := os.ReadFile(filepath.Join(dir, "stuff.partial/others/1/b")); string(b) != "mine" {
		t.Error(string(b), err)
	}
	p = openPart(t, dir, im.Manifest, store.PartialOptions{})
	if _, done := p.Done(); !done {
		t.Error("not done")
	}
}

// Somebody changes a file and restores the right bytes: they are made durable before
// they are believed.
func TestWhatSomebodyPutBackIsDurable(t *testing.T) {
	testrig.Slow(t)
	r := newRig(t, tree{"big": random(2*share.MinPiece + 10)})
	for seed := range uint64(16) {
		for _, during := range []bool{false, true} {
			l := &lostRig{r, t, storetest.New(1 << 30), nil}
			l.open()
			l.write(0, 0, 16)
			l.complete(0)
			_, err := l.p.Sync()
			check(t, err)
			if !during {
				check(t, l.p.Close())
			}
			f, err := l.d.FS().Edit("stuff.partial/data/big")
			check(t, err)
			f.WriteAt(make([]byte, share.MinPiece), 0)
			f.Sync()
			f.WriteAt([]byte(r.tree["big"][:share.MinPiece]), 0)
			if !during {
				l.open()
			}
			l.write(1, 0, 1) // not complete, so nothing else needs a sync
			_, err = l.p.Sync()
			check(t, err)
			if !during {
				check(t, l.p.Close())
			}
			l.d.CutPower()
			l.d.Restart(seed)
			check(t, l.checkBits(l.d.FS(), 1))
		}
	}
}

// Somebody makes a file during the fetch where one of the share will be.
func TestAFileMadeDuringAFetchAtAPlaceOfTheShareIsMoved(t *testing.T) {
	testrig.Slow(t)
	im, dir := begun(t)
	p := openPart(t, dir, im.Manifest, store.PartialOptions{})
	name := filepath.Join(dir, "stuff.partial", "data", "small")
	check(t, os.Remove(name))
	p.Close()
	p = openPart(t, dir, im.Manifest, store.PartialOptions{})
	check(t, os.WriteFile(name, []byte("mine"), 0o666))
	if err := copyPiece(p, im.Tree, 8, 1); !errors.As(err, new(*store.SyncError)) {
		t.Fatal(err)
	}
	p.Close()
	endWell(t, dir, im, im.Tree.Path())
	if b, err := os.ReadFile(filepath.Join(dir, "stuff.partial/others/1/small")); string(b) != "mine" {
		t.Error(string(b), err)
	}
}

// A file of somebody else's that took the place of a verified one between two runs is moved, and not written to where it is then:
// neither what was open when it was hashed is used, nor does the fetch fail because of it.
func TestAFileThatWasMovedAsideIsNotWrittenTo(t *testing.T) {
	testrig.Slow(t)
	t.Parallel()
	for name, mine := range map[string]string{"short": "mine", "as long": random(2*share.MinPiece + 5), "longer than a piece": random(share.MinPiece + 9)} {
		src, dir := filepath.Join(t.TempDir(), "stuff"), t.TempDir()
		tree{"a": random(2*share.MinPiece + 5), "dir/b": random(100)}.make(t, src)
		im := importDir(t, src, store.ImportOptions{})
		p := openPart(t, dir, im.Manifest, store.PartialOptions{})
		copyAll(t, p, im.Tree)
		check(t, p.Close())
		at, aside := filepath.Join(dir, "stuff.partial/data/a"), filepath.Join(dir, "stuff.partial/others/1/a")
		check(t, os.Remove(at))
		check(t, os.WriteFile(at, []byte(mine), 0o666))
		p = openPart(t, dir, im.Manifest, store.PartialOptions{})
		if !slices.Equal(p.Aside(), []string{"stuff.partial/others/1/a"}) {
			t.Fatalf("%s: moved to %q", name, p.Aside())
		}
		copyAll(t, p, im.Tree)
		if _, err := p.Finish(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		sameOnDisk(t, filepath.Join(dir, "stuff"), src)
		if b, err := os.ReadFile(aside); string(b) != mine {
			t.Errorf("%s: %d bytes are left of %d, %v", name, len(b), len(mine), err)
		}
	}
}
