package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"testing"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/storetest"
	"github.com/piecelease/fetcher/store/vfs"
)

// What is taken from another share is right, or not taken; what is there already stays.
func TestPiecesOfAnotherShareAreTaken(t *testing.T) {
	t.Parallel()
	old, content := small(t)
	next, err := share.NewManifest("movie", slices.Collect(func(yield func(share.Entry) bool) {
		for _, e := range old.Entries() {
			e.Path = "movie"
			yield(e)
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	for name, c := range map[string]struct {
		ctx    context.Context
		damage func(vfs.FS) error
		want   int
		err    error
	}{
		"all is well": {t.Context(), nil, 1, nil},
		"it is damaged": {t.Context(), func(d vfs.FS) error {
			return vfs.WriteFile(d, lies(old), "x", append([]byte{'F'}, content[1:]...), false)
		}, 0, nil},
		"it is cut":       {t.Context(), func(d vfs.FS) error { return vfs.WriteFile(d, lies(old), "x", content[1:], false) }, 0, nil},
		"it is away":      {t.Context(), func(d vfs.FS) error { return d.Remove(lies(old)) }, 0, nil},
		"nothing is left": {t.Context(), func(d vfs.FS) error { return clear(d, Folder(old.ID())) }, 0, fs.ErrNotExist},
		"it is given up":  {ended, nil, 0, context.Canceled},
	} {
		disk, b, names := storetest.New(1<<20), &book{}, 0
		r := New(func() (vfs.FS, error) { return disk.FS(), nil }, func() string { names++; return fmt.Sprint("d", names) })
		r.Workers = 1
		if err := errors.Join(r.Ready(t.Context(), b), r.Bring(t.Context(), old, nil, from(content))); err != nil {
			t.Fatal(err)
		}
		if c.damage != nil {
			if err := c.damage(disk.FS()); err != nil {
				t.Fatal(name, err)
			}
		}
		p, err := r.Open(t.Context(), next, nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := r.Reuse(c.ctx, p, old.ID()); !errors.Is(err, c.err) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if n := p.Verified().Count(); n != c.want {
			t.Errorf("%s: %d pieces are there, not %d", name, n, c.want)
		}
		if c.want > 0 {
			if _, err := p.Finish(t.Context()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := errors.Join(p.Close(), r.Close()); err != nil {
			t.Error(err)
		}
	}
}

// What one damaged copy of a piece does not give, another copy of it does.
func TestAnotherCopyOfADamagedPieceIsTaken(t *testing.T) {
	t.Parallel()
	next, content := small(t)
	one, two := next.Entry(0), next.Entry(0)
	one.Path, two.Path = "one", "two"
	old, err := share.NewManifest("films", []share.Entry{one, two})
	if err != nil {
		t.Fatal(err)
	}
	disk := storetest.New(1 << 20)
	r := New(func() (vfs.FS, error) { return disk.FS(), nil }, func() string { return "d" })
	r.Workers = 1
	if err := errors.Join(r.Ready(t.Context(), &book{}), r.Bring(t.Context(), old, nil, from(content))); err != nil {
		t.Fatal(err)
	}
	if err := vfs.WriteFile(disk.FS(), lies(old), "x", append([]byte{'F'}, content[1:]...), false); err != nil {
		t.Fatal(err)
	}
	p, err := r.Open(t.Context(), next, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Reuse(t.Context(), p, old.ID()); err != nil || p.Verified().Count() != 1 {
		t.Errorf("%d pieces are there, %v", p.Verified().Count(), err)
	}
	if err := errors.Join(p.Close(), r.Close()); err != nil {
		t.Error(err)
	}
}

// lies is where the file of small lies.
func lies(m *share.Manifest) string { return fileOf(content(m.ID()), m, m.Entry(0)) }
