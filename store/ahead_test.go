package store_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/vfs"
)

// ahead is a network drive that keeps times of whole seconds, and whose clock is an hour ahead of ours.
type ahead struct {
	vfs.FS
	written *time.Time // when the file there was last written, by our clock
}

func (d ahead) told(info vfs.Info) vfs.Info {
	info.MTime = d.written.Add(time.Hour).Truncate(time.Second).UnixNano()
	info.CTime = info.MTime
	return info
}

func (d ahead) Sub(name string) (vfs.FS, error) {
	sub, err := d.FS.Sub(name)
	return ahead{sub, d.written}, err
}

func (d ahead) Lstat(name string) (vfs.Info, error) {
	info, err := d.FS.Lstat(name)
	return d.told(info), err
}

func (d ahead) Open(name string) (vfs.File, error) {
	f, err := d.FS.Open(name)
	return aheadFile{f, d}, err
}

type aheadFile struct {
	vfs.File
	on ahead
}

func (f aheadFile) Stat() (vfs.Info, error) {
	info, err := f.File.Stat()
	return f.on.told(info), err
}

// A file that was just written is hashed once each later change shows in its times, though these lie ahead of our clock: or a change right after that is
// served under the hash of what was there before.
func TestAFileFromAheadOfOurClockIsHashedOnceItHasSettled(t *testing.T) {
	top, state := t.TempDir(), t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		dir, err := vfs.Dir(top)
		check(t, err)
		defer dir.Close()
		written := time.Now()
		disk := ahead{dir, &written}
		write := func(content string) {
			check(t, os.WriteFile(filepath.Join(top, "f"), []byte(content), 0o666))
			written = time.Now()
		}
		st, err := store.OpenState(state)
		check(t, err)
		defer st.Close()
		imported := func() (*store.Imported, share.ID) {
			im, err := store.Import(t.Context(), "f", store.ImportOptions{FS: disk, State: st, Workers: 1})
			check(t, err)
			return im, im.Manifest.ID()
		}
		write("one")
		im, before := imported()
		defer im.Tree.Close()
		write("two")
		b := make([]byte, 3)
		if _, err := im.Tree.ReadRun(0, 0, 1, b); err == nil && string(b) != "one" {
			t.Errorf("%q is served for %q", b, "one")
		}
		again, after := imported()
		defer again.Tree.Close()
		if after == before {
			t.Error("a change is not noticed")
		}
	})
}
