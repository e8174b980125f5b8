package disk

import (
	"context"
	"errors"
	"io/fs"
	"path"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/vfs"
)

// bringing is where a share is put together that comes whole from elsewhere. The crawler does not look there.
const bringing = "bringing"

// syncedPieces is how many pieces are written before they are synced.
const syncedPieces = 64

// Bring writes a whole share, with the leases beside it, durably: all of it or nothing, as the share gets
// its place at the end. read fills a buffer with the next piece, which is right, and returns the hashes of
// its blocks. The error wraps fs.ErrExist if the share has a place already, perhaps since a moment.
// One call at a time.
func (r *Root) Bring(ctx context.Context, m *share.Manifest, leases []depot.Promise, read func(p share.Piece, buf []byte) ([]share.Hash, error)) (err error) {
	dir, err := r.there()
	if err != nil {
		return err
	}
	r.bring.Lock()
	defer r.bring.Unlock()
	id := m.ID()
	at := path.Join(bringing, id.String())
	defer func() { err = errors.Join(err, clear(dir, bringing)) }()
	if err := clear(dir, bringing); err != nil {
		return err
	}
	if b, err := encodeLeases(id, leases); err != nil {
		return err
	} else if err := errors.Join(vfs.EnsureDir(dir, bringing), vfs.EnsureDir(dir, at), vfs.EnsureDir(dir, at+"/data"), vfs.WriteFile(dir, at+"/manifest", at+"/manifest.new", m.Bytes(), true),
		vfs.WriteFile(dir, at+"/leases", at+"/leases.new", b, true)); err != nil {
		return err
	}
	if err := r.fill(ctx, dir, at+"/data", m, read); err != nil {
		return err
	}
	to := Folder(id)
	for _, d := range []string{"shares", path.Dir(to)} {
		if err := errors.Join(vfs.EnsureDir(dir, d), dir.SyncDir(path.Dir(d))); err != nil {
			return err
		}
	}
	if err := errors.Join(dir.SyncDir(at), dir.Move(at, to)); err != nil {
		return err
	}
	return errors.Join(dir.SyncDir(path.Dir(to)), dir.SyncDir(bringing))
}

// fill writes the files of a share.
func (r *Root) fill(ctx context.Context, dir vfs.FS, at string, m *share.Manifest, read func(p share.Piece, buf []byte) ([]share.Hash, error)) (err error) {
	p, err := store.OpenPartial(ctx, at, m, store.PartialOptions{Workers: r.Workers, FS: dir})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	var buf []byte
	l := m.Layout()
	for piece := share.Piece(0); int(piece) < l.Pieces(); piece++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := l.PieceLen(piece)
		if cap(buf) < n {
			buf = make([]byte, n)
		}
		values, err := read(piece, buf[:n])
		if err != nil {
			return err
		}
		if err := p.Write(piece, 0, buf[:n]); err != nil {
			return err
		}
		p.Complete(piece, values)
		if piece%syncedPieces == syncedPieces-1 {
			if _, err := p.Sync(); err != nil {
				return err
			}
		}
	}
	_, err = p.Finish(ctx)
	return err
}

// sweepBrought removes what a process left that ended while it brought a share.
func (r *Root) sweepBrought(dir vfs.FS) error {
	if !r.bring.TryLock() {
		return nil // one is being brought
	}
	defer r.bring.Unlock()
	return clear(dir, bringing)
}

// Absent reports whether nothing of a share is on the disk.
func (r *Root) Absent(id share.ID) (bool, error) {
	dir, err := r.there()
	if err != nil {
		return false, err
	}
	_, err = dir.Lstat(Folder(id))
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return false, err
}
