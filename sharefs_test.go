package fetcher

import (
	"archive/zip"
	"bytes"
	"errors"
	"io/fs"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
)

// Files that are not on a disk are shared like others: those that allow random access,
// and those that can only be read from the beginning.
func TestFilesOfAnFSAreShared(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	big := make([]byte, 3<<20+7)
	rand.New(rand.NewSource(1)).Read(big)
	files := fstest.MapFS{"a/big.bin": {Data: big}, "run.sh": {Data: []byte("#!/bin/sh\n"), Mode: 0o755}, "empty": {}}
	var packed bytes.Buffer
	z := zip.NewWriter(&packed)
	for name, f := range files {
		w, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate})
		must(t, err)
		_, err = w.Write(f.Data)
		must(t, err)
	}
	must(t, z.Close())
	unpacked, err := zip.NewReader(bytes.NewReader(packed.Bytes()), int64(packed.Len()))
	must(t, err)
	for name, from := range map[string]fs.FS{"map": files, "zip": unpacked, "folder": os.DirFS(unpack(t, files))} {
		t.Run(name, func(t *testing.T) {
			n := openNode(t)
			s, err := n.ShareFS(t.Context(), from, ShareOptions{Name: "things"})
			must(t, err)
			if len(n.Shares()) != 1 || len(n.Entries()) != 0 || s.Entry() != 0 {
				t.Errorf("%v, %v", n.Shares(), n.Entries())
			}
			x, err := fetchInto(t, openNode(t), s.Ticket(), t.TempDir(), FetchOptions{})
			must(t, err)
			for name, f := range files {
				if got, err := os.ReadFile(filepath.Join(x.Path(), name)); err != nil || !bytes.Equal(got, f.Data) {
					t.Errorf("%s: %d bytes, %v", name, len(got), err)
				}
			}
			must(t, s.Stop(t.Context()))
			if len(n.Shares()) != 0 {
				t.Error("it is still shared")
			}
		})
	}
}

func unpack(t *testing.T, files fstest.MapFS) string {
	dir := t.TempDir()
	must(t, os.CopyFS(dir, files))
	return dir
}

// A file that has changed by the time it is served is not sent, and ends the share.
func TestAnFSThatChangesEndsItsShare(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{"f": {Data: bytes.Repeat([]byte("a"), 2<<20)}}
	n := openNode(t)
	s, err := n.ShareFS(t.Context(), files, ShareOptions{Name: "things"})
	must(t, err)
	files["f"].Data[1<<20] = 'b'
	x, err := openNode(t).Fetch(t.Context(), s.Ticket(), FetchOptions{Dir: t.TempDir()})
	must(t, err)
	defer x.Stop(t.Context())
	<-s.Done()
	if !errors.Is(s.Err(), share.ErrChanged) {
		t.Error(s.Err())
	}
}

func TestWhatIsSharedOfAnFSHasAName(t *testing.T) {
	t.Parallel()
	n := openNode(t)
	if _, err := n.ShareFS(t.Context(), nil, ShareOptions{Name: "a"}); !errors.Is(err, fs.ErrInvalid) || !strings.Contains(err.Error(), "the fs.FS is nil") {
		t.Errorf("no fs.FS: %v", err)
	}
	for _, opt := range []ShareOptions{{}, {Name: "a", Also: []string{"b"}}, {Name: "a", Entry: 1}} {
		if _, err := n.ShareFS(t.Context(), fstest.MapFS{"f": {}}, opt); err == nil {
			t.Errorf("%+v was taken", opt)
		}
	}
}
