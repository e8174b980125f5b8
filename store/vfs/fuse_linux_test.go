package vfs

import (
	"errors"
	"testing"

	"github.com/piecelease/fetcher/internal/rig"
)

// A sync of a whole file system does not reach the program that is behind it (FUSE; only virtiofs passes it on): it succeeds, and nothing
// is durable. A sync of a file does reach it.
func TestAFileSystemWithAProgramBehindItIsNotSyncedAsAWhole(t *testing.T) {
	d, err := Dir(rig.NTFS(t))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for what, d := range map[string]FS{"folder": d, "held": HoldSync(d)} {
		if err := d.SyncAll(); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v, want %v", what, err, errors.ErrUnsupported)
		}
	}
}
