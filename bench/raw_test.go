//go:build linux

package bench

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// hashFile computes BLAKE3 of every MiB of a file, on all cores, as b3sum would;
// the values are not folded into a root.
func hashFile(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	const piece = 1 << 20
	var next atomic.Int64
	var g sync.WaitGroup
	errs := make(chan error, runtime.GOMAXPROCS(0))
	for range cap(errs) {
		g.Go(func() {
			buf := make([]byte, piece)
			for {
				at := (next.Add(1) - 1) * piece
				if at >= info.Size() {
					return
				}
				if _, err := f.ReadAt(buf, at); err != nil { // sizes are whole pieces
					errs <- err
					return
				}
				subtree(buf, uint64(at/1024))
			}
		})
	}
	g.Wait()
	close(errs)
	return <-errs
}

const filesPerDir = 100

// smallFile returns the name of file i of a generated tree.
func smallFile(i int) string { return fmt.Sprintf("d%03d/f%05d", i/filesPerDir, i) }

// writeFiles makes a tree of n files of size bytes each, no two alike, and syncs it once.
func writeFiles(dir string, n, size int) error {
	data := pattern()
	data = append(data, data[:size]...)
	for i := range n {
		name := filepath.Join(dir, smallFile(i))
		if i%filesPerDir == 0 {
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				return err
			}
		}
		o := i * 997 % patternSize
		if err := os.WriteFile(name, data[o:o+size], 0o644); err != nil {
			return err
		}
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return unix.Syncfs(int(d.Fd()))
}

// warm reads a file or a tree once, so that it is in the page cache.
func warm(path string) error {
	buf := make([]byte, 1<<20)
	return filepath.WalkDir(path, func(p string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		f, err := os.Open(p)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{f}, buf)
		return err
	})
}
