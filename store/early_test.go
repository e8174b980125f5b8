package store_test

import (
	"strings"
	"sync/atomic"
	"testing"

	testrig "github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/storetest"
	"github.com/piecelease/fetcher/store/vfs"
)

// hinted is a disk that counts the hints to begin writing files out.
type hinted struct {
	vfs.FS
	large, small *atomic.Int64
}

func (d hinted) Sub(name string) (vfs.FS, error) {
	sub, err := d.FS.Sub(name)
	return hinted{sub, d.large, d.small}, err
}

func (d hinted) Create(name string, exec bool) (vfs.File, error) {
	f, err := d.FS.Create(name, exec)
	if strings.HasPrefix(name, "large") {
		return hintedFile{f, d.large}, err
	}
	return hintedFile{f, d.small}, err
}

type hintedFile struct {
	vfs.File
	n *atomic.Int64
}

func (f hintedFile) BeginFlush() { f.n.Add(1) }

func TestALargeFileIsWrittenOutWhileItComes(t *testing.T) {
	testrig.Slow(t)
	tr := tree{"large": random(17 * share.MinPiece)}
	for _, name := range strings.Split("abcdefghi", "") {
		tr["small"+name] = random(share.MinPiece)
	}
	d := hinted{storetest.New(1 << 30).FS(), new(atomic.Int64), new(atomic.Int64)}
	if _, err := newRig(t, tr).fetch(d, 1000); err != nil {
		t.Fatal(err)
	}
	if n := d.large.Load(); n != 2 {
		t.Errorf("17 MiB were begun to be written out %d times, want one in 8 MiB", n)
	}
	if n := d.small.Load(); n != 0 {
		t.Errorf("%d small files were", n)
	}
}
