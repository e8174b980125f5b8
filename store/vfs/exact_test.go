package vfs

import (
	"fmt"
	"testing"
)

// listed is a folder that counts the names it has listed.
type listed struct {
	FS
	names *int
}

func (d listed) Sub(name string) (FS, error) {
	sub, err := d.FS.Sub(name)
	return listed{sub, d.names}, err
}

func (d listed) ReadDir(name string) ([]DirEntry, error) {
	list, err := d.FS.ReadDir(name)
	*d.names += len(list)
	return list, err
}

// That some folders are opened by their very names costs no listing of all their neighbours for each of the others.
func TestManyFoldersAreOpenedByTheirVeryNamesInTheTimeThatTheyAreListed(t *testing.T) {
	const folders = 1000
	top, err := Dir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for i := range folders {
		if err := top.Mkdir(fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	names := 0
	h := NewHandles(listed{top, &names}, 0)
	h.Exact = func(dir string) bool { return dir == "7" }
	defer h.Close()
	for i := range folders {
		if err := h.In(fmt.Sprint(i), false, func(FS) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if names > folders {
		t.Errorf("to open %d folders, %d names were listed", folders, names)
	}
}
