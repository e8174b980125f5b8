package store_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	testrig "github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
)

// made returns what a Partial itself has put at the target.
func made(p *store.Partial) (paths []string) {
	for entry := range p.Made() {
		paths = append(paths, p.Manifest().Entry(entry).Path)
	}
	slices.Sort(paths)
	return paths
}

// What others put where something is still to come is theirs, at whatever time they do, and however much of the share is wanted.
func TestWhatOthersPutThereBeforeItCameIsTheirs(t *testing.T) {
	testrig.Slow(t)
	const (
		early    = "before anything is here"
		here     = "when all is here"
		inTheWay = "and it was in the way"
		moved    = "nobody, it was moved just before a kill"
	)
	for what, top := range map[string]struct {
		files tree
		only  []string
	}{
		"all":    {tree{"1": "one", "sub/2": random(100_000)}, nil},
		"some":   {tree{"1": "one", "sub/2": random(100_000), "sub/3": "3"}, []string{"1", "sub/2"}},
		"single": {nil, nil},
	} {
		for _, when := range []string{early, here, inTheWay, moved} {
			if when == moved && top.only != nil {
				continue // TestWhatOthersPutInAPlaceIsToldFromWhatWasMoved
			}
			src := filepath.Join(t.TempDir(), "stuff")
			if top.files == nil {
				if err := os.WriteFile(src, []byte("all of it"), 0o600); err != nil {
					t.Fatal(err)
				}
			} else {
				top.files.make(t, src)
			}
			im := importDir(t, src, store.ImportOptions{})
			var wanted []bool
			if top.only != nil {
				wanted = only(im.Manifest, top.only...)
			}
			dir := t.TempDir()
			put := func() {
				if err := os.CopyFS(dir, os.DirFS(filepath.Dir(src))); err != nil {
					t.Fatal(err)
				}
			}
			p := openPart(t, dir, im.Manifest, store.PartialOptions{Wanted: wanted})
			if when != early {
				if err := copyWanted(p, im.Tree, wanted); err != nil {
					t.Fatal(err)
				}
			}
			if when == inTheWay {
				put()
				_, err := p.Finish(context.Background())
				if top.only == nil && !errors.Is(err, share.ErrExists) || top.only != nil && (err != nil || len(made(p)) > 0) {
					t.Errorf("%s: %v, made %v", what, err, made(p))
				}
			}
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
			switch when {
			case moved:
				if err := os.Rename(filepath.Join(dir, "stuff.partial", "data"), filepath.Join(dir, "stuff")); err != nil {
					t.Fatal(err)
				}
			case early, here:
				put()
			}
			p = openPart(t, dir, im.Manifest, store.PartialOptions{Wanted: wanted})
			if _, done := p.Done(); !done || len(made(p)) > 0 != (when == moved) {
				t.Errorf("%s, %s: done %t, made %v", what, when, done, made(p))
			}
			p.Close()
		}
	}
}
