package disk

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/piecelease/fetcher/store/storetest"
	"github.com/piecelease/fetcher/store/vfs"
)

// A first start that fails anywhere, or ends in a power cut, can be repeated.
func TestAFirstStartThatFailedIsRepeated(t *testing.T) {
	for at := range 20 {
		disk, b, names := storetest.New(1<<20), &book{}, 0
		begin := func() *Root {
			return New(func() (vfs.FS, error) { return disk.FS(), nil }, func() string { names++; return fmt.Sprint("d", names) })
		}
		n := 0
		disk.Fault = func(op storetest.Op) error {
			if op.Changes() {
				if n++; n > at {
					return errors.New("broken")
				}
			}
			return nil
		}
		r := begin()
		err := r.Ready(t.Context(), b)
		disk.Fault = nil
		r.Close()
		disk.CutPower()
		disk.Restart(uint64(at))
		r = begin()
		if again := r.Ready(t.Context(), b); again != nil {
			t.Errorf("fault %d (%v): the depot never begins: %v", at, err, again)
		}
		r.Close()
	}
}

// A disk that was away and is mounted again is a new folder at the same path.
// A depot that is started on another folder is told where its own was.
func TestADepotOnAnotherFolderIsToldWhereItWas(t *testing.T) {
	old, moved, b := t.TempDir(), t.TempDir(), &book{}
	at := func(dir string) error {
		r := open(dir)
		r.Path = dir
		defer r.Close()
		return r.Ready(t.Context(), b)
	}
	if err := at(old); err != nil || b.folder != old {
		t.Fatal(err, b.folder)
	}
	if err := at(moved); !errors.Is(err, ErrAway) || !strings.Contains(err.Error(), old) || b.folder != old {
		t.Error(err, b.folder)
	}
	if err := at(old); err != nil {
		t.Error(err)
	}
	if err := os.CopyFS(moved, os.DirFS(old)); err != nil {
		t.Fatal(err)
	}
	if err := at(moved); err != nil || b.folder != moved {
		t.Error("it has moved:", err, b.folder)
	}
	r := open(t.TempDir()) // nothing is known of its path
	defer r.Close()
	if err := r.Ready(t.Context(), b); !errors.Is(err, ErrAway) || strings.Contains(err.Error(), moved) {
		t.Error(err)
	}
}

func TestADiskThatIsMountedAgainIsUsedAgain(t *testing.T) {
	disk, b, names := storetest.New(1<<20), &book{}, 0
	gone := false
	var first vfs.FS
	r := New(func() (vfs.FS, error) {
		if first == nil {
			first = disk.FS()
			return dead{first, &gone}, nil
		}
		return disk.FS(), nil
	}, func() string { names++; return fmt.Sprint("d", names) })
	defer r.Close()
	if err := r.Ready(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	gone = true // all files open on it are dead for good
	r.Ready(t.Context(), b)
	if err := r.Ready(t.Context(), b); err != nil {
		t.Error("mounted again:", err)
	}
	if _, err := r.Free(); err != nil {
		t.Error(err)
	}
}

// dead is a folder of which nothing can be read once its disk was unplugged.
type dead struct {
	vfs.FS
	gone *bool
}

func (d dead) Open(name string) (vfs.File, error) {
	if *d.gone {
		return nil, errors.New("input/output error")
	}
	return d.FS.Open(name)
}
