package store_test

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/vfs"
)

// seconds is a disk on which one file has times of whole seconds.
type seconds struct {
	vfs.FS
	of *written
}

// written is a file, and when it was last written.
type written struct {
	inode uint64
	at    time.Time
}

func (w *written) told(info vfs.Info) vfs.Info {
	if info.Inode == w.inode {
		info.MTime = w.at.Truncate(time.Second).UnixNano()
		info.CTime = info.MTime
	}
	return info
}

func (d seconds) Sub(name string) (vfs.FS, error) {
	sub, err := d.FS.Sub(name)
	return seconds{sub, d.of}, err
}

func (d seconds) Lstat(name string) (vfs.Info, error) {
	info, err := d.FS.Lstat(name)
	return d.of.told(info), err
}

func (d seconds) Open(name string) (vfs.File, error) {
	f, err := d.FS.Open(name)
	return secondsFile{f, d.of}, err
}

type secondsFile struct {
	vfs.File
	of *written
}

func (f secondsFile) Stat() (vfs.Info, error) {
	info, err := f.File.Stat()
	return f.of.told(info), err
}

// A file that others have just put in its place is taken as it is once each later change shows in its times: or what is changed right after that is
// served under the hash of what was there before.
func TestWhatWasJustPutThereIsTakenOnceItHasSettled(t *testing.T) {
	r := newMended(t, tree{"a": random(10), "b": "right"})
	r.must(os.Remove(r.path("a")))
	r.must(os.Remove(r.path("b")))
	synctest.Test(t, func(t *testing.T) {
		dir, err := vfs.Dir(r.dir)
		check(t, err)
		defer dir.Close()
		disk := seconds{dir, new(written)}
		write := func(content string) {
			check(t, os.WriteFile(r.path("b"), []byte(content), 0o666))
			info, err := dir.Lstat("stuff/b")
			check(t, err)
			*disk.of = written{info.Inode, time.Now()}
		}
		p, err := store.OpenPartialIn(t.Context(), disk, r.im.Manifest, store.PartialOptions{Wanted: only(r.im.Manifest, "a")})
		check(t, err)
		defer p.Close()
		p.Select(nil)
		copyAll(t, p, r.im.Tree)
		write("right")
		_, err = p.Finish(t.Context())
		check(t, err)
		write("wrong")
		i, _ := r.im.Manifest.Find("b")
		piece, _ := r.im.Manifest.Layout().PiecesOf(i)
		b := make([]byte, share.BlockSize)
		if n, err := p.ReadRun(piece, 0, 1, b); err == nil && string(b[:n]) != "right" {
			t.Errorf("%q is served for %q", b[:n], "right")
		}
	})
}
