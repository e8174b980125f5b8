package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/vfs"
)

// Where others may use what is the owner's alone, as on a disk that keeps no permissions, the node neither listens nor has a key.
func TestOnADiskWithoutPermissionsNothingIsPrivate(t *testing.T) {
	t.Parallel()
	dir := rig.NTFS(t)
	l := &Listening{d: &Daemon{dir: dir}}
	defer l.close()
	if err := l.openUnix(Socket(dir), 0o600); !errors.Is(err, vfs.ErrNotPrivate) || !errors.Is(err, fetcher.ErrStateDir) {
		t.Error("the socket:", err)
	}
	if err := l.openUnix(filepath.Join(dir, "other.sock"), 0o660); !errors.Is(err, vfs.ErrNotPrivate) || !errors.Is(err, ErrSettings) {
		t.Error("the group's socket:", err)
	}
	st, err := store.OpenState(dir)
	must(t, err)
	defer st.Close()
	if _, _, err := st.Key(); !errors.Is(err, vfs.ErrNotPrivate) {
		t.Error("the key:", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "key")); err == nil {
		t.Error("a key that others could read is left")
	}
}

// A key that others may read is made private where that can be done.
func TestAKeyThatOthersMayReadIsMadePrivate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for range 2 {
		st, err := store.OpenState(dir)
		must(t, err)
		_, _, err = st.Key()
		must(t, err)
		must(t, st.Close())
		info, err := os.Stat(filepath.Join(dir, "key"))
		must(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Error(info.Mode())
		}
		must(t, os.Chmod(filepath.Join(dir, "key"), 0o644))
	}
}
