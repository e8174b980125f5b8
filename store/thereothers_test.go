package store_test

import (
	"os"
	"path"
	"testing"

	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/vfs"
)

// opens is a disk that tells which files are opened for reading.
type opens struct {
	vfs.FS
	at   string
	told func(name string)
}

func (d opens) Sub(name string) (vfs.FS, error) {
	sub, err := d.FS.Sub(name)
	return opens{sub, path.Join(d.at, name), d.told}, err
}

func (d opens) Open(name string) (vfs.File, error) {
	d.told(path.Join(d.at, name))
	return d.FS.Open(name)
}

// While what is in the place of a file is read, which may take long, others may put something of theirs where the file was fetched: that stays.
func TestWhatIsPutInDataWhileAPlaceIsReadStays(t *testing.T) {
	r := newMended(t, tree{"a": random(10), "b": "right"})
	r.must(os.Remove(r.path("a")))
	r.must(os.Remove(r.path("b")))
	dir, err := vfs.Dir(r.dir)
	r.must(err)
	defer dir.Close()
	theirs, told := path.Join(r.dir, "stuff.partial", "data", "b"), func(string) {}
	p, err := store.OpenPartialIn(t.Context(), opens{dir, "", func(name string) { told(name) }}, r.im.Manifest, store.PartialOptions{Wanted: only(r.im.Manifest, "a")})
	r.must(err)
	defer p.Close()
	p.Select(nil)
	copyAll(t, p, r.im.Tree)
	r.must(os.WriteFile(r.path("b"), []byte("right"), 0o666))
	told = func(name string) {
		if name == "stuff/b" {
			r.must(os.Remove(theirs))
			r.must(os.WriteFile(theirs, []byte("theirs"), 0o666))
		}
	}
	_, err = p.Finish(t.Context())
	told = func(string) {}
	r.must(p.Close())
	if b, err2 := os.ReadFile(theirs); string(b) != "theirs" {
		t.Errorf("it is removed: %v; finished: %v", err2, err)
	}
}
