package fetcher

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
)

func TestATargetThatDiffersIsRepairedIfAskedFor(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src, dir := filepath.Join(t.TempDir(), "tree"), t.TempDir()
	writeRandom(t, filepath.Join(src, "a"), 3<<20, 1)
	writeRandom(t, filepath.Join(src, "b"), 2<<20, 2)
	s, n := shareOf(t, src), openNode(t)
	must(t, os.CopyFS(filepath.Join(dir, "tree"), os.DirFS(src)))
	writeRandom(t, filepath.Join(dir, "tree", "b"), 1<<20, 3)
	_, err := fetchInto(t, n, s.Ticket(), dir, FetchOptions{})
	if !errors.Is(err, share.ErrExists) || !errors.Is(err, store.ErrRepairable) {
		t.Errorf("without being asked: %v", err)
	}
	x, err := fetchInto(t, n, s.Ticket(), dir, FetchOptions{Repair: true})
	must(t, err)
	if got := x.Replaces(); !slices.Equal(got, []string{"b"}) {
		t.Errorf("it replaced %q", got)
	}
	if p := x.Progress(); p.Resumed != 3<<20 || rig.Fingerprint(t, filepath.Join(dir, "tree")) != rig.Fingerprint(t, src) {
		t.Errorf("%d bytes were here before", p.Resumed)
	}
}

func TestWhatAnOlderVersionHasIsNotFetched(t *testing.T) {
	t.Parallel()
	src, dir := filepath.Join(t.TempDir(), "tree"), t.TempDir()
	writeRandom(t, filepath.Join(src, "a"), 3<<20, 1)
	writeRandom(t, filepath.Join(src, "b"), 2<<20, 2)
	old := t.TempDir()
	writeRandom(t, filepath.Join(old, "c"), 3<<20, 1)
	s, n := shareOf(t, src), openNode(t)
	x, err := n.Fetch(t.Context(), s.Ticket(), FetchOptions{Dir: dir, Like: []string{old}})
	must(t, err)
	said := false
	for e := range x.Events(t.Context()) {
		p, ok := e.(Progress)
		said = said || ok && p.State == Opening && strings.Contains(p.Reason, "looking for equal pieces") && strings.Contains(p.Reason, filepath.Join(old, "c"))
	}
	must(t, x.Wait(t.Context()))
	if p := x.Progress(); p.Resumed != 3<<20 || !said {
		t.Errorf("%d bytes were here before; said what is compared: %v", p.Resumed, said)
	}
	if got, want := rig.Fingerprint(t, filepath.Join(dir, "tree")), rig.Fingerprint(t, src); got != want {
		t.Errorf("fetched\n%swant\n%s", got, want)
	}
}
