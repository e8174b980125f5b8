package fetcher

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
)

// paths lists what was made below dir, except NAME.partial.
func paths(t testing.TB, dir string) string {
	var out []string
	for line := range strings.Lines(rig.Fingerprint(t, dir)) {
		if p, _, _ := strings.Cut(strings.TrimSpace(line), " "); !strings.HasSuffix(p, "/") && !strings.Contains(p, ".partial") {
			out = append(out, p)
		}
	}
	return strings.Join(out, " ")
}

func TestOnlyAndSkipChooseFiles(t *testing.T) {
	t.Parallel()
	src := filepath.Join(t.TempDir(), "tree")
	makeTree(t, src)
	s := shareOf(t, src)
	n := openNode(t)
	for _, c := range []struct {
		only, skip []string
		sel        func(share.Entry) Priority
		want       string
	}{
		{[]string{"run.sh", "link"}, nil, nil, "tree/link tree/run.sh"},
		{[]string{"sizes/102?.bin"}, []string{"**/1024.bin"}, nil, "tree/sizes/1023.bin tree/sizes/1025.bin"},
		{nil, []string{"sizes", "Über*", "empty"}, nil, "tree/link tree/readonly tree/run.sh"},
		{nil, []string{"sizes"}, func(e share.Entry) Priority {
			if e.Kind == share.File && e.Path != "run.sh" {
				return PrioritySkip
			}
			return PriorityHigh
		}, "tree/link tree/run.sh"},
	} {
		dir := t.TempDir()
		x, err := fetchInto(t, n, s.Ticket(), dir, FetchOptions{Only: c.only, Skip: c.skip, Select: c.sel})
		if err != nil {
			t.Fatal(c.only, c.skip, err)
		}
		if got := paths(t, dir); got != c.want {
			t.Errorf("only %v, skip %v: made %s, want %s", c.only, c.skip, got, c.want)
		}
		if p := x.Progress(); p.Verified != p.Bytes || p.Bytes >= s.Manifest().Layout().Bytes() || x.Path() != filepath.Join(dir, "tree") {
			t.Errorf("progress %+v", p)
		}
	}
}

func TestChoosingNothingIsSaid(t *testing.T) {
	t.Parallel()
	src := filepath.Join(t.TempDir(), "tree")
	makeTree(t, src)
	s := shareOf(t, src)
	n := openNode(t)
	dir := t.TempDir()
	for _, opt := range []FetchOptions{
		{Only: []string{"nothing*", "50%"}},
		{Only: []string{"sizes"}, Skip: []string{"**"}},
		{Skip: []string{"**"}},
		{Select: func(share.Entry) Priority { return PrioritySkip }},
	} {
		_, err := fetchInto(t, n, s.Ticket(), dir, opt)
		if !errors.Is(err, ErrNothingSelected) {
			t.Errorf("%+v: got %v, want ErrNothingSelected", opt, err)
		}
		for _, g := range append(opt.Only, opt.Skip...) {
			if err == nil || !strings.Contains(err.Error(), g) {
				t.Errorf("%v does not name %q", err, g)
			}
		}
	}
	none := FetchOptions{Only: []string{"a", "b"}, Skip: []string{"c", "d%"}}.noneOf(s.Manifest())
	if !strings.HasSuffix(none.Error(), `no path in tree matches "a" or "b" without also matching "c" or "d%"`) {
		t.Error(none)
	}
	if _, err := n.Fetch(t.Context(), s.Ticket(), FetchOptions{Dir: dir, Only: []string{"[a"}}); !errors.Is(err, path.ErrBadPattern) {
		t.Errorf("got %v, want ErrBadPattern", err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A part, then more, then all: each run continues where the last ended.
func TestAWiderFetchGoesOnFromANarrowOne(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "tree")
	makeTree(t, src)
	s := shareOf(t, src)
	dir := t.TempDir()
	n := openNode(t)
	var got int64
	for i, only := range [][]string{{"sizes/3*"}, {"sizes"}, {"run.sh"}, nil} {
		x, err := fetchInto(t, n, s.Ticket(), dir, FetchOptions{Only: only, Keep: i%2 == 0})
		if err != nil {
			t.Fatal(only, err)
		}
		got += x.Progress().Verified - x.Progress().Resumed
	}
	if all := s.Manifest().Layout().Bytes(); got != all {
		t.Errorf("%d bytes were fetched of %d", got, all)
	}
	sameTree(t, src, filepath.Join(dir, "tree"))
	if list, _ := os.ReadDir(dir); len(list) != 1 {
		t.Errorf("left over: %v", list)
	}
}

// A node that has a part serves that part.
func TestAPartIsServed(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "tree")
	makeTree(t, src)
	s := shareOf(t, src)
	b := openNode(t)
	_, err := fetchInto(t, b, s.Ticket(), t.TempDir(), FetchOptions{Only: []string{"sizes"}, Keep: true})
	must(t, err)
	must(t, s.Stop(t.Context()))
	dir := t.TempDir()
	if _, err := fetchInto(t, openNode(t), s.ID().String(), dir, FetchOptions{Peers: b.Addrs(), Only: []string{"sizes/3*"}}); err != nil {
		t.Fatal(err)
	}
	if got := paths(t, dir); got != "tree/sizes/3145745.bin" {
		t.Error("made", got)
	}
}

func TestPrioritiesCanBeChanged(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "two")
	writeRandom(t, filepath.Join(src, "a.bin"), 6<<20, 1)
	writeRandom(t, filepath.Join(src, "b.bin"), 6<<20, 2)
	s := shareOf(t, src, func(c *Config) { c.UploadRate = 8 << 20 })
	dir := t.TempDir()
	x, err := openNode(t).Fetch(t.Context(), s.Ticket(), FetchOptions{Dir: dir})
	must(t, err)
	for e := range x.Events(t.Context()) {
		if _, ok := e.(Planned); ok {
			break
		}
	}
	if err := x.SetPriority(t.Context(), "c*", PriorityHigh); !errors.Is(err, ErrNothingSelected) {
		t.Errorf("got %v, want ErrNothingSelected", err)
	}
	if err := x.SetPriority(t.Context(), "[", PriorityHigh); !errors.Is(err, path.ErrBadPattern) {
		t.Errorf("got %v, want ErrBadPattern", err)
	}
	must(t, x.SetPriority(t.Context(), "a*", PrioritySkip))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must(t, x.Wait(ctx))
	if got := paths(t, dir); got != "two/b.bin" {
		t.Error("made", got)
	}
	if err := x.SetPriority(t.Context(), "a*", PriorityHigh); err == nil {
		t.Error("a transfer that has ended took a new priority")
	}
}

func TestABusySourceIsAskedForTheListAgain(t *testing.T) {
	t.Parallel()
	src := filepath.Join(t.TempDir(), "one.bin")
	writeRandom(t, src, 1000, 7)
	id := shareOf(t, src).ID()
	n := openNode(t)
	opened := n.catalog.offers.Opening(id)
	time.AfterFunc(100*time.Millisecond, func() {
		if _, err := n.Share(context.Background(), src, ShareOptions{}); err != nil {
			t.Error(err)
		}
		opened()
	})
	m, err := openNode(t).Manifest(t.Context(), id.String(), n.Addrs())
	if err != nil || m.ID() != id {
		t.Error(err)
	}
}

// What cannot be read of an older version is named, once, with why.
func TestWhatCannotBeReadOfAnOlderVersionIsNamed(t *testing.T) {
	for n, want := range []string{"", "a cannot be read, so nothing is taken from there", "a and 1 more cannot be read, so nothing is taken from there"} {
		var u unreadable
		for i := range n {
			u.add(string(rune('a'+i)), &fs.PathError{Op: "open", Path: "a", Err: fs.ErrPermission})
		}
		var b strings.Builder
		u.warn(slog.New(slog.NewTextHandler(&b, nil)))
		said, why, _ := strings.Cut(b.String(), "error=")
		if n == 0 && said != "" || n > 0 && (!strings.Contains(said, want) || strings.Trim(why, "\"\n") != fs.ErrPermission.Error()) {
			t.Errorf("of %d: %s", n, &b)
		}
	}
}
