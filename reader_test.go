package fetcher

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
)

var _ io.ReadSeekCloser = (*Reader)(nil)

func TestAFileIsReadWhileItIsFetched(t *testing.T) {
	t.Parallel()
	src := filepath.Join(t.TempDir(), "big.bin")
	want := writeRandom(t, src, 8<<20+12345, 7)
	s := shareOf(t, src, func(c *Config) { c.UploadRate = 8 << 20 })
	x, err := openNode(t).Fetch(t.Context(), s.Ticket(), FetchOptions{Dir: t.TempDir()})
	must(t, err)
	r, err := x.Open(t.Context(), "big.bin")
	must(t, err)
	defer r.Close()
	if r.Size() != int64(len(want)) {
		t.Error("size", r.Size())
	}
	var first [10]byte
	_, err = io.ReadFull(r, first[:])
	must(t, err)
	if p := x.Progress(); p.Verified > p.Bytes/2 {
		t.Errorf("the first bytes came when %d of %d were here", p.Verified, p.Bytes)
	}
	rest, err := io.ReadAll(r)
	must(t, err)
	if !bytes.Equal(append(first[:], rest...), want) {
		t.Error("content differs")
	}
	must(t, x.Wait(t.Context()))
	_, err = r.Seek(-5, io.SeekEnd)
	must(t, err)
	if tail, err := io.ReadAll(r); err != nil || !bytes.Equal(tail, want[len(want)-5:]) {
		t.Error("after the end:", err)
	}
}

// A file that somebody has made shorter or longer since is not passed off as the share's.
func TestAFileThatChangedItsSizeIsNotReadAsIfItHadNot(t *testing.T) {
	t.Parallel()
	src := filepath.Join(t.TempDir(), "f")
	want := writeRandom(t, src, 3000, 7)
	s := shareOf(t, src)
	x, err := openNode(t).Fetch(t.Context(), s.Ticket(), FetchOptions{Dir: t.TempDir()})
	must(t, err)
	must(t, x.Wait(t.Context()))
	r, err := x.Open(t.Context(), "f")
	must(t, err)
	defer r.Close()
	must(t, os.WriteFile(x.Path(), append(bytes.Clone(want), "more"...), 0o600))
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, want) {
		t.Errorf("longer: %d bytes, %v", len(got), err)
	}
	must(t, os.Truncate(x.Path(), 1000))
	r, err = x.Open(t.Context(), "f")
	must(t, err)
	defer r.Close()
	if got, err := io.ReadAll(r); !errors.Is(err, share.ErrChanged) || !bytes.HasPrefix(want, got) {
		t.Errorf("shorter: %d bytes, %v", len(got), err)
	}
}

// A file that somebody edits once it is here, before a slow reader comes to that, is not passed off as the share's.
func TestAFileThatWasEditedBehindItsFetchIsNotRead(t *testing.T) {
	t.Parallel()
	src := filepath.Join(t.TempDir(), "f")
	want := writeRandom(t, src, 3<<20, 7)
	s := shareOf(t, src)
	x, err := openNode(t).Fetch(t.Context(), s.Ticket(), FetchOptions{Dir: t.TempDir()})
	must(t, err)
	r, err := x.Open(t.Context(), "f")
	must(t, err)
	defer r.Close()
	_, err = io.ReadFull(r, make([]byte, 10))
	must(t, err)
	must(t, x.Wait(t.Context()))
	f, err := os.OpenFile(x.Path(), os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteAt([]byte("edited"), 2<<20+5)
	must(t, err)
	must(t, f.Close())
	late, err := x.Open(t.Context(), "f")
	must(t, err)
	defer late.Close()
	for what, r := range map[string]*Reader{"begun before": r, "begun after": late} {
		from := want[r.off:]
		if got, err := io.ReadAll(r); !errors.Is(err, share.ErrChanged) || !bytes.HasPrefix(from, got) {
			t.Errorf("%s: %d bytes, of which some are not the share's: %v; %v", what, len(got), !bytes.HasPrefix(from, got), err)
		}
		_, err = r.Seek(1<<20, io.SeekStart)
		must(t, err)
		part := make([]byte, 1<<20)
		if _, err := io.ReadFull(r, part); err != nil || !bytes.Equal(part, want[1<<20:2<<20]) {
			t.Errorf("%s: what was not edited: %v", what, err)
		}
	}
}

// The last bytes of a file of which nothing is here come before 5 % of it.
func TestSeekingToTheEndOfAnUnfetchedFile(t *testing.T) {
	rig.OnlyLong(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "big.bin")
	want := writeRandom(t, src, 128<<20, 7)
	s := shareOf(t, src)
	x, err := openNode(t).Fetch(t.Context(), s.Ticket(), FetchOptions{Dir: t.TempDir()})
	must(t, err)
	r, err := x.Open(t.Context(), "big.bin")
	must(t, err)
	defer r.Close()
	_, err = r.Seek(-100, io.SeekEnd)
	must(t, err)
	tail, err := io.ReadAll(r)
	must(t, err)
	p := x.Progress()
	if !bytes.Equal(tail, want[len(want)-100:]) {
		t.Error("content differs")
	}
	if p.Verified > p.Bytes/20 {
		t.Errorf("%d of %d bytes came before", p.Verified, p.Bytes)
	}
	t.Logf("%.1f %% of the file came before", float64(p.Verified)/float64(p.Bytes)*100)
	must(t, x.Stop(t.Context()))
}

func TestManyReadersOfAFolder(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "tree")
	makeTree(t, src)
	s := shareOf(t, src, func(c *Config) { c.UploadRate = 16 << 20 })
	x, err := openNode(t).Fetch(t.Context(), s.Ticket(), FetchOptions{Dir: t.TempDir()})
	must(t, err)
	var wg sync.WaitGroup
	for _, e := range s.Manifest().Entries() {
		if e.Kind != share.File {
			continue
		}
		wg.Go(func() {
			r, err := x.Open(t.Context(), e.Path)
			if err != nil {
				t.Error(e.Path, err)
				return
			}
			defer r.Close()
			got, err := io.ReadAll(r)
			want, _ := os.ReadFile(filepath.Join(src, filepath.FromSlash(e.Path)))
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: %d of %d bytes, %v", e.Path, len(got), len(want), err)
			}
		})
	}
	wg.Wait()
	must(t, x.Wait(t.Context()))
	r, err := x.Open(t.Context(), "run.sh") // the transfer is over
	must(t, err)
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || len(got) != 50 {
		t.Error(len(got), err)
	}
}

func TestWhatIsNoFileCannotBeOpened(t *testing.T) {
	t.Parallel()
	rig.OnlyLong(t)
	src := filepath.Join(t.TempDir(), "tree")
	makeTree(t, src)
	s := shareOf(t, src)
	x, err := openNode(t).Fetch(t.Context(), s.Ticket(), FetchOptions{Dir: t.TempDir(), Only: []string{"sizes", "link", "empty"}})
	must(t, err)
	check := func(when string) {
		t.Helper()
		for path, want := range map[string]error{"nowhere": fs.ErrNotExist, "link": fs.ErrInvalid, "empty/deep": fs.ErrInvalid} {
			if _, err := x.Open(t.Context(), path); !errors.Is(err, want) {
				t.Errorf("%s, %s: got %v, want %v", when, path, err, want)
			}
		}
	}
	if _, err := x.Open(t.Context(), "run.sh"); !errors.Is(err, ErrSkipped) && x.Progress().State != Complete {
		t.Errorf("not selected: %v", err)
	}
	check("while it runs")
	must(t, x.Wait(t.Context()))
	check("afterwards")
}

func TestAReaderEndsWithItsTransfer(t *testing.T) {
	t.Parallel()
	src := filepath.Join(t.TempDir(), "big.bin")
	writeRandom(t, src, 8<<20, 7)
	s := shareOf(t, src, func(c *Config) { c.UploadRate = 2 << 20 })
	x, err := openNode(t).Fetch(t.Context(), s.Ticket(), FetchOptions{Dir: t.TempDir()})
	must(t, err)
	r, err := x.Open(t.Context(), "big.bin")
	must(t, err)
	defer r.Close()
	time.AfterFunc(100*time.Millisecond, func() { x.Stop(t.Context()) })
	if _, err := io.Copy(io.Discard, r); !errors.Is(err, ErrStopped) {
		t.Errorf("got %v, want ErrStopped", err)
	}
	if _, err := x.Open(t.Context(), "big.bin"); !errors.Is(err, ErrStopped) {
		t.Errorf("got %v, want ErrStopped", err)
	}
}

func TestAReaderEndsWithItsContextAndWithClose(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "big.bin")
	writeRandom(t, src, 8<<20, 7)
	s := shareOf(t, src, func(c *Config) { c.UploadRate = 1 << 20 })
	x, err := openNode(t).Fetch(t.Context(), s.Ticket(), FetchOptions{Dir: t.TempDir()})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := x.Open(ctx, "big.bin")
	must(t, err)
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := io.Copy(io.Discard, r); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want Canceled", err)
	}
	must(t, r.Close())
	r, err = x.Open(t.Context(), "big.bin")
	must(t, err)
	time.AfterFunc(50*time.Millisecond, func() { r.Close() })
	if _, err := io.Copy(io.Discard, r); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
	must(t, r.Close())
	must(t, x.Stop(t.Context()))
}

func TestSeekKnowsItsBounds(t *testing.T) {
	t.Parallel()
	src := filepath.Join(t.TempDir(), "big.bin")
	want := writeRandom(t, src, 3<<20, 7)
	s := shareOf(t, src)
	x, err := openNode(t).Fetch(t.Context(), s.Ticket(), FetchOptions{Dir: t.TempDir()})
	must(t, err)
	r, err := x.Open(t.Context(), "big.bin")
	must(t, err)
	defer r.Close()
	for _, c := range []struct {
		off    int64
		whence int
		want   int64
		ok     bool
	}{{10, io.SeekStart, 10, true}, {5, io.SeekCurrent, 15, true}, {-16, io.SeekCurrent, 15, false}, {0, 7, 15, false}, {-1, io.SeekEnd, 3<<20 - 1, true}, {9, io.SeekEnd, 3<<20 + 9, true}} {
		if got, err := r.Seek(c.off, c.whence); got != c.want || (err == nil) != c.ok {
			t.Errorf("seek %d, %d: %d %v", c.off, c.whence, got, err)
		}
	}
	if n, err := r.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Error("past the end:", n, err)
	}
	if n, err := r.Read(nil); n != 0 || err != nil {
		t.Error("nothing wanted:", n, err)
	}
	for _, off := range []int64{2<<20 - 3, 0, 1<<20 + 70_000} {
		b := make([]byte, 100)
		r.Seek(off, io.SeekStart)
		if _, err := io.ReadFull(r, b); err != nil || !bytes.Equal(b, want[off:off+100]) {
			t.Errorf("at %d: %v", off, err)
		}
	}
}

// With a short read-ahead the pieces beyond it come in any order; with a long one in file order.
func TestReadAheadSetsTheOrder(t *testing.T) {
	rig.OnlyLong(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "big.bin")
	writeRandom(t, src, 48<<20, 7)
	inOrder := func(ahead int64) (n, all int) { // pieces from the first on, and in all
		s := shareOf(t, src, func(c *Config) { c.UploadRate = 24 << 20 })
		node := openNode(t, func(c *Config) { c.DownloadRate = 1 << 20 }) // little is leased before it is known how far to read ahead
		x, err := node.Fetch(t.Context(), s.Ticket(), FetchOptions{Dir: t.TempDir()})
		must(t, err)
		r, err := x.Open(t.Context(), "big.bin")
		must(t, err)
		defer r.Close()
		r.SetReadAhead(ahead)
		_, err = r.Read(make([]byte, 1))
		must(t, err)
		node.SetDownloadRate(0)
		for e := range x.Events(t.Context()) {
			if p, ok := e.(Progress); ok && p.Done >= 12 {
				break
			}
		}
		have := x.place().Verified()
		for have.Has(share.Piece(n)) {
			n++
		}
		must(t, x.Stop(t.Context()))
		return n, have.Count()
	}
	if n, all := inOrder(64 << 20); n < 8 {
		t.Errorf("with 64 MiB only the first %d pieces are here, of %d", n, all)
	}
	n, all := inOrder(1)
	for tries := 1; tries < 4 && n > all/2+2; tries++ { // chance may begin near the front
		n, all = inOrder(1)
	}
	if n > all/2+2 {
		t.Errorf("with 1 byte the first %d pieces are here, of %d, again and again", n, all)
	}
}

// A file that was not chosen cannot be opened, also once all that was is here; an empty one is no exception.
func TestAFileThatWasNotChosenIsNotOpenedAfterwards(t *testing.T) {
	t.Parallel()
	src := filepath.Join(t.TempDir(), "tree")
	for name, size := range map[string]int{"a": 1000, "b": 1000, "empty": 0, "skipped": 0} {
		writeRandom(t, filepath.Join(src, name), size, 1)
	}
	s := shareOf(t, src)
	x, err := fetchInto(t, openNode(t), s.Ticket(), t.TempDir(), FetchOptions{Only: []string{"a", "empty"}})
	must(t, err)
	for name, want := range map[string]error{"a": nil, "b": ErrSkipped, "empty": nil, "skipped": ErrSkipped} {
		r, err := x.Open(t.Context(), name)
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
		if err == nil {
			_, err = io.Copy(io.Discard, r)
			must(t, err)
			must(t, r.Close())
		}
	}
}

// A reader of a file that is no longer to be fetched hears so, also if it was not waiting at that moment.
func TestAReaderOfAFileThatIsNoLongerChosenDoesNotWait(t *testing.T) {
	t.Parallel()
	src := filepath.Join(t.TempDir(), "tree")
	writeRandom(t, filepath.Join(src, "a"), 1000, 1)
	writeRandom(t, filepath.Join(src, "b"), 8<<20, 2)
	s := shareOf(t, src)
	x, err := openNode(t).Fetch(t.Context(), s.Ticket(), FetchOptions{Dir: t.TempDir(), OnDemand: true})
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	r, err := x.Open(ctx, "b")
	must(t, err)
	defer r.Close()
	_, err = io.ReadFull(r, make([]byte, 10))
	must(t, err)
	must(t, x.SetPriority(t.Context(), "b", PrioritySkip))
	_, err = r.Seek(-10, io.SeekEnd)
	must(t, err)
	if _, err := io.ReadFull(r, make([]byte, 10)); !errors.Is(err, ErrSkipped) {
		t.Errorf("%v, want %v", err, ErrSkipped)
	}
}
