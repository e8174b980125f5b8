package vfs

import (
	"archive/zip"
	"bytes"
	"sync"
	"testing"
)

// Many readers read one file of an fs.FS at once, although it can only be read from its beginning.
func TestFilesThatCannotSeekAreReadByMany(t *testing.T) {
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	f, err := w.Create("f")
	if err != nil {
		t.Fatal(err)
	}
	want := make([]byte, 256<<10)
	for i := range want {
		want[i] = byte(i >> 8)
	}
	f.Write(want)
	w.Close()
	z, err := zip.NewReader(bytes.NewReader(archive.Bytes()), int64(archive.Len()))
	if err != nil {
		t.Fatal(err)
	}
	file, err := Of(z).Open("f")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var reading sync.WaitGroup
	for i := range 4 {
		reading.Go(func() {
			for off := int64(3-i) << 16; off >= 0; off -= 1 << 16 {
				p := make([]byte, 100)
				if n, err := file.ReadAt(p, off); err != nil || n != len(p) || !bytes.Equal(p, want[off:off+100]) {
					t.Errorf("at %d: %d bytes, %v", off, n, err)
				}
			}
		})
	}
	reading.Wait()
}
