package disk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/vfs"
)

const (
	maxSources = 32 << 10 // bytes of the sources that one peer has named
	maxNamers  = 8        // peers whose sources of a share are kept
)

// SaveSources stores where to fetch a share that has leases, as the peer by says; what others have said stays.
func (r *Root) SaveSources(id share.ID, by peers.ID, from []peers.Addr) error {
	if b, err := json.Marshal(from); err != nil || len(b) > maxSources {
		return errors.Join(err, share.ErrLimit)
	}
	r.sources.Lock()
	defer r.sources.Unlock()
	dir, err := r.there()
	if err != nil {
		return err
	}
	b, err := json.Marshal(merged(r.Sources(id), by, from))
	if err != nil {
		return err
	}
	at := Folder(id)
	err = vfs.WriteFile(dir, at+"/sources", at+"/sources.new", b, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the share was removed meanwhile, and must not come back
	}
	return err
}

// merged returns sources with those that a peer names now, in place of those that it has named before. Of too many that name some the
// first stay, and the one before this gives way: nobody makes a depot forget where the share was when it was first held.
func merged(all []peers.Addr, by peers.ID, from []peers.Addr) []peers.Addr {
	var namers []peers.ID // others
	for _, a := range all {
		if a.By != by && !slices.Contains(namers, a.By) {
			namers = append(namers, a.By)
		}
	}
	namers = namers[:min(len(namers), maxNamers-1)]
	at := slices.IndexFunc(all, func(a peers.Addr) bool { return a.By == by })
	if at < 0 {
		at = len(all)
	}
	other := func(a peers.Addr) bool { return !slices.Contains(namers, a.By) }
	return slices.Concat(slices.DeleteFunc(slices.Clone(all[:at]), other), from, slices.DeleteFunc(slices.Clone(all[at:]), other))
}

// Sources returns what SaveSources stored; none if it cannot be read.
func (r *Root) Sources(id share.ID) (out []peers.Addr) {
	dir, err := r.there()
	if err != nil {
		return nil
	}
	b, err := vfs.ReadFile(dir, Folder(id)+"/sources", maxNamers*maxSources)
	if err != nil || json.Unmarshal(b, &out) != nil {
		return nil
	}
	return out
}

// Manifest returns a share's manifest; the error wraps fs.ErrNotExist if it is not here intact.
func (r *Root) Manifest(id share.ID) (*share.Manifest, error) {
	dir, err := r.there()
	if err != nil {
		return nil, err
	}
	b, err := vfs.ReadFile(dir, Folder(id)+"/manifest", share.MaxManifest)
	if err != nil {
		if away := r.lost(err); away != nil {
			return nil, away
		}
		return nil, words.Error(fs.ErrNotExist, "the list of files of %v cannot be read: %v", id, err)
	}
	if share.IDOf(b) != id {
		return nil, words.Error(fs.ErrNotExist, "the list of files of %v is damaged", id)
	}
	return share.DecodeManifest(b)
}

// Open opens the folder of a share, to fetch what is missing of it. Data that is already
// there is hashed, and kept where it is right.
func (r *Root) Open(ctx context.Context, m *share.Manifest, wanted []bool) (*store.Partial, error) {
	dir, err := r.there()
	if err != nil {
		return nil, err
	}
	id := m.ID()
	at, err := made(dir, id)
	if err == nil {
		err = r.named(dir, id)
	}
	if err != nil {
		return nil, err
	}
	if _, err := r.Manifest(id); errors.Is(err, fs.ErrNotExist) {
		err = vfs.WriteFile(dir, at+"/manifest", at+"/manifest.new", m.Bytes(), true)
		if err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, err
	}
	if err := errors.Join(vfs.EnsureDir(dir, content(id)), dir.SyncDir(at)); err != nil {
		return nil, err
	}
	return store.OpenPartial(ctx, content(id), m, store.PartialOptions{Workers: r.Workers, Wanted: wanted, Repair: true, FS: dir})
}

// Tree opens a complete share for reading. All that is read is checked against its hashes.
func (r *Root) Tree(id share.ID) (*store.Tree, error) {
	dir, err := r.there()
	if err != nil {
		return nil, err
	}
	m, err := r.Manifest(id)
	if err != nil {
		return nil, err
	}
	return store.OpenTree(dir, content(id), m)
}

// Look examines the names and sizes of a share.
func (r *Root) Look(id share.ID) (s depot.OnDisk, err error) {
	dir, err := r.there()
	if err != nil {
		return s, err
	}
	if s.Leases, err = r.Promises(id); err != nil {
		return s, err
	}
	s.Manifest, err = r.Manifest(id)
	if errors.Is(err, fs.ErrNotExist) {
		s.Gone = empty(dir, Folder(id))
		return s, nil
	}
	if err != nil {
		return s, err
	}
	m, at := s.Manifest, content(id)
	info, err := dir.Lstat(path.Join(at, m.Name))
	if err == nil {
		s.Whole = m.Single() == (info.Type == 0)
	} else if err := r.lost(err); err != nil {
		return s, err
	}
	s.Bad = share.NewSet(m.Layout().Pieces())
	for i, e := range m.Entries() {
		if e.Kind != share.File {
			continue
		}
		info, err := dir.Lstat(fileOf(at, m, e))
		if err != nil {
			if err := r.lost(err); err != nil {
				return s, err
			}
		}
		if err != nil || info.Type != 0 || info.Size != e.Size {
			for p := range m.Layout().EachOf(i) {
				s.Bad.Add(p)
			}
		}
	}
	return s, nil
}

// lost returns nil if an error about a name of a share means that what it names is not there, or is lost. A disk that is away
// makes no share damaged, nor does a process that has too many files open: then lost returns why nothing is known.
func (r *Root) lost(err error) error {
	if errors.Is(err, fs.ErrNotExist) || vfs.NotDir(err) {
		return nil
	}
	if vfs.TooManyOpen(err) {
		return err
	}
	_, away := r.there()
	return away
}

// empty reports whether a folder is not there, or has nothing but what a crash left half written.
func empty(dir vfs.FS, at string) bool {
	names, err := dir.ReadDir(at)
	for _, e := range names {
		if !strings.HasSuffix(e.Name, ".new") {
			return false
		}
	}
	return err == nil || errors.Is(err, fs.ErrNotExist)
}

// fileOf returns where a file of a share lies.
func fileOf(at string, m *share.Manifest, e share.Entry) string {
	if m.Single() {
		return path.Join(at, m.Name)
	}
	return path.Join(at, m.Name, e.Path)
}

// Scrub compares pieces of a share with the manifest, from p until enough says so or the
// last. It adds those that are missing or wrong to bad, and returns the piece to go on with.
func (r *Root) Scrub(m *share.Manifest, p share.Piece, bad *share.Set, enough func(read int) bool) (next share.Piece, err error) {
	dir, err := r.there()
	if err != nil {
		return p, err
	}
	l, at := m.Layout(), content(m.ID())
	buf := make([]byte, 0)
	for ; int(p) < l.Pieces(); p++ {
		s := l.PieceSpan(p)
		if cap(buf) < s.Len {
			buf = make([]byte, s.Len)
		}
		values, err := pieceOf(dir, fileOf(at, m, m.Entry(s.Entry)), m, p, s, buf[:s.Len])
		if err != nil {
			if err := r.lost(err); err != nil {
				return p, err
			}
		}
		if values == nil {
			bad.Add(p)
		}
		if enough(s.Len) {
			return p + 1, nil
		}
	}
	return p, nil
}

// pieceOf reads a piece from the disk, and returns the hashes of its blocks; nil if it does not match the manifest.
// If the disk cannot read it, the error says why.
func pieceOf(dir vfs.FS, name string, m *share.Manifest, p share.Piece, s share.Span, buf []byte) ([]share.Hash, error) {
	f, err := dir.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if n, err := f.ReadAt(buf, s.Offset); n < s.Len {
		return nil, err
	}
	_, pieces := m.Layout().PiecesOf(s.Entry)
	if values, value := share.HashPiece(nil, buf, s.Offset, pieces == 1); value == m.PieceValue(p) {
		return values, nil
	}
	return nil, nil
}

// Remove removes everything of a share, and checks that it is gone.
func (r *Root) Remove(id share.ID) error {
	dir, err := r.there()
	if err != nil {
		return err
	}
	r.growing.forget(id)
	from, to := Folder(id), path.Join(going, id.String())
	err = moveAside(dir, from, to)
	if errors.Is(err, share.ErrDiskFull) { // of a full disk, the data goes first: that makes room for the names
		if err = clear(dir, content(id)); err == nil {
			err = moveAside(dir, from, to)
		}
	}
	if err != nil {
		return err
	}
	if err := syncNames(dir, path.Dir(from), going); err != nil {
		return err
	}
	if err := clear(dir, to); err != nil {
		return err
	}
	for _, name := range []string{from, to} {
		if _, err := dir.Lstat(name); err == nil {
			return fmt.Errorf("%s is still there", name)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// moveAside moves a share to what is being removed, if there is anything of it.
func moveAside(dir vfs.FS, from, to string) error {
	if _, err := dir.Lstat(from); err != nil {
		return nil
	}
	if err := errors.Join(vfs.EnsureDir(dir, going), clear(dir, to)); err != nil {
		return err
	}
	return dir.Move(from, to)
}

// syncNames makes the names in those folders that exist durable: an earlier process may have
// moved something and ended before its sync.
func syncNames(dir vfs.FS, folders ...string) error {
	for _, d := range folders {
		if err := dir.SyncDir(d); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// clear removes a name and everything below it. It may be missing.
func clear(dir vfs.FS, name string) error {
	info, err := dir.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Type.IsDir() {
		if err := clearIn(dir, name); err != nil {
			return err
		}
	}
	return dir.Remove(name)
}

// clearIn removes everything in a folder.
func clearIn(dir vfs.FS, name string) error {
	list, err := dir.ReadDir(name)
	if err != nil {
		return err
	}
	for _, e := range list {
		if err := clear(dir, path.Join(name, e.Name)); err != nil {
			return err
		}
	}
	return nil
}

// going is the folder of what is being removed. It stays once it is made: a full disk has no room for another.
const going = "going"

// Sweep removes what is left of shares that were being removed, or brought.
func (r *Root) Sweep() error {
	dir, err := r.there()
	if err != nil {
		return err
	}
	if err := errors.Join(syncNames(dir, going), r.sweepBrought(dir)); err != nil {
		return err
	}
	err = clearIn(dir, going)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
