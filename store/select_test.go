package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeebo/blake3"

	testrig "github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/storetest"
	"github.com/piecelease/fetcher/store/vfs"
	"github.com/piecelease/fetcher/wire"
)

// only marks the entries at or below some paths.
func only(m *share.Manifest, paths ...string) []bool {
	out := make([]bool, m.Len())
	for i, e := range m.Entries() {
		for _, p := range paths {
			out[i] = out[i] || e.Path == p || strings.HasPrefix(e.Path, p+"/")
		}
	}
	return out
}

// copyWanted copies the wanted pieces that are not there yet.
func copyWanted(to *store.Partial, from store.Source, wanted []bool) error {
	l := from.Manifest().Layout()
	for p := range share.FullSet(l.Pieces()).Minus(to.Verified()).All() {
		if wanted != nil && !wanted[l.PieceSpan(p).Entry] {
			continue
		}
		if err := copyPiece(to, from, p, 4); err != nil {
			return err
		}
	}
	return nil
}

// fetchOnly fetches some of a share into dir, to the end.
func fetchOnly(t testing.TB, dir string, im *store.Imported, paths ...string) {
	t.Helper()
	if err := tryOnly(dir, im, paths...); err != nil {
		t.Fatal(err)
	}
}

func tryOnly(dir string, im *store.Imported, paths ...string) error {
	wanted := only(im.Manifest, paths...)
	if len(paths) == 0 {
		wanted = nil
	}
	p, err := store.OpenPartial(context.Background(), dir, im.Manifest, store.PartialOptions{Wanted: wanted})
	if err != nil {
		return err
	}
	defer p.Close()
	if err := copyWanted(p, im.Tree, wanted); err != nil {
		return err
	}
	at, err := p.Finish(context.Background())
	if err == nil && at != filepath.Join(dir, im.Manifest.Name) {
		err = fmt.Errorf("finished at %s", at)
	}
	return err
}

// names lists every file and link below dir, except those of NAME.partial.
func names(t testing.TB, dir string) string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(p, ".partial") {
			return fs.SkipDir
		}
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		if d.IsDir() {
			if list, _ := os.ReadDir(p); len(list) > 0 {
				return nil
			}
			rel += "/"
		}
		out = append(out, filepath.ToSlash(rel))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(out, " ")
}

func sampleShare(t testing.TB) (im *store.Imported, src string) {
	src = filepath.Join(t.TempDir(), "stuff")
	sample().make(t, src)
	return importDir(t, src, store.ImportOptions{}), src
}

func TestOnlyWhatIsWantedIsMade(t *testing.T) {
	im, src := sampleShare(t)
	dir := t.TempDir()
	fetchOnly(t, dir, im, "a/piece+1", "many", "a/none", "link", "empty")
	if got, want := names(t, dir), "stuff/a/none/ stuff/a/piece+1 stuff/empty stuff/link stuff/many/1 stuff/many/2 stuff/many/exec-large"; got != want {
		t.Errorf("made %s\nwant %s", got, want)
	}
	for _, p := range []string{"a/piece+1", "many/exec-large"} {
		a, _ := os.ReadFile(filepath.Join(src, p))
		b, _ := os.ReadFile(filepath.Join(dir, "stuff", p))
		if string(a) != string(b) {
			t.Errorf("%s differs", p)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "stuff/many/exec-large")); err != nil || info.Mode()&0o100 == 0 {
		t.Error("no executable:", info.Mode(), err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "stuff.partial/manifest")); err != nil {
		t.Error("the state was not kept:", err)
	}
}

// What a run has put in its place is told from what others have put there: files and links.
func TestWhatOthersPutInAPlaceIsToldFromWhatWasMoved(t *testing.T) {
	testrig.Slow(t)
	im, _ := sampleShare(t)
	for _, linked := range []bool{false, true} {
		dir := t.TempDir()
		tree{"many/1": sample()["many/1"]}.make(t, filepath.Join(dir, "stuff"))
		if linked {
			link, _ := im.Manifest.Find("link")
			if err := os.Symlink(im.Manifest.Entry(link).Target, filepath.Join(dir, "stuff", "link")); err != nil {
				t.Fatal(err)
			}
		}
		for _, x := range []struct{ only, made []string }{
			{[]string{"a/piece"}, []string{"a/piece"}},
			{[]string{"a/piece", "many", "link"}, []string{"link", "many/2", "many/exec-large"}},
			{[]string{"a/piece", "many", "link"}, nil},
		} {
			wanted := only(im.Manifest, x.only...)
			p := openPart(t, dir, im.Manifest, store.PartialOptions{Wanted: wanted})
			err := copyWanted(p, im.Tree, wanted)
			if err == nil {
				_, err = p.Finish(t.Context())
			}
			want := slices.DeleteFunc(x.made, func(path string) bool { return linked && path == "link" })
			if got := made(p); err != nil || !slices.Equal(got, want) {
				t.Errorf("with %v made are %v, want %v; %v", x.only, got, want, err)
			}
			p.Close()
		}
	}
}

// Each run wants more; nothing comes twice, and the last one completes the share.
func TestAWiderSelectionGoesOnFromThere(t *testing.T) {
	testrig.Slow(t)
	im, src := sampleShare(t)
	dir := t.TempDir()
	fetchOnly(t, dir, im, "a/piece")
	fetchOnly(t, dir, im, "many", "big")
	p := openPart(t, dir, im.Manifest, store.PartialOptions{Wanted: only(im.Manifest, "a", "big")})
	want := 0
	for i, wanted := range only(im.Manifest, "a/piece", "many", "big") {
		if _, n := im.Manifest.Layout().PiecesOf(i); wanted {
			want += n
		}
	}
	if got := p.Verified().Count(); got != want {
		t.Errorf("%d pieces are here, want %d", got, want)
	}
	copyAll(t, openPart(t, t.TempDir(), im.Manifest, store.PartialOptions{Wanted: only(im.Manifest)}), &some{p}) // still proven and served
	p.Close()
	fetchOnly(t, dir, im)
	sameOnDisk(t, filepath.Join(dir, "stuff"), src)
	if list, _ := os.ReadDir(dir); len(list) != 1 {
		t.Errorf("left over: %v", list)
	}
	fetchOnly(t, dir, im, "big") // all of it is there, and recognised
}

// some is a Source that is copied as far as it goes.
type some struct{ *store.Partial }

func (s *some) Proof(p share.Piece) ([]share.Hash, error) {
	values, err := s.Partial.Proof(p)
	if errors.Is(err, store.ErrNotYet) {
		return nil, nil
	}
	return values, err
}

func (s *some) ReadRun(p share.Piece, first share.Block, n int, dst []byte) (int, error) {
	k, err := s.Partial.ReadRun(p, first, n, dst)
	if errors.Is(err, store.ErrNotYet) {
		return s.Manifest().Layout().RunSpan(p, first, n).Len, nil
	}
	return k, err
}

// A part that was there is noted for one who asks for that, so that what comes later is told from it.
func TestAPartThatWasThereIsNoted(t *testing.T) {
	im, src := sampleShare(t)
	dir := t.TempDir()
	look := func(paths ...string) {
		t.Helper()
		p := openPart(t, dir, im.Manifest, store.PartialOptions{Wanted: only(im.Manifest, paths...), Note: true})
		defer p.Close()
		if _, done := p.Done(); !done || len(made(p)) > 0 {
			t.Errorf("%v: done %v, made %v", paths, done, made(p))
		}
		f, err := store.Find(dir, im.Manifest.ID())
		if got := slices.Sorted(maps.Keys(f.Placed)); err != nil || !slices.Equal(got, paths[:1]) {
			t.Errorf("with %v noted are %v, %v", paths, got, err)
		}
	}
	if err := os.CopyFS(filepath.Join(dir, "stuff"), os.DirFS(src)); err != nil {
		t.Fatal(err)
	}
	look("a/piece")
	look("a/piece")
	look("a/piece", "many/1")
}

// A folder that was there keeps its contents; a file of it that is the same is taken.
func TestNeighboursAreLeftAlone(t *testing.T) {
	im, src := sampleShare(t)
	dir := t.TempDir()
	mine := tree{"stuff/mine": "precious", "stuff/a/notes": "mine too", "stuff/many/2": "not the share's"}
	mine.make(t, dir)
	same, _ := os.ReadFile(filepath.Join(src, "a/block+1"))
	os.WriteFile(filepath.Join(dir, "stuff/a/block+1"), same, 0o666)
	p := openPart(t, dir, im.Manifest, store.PartialOptions{Wanted: only(im.Manifest, "a/block+1")})
	if at, done := p.Done(); !done || at != filepath.Join(dir, "stuff") {
		t.Error("the same file was not recognised", at, done)
	}
	if list, _ := os.ReadDir(dir); len(list) != 1 {
		t.Errorf("made for nothing: %v", list)
	}
	first, n := im.Manifest.Layout().PiecesOf(entryOf(im.Manifest, "a/block+1"))
	if n != 1 || p.Verified().Count() != 1 {
		t.Error(p.Verified().Count(), "pieces")
	}
	if values, err := p.Proof(first); err != nil || im.Manifest.CheckProof(first, values) != nil {
		t.Error(err)
	}
	p.Close()
	fetchOnly(t, dir, im, "a/block", "a/block+1", "many/1")
	for name, content := range mine {
		if got, _ := os.ReadFile(filepath.Join(dir, name)); string(got) != content {
			t.Errorf("%s is %q", name, got)
		}
	}
	for _, paths := range [][]string{{"many"}, {"many/2"}, {}} {
		if err := tryOnly(dir, im, paths...); !errors.Is(err, share.ErrExists) || !strings.Contains(err.Error(), "many/2") {
			t.Errorf("%v: got %v, want ErrExists", paths, err)
		}
	}
	if got, _ := os.ReadFile(filepath.Join(dir, "stuff/many/2")); string(got) != "not the share's" {
		t.Error("replaced")
	}
}

func entryOf(m *share.Manifest, p string) int {
	for i, e := range m.Entries() {
		if e.Path == p {
			return i
		}
	}
	panic(p)
}

// What has been placed is the user's: if it is edited, it stops only a fetch that wants
// it again; if it is gone, it is fetched again.
func TestAPlacedFileIsTheUsers(t *testing.T) {
	testrig.Slow(t)
	im, src := sampleShare(t)
	for _, gone := range []bool{false, true} {
		dir := t.TempDir()
		fetchOnly(t, dir, im, "a/piece", "many/1")
		at := filepath.Join(dir, "stuff/many/1")
		if gone {
			os.Remove(at)
		} else {
			os.WriteFile(at, []byte("2"), 0o666)
		}
		fetchOnly(t, dir, im, "big")
		if got, _ := os.ReadFile(at); string(got) == "1" {
			t.Error("came back though nobody wanted it")
		}
		err := tryOnly(dir, im)
		if gone {
			if err != nil {
				t.Fatal(err)
			}
			sameOnDisk(t, filepath.Join(dir, "stuff"), src)
			continue
		}
		if got, _ := os.ReadFile(at); !errors.Is(err, share.ErrExists) || string(got) != "2" {
			t.Errorf("got %v, want ErrExists; the file is %q", err, got)
		}
	}
}

// A file may appear where one is to be placed while it is being fetched.
func TestAFileThatCameMeanwhileIsNotReplaced(t *testing.T) {
	testrig.Slow(t)
	im, _ := sampleShare(t)
	for what, mine := range map[string]tree{
		"a file":                {"stuff/many/2": "mine"}, // many/1 would be moved before
		"a file for a folder":   {"stuff/many": "mine"},
		"a folder for a file":   {"stuff/many/1/": ""},
		"a file for the target": {"stuff": "mine"},
	} {
		dir, before := t.TempDir(), t.TempDir()
		wanted := only(im.Manifest, "many")
		p := openPart(t, dir, im.Manifest, store.PartialOptions{Wanted: wanted})
		if err := copyWanted(p, im.Tree, wanted); err != nil {
			t.Fatal(err)
		}
		for name := range mine {
			mine.make(t, dir)
			mine.make(t, before)
			if _, err := p.Finish(context.Background()); !errors.Is(err, share.ErrExists) {
				t.Errorf("%s: got %v, want ErrExists", what, err)
			}
			top, _, _ := strings.Cut(name, "/")
			sameOnDisk(t, filepath.Join(dir, top), filepath.Join(before, top)) // and nothing was moved next to it
			os.RemoveAll(filepath.Join(dir, top))
		}
		p.Close()
		fetchOnly(t, dir, im, "many")
		if got := names(t, dir); got != "stuff/many/1 stuff/many/2 stuff/many/exec-large" {
			t.Errorf("%s: made %s", what, got)
		}
	}
}

func TestNeedIsWhatIsWanted(t *testing.T) {
	im, _ := sampleShare(t)
	p := openPart(t, t.TempDir(), im.Manifest, store.PartialOptions{Wanted: only(im.Manifest, "a/block", "many/1")})
	if need, _ := p.Need(); need != share.BlockSize+1 {
		t.Error("need", need)
	}
	p.Select(only(im.Manifest, "a/piece"))
	if need, _ := p.Need(); need != share.MinPiece {
		t.Error("need", need)
	}
	p.Select(nil)
	if need, _ := p.Need(); need != im.Manifest.Layout().Bytes() {
		t.Error("need", need)
	}
	d := storetest.New(3 * share.BlockSize)
	q, err := store.OpenPartialIn(context.Background(), d.FS(), im.Manifest, store.PartialOptions{Wanted: only(im.Manifest, "a/block")})
	if err != nil {
		t.Fatal(err)
	}
	q.Close()
	if _, err := store.OpenPartialIn(context.Background(), d.FS(), im.Manifest, store.PartialOptions{Wanted: only(im.Manifest, "a/piece")}); !errors.Is(err, share.ErrDiskFull) {
		t.Error(err)
	}
}

// The room that a file takes which is no longer wanted makes none for what is.
func TestRoomOfWhatIsNotWantedDoesNotCount(t *testing.T) {
	im, _ := sampleShare(t)
	p, err := store.OpenPartialIn(t.Context(), storetest.New(1<<30).FS(), im.Manifest, store.PartialOptions{})
	must(t, err)
	defer p.Close()
	big, _ := im.Manifest.Find("big")
	piece, _ := im.Manifest.Layout().PiecesOf(big)
	must(t, p.Write(piece, 0, make([]byte, share.BlockSize)))
	p.Select(only(im.Manifest, "a/block"))
	if need, _ := p.Need(); need != share.BlockSize {
		t.Error("need", need)
	}
}

// What somebody puts into NAME.partial, in the place of a file that was moved to the target, stays.
func TestAFileInThePlaceOfOneThatWasMovedStays(t *testing.T) {
	testrig.Slow(t)
	im, _ := sampleShare(t)
	dir := t.TempDir()
	fetchOnly(t, dir, im, "many/1")
	at := filepath.Join(dir, "stuff.partial", "data", "many", "1")
	must(t, os.MkdirAll(filepath.Dir(at), 0o777))
	must(t, os.WriteFile(at, []byte("mine"), 0o666))
	fetchOnly(t, dir, im, "big")
	if got, _ := os.ReadFile(at); string(got) != "mine" {
		t.Errorf("it is %q", got)
	}
}

// What is wanted may change while it is fetched.
func TestSelectChangesWhatIsFinished(t *testing.T) {
	im, _ := sampleShare(t)
	dir := t.TempDir()
	p := openPart(t, dir, im.Manifest, store.PartialOptions{})
	if err := copyWanted(p, im.Tree, only(im.Manifest, "many")); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Finish(context.Background()); !errors.Is(err, store.ErrNotYet) || !strings.HasSuffix(err.Error(), ": 3 of 15 pieces are here") {
		t.Errorf("got %v, want ErrNotYet", err)
	}
	p.Select(only(im.Manifest, "many/1", "a/block"))
	if _, err := p.Finish(context.Background()); !errors.Is(err, store.ErrNotYet) || !strings.HasSuffix(err.Error(), ": 1 piece missing") {
		t.Errorf("got %v, want ErrNotYet", err)
	}
	p.Select(only(im.Manifest, "many/1"))
	if _, err := p.Finish(context.Background()); err != nil {
		t.Fatal(err)
	}
	entry, _ := im.Manifest.Find("many/1")
	piece, _ := im.Manifest.Layout().PiecesOf(entry)
	if err := p.Write(piece, 0, []byte("1")); err != nil {
		t.Error("what comes again, late, is an error:", err)
	}
	if got := names(t, dir); got != "stuff/many/1" {
		t.Error("made", got)
	}
}

// Bytes can be read wherever they lie, including those of unfinished pieces.
func TestReadAtReadsWhatIsWritten(t *testing.T) {
	im, src := sampleShare(t)
	dir := t.TempDir()
	big := entryOf(im.Manifest, "big")
	wanted := only(im.Manifest, "big")
	p := openPart(t, dir, im.Manifest, store.PartialOptions{Wanted: wanted})
	want, _ := os.ReadFile(filepath.Join(src, "big"))
	first, _ := im.Manifest.Layout().PiecesOf(big)
	off := share.MinPiece + 3*share.BlockSize
	if err := p.Write(first+1, 3, want[off:off+share.BlockSize]); err != nil {
		t.Fatal(err)
	}
	check := func(off, n int) {
		t.Helper()
		b := make([]byte, n)
		k, err := p.ReadAt(big, b, int64(off))
		end := min(off+n, len(want))
		if wantErr := error(nil); end < off+n {
			wantErr = io.EOF
			if !errors.Is(err, wantErr) {
				t.Errorf("at %d: %v", off, err)
			}
		} else if err != nil {
			t.Errorf("at %d: %v", off, err)
		}
		if string(b[:k]) != string(want[off:end]) {
			t.Errorf("%d bytes at %d differ", n, off)
		}
	}
	check(off, 100)
	check(off+17, 1000)
	if err := copyWanted(p, im.Tree, wanted); err != nil {
		t.Fatal(err)
	}
	check(share.MinPiece-5, 10)
	if _, err := p.Finish(context.Background()); err != nil {
		t.Fatal(err)
	}
	check(len(want)-10, 100)
	check(2*share.MinPiece-5, 10)
	for _, bad := range []struct {
		entry int
		off   int64
	}{{-1, 0}, {im.Manifest.Len(), 0}, {big, -1}, {entryOf(im.Manifest, "none"), 0}} {
		if _, err := p.ReadAt(bad.entry, make([]byte, 1), bad.off); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	os.WriteFile(filepath.Join(dir, "stuff/big"), want[:100], 0o666)
	if _, err := p.ReadAt(big, make([]byte, 10), 0); !errors.Is(err, share.ErrChanged) {
		t.Errorf("got %v, want ErrChanged", err)
	}
	p.Close()
	if _, err := p.ReadAt(big, make([]byte, 10), 0); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
}

// A part of a share is still served when its transfer has ended, and is held
// until it is removed.
func TestAPartIsServedUntilTakenOut(t *testing.T) {
	testrig.Slow(t)
	im, _ := sampleShare(t)
	dir := t.TempDir()
	wanted := only(im.Manifest, "big")
	p := openPart(t, dir, im.Manifest, store.PartialOptions{Wanted: wanted})
	o := store.NewOffers()
	t.Cleanup(o.Close)
	o.Add(p)
	if err := copyWanted(p, im.Tree, wanted); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Finish(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	first, _ := im.Manifest.Layout().PiecesOf(entryOf(im.Manifest, "big"))
	b := make([]byte, share.BlockSize)
	if _, r := o.ReadRun(im.Manifest.ID(), first, 0, 1, b); r.Status != wire.OK {
		t.Error(r)
	}
	if _, r := o.Proof(im.Manifest.ID(), first); r.Status != wire.OK {
		t.Error(r)
	}
	if err := tryOnly(dir, im, "many"); !errors.Is(err, share.ErrHeld) {
		t.Errorf("got %v, want ErrHeld", err)
	}
	o.Yield(context.Background(), im.Manifest.ID())
	fetchOnly(t, dir, im, "many")
	o.Yield(context.Background(), im.Manifest.ID()) // of what is not there
}

// slowLock is a folder whose locks are not released until free is closed.
type slowLock struct {
	vfs.FS
	free chan struct{}
}

func (d slowLock) Sub(name string) (vfs.FS, error) {
	sub, err := d.FS.Sub(name)
	return slowLock{sub, d.free}, err
}

func (d slowLock) Lock(name string) (io.Closer, error) {
	l, err := d.FS.Lock(name)
	return slowCloser{l, d.free}, err
}

type slowCloser struct {
	io.Closer
	free chan struct{}
}

func (c slowCloser) Close() error {
	<-c.free
	return c.Closer.Close()
}

// A part that is being released when a new transfer begins is waited for.
func TestAPartThatIsBeingTakenOutIsWaitedFor(t *testing.T) {
	testrig.Slow(t)
	im, _ := sampleShare(t)
	wanted := only(im.Manifest, "big")
	for name, out := range map[string]func(*store.Offers, *store.Partial){
		"removed":  func(o *store.Offers, p *store.Partial) { o.Remove(im.Manifest.ID()) },
		"dropped":  func(o *store.Offers, p *store.Partial) { o.Drop(p) },
		"yielded":  func(o *store.Offers, p *store.Partial) { o.Yield(context.Background(), im.Manifest.ID()) },
		"closed":   func(o *store.Offers, p *store.Partial) { o.Close() },
		"replaced": func(o *store.Offers, p *store.Partial) { o.Add(im.Tree) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				free := make(chan struct{})
				opt := store.PartialOptions{Wanted: wanted, FS: slowLock{storetest.New(64 << 20).FS(), free}}
				p := openPart(t, ".", im.Manifest, opt)
				o := store.NewOffers()
				o.Add(p)
				if err := copyWanted(p, im.Tree, wanted); err != nil {
					t.Fatal(err)
				}
				if _, err := p.Finish(t.Context()); err != nil {
					t.Fatal(err)
				}
				if err := p.Close(); err != nil {
					t.Fatal(err)
				}
				var wg sync.WaitGroup
				wg.Go(func() { out(o, p) })
				synctest.Wait()
				over, cancel := context.WithCancel(context.Background())
				cancel()
				if err := o.Yield(over, im.Manifest.ID()); err == nil {
					t.Error("whoever gives up waiting is told that it is over")
				}
				wg.Go(func() {
					o.Yield(context.Background(), im.Manifest.ID())
					q, err := store.OpenPartial(t.Context(), ".", im.Manifest, opt)
					if err != nil {
						t.Error(err)
						return
					}
					q.Close()
				})
				synctest.Wait()
				close(free)
				wg.Wait()
			})
		})
	}
}

func TestAPartWhoseFileChangesIsNotServedOn(t *testing.T) {
	testrig.Slow(t)
	im, _ := sampleShare(t)
	dir := t.TempDir()
	wanted := only(im.Manifest, "big")
	p := openPart(t, dir, im.Manifest, store.PartialOptions{Wanted: wanted})
	o := store.NewOffers()
	t.Cleanup(o.Close)
	told := 0
	o.OnGone(func(share.ID, string) { told++ })
	o.Add(p)
	if err := copyWanted(p, im.Tree, wanted); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Finish(context.Background()); err != nil {
		t.Fatal(err)
	}
	p.Close()
	os.WriteFile(filepath.Join(dir, "stuff/big"), []byte("edited"), 0o666)
	first, _ := im.Manifest.Layout().PiecesOf(entryOf(im.Manifest, "big"))
	if _, r := o.ReadRun(im.Manifest.ID(), first, 0, 1, make([]byte, share.BlockSize)); r.Status != wire.Gone || told != 1 {
		t.Error(r, told)
	}
}

// ---- troubles ----

// bothSyncs runs f with a disk that can sync everything at once, and with one that cannot.
func bothSyncs(t *testing.T, f func(t *testing.T, r rig, noSyncAll bool)) {
	tr := small()
	delete(tr, "big")
	for _, noSyncAll := range []bool{false, true} {
		t.Run(fmt.Sprint(noSyncAll), func(t *testing.T) { t.Parallel(); f(t, newRig(t, tr), noSyncAll) })
	}
}

// fetchParts is a caller that does not give up, first for a part of the share,
// then for another, then for all of it.
func (r rig) fetchParts(d vfs.FS, parts ...string) (durable int, err error) {
	for _, part := range append(parts, "") {
		wanted := only(r.m, part)
		if part == "" {
			wanted = nil
		}
		n, err := r.fetchPart(d, wanted)
		durable = max(durable, n)
		if err != nil {
			return durable, fmt.Errorf("part %q: %w", part, err)
		}
	}
	return durable, nil
}

func (r rig) fetchPart(d vfs.FS, wanted []bool) (durable int, err error) {
	var p *store.Partial
	for range 3 {
		if p, err = store.OpenPartialIn(context.Background(), d, r.m, store.PartialOptions{MaxOpen: 2, Workers: 1, Wanted: wanted}); err == nil {
			break
		}
	}
	if err != nil {
		return 0, err
	}
	defer p.Close()
	for range 5 {
		if err = copyWanted(p, r.im.Tree, wanted); errors.Is(err, storetest.ErrPower) {
			return durable, err
		}
		if n, err := p.Sync(); err == nil {
			durable = n
		}
		if _, err = p.Finish(context.Background()); err == nil || errors.Is(err, storetest.ErrPower) {
			return durable, err
		}
	}
	return durable, err
}

// checkParts fails if a file below the target is not the share's.
func (r rig) checkParts(d vfs.FS) error {
	for _, e := range r.m.Entries() {
		if e.Kind != share.File {
			continue
		}
		got, err := content(d, path.Join(r.m.Name, e.Path))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil || blake3.Sum256(got) != e.Root {
			return fmt.Errorf("%s differs (%v)", e.Path, err)
		}
	}
	return nil
}

// When the disk fails to make what was moved durable, it may lose what was just
// written to other files as well: those pieces are not believed.
func TestASyncThatFailsLosesWhatIsNotWantedToo(t *testing.T) {
	tr := tree{"other": random(2 * share.BlockSize)}
	for i := range 10 {
		tr[fmt.Sprintf("d%d/f", i)] = random(10)
	}
	r := newRig(t, tr)
	d := storetest.New(1 << 30)
	wanted := only(r.m, "d0", "d1", "d2", "d3", "d4", "d5", "d6", "d7", "d8", "d9")
	p, err := store.OpenPartialIn(context.Background(), d.FS(), r.m, store.PartialOptions{Wanted: wanted, Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := copyWanted(p, r.im.Tree, wanted); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Sync(); err != nil {
		t.Fatal(err)
	}
	piece, _ := r.m.Layout().PiecesOf(entryOf(r.m, "other"))
	content := []byte(tr["other"])
	if err := p.Write(piece, 0, content[:share.BlockSize]); err != nil {
		t.Fatal(err)
	}
	d.Fault = func(op storetest.Op) error {
		if op.Kind == "syncall" {
			return errDisk
		}
		return nil
	}
	if _, err := p.Finish(context.Background()); !errors.Is(err, errDisk) {
		t.Fatalf("got %v, want the disk's error", err)
	}
	d.Fault = nil
	isLost := func(err error) {
		t.Helper()
		var lost *store.SyncError
		if !errors.As(err, &lost) || len(lost.Lost) != 1 || lost.Lost[0] != piece {
			t.Errorf("got %v, want piece %d lost", err, piece)
		}
	}
	_, err = p.Finish(context.Background())
	isLost(err)
	if _, err := p.Finish(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := p.Write(piece, 1, content[share.BlockSize:]); err != nil {
		t.Fatal(err)
	}
	values, err := r.im.Tree.Proof(piece)
	if err != nil {
		t.Fatal(err)
	}
	p.Complete(piece, values) // although its first block was not written again
	_, err = p.Sync()
	isLost(err)
}

// checkKept fails if less is here than was reported to be safe.
func (r rig) checkKept(d vfs.FS, durable int) error {
	here := 0
	for _, e := range r.m.Entries() {
		if _, err := d.Lstat(path.Join(r.m.Name, e.Path)); err == nil {
			here++
		}
	}
	if here == r.m.Len() {
		return nil // NAME.partial is being removed, or is gone
	}
	p, err := store.OpenPartialIn(context.Background(), d, r.m, store.PartialOptions{Workers: 1, Wanted: only(r.m, "link")})
	if err != nil {
		return err
	}
	defer p.Close()
	if n := p.Verified().Count(); n < durable {
		return fmt.Errorf("%d pieces are here, %d were safe", n, durable)
	}
	return nil
}

func TestEachFaultOfAPartIsOvercome(t *testing.T) {
	testrig.Slow(t)
	bothSyncs(t, func(t *testing.T, r rig, noSyncAll bool) {
		for n := 0; ; n += stride {
			d := storetest.New(1 << 30)
			d.NoSyncAll = noSyncAll
			fault, count := nth(n, storetest.Op.Changes, errDisk)
			d.Fault = fault
			if _, err := r.fetchParts(d.FS(), "a", "s"); err != nil {
				t.Fatalf("fault %d: %v", n, err)
			}
			d.Fault = nil
			d.CutPower()
			d.Restart(uint64(n))
			if err := r.checkDone(d.FS()); err != nil {
				_, err := r.fetchParts(d.FS())
				if err := errors.Join(err, r.checkDone(d.FS())); err != nil {
					t.Fatalf("after fault %d: %v", n, err)
				}
			}
			if *count <= n {
				t.Logf("%d operations", n)
				return
			}
		}
	})
}

func TestEachPowerCutOfAPartIsSurvived(t *testing.T) {
	testrig.Slow(t)
	bothSyncs(t, func(t *testing.T, r rig, noSyncAll bool) {
		for n, seed := 0, uint64(0); ; n += stride {
			d := storetest.New(1 << 30)
			d.NoSyncAll = noSyncAll
			fault, count := nth(n, storetest.Op.Changes, storetest.ErrPower)
			d.Fault = func(op storetest.Op) error {
				err := fault(op)
				if *count > n {
					return storetest.ErrPower
				}
				return err
			}
			durable, _ := r.fetchParts(d.FS(), "a", "s")
			d.Fault = nil
			d.Restart(seed<<32 | uint64(n))
			if err := r.checkParts(d.FS()); err != nil {
				t.Fatalf("cut %d: %v", n, err)
			}
			if err := r.checkKept(d.FS(), durable); err != nil {
				t.Fatalf("cut %d: %v", n, err)
			}
			var parts []string // what is wanted next may be less than everything, or everything
			if n%2 == 0 {
				parts = []string{"s"}
			}
			if _, err := r.fetchParts(d.FS(), parts...); err != nil {
				t.Fatalf("cut %d, resumed: %v", n, err)
			}
			if err := r.checkDone(d.FS()); err != nil {
				t.Fatalf("cut %d, resumed: %v", n, err)
			}
			if *count > n {
				continue
			}
			if seed++; seed == uint64(testrig.Most(3, 1)) {
				t.Logf("%d operations", n)
				return
			}
			n = -stride
		}
	})
}

// What is in its place is the user's. If it is changed or removed while the rest of the share is fetched, or the rest of the
// target repaired, the share is not done; what is only touched is hashed.
func TestWhatIsChangedInItsPlaceMeanwhileIsNotDone(t *testing.T) {
	testrig.Slow(t)
	t.Parallel()
	im, _ := sampleShare(t)
	for name, x := range map[string]struct {
		do   func(at string) error
		done bool
	}{
		"edited": {func(at string) error {
			f, err := os.OpenFile(at, os.O_WRONLY, 0)
			must(t, err)
			_, err = f.WriteAt([]byte("mine"), 5)
			return errors.Join(err, f.Close())
		}, false},
		"replaced":     {func(at string) error { return errors.Join(os.Remove(at), os.WriteFile(at, []byte("mine"), 0o666)) }, false},
		"now a folder": {func(at string) error { return errors.Join(os.Remove(at), os.Mkdir(at, 0o777)) }, false},
		"removed":      {os.Remove, false},
		"behind a link": {func(at string) error {
			to := filepath.Join(filepath.Dir(at), "../../elsewhere")
			return errors.Join(os.Rename(filepath.Dir(at), to), os.Symlink(to, filepath.Dir(at)))
		}, false},
		"touched":    {func(at string) error { return os.Chtimes(at, time.Time{}, time.Unix(1, 0)) }, true},
		"left alone": {func(string) error { return nil }, true},
	} {
		for _, repair := range []bool{false, true} {
			dir := t.TempDir()
			at, opt := filepath.Join(dir, "stuff/a/piece"), store.PartialOptions{}
			fetchOnly(t, dir, im, "a")
			if repair {
				must(t, os.RemoveAll(filepath.Join(dir, "stuff.partial")))
				opt.Repair = true
			}
			p := openPart(t, dir, im.Manifest, opt)
			copyAll(t, p, im.Tree)
			must(t, x.do(at))
			_, err := p.Finish(t.Context())
			if done := err == nil; done != x.done || !done && !errors.Is(err, share.ErrExists) {
				t.Errorf("%s, with repair %t: %v", name, repair, err)
			}
			must(t, p.Close())
		}
	}
}

// A target that is there is not the share if what was read of it first was changed while the rest was read.
func TestATargetThatChangesWhileItIsReadIsNotTheShare(t *testing.T) {
	t.Parallel()
	for name, paths := range map[string][]string{"all": nil, "some": {"a", "z"}} {
		for _, meddle := range []bool{false, true} {
			r := newRig(t, tree{"a": random(1 << 10), "m": random(10), "z": random(1 << 20)})
			d, opt := storetest.New(1<<30), store.PartialOptions{Workers: 1}
			r.tree.fill(t, d.FS(), "stuff")
			if paths != nil {
				opt.Wanted = only(r.m, paths...)
			}
			d.Fault = func(op storetest.Op) error {
				if op.Kind == "read" && op.Name == "stuff/z" && meddle {
					d.TouchLocked("stuff/a", false)
				}
				return nil
			}
			p, err := store.OpenPartialIn(t.Context(), d.FS(), r.m, opt)
			if wrong := errors.Is(err, share.ErrExists); wrong != meddle || !meddle && err != nil {
				t.Errorf("%s, changed meanwhile: %t: %v", name, meddle, err)
			}
			if err == nil {
				must(t, p.Close())
			}
			if n, _ := d.Open(); n > 1 { // the folder that is given
				t.Errorf("%s: %d are open", name, n)
			}
		}
	}
}
