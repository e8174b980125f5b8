package store_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zeebo/blake3"

	testrig "github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/storetest"
)

func openState(t testing.TB, dir string) *store.State {
	t.Helper()
	s, err := store.OpenState(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestRootsAreThoseOfPlainBlake3(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "stuff")
	tr := sample()
	for _, n := range []int{0, 1, 1024, share.BlockSize - 1, share.BlockSize, share.BlockSize + 1, share.MinPiece - 1, share.MinPiece, share.MinPiece + 1, 2*share.MinPiece + share.BlockSize} {
		tr[fmt.Sprint("len", n)] = random(n)
	}
	tr.make(t, dir)
	for _, workers := range []int{0, 1, 7} {
		im := importDir(t, dir, store.ImportOptions{Workers: workers})
		for i, e := range im.Manifest.Entries() {
			if e.Kind != share.File {
				continue
			}
			want := tr[e.Path]
			if e.Exec {
				want = tr[e.Path+"*"]
			}
			if e.Root != blake3.Sum256([]byte(want)) || e.Size != int64(len(want)) {
				t.Errorf("%s is wrong", e.Path)
			}
			first, n := im.Manifest.Layout().PiecesOf(i)
			for p := first; p < first+share.Piece(n); p++ {
				values, err := im.Tree.Proof(p)
				if err != nil || im.Manifest.CheckProof(p, values) != nil {
					t.Errorf("%s: piece %d: %v", e.Path, p, err)
				}
			}
		}
		if im.Hashed != im.Manifest.Layout().Bytes() || im.Cached != 0 {
			t.Errorf("hashed %d, cached %d", im.Hashed, im.Cached)
		}
	}
}

func TestTheNameCanBeChosen(t *testing.T) {
	dir := t.TempDir()
	tree{"f": "x", "d/g": "y"}.make(t, dir)
	for path, want := range map[string]string{"f": "f", "d": "d", ".": filepath.Base(dir), "d/..": filepath.Base(dir)} {
		if got := importDir(t, filepath.Join(dir, path), store.ImportOptions{}).Manifest.Name; got != want {
			t.Errorf("%s is called %q", path, got)
		}
		im := importDir(t, filepath.Join(dir, path), store.ImportOptions{Name: "other"})
		if im.Manifest.Name != "other" || im.Manifest.Single() != (path == "f") {
			t.Errorf("%s is called %q", path, im.Manifest.Name)
		}
		copyAll(t, openPart(t, t.TempDir(), im.Manifest, store.PartialOptions{}), im.Tree)
	}
}

func TestAFolderWithAFileOfItsNameIsAFolder(t *testing.T) {
	src, dst := t.TempDir(), t.TempDir()
	tree{"x/x": "content"}.make(t, src)
	im := importDir(t, filepath.Join(src, "x"), store.ImportOptions{})
	p := openPart(t, dst, im.Manifest, store.PartialOptions{})
	copyAll(t, p, im.Tree)
	if _, err := p.Finish(context.Background()); err != nil {
		t.Fatal(err)
	}
	sameOnDisk(t, dst, src)
}

func TestASymlinkToAShareIsFollowed(t *testing.T) {
	dir := t.TempDir()
	tree{"real/f": "x", "file": "y", "dirlink": "-> real", "filelink": "-> file"}.make(t, dir)
	for _, name := range []string{"dirlink", "filelink"} {
		im := importDir(t, filepath.Join(dir, name), store.ImportOptions{})
		if im.Manifest.Name != name || im.Manifest.Layout().Pieces() != 1 {
			t.Errorf("%s: %q, %d pieces", name, im.Manifest.Name, im.Manifest.Layout().Pieces())
		}
	}
}

func TestLinksAreKeptSkippedOrRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "stuff")
	tree{"f": "x", "good": "-> f", "d/up": "-> ../f"}.make(t, dir)
	if im := importDir(t, dir, store.ImportOptions{}); im.Manifest.Len() != 3 || im.Skipped != 0 {
		t.Error("kept:", im.Manifest.Len())
	}
	im := importDir(t, dir, store.ImportOptions{Links: store.LinksSkip})
	if im.Manifest.Len() != 1 || im.Skipped != 2 || len(im.Warnings) != 1 {
		t.Error("skipped:", im.Manifest.Len(), im.Skipped, im.Warnings)
	}
	_, err := store.Import(context.Background(), dir, store.ImportOptions{Links: store.LinksRefuse})
	var bad *store.ProblemsError
	if !errors.As(err, &bad) || bad.Count != 2 || !errors.Is(err, share.ErrPath) {
		t.Error("refused:", err)
	}
	os.Symlink("../../outside", filepath.Join(dir, "bad"))
	if _, err := store.Import(context.Background(), dir, store.ImportOptions{}); !errors.Is(err, share.ErrPath) {
		t.Error("a link that leaves the share:", err)
	}
}

// Everything that cannot be shared is listed at once, and nothing is hashed.
func TestWhatCannotBeSharedIsListedTogether(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "stuff")
	tree{"ok": "x", "d/secret": "x", "locked/f": "x", "z": "x"}.make(t, dir)
	l, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		t.Skip(err)
	}
	defer l.Close()
	want := []string{"socket"}
	if os.WriteFile(filepath.Join(dir, "bad\xff"), nil, 0o666) == nil {
		want = append(want, "bad\xff")
	}
	if os.Getuid() != 0 {
		os.Chmod(filepath.Join(dir, "d/secret"), 0)
		os.Chmod(filepath.Join(dir, "locked"), 0)
		defer os.Chmod(filepath.Join(dir, "locked"), 0o777)
		want = append(want, "d/secret", "locked")
	}
	hashed := int64(0)
	_, err = store.Import(context.Background(), dir, store.ImportOptions{Progress: func(p store.ImportProgress) { hashed = p.Hashed }})
	var bad *store.ProblemsError
	if !errors.As(err, &bad) {
		t.Fatal(err)
	}
	if bad.Count != len(want) || hashed != 0 {
		t.Errorf("%d problems, %d bytes hashed: %v", bad.Count, hashed, err)
	}
	for _, p := range want {
		if !strings.Contains(err.Error(), fmt.Sprintf("%q", p)) {
			t.Errorf("%q is not listed in %v", p, err)
		}
	}
}

func TestUnreadableFilesAreListedTogether(t *testing.T) {
	d := storetest.New(1 << 30)
	tr := tree{}
	for i := range 150 {
		tr[fmt.Sprintf("f%03d", i)] = "x"
	}
	tr.fill(t, d.FS(), "stuff")
	read := false
	d.Fault = func(op storetest.Op) error {
		read = read || op.Kind == "read"
		if op.Kind == "open" && op.Name != "stuff/f007" {
			return fs.ErrPermission
		}
		return nil
	}
	_, err := store.Import(context.Background(), "stuff", store.ImportOptions{FS: d.FS(), Workers: 1})
	var bad *store.ProblemsError
	if !errors.As(err, &bad) || bad.Count != 149 || len(bad.Problems) != 100 || bad.Problems[0].Path != "f000" || read {
		t.Fatal(err)
	}
	if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "49 more, 149 in all") {
		t.Error(err)
	}
	if open, _ := d.Open(); open != 0 {
		t.Errorf("%d files left open", open)
	}
}

func TestAFileThatChangesIsHashedOnceMore(t *testing.T) {
	testrig.Slow(t)
	for _, times := range []int{1, 2} {
		for _, grow := range []bool{false, true} {
			d := storetest.New(1 << 30)
			tree{"a": random(share.BlockSize + 1), "b": random(2*share.MinPiece + 1), "c": random(share.MinPiece)}.fill(t, d.FS(), "stuff")
			reads := 0
			d.Fault = func(op storetest.Op) error {
				if op.Kind == "read" && op.Name == "stuff/b" {
					if pass := reads / 3; reads%3 == 1 && pass < times { // three pieces
						d.TouchLocked("stuff/b", grow)
					}
					reads++
				}
				return nil
			}
			im, err := store.Import(context.Background(), "stuff", store.ImportOptions{FS: d.FS(), Workers: 1})
			if times == 2 {
				var bad *store.ProblemsError
				if !errors.As(err, &bad) || !errors.Is(err, share.ErrChanged) || bad.Count != 1 || bad.Problems[0].Path != "b" {
					t.Fatalf("grow %v: %v", grow, err)
				}
				continue
			}
			if err != nil {
				t.Fatalf("grow %v: %v", grow, err)
			}
			b, _ := content(d.FS(), "stuff/b")
			if im.Manifest.Entry(1).Root != blake3.Sum256(b) {
				t.Errorf("grow %v: the root is of something else", grow)
			}
			for p := range share.FullSet(im.Manifest.Layout().Pieces()).All() {
				values, err := im.Tree.Proof(p)
				if err != nil || im.Manifest.CheckProof(p, values) != nil {
					t.Errorf("grow %v: piece %d: %v", grow, p, err)
				}
			}
		}
	}
}

// countReads counts the bytes read of files below "stuff".
func countReads(d *storetest.Disk) *int {
	n := new(int)
	d.Fault = func(op storetest.Op) error {
		if op.Kind == "read" && strings.HasPrefix(op.Name, "stuff") {
			*n++
		}
		return nil
	}
	return n
}

func TestEachByteIsReadOnce(t *testing.T) {
	d := storetest.New(1 << 30)
	tree{"a": random(100), "b": random(3*share.MinPiece + 1), "c": random(share.MinPiece), "empty": ""}.fill(t, d.FS(), "stuff")
	reads := countReads(d)
	im, err := store.Import(context.Background(), "stuff", store.ImportOptions{FS: d.FS()})
	if err != nil {
		t.Fatal(err)
	}
	if pieces := im.Manifest.Layout().Pieces(); *reads != pieces {
		t.Errorf("%d reads for %d pieces", *reads, pieces)
	}
	*reads = 0
	for p := range share.FullSet(im.Manifest.Layout().Pieces()).All() {
		if _, err := im.Tree.Proof(p); err != nil {
			t.Fatal(err)
		}
	}
	if *reads != 0 {
		t.Errorf("%d reads for proofs", *reads)
	}
}

func TestWhatHasNotChangedIsNotHashedAgain(t *testing.T) {
	dir, state := filepath.Join(t.TempDir(), "stuff"), t.TempDir()
	sample().make(t, dir)
	opt := store.ImportOptions{State: openState(t, state)}
	first := importDir(t, dir, opt)
	all := first.Manifest.Layout().Bytes()
	again := func(what string, hashed int64) *store.Imported {
		t.Helper()
		opt.State = openState(t, state)
		im := importDir(t, dir, opt)
		if im.Hashed != hashed || im.Cached != im.Manifest.Layout().Bytes()-hashed {
			t.Errorf("%s: %d bytes hashed, %d remembered; want %d hashed", what, im.Hashed, im.Cached, hashed)
		}
		for p := range share.FullSet(im.Manifest.Layout().Pieces()).All() {
			values, err := im.Tree.Proof(p)
			if err != nil || im.Manifest.CheckProof(p, values) != nil {
				t.Fatalf("%s: piece %d: %v", what, p, err)
			}
		}
		// The proofs came from what was kept: any others would have been counted as reads.
		return im
	}
	if im := again("unchanged", 0); im.Manifest.ID() != first.Manifest.ID() {
		t.Error("another ID")
	}
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("a/new", random(100_000))
	again("one file more", 100_000)
	again("unchanged again", 0)
	write("many/1", "!")
	again("one file changed", 1)
	os.Chmod(filepath.Join(dir, "many/2"), 0o777)
	if im := again("an executable more", 1); im.Manifest.ID() == first.Manifest.ID() {
		t.Error("same ID")
	}
	os.Rename(filepath.Join(dir, "big"), filepath.Join(dir, "aaa"))
	os.Remove(filepath.Join(dir, "a", "up")) // its target
	again("one file renamed", 3*share.MinPiece+12345)
	old := time.Now().Add(-time.Hour)
	os.Chtimes(filepath.Join(dir, "many/2"), old, old)
	again("one file touched", 1)

	// A part of it, and the whole around it, are known as well.
	dir = filepath.Join(dir, "a")
	again("a part", 0)
	dir = filepath.Join(dir, "piece+1")
	again("a single file", 0)
	dir = filepath.Dir(filepath.Dir(filepath.Dir(dir)))
	again("the whole around it", 0)

	// What the state loses costs time and nothing else.
	for _, lost := range []string{"hashes", "manifests", "imports"} {
		os.RemoveAll(filepath.Join(state, lost))
		im := again("without "+lost, map[string]int64{"hashes": 0, "manifests": all + 100_000, "imports": all + 100_000}[lost])
		_ = im
	}
	for _, folder := range []string{"hashes", "manifests", "imports"} {
		list, _ := os.ReadDir(filepath.Join(state, folder))
		for _, e := range list {
			os.WriteFile(filepath.Join(state, folder, e.Name()), []byte("garbage"), 0o666)
		}
		again("with garbage in "+folder, map[string]int64{"hashes": 0, "manifests": all + 100_000, "imports": all + 100_000}[folder])
	}
}

// A State keeps nothing about shares that no path has any more.
func TestTheStateDoesNotGrowWithEachChange(t *testing.T) {
	dir, state := filepath.Join(t.TempDir(), "stuff"), t.TempDir()
	opt := store.ImportOptions{State: openState(t, state)}
	for i := range 5 {
		tree{"f": random(100_000 + i)}.make(t, dir)
		importDir(t, dir, opt)
	}
	for _, folder := range []string{"hashes", "manifests", "imports"} {
		if list, _ := os.ReadDir(filepath.Join(state, folder)); len(list) != 1 {
			t.Errorf("%s: %d files", folder, len(list))
		}
	}
	if list, _ := filepath.Glob(filepath.Join(state, "new-*")); len(list) != 0 {
		t.Error("left over:", list)
	}
}

func TestAFetchedShareIsNotHashedAgain(t *testing.T) {
	state := openState(t, t.TempDir())
	im, dir := fetched(t, sample(), store.PartialOptions{State: state})
	again := importDir(t, filepath.Join(dir, "stuff"), store.ImportOptions{State: state})
	if again.Hashed != 0 || again.Manifest.ID() != im.Manifest.ID() {
		t.Errorf("%d bytes hashed", again.Hashed)
	}
	p := openPart(t, dir, im.Manifest, store.PartialOptions{State: state})
	if _, done := p.Done(); !done {
		t.Error("not done")
	}
	if m, err := state.Manifest(im.Manifest.ID()); err != nil || m.ID() != im.Manifest.ID() {
		t.Error("manifest:", err)
	}
}

func TestImportTellsItsProgress(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "stuff")
	sample().make(t, dir)
	var seen []store.ImportProgress
	im := importDir(t, dir, store.ImportOptions{Progress: func(p store.ImportProgress) { seen = append(seen, p) }})
	last := seen[len(seen)-1]
	files, _, _ := im.Manifest.Count()
	want := store.ImportProgress{Files: files, TotalFiles: files, Bytes: im.Hashed, Total: im.Hashed, Hashed: im.Hashed}
	if last != want {
		t.Errorf("got %+v, want %+v", last, want)
	}
	for i := 1; i < len(seen); i++ {
		if seen[i].Bytes < seen[i-1].Bytes {
			t.Error("went back")
		}
	}
}

func TestAnImportCanBeEnded(t *testing.T) {
	dir, state := filepath.Join(t.TempDir(), "stuff"), t.TempDir()
	sample().make(t, dir)
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("enough")
	_, err := store.Import(ctx, dir, store.ImportOptions{State: openState(t, state), Progress: func(store.ImportProgress) { cancel(why) }})
	if !errors.Is(err, why) && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if list, _ := filepath.Glob(filepath.Join(state, "new-*")); len(list) != 0 {
		t.Error("left over:", list)
	}
}

func TestWhatIsNotThereCannotBeShared(t *testing.T) {
	if _, err := store.Import(context.Background(), filepath.Join(t.TempDir(), "no"), store.ImportOptions{}); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestAnEmptyFolderIsAShare(t *testing.T) {
	src, dst := filepath.Join(t.TempDir(), "nothing"), t.TempDir()
	tree{}.make(t, src)
	im := importDir(t, src, store.ImportOptions{State: openState(t, t.TempDir())})
	p := openPart(t, dst, im.Manifest, store.PartialOptions{})
	if _, err := p.Finish(context.Background()); err != nil {
		t.Fatal(err)
	}
	sameOnDisk(t, filepath.Join(dst, "nothing"), src)
}

func TestNamesOtherSystemsCannotHoldAreWarnedOf(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "stuff")
	tree{"con": "x", "A": "1", "a": "2"}.make(t, dir)
	if list, _ := os.ReadDir(dir); len(list) < 3 {
		t.Skip("this system cannot hold them either")
	}
	if im := importDir(t, dir, store.ImportOptions{}); len(im.Warnings) < 2 {
		t.Error(im.Warnings)
	}
}

// Changes below a Tree are never served.
func TestAChangedFileIsNotServed(t *testing.T) {
	for what, change := range map[string]func(p string) error{
		"edited":   func(p string) error { return os.WriteFile(p, []byte(random(1000)), 0o666) },
		"appended": func(p string) error { return os.WriteFile(p, []byte(random(1001)), 0o666) },
		"removed":  os.Remove,
		"replaced": func(p string) error {
			return errors.Join(os.WriteFile(p+".new", []byte(random(1000)), 0o666), os.Rename(p+".new", p))
		},
		"a folder": func(p string) error { return errors.Join(os.Remove(p), os.Mkdir(p, 0o777)) },
	} {
		for _, size := range []int{1000, share.BlockSize + 1} { // the second stays open between the reads
			dir := filepath.Join(t.TempDir(), "stuff")
			tree{"d/f": random(size), "d/g": "g", "h": "h"}.make(t, dir)
			im := importDir(t, dir, store.ImportOptions{})
			buf := make([]byte, share.BlockSize)
			if n, err := im.Tree.ReadRun(0, 0, 1, buf); n != min(size, share.BlockSize) || err != nil {
				t.Fatal(n, err)
			}
			if err := change(filepath.Join(dir, "d", "f")); err != nil {
				t.Fatal(err)
			}
			if n, err := im.Tree.ReadRun(0, 0, 1, buf); !errors.Is(err, share.ErrChanged) || n != 0 {
				t.Errorf("%s: %d bytes: read %d, %v", what, size, n, err)
			}
			if n, err := im.Tree.ReadRun(2, 0, 1, buf); n != 1 || err != nil {
				t.Errorf("%s: another file: %v", what, err)
			}
		}
	}
}

// A file that is read as a whole does not stay open; a larger one does.
func TestASmallFileDoesNotStayOpen(t *testing.T) {
	for size, stays := range map[int]int{1000: 0, share.BlockSize: 0, share.BlockSize + 1: 1} {
		d := storetest.New(1 << 30)
		tree{"f": random(size)}.fill(t, d.FS(), "stuff")
		im, err := store.Import(context.Background(), "stuff", store.ImportOptions{FS: d.FS(), Workers: 1})
		if err != nil {
			t.Fatal(err)
		}
		open := 0
		d.Fault = func(op storetest.Op) error {
			if op.Name == "stuff/f" {
				open += map[string]int{"open": 1, "close": -1}[op.Kind]
			}
			return nil
		}
		for range 2 {
			if _, err := im.Tree.ReadRun(0, 0, 1, make([]byte, share.BlockSize)); err != nil || open != stays {
				t.Errorf("%d bytes: open %d times, want %d; %v", size, open, stays, err)
			}
		}
	}
}

// A change between the check before and the check after a read is noticed too.
func TestAChangeDuringAReadIsNoticed(t *testing.T) {
	d := storetest.New(1 << 30)
	tree{"f": random(1000)}.fill(t, d.FS(), "stuff")
	im, err := store.Import(context.Background(), "stuff", store.ImportOptions{FS: d.FS(), Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	d.Fault = func(op storetest.Op) error {
		if op.Kind == "read" {
			d.TouchLocked("stuff/f", false)
		}
		return nil
	}
	if _, err := im.Tree.ReadRun(0, 0, 1, make([]byte, share.BlockSize)); !errors.Is(err, share.ErrChanged) {
		t.Fatal(err)
	}
}

func TestAClosedTreeSaysSo(t *testing.T) {
	r := newRig(t, small())
	r.im.Tree.Close()
	if _, err := r.im.Tree.ReadRun(0, 0, 1, make([]byte, share.BlockSize)); !errors.Is(err, fs.ErrClosed) {
		t.Error(err)
	}
	if _, err := r.im.Tree.Proof(0); !errors.Is(err, fs.ErrClosed) {
		t.Error(err)
	}
	if r.im.Tree.Close() != nil {
		t.Error("second Close")
	}
}

// A State that cannot be written to costs memory during this import; the import succeeds.
func TestAnImportDoesWithoutItsState(t *testing.T) {
	testrig.Slow(t)
	for n := 0; ; n++ {
		d, sd := storetest.New(1<<30), storetest.New(1<<30)
		tree{"a": random(100_000), "b": random(share.MinPiece + 1), "c": "c"}.fill(t, d.FS(), "stuff")
		s, err := store.OpenStateIn(sd.FS())
		if err != nil {
			t.Fatal(err)
		}
		fault, count := nth(n, storetest.Op.Changes, share.ErrDiskFull)
		sd.Fault = fault
		im, err := store.Import(t.Context(), "stuff", store.ImportOptions{FS: d.FS(), State: s})
		if err != nil {
			t.Fatalf("fault %d: %v", n, err)
		}
		for p := range share.FullSet(im.Manifest.Layout().Pieces()).All() {
			if values, err := im.Tree.Proof(p); err != nil || im.Manifest.CheckProof(p, values) != nil {
				t.Fatalf("fault %d: piece %d: %v", n, p, err)
			}
		}
		im.Tree.Close()
		for _, file := range files(sd.FS(), ".") {
			if strings.HasPrefix(file, "temp/") && file != "temp/0/lock" {
				t.Errorf("fault %d: left over: %s", n, file)
			}
		}
		if open, _ := sd.Open(); open != 0 {
			t.Errorf("fault %d: %d files left open", n, open)
		}
		if open, _ := d.Open(); open != 0 {
			t.Errorf("fault %d: %d files of the share left open", n, open)
		}
		if *count <= n {
			if len(im.Warnings) > 0 {
				t.Error(im.Warnings)
			}
			return
		}
	}
}

// A hole in a file is not read, and is hashed as the zeros that it reads as.
func TestHolesAreHashedAsZeros(t *testing.T) {
	testrig.Slow(t)
	for _, piece := range []int{3, 0, 8}[:testrig.Most(3, 1)] { // the one that is written; the last is shorter
		tr := tree{"stuff": strings.Repeat("\x00", 8*share.MinPiece+12345)}
		b := []byte(tr["stuff"])
		copy(b[piece*share.MinPiece+100:], "here")
		tr["stuff"] = string(b)
		want, dir := t.TempDir(), t.TempDir()
		tr.make(t, want)
		f, err := os.Create(filepath.Join(dir, "stuff"))
		check(t, err)
		check(t, f.Truncate(int64(len(b))))
		_, err = f.WriteAt([]byte("here"), int64(piece*share.MinPiece+100))
		check(t, errors.Join(err, f.Close()))
		a := importDir(t, filepath.Join(want, "stuff"), store.ImportOptions{})
		sparse := importDir(t, filepath.Join(dir, "stuff"), store.ImportOptions{})
		if a.Manifest.ID() != sparse.Manifest.ID() {
			t.Errorf("with holes but for piece %d it is another share", piece)
		}
		if sparse.Hashed != int64(len(b)) {
			t.Errorf("%d bytes hashed", sparse.Hashed)
		}
	}
}
