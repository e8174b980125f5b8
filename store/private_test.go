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
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A state directory is left out of what is shared, and refused by itself, by whatever path it is named.
func TestStateDirectoriesAreNotShared(t *testing.T) {
	top := t.TempDir()
	tree{"x": "x", "sub/y": "y", "key": "a key of another kind", "manifests/z": "z"}.make(t, top)
	mine, copied, keyless := filepath.Join(top, "mine"), filepath.Join(top, "sub", "copied"), filepath.Join(top, "sub", "keyless")
	for _, dir := range []string{mine, copied, keyless} {
		s, err := store.OpenState(dir)
		must(t, err)
		if dir != keyless {
			_, _, err = s.Key()
			must(t, err)
		}
		must(t, s.Close())
	}
	must(t, os.RemoveAll(filepath.Join(copied, "guarded"))) // known by its key
	must(t, os.WriteFile(filepath.Join(mine, "token"), []byte("secret"), 0o600))
	link, alias := filepath.Join(t.TempDir(), "link"), filepath.Join(t.TempDir(), "alias")
	must(t, os.Symlink(mine, link))
	must(t, os.Symlink(filepath.Join(mine, "key"), alias))

	var refused []string
	im, err := store.Import(context.Background(), top, store.ImportOptions{Exclude: func(p string) bool { return strings.HasSuffix(p, "mine/key") }})
	must(t, err)
	defer im.Tree.Close()
	var paths []string
	for _, e := range im.Manifest.Entries() {
		paths = append(paths, e.Path)
	}
	if got := strings.Join(paths, " "); got != "key manifests/z sub/y x" || im.Excluded != 3 {
		t.Errorf("shared %s; %d left out", got, im.Excluded)
	}
	if w := strings.Join(im.Warnings, "\n"); strings.Count(w, "private key") != 3 || !strings.Contains(w, `"sub/copied" was left out`) {
		t.Errorf("warnings: %s", w)
	}
	for _, dir := range []string{"issuer", "snapshots/1-1"} {
		tree{"leases.db": "who keeps what", "more/keys": "secret"}.make(t, filepath.Join(mine, dir))
	}
	tree{"catalog.db-wal": "tickets"}.make(t, mine)
	for _, p := range []string{"manifests", "catalog.db-wal", "issuer", "issuer/leases.db", "issuer/more/keys", "snapshots", "snapshots/1-1", "snapshots/1-1/more", "snapshots/1-1/more/keys", "guarded"} {
		refused = append(refused, filepath.Join(mine, p))
	}
	for _, p := range append(refused, mine, link, mine+"/../mine/", copied, keyless, filepath.Join(mine, "key"), alias, filepath.Join(mine, "token")) {
		for name, opt := range map[string]store.ImportOptions{"kept": {}, "links skipped": {Links: store.LinksSkip}} {
			if _, err := store.Import(context.Background(), p, opt); !errors.Is(err, share.ErrPath) || !strings.Contains(err.Error(), "private key") {
				t.Errorf("%s, %s: %v", p, name, err)
			}
		}
		if _, err := store.ImportAll(context.Background(), []string{filepath.Join(top, "x"), p}, store.ImportOptions{Name: "n"}); !errors.Is(err, share.ErrPath) {
			t.Errorf("%s with another: %v", p, err)
		}
	}
	tree{"photo": "a person's", "shares/fleets/x": "fetched"}.make(t, mine)
	for _, p := range []string{filepath.Join(mine, "photo"), filepath.Join(mine, "shares"), filepath.Join(mine, "shares", "fleets"), filepath.Join(mine, "snapshots", "1-1", "leases.db"), filepath.Join(top, "manifests")} {
		one, err := store.Import(context.Background(), p, store.ImportOptions{})
		if err != nil {
			t.Errorf("%s: %v", p, err)
			continue
		}
		one.Tree.Close()
	}
}

// Nothing is fetched to where a node keeps what is its own, nor over its state directory.
func TestNothingIsFetchedIntoAStateDirectory(t *testing.T) {
	top := t.TempDir()
	mine := filepath.Join(top, "mine")
	s, err := store.OpenState(mine)
	must(t, err)
	defer s.Close()
	for name, into := range map[string]string{"node.toml": mine, "token": mine, "x": filepath.Join(mine, "manifests"), "mine": top, "photo": mine} {
		src := t.TempDir()
		tree{name + "/node.toml": "http"}.make(t, src)
		im, err := store.Import(t.Context(), filepath.Join(src, name), store.ImportOptions{})
		must(t, err)
		defer im.Tree.Close()
		p, err := store.OpenPartial(t.Context(), into, im.Manifest, store.PartialOptions{Repair: true})
		if err == nil {
			must(t, p.Close())
		}
		if own := name != "photo"; errors.Is(err, share.ErrPath) != own {
			t.Errorf("%s into %s: %v", name, into, err)
		}
	}
}

// The key of the node that shares is left out under any name that the file has.
func TestAnotherNameOfTheKeyIsNotShared(t *testing.T) {
	dir, top := t.TempDir(), t.TempDir()
	s, err := store.OpenState(dir)
	must(t, err)
	defer s.Close()
	_, _, err = s.Key()
	must(t, err)
	tree{"x": "x"}.make(t, top)
	other := filepath.Join(top, "other")
	if err := os.Link(filepath.Join(dir, "key"), other); err != nil {
		t.Skip("no hard links here:", err)
	}
	im, err := store.Import(t.Context(), top, store.ImportOptions{State: s})
	must(t, err)
	defer im.Tree.Close()
	if n, w := im.Manifest.Len(), strings.Join(im.Warnings, "\n"); n != 1 || im.Excluded != 1 || !strings.Contains(w, `"other" was left out: it is the private key`) {
		t.Errorf("%d files, %d left out: %s", n, im.Excluded, w)
	}
	if _, err := store.Import(t.Context(), other, store.ImportOptions{State: s}); !errors.Is(err, share.ErrPath) || !strings.Contains(err.Error(), "never shared") {
		t.Error(err)
	}
	lone := t.TempDir()
	must(t, os.Link(other, filepath.Join(lone, "mine")))
	if _, err := store.Import(t.Context(), lone, store.ImportOptions{State: s}); !errors.Is(err, store.ErrNothingLeft) || !strings.Contains(err.Error(), `: nothing is left to share: "mine" was left out: it is the private key`) {
		t.Error(err)
	}
}

// What a fetch into a shared folder has not completed is left out of the share; a folder that is only called like that is not, and
// neither is one that is shared by itself.
func TestAnIncompleteFetchIsNotShared(t *testing.T) {
	top := t.TempDir()
	tree{"x": "x", "notes.partial/manifest": "mine", "film.partial/data/film": "half", "sub/film.partial/bits": "bits"}.make(t, top)
	of, err := store.Import(t.Context(), filepath.Join(top, "x"), store.ImportOptions{})
	must(t, err)
	of.Tree.Close()
	for _, at := range []string{"film.partial", "sub/film.partial"} {
		must(t, os.WriteFile(filepath.Join(top, at, "manifest"), of.Manifest.Bytes(), 0o600))
	}
	for from, want := range map[string]string{".": "notes.partial/manifest x", "film.partial": "data/film manifest"} {
		im, err := store.Import(t.Context(), filepath.Join(top, from), store.ImportOptions{})
		must(t, err)
		im.Tree.Close()
		var paths []string
		for _, e := range im.Manifest.Entries() {
			paths = append(paths, e.Path)
		}
		if got := strings.Join(paths, " "); got != want {
			t.Errorf("shared of %s: %s", from, got)
		}
		if w := strings.Join(im.Warnings, "\n"); from == "." && (im.Excluded != 2 || !strings.Contains(w, `"sub/film.partial" was left out: it belongs to an unfinished fetch into this folder`)) {
			t.Errorf("%d left out: %s", im.Excluded, w)
		}
	}
}
