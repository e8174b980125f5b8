package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// scratch is a folder in the state directory for files that are not kept. A
// lock in it says that it is ours, and whether its process is alive.
type scratch struct {
	dir  string
	lock io.Closer
	at   vfs.FS
}

const (
	scratchPattern = "scratch-*"
	scratchLock    = "fetcher-scratch.lock" // no other program has a file of this name
)

// newScratch makes a scratch, and removes those of processes that were killed. A folder that
// has such a name and no lock of ours belongs to somebody else, and stays, as does what is no folder.
func newScratch(state string) (*scratch, error) {
	if state == "" {
		var err error
		if state, err = fetcher.DefaultDir(); err != nil {
			return nil, err
		}
	}
	old, _ := filepath.Glob(filepath.Join(quoteMeta(state), scratchPattern)) // the pattern is valid
	for _, dir := range old {
		if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
			continue
		}
		if _, err := os.Lstat(filepath.Join(dir, scratchLock)); err == nil {
			if s, err := takeScratch(dir); err == nil {
				s.remove()
			}
		} else if isNew(dir) {
			os.Remove(dir) // unless something is in it
		}
	}
	for tries := 3; ; tries-- {
		dir, err := os.MkdirTemp(state, scratchPattern)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", fetcher.ErrStateDir, err)
		}
		s, err := takeScratch(dir)
		if err == nil || tries == 0 {
			return s, err
		}
		// Another process treated it as left over; it is gone now.
	}
}

// isNew reports whether a folder has a name that MkdirTemp gives: its process may have been killed before it made the lock.
func isNew(dir string) bool {
	_, number, _ := strings.Cut(filepath.Base(dir), "-")
	return number != "" && strings.Trim(number, "0123456789") == ""
}

func quoteMeta(dir string) string {
	return strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `\`, `\\`).Replace(dir)
}

func takeScratch(dir string) (*scratch, error) {
	at, err := vfs.Dir(dir)
	if err != nil {
		return nil, err
	}
	lock, err := at.Lock(scratchLock)
	if err != nil {
		at.Close()
		return nil, err
	}
	return &scratch{dir, lock, at}, nil
}

func (s *scratch) remove() {
	os.RemoveAll(s.dir)
	s.lock.Close()
	s.at.Close()
	os.RemoveAll(s.dir) // an open file cannot be removed on every system
}

// stdinName is the name under which stdin is kept in a scratch.
const stdinName = "stdin"

// keepStdin reads stdin to its end into a scratch.
func (a *app) keepStdin(ctx context.Context) (*scratch, error) {
	s, err := newScratch(a.flags.dir)
	if err != nil {
		return nil, err
	}
	if err := a.readStdin(ctx, filepath.Join(s.dir, stdinName)); err != nil {
		s.remove()
		return nil, err
	}
	return s, nil
}

func (a *app) readStdin(ctx context.Context, to string) error {
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	defer f.Close()
	defer a.stderr.clear()
	in := &counted{r: a.stdin}
	read := make(chan error, 1)
	go func() { // ends with the process, at the latest: a read of stdin cannot be cut short
		_, err := io.Copy(f, in)
		read <- err
	}()
	tick := time.NewTicker(redrawEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-read:
			if err == nil {
				err = f.Close()
			}
			if err != nil {
				err = fmt.Errorf("what comes on stdin cannot be kept: %w", vfs.Full(err))
			}
			return err
		case <-tick.C:
			a.stderr.show("reading stdin: "+share.Size(in.n.Load()), nil, false)
		case <-ctx.Done():
			return cause(ctx)
		}
	}
}

// counted is a reader that knows how far it is.
type counted struct {
	r io.Reader
	n atomic.Int64 // bytes
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n.Add(int64(n))
	return n, err
}
