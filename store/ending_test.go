package store_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/vfs"
)

// stopper runs a function after so many folders and links were made.
type stopper struct {
	vfs.FS
	left *int
	stop func()
}

func (s stopper) Sub(name string) (vfs.FS, error) {
	sub, err := s.FS.Sub(name)
	return stopper{sub, s.left, s.stop}, err
}

func (s stopper) Mkdir(name string) error {
	if *s.left--; *s.left == 0 {
		s.stop()
	}
	return s.FS.Mkdir(name)
}

func (s stopper) Symlink(target, name string) error {
	if *s.left--; *s.left == 0 {
		s.stop()
	}
	return s.FS.Symlink(target, name)
}

// A list of files can name many folders and links in few bytes. Making them can be stopped, is
// said as what it is, and goes on at the next time; what was not stopped is not left out.
func TestMakingFoldersStopsWhenTold(t *testing.T) {
	var entries []share.Entry
	for _, top := range "abcdefghij" {
		entries = append(entries, share.Entry{Kind: share.Dir, Path: string(top) + strings.Repeat("/x", 9)},
			share.Entry{Kind: share.Symlink, Path: string(top) + "/link", Target: "x"})
	}
	m, err := share.NewManifest("stuff", entries)
	check(t, err)
	some := make([]bool, m.Len())
	for i, e := range m.Entries() {
		some[i] = !strings.HasPrefix(e.Path, "j")
	}
	for name, x := range map[string]struct {
		wanted []bool
		after  int // folders and links
		says   string
	}{
		"folders":       {nil, 45, "making empty folders and files, and links: 40 of 110"},
		"links":         {nil, 105, "making empty folders and files, and links: 104 of 110"},
		"some, folders": {some, 25, "making folders: 21 of 90"},
		"some, links":   {some, 94, "making links: 2 of 9"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			here, err := vfs.Dir(dir)
			check(t, err)
			ctx, cancel := context.WithCancelCause(t.Context())
			stopped := errors.New("stopped")
			var p *store.Partial
			said, left := "", 1<<30
			p, err = store.OpenPartialIn(t.Context(), stopper{here, &left, func() { said = p.Finishing(); cancel(stopped) }}, m, store.PartialOptions{Wanted: x.wanted})
			check(t, err)
			left = x.after
			if _, err := p.Finish(ctx); !errors.Is(err, stopped) {
				t.Errorf("it was stopped, and ended with %v", err)
			}
			if said != x.says {
				t.Errorf("it says %q, not %q", said, x.says)
			}
			if now := p.Finishing(); now != "" {
				t.Errorf("it has ended, and says %q", now)
			}
			check(t, p.Close())
			p, err = store.OpenPartial(t.Context(), dir, m, store.PartialOptions{Wanted: x.wanted})
			check(t, err)
			at, err := p.Finish(t.Context())
			check(t, err)
			for i, e := range m.Entries() {
				if _, err := os.Lstat(filepath.Join(at, e.Path)); (err == nil) != (x.wanted == nil || x.wanted[i]) {
					t.Errorf("%s: %v", e.Path, err)
				}
			}
			check(t, p.Close())
		})
	}
}
