package disk

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/share"
)

// What a share takes of the disk is not much more than what its lease takes of a quota: else an account that has a quota of
// some MiB fills the depot, its directories and inodes, for all others.
func TestAShareTakesNoMoreThanItsLease(t *testing.T) {
	empty := share.FileRoot(nil)
	for what, entries := range map[string]func() []share.Entry{
		"nested directories that paths imply": func() (all []share.Entry) {
			for i := range 2 {
				all = append(all, share.Entry{Path: fmt.Sprint(i) + strings.Repeat("/d", 500) + "/f", Root: empty, PieceExp: share.PieceExp(0)})
			}
			return all
		},
		"links": func() (all []share.Entry) {
			for i := range 300 {
				all = append(all, share.Entry{Kind: share.Symlink, Path: fmt.Sprintf("%04d", i), Target: strings.Repeat("x", 61)})
			}
			return all
		},
	} {
		t.Run(what, func(t *testing.T) {
			r, dir := ready(t)
			m, err := share.NewManifest("x", entries())
			if err != nil {
				t.Fatal(err)
			}
			read := func(share.Piece, []byte) ([]share.Hash, error) { return nil, nil }
			if err := r.Bring(t.Context(), m, nil, read); err != nil {
				t.Fatal(err)
			}
			taken, names := int64(0), 0
			err = filepath.WalkDir(filepath.Join(dir, filepath.FromSlash(Folder(m.ID())), "data"), func(_ string, e fs.DirEntry, err error) error {
				if err != nil {
					return err
				}
				info, err := e.Info()
				if err == nil {
					taken, names = taken+info.Sys().(*syscall.Stat_t).Blocks*512, names+1
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			if most := 2 * depot.Bytes(m); taken > most {
				t.Errorf("%d names take %d bytes of the disk, %d times the %d that a lease of them counts", names, taken, taken/depot.Bytes(m), depot.Bytes(m))
			}
		})
	}
}
