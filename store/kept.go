package store

import (
	"fmt"
	"path"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// OpenTree opens a share that lies whole in the folder dir of d, and of which only the
// manifest is known. It is not hashed: what is read of it is compared with the
// manifest, and is share.ErrChanged if it differs. d stays the caller's.
func OpenTree(d vfs.FS, dir string, m *share.Manifest) (*Tree, error) {
	at, err := locate(path.Join(dir, m.Name), d)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", m.Name, err)
	}
	stamps := make([]vfs.Stamp, m.Len())
	for i, e := range m.Entries() {
		if e.Kind != share.File {
			continue
		}
		info, err := at.dir.Lstat(at.file(e.Path))
		if err != nil {
			at.dir.Close()
			return nil, fmt.Errorf("open %s: %w", e.Path, err)
		}
		stamps[i] = info.Unseen().Stamp()
	}
	return newTree(m, at, stamps, &slotFile{}, 0), nil
}
