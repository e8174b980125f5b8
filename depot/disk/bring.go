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

// Bring writes a whole share durably. One that has no place here yet is put together aside with its leases, and
// gets its place at the end: all of it or nothing. One that has a place keeps its leases and what is right of its
// data; Bring adds the rest in place, as a fetch does. read fills a buffer with the next piece, which is right, and
// returns the hashes of its blocks. The error wraps share.ErrHeld while the share is being fetched, and fs.ErrExist
// if its fetch began meanwhile. One call at a time.
func (r *Root) Bring(ctx context.Context, m *share.Manifest, leases []depot.Promise, read func(p share.Piece, buf []byte) ([]share.Hash, error)) (err error) {
	id := m.ID()
	absent, err := r.Absent(id)
	if err != nil {
		return err
	}
	dir, err := r.there()
	if err != nil {
		return err
	}
	r.bring.Lock()
	defer r.bring.Unlock()
	defer r.comes.Store(0)
	r.comes.Store(m.Layout().Bytes())
	come := read
	read = func(p share.Piece, buf []byte) ([]share.Hash, error) {
		values, err := come(p, buf)
		r.comes.Add(-int64(len(buf))) // that much is on the disk soon, or was before
		return values, err
	}
	if !absent {
		p, err := r.Open(ctx, m, nil)
		if err != nil {
			return err
		}
		return fill(ctx, p, read)
	}
	at := path.Join(bringing, id.String())
	defer func() { err = errors.Join(err, clear(dir, bringing)) }()
	if err := clear(dir, bringing); err != nil {
		return err
	}
	if b, err := leasesRecord(id, encodeLeases(leases)); err != nil {
		return err
	} else if err := errors.Join(vfs.EnsureDir(dir, bringing), vfs.EnsureDir(dir, at), vfs.EnsureDir(dir, at+"/data"), vfs.WriteFile(dir, at+"/manifest", at+"/manifest.new", m.Bytes(), true),
		vfs.WriteFile(dir, at+"/leases", at+"/leases.new", b, true)); err != nil {
		return err
	}
	p, err := store.OpenPartial(ctx, at+"/data", m, store.PartialOptions{Workers: r.Workers, FS: dir})
	if err != nil {
		return err
	}
	if err := fill(ctx, p, read); err != nil {
		return err
	}
	return place(dir, at, Folder(id))
}

// place moves a share that was put together to its place. If somebody holds it since a moment, its leases stay, and
// its manifest and data join them, unless there is data already: then the error wraps fs.ErrExist.
func place(dir vfs.FS, at, to string) error {
	for _, d := range []string{"shares", path.Dir(to)} {
		if err := errors.Join(vfs.EnsureDir(dir, d), dir.SyncDir(path.Dir(d))); err != nil {
			return err
		}
	}
	if err := dir.SyncDir(at); err != nil {
		return err
	}
	err := dir.Move(at, to)
	if errors.Is(err, fs.ErrExist) {
		if err = dir.Move(at+"/manifest", to+"/manifest"); err == nil || errors.Is(err, fs.ErrExist) {
			err = errors.Join(dir.Move(at+"/data", to+"/data"), dir.SyncDir(to))
		}
	}
	if err != nil {
		return err
	}
	return errors.Join(dir.SyncDir(path.Dir(to)), dir.SyncDir(bringing))
}

// fill writes what p lacks, and closes it.
func fill(ctx context.Context, p *store.Partial, read func(p share.Piece, buf []byte) ([]share.Hash, error)) (err error) {
	defer func() { err = errors.Join(err, p.Close()) }()
	var buf []byte
	l, have := p.Manifest().Layout(), p.Verified()
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
		if have.Has(piece) {
			continue
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
