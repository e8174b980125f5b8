package store

import (
	"context"
	"encoding/binary"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// RawBits returns the verified pieces as a bits file has them, nil if it holds none.
func RawBits(d vfs.FS, name string, m *share.Manifest) *share.Set {
	pieces := m.Layout().Pieces()
	b, err := vfs.ReadRecord(d, name, vfs.BitsRecord, bitsHead+(pieces+7)/8)
	if err != nil || binary.LittleEndian.Uint32(b[44:]) != uint32(pieces) {
		return nil
	}
	set, err := share.ParseSet(pieces, b[bitsHead:])
	if err != nil {
		return nil
	}
	return set
}

// HashedAgain returns how many bytes were hashed because somebody might have changed them.
func HashedAgain(p *Partial) int64 { return p.watch.hashed.Load() }

// SyncSome is Sync that hashes at most that many bytes of what others have touched.
func SyncSome(p *Partial, hash int64) (int, error) {
	p.syncing.Lock()
	defer p.syncing.Unlock()
	return p.sync(context.Background(), hash)
}

// Staging is NAME.partial.
var Staging = stagingName

// RememberPaths changes how many imported paths are remembered.
func (s *State) RememberPaths(n int) { s.paths = n }
