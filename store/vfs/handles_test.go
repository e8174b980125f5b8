//go:build unix

package vfs

import (
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"
)

// crowded is a folder in a process that has too many files open.
type crowded struct {
	FS
	opens *int
	after int // that many opens succeed
}

func (d crowded) Sub(string) (FS, error) {
	if *d.opens++; *d.opens > d.after {
		return nil, &fs.PathError{Op: "open", Err: syscall.EMFILE}
	}
	return d, nil
}

func (d crowded) Open(string) (File, error) { return nil, syscall.EMFILE }
func (d crowded) Close() error              { return nil }

// However deep a file lies, a process with too many open files tries a few times to
// open the folders that lead to it, and no more.
func TestTooManyOpenFilesAreTriedAFewTimes(t *testing.T) {
	const deep = 16
	name := strings.Repeat("d/", deep) + "f"
	for _, after := range []int{0, 1, deep / 2, deep} {
		opens := 0
		h := NewHandles(crowded{nil, &opens, after}, 0)
		_, err := h.OpenSeen(name)
		if !TooManyOpen(err) {
			t.Fatal(err)
		}
		if opens > after+5*deep {
			t.Errorf("after %d folders: %d opens", after, opens)
		}
		if _, err := h.Files.Get(1, func() (File, error) { return h.OpenSeen(name) }); !TooManyOpen(err) || opens > after+10*deep {
			t.Errorf("after %d folders, through the cache: %d opens, %v", after, opens, err)
		}
	}
}

// few is a folder in a process that may have a few files open.
type few struct {
	FS
	open *int
}

type fewFile struct {
	File
	open *int
}

func (d few) try() error {
	if *d.open == 5 {
		return syscall.EMFILE
	}
	*d.open++
	return nil
}

func (d few) Sub(string) (FS, error)    { return d, d.try() }
func (d few) Open(string) (File, error) { return fewFile{open: d.open}, d.try() }
func (d few) Close() error              { *d.open--; return nil }
func (f fewFile) Close() error          { *f.open--; return nil }

// A process that may open only a few files manages with them.
func TestOpenThingsMakeWayWhenThereAreTooMany(t *testing.T) {
	open := 0
	h := NewHandles(few{nil, &open}, 100)
	for k := range 50 {
		f, err := h.Files.Get(k, func() (File, error) { return h.OpenSeen(fmt.Sprintf("d%d/e/%d", k%3, k)) })
		if err != nil {
			t.Fatal(k, err)
		}
		h.Files.Put(f)
	}
	if h.Files.max > 5 || h.dirs.max > 5 {
		t.Errorf("up to %d files and %d folders are kept", h.Files.max, h.dirs.max)
	}
	h.Files.Clear()
	h.dirs.Clear()
	if open != 0 {
		t.Errorf("%d are left open", open)
	}
}
