package disk

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// ErrAway means that the disk is not there: the folder of the depot is missing, or has no identity, or
// another depot's. It may come back.
var ErrAway = errors.New("the folder cannot be used")

// Identity is what the folder says about itself.
type Identity struct {
	Depot    string // never changes
	Database string // the database that wrote here last
}

// Book is what Ready needs from the database.
type Book interface {
	Meta(ctx context.Context) (depot.Meta, error)
	SetIdentity(ctx context.Context, depot, self string) error
	SetFolder(ctx context.Context, folder string) error
}

// Root is the folder of a depot. Its methods are safe for concurrent use, but with one
// writer at a time for each share.
type Root struct {
	// Workers is the number of files and pieces hashed at once when a share is opened; default one
	// per core. If it is 1, nothing is done at once.
	Workers int
	// Path is the folder's path, which messages name; empty: none is named.
	Path string

	open func() (vfs.FS, error)
	name func() string // makes a new random name

	bring   sync.Mutex   // held while a share is brought
	comes   atomic.Int64 // bytes of that which are not written yet
	growing growing
	sources sync.Mutex // held while sources are stored

	mu     sync.Mutex // guards the fields below
	dir    vfs.FS     // nil: Ready has not succeeded yet
	lock   io.Closer
	is     Identity
	shards map[string]bool // folders of shares whose own names are durable
}

// New returns the folder that open opens, which may fail until the disk is there. name
// makes random names for new depots and databases.
func New(open func() (vfs.FS, error), name func() string) *Root { return &Root{open: open, name: name} }

// Close releases the folder.
func (r *Root) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.letGo()
}

func (r *Root) letGo() error {
	if r.dir == nil {
		return nil
	}
	err := errors.Join(r.lock.Close(), r.dir.Close())
	r.dir, r.lock = nil, nil
	r.growing.forgetAll()
	return err
}

// Ready returns nil if the disk is there and is the one that the database belongs to. A
// new depot gets its identity. So does a new database of an existing depot, and one that
// is not the last to have written here: it is incomplete from then on. The error wraps
// ErrAway, or share.ErrHeld if another process has the folder.
func (r *Root) Ready(ctx context.Context, b Book) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dir != nil {
		if r.same() == nil {
			return nil
		}
		r.letGo() // a disk that was mounted again is a new folder at the same path
	}
	meta, err := b.Meta(ctx)
	if err != nil {
		return err
	}
	dir, err := r.open()
	if err != nil {
		return r.elsewhere(meta, fmt.Errorf("%w: %w", ErrAway, err))
	}
	if err := r.take(ctx, b, meta, dir); err != nil {
		dir.Close()
		return r.elsewhere(meta, err)
	}
	if meta.Folder != r.Path {
		if err := b.SetFolder(ctx, r.Path); err != nil {
			dir.Close()
			return errors.Join(err, r.lock.Close())
		}
	}
	r.dir, r.shards = dir, map[string]bool{}
	return nil
}

// elsewhere adds to an error where the depot's folder was the last time, if it was at another path.
func (r *Root) elsewhere(meta depot.Meta, err error) error {
	if r.Path == "" || meta.Folder == "" || meta.Folder == r.Path || !errors.Is(err, ErrAway) {
		return err
	}
	return fmt.Errorf("%w; this depot was last in %s: name that folder", err, meta.Folder)
}

// take uses dir as the folder, if it is the right one.
func (r *Root) take(ctx context.Context, b Book, meta depot.Meta, dir vfs.FS) error {
	is, err := ReadIdentity(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist) && meta.Depot == "":
		list, err := dir.ReadDir(".")
		if err != nil {
			return fmt.Errorf("%w: %w", ErrAway, err)
		}
		if slices.ContainsFunc(list, func(e vfs.DirEntry) bool { return e.Name != "lost+found" && e.Name != "lock" && e.Name != "depot.new" }) {
			return fmt.Errorf("%w: it holds files that are not a depot's; give the depot an empty folder", ErrAway)
		}
		is.Depot = r.name()
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: no depot's identity is in it, so either it is the wrong folder, or its disk is not mounted", ErrAway)
	case err != nil:
		return fmt.Errorf("%w: its identity cannot be read: %w", ErrAway, err)
	case meta.Depot != "" && meta.Depot != is.Depot:
		return fmt.Errorf("%w: the folder belongs to another depot", ErrAway)
	}
	lock, err := dir.Lock("lock")
	if errors.Is(err, share.ErrHeld) {
		return words.Error(err, "another process uses the folder")
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrAway, err)
	}
	if err = r.adopt(ctx, b, meta, dir, &is); err == nil {
		if err = vfs.EnsureDir(dir, going); errors.Is(err, share.ErrDiskFull) {
			err = nil // Remove makes room for it
		}
	}
	if err != nil {
		lock.Close()
		return err
	}
	r.lock, r.is = lock, is
	return nil
}

// adopt makes the folder and the database name each other.
func (r *Root) adopt(ctx context.Context, b Book, meta depot.Meta, dir vfs.FS, is *Identity) error {
	if meta.Depot == is.Depot && meta.Self == is.Database {
		return nil
	}
	is.Database = r.name() // on the disk first: a database that names a folder without a name never finds it
	if err := vfs.WriteFile(dir, "depot", "depot.new", vfs.EncodeRecord(vfs.DepotRecord, []byte(is.Depot+"\n"+is.Database)), true); err != nil {
		return err
	}
	return b.SetIdentity(ctx, is.Depot, is.Database)
}

// ReadIdentity reads what a folder says about itself.
func ReadIdentity(dir vfs.FS) (is Identity, err error) {
	b, err := vfs.ReadRecord(dir, "depot", vfs.DepotRecord, 256)
	if err != nil {
		return is, err
	}
	is.Depot, is.Database, _ = strings.Cut(string(b), "\n")
	return is, nil
}

// same returns an error unless the folder still has its identity.
func (r *Root) same() error {
	switch is, err := ReadIdentity(r.dir); {
	case err != nil: // not wrapped: that it is missing says nothing about what was asked for
		return fmt.Errorf("%w: its identity cannot be read: %v", ErrAway, err)
	case is.Depot != r.is.Depot:
		return fmt.Errorf("%w: another depot's folder is in its place", ErrAway)
	case is != r.is:
		return fmt.Errorf("%w: it belongs to the database of another node now, or to a later database of this node", ErrAway)
	}
	return nil
}

// there returns the folder after a check of its identity.
func (r *Root) there() (vfs.FS, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dir == nil {
		return nil, ErrAway
	}
	return r.dir, r.same()
}

// Free returns how many bytes still fit beside a share that is being brought.
func (r *Root) Free() (int64, error) {
	dir, err := r.there()
	if err != nil {
		return 0, err
	}
	free, err := dir.Free()
	if free >= 0 {
		free = max(free-r.comes.Load(), 0)
	}
	return free, err
}

// Folder returns where a share lies, below the depot's own folder.
func Folder(id share.ID) string { return path.Join("shares", shard(id), id.String()) }

// content returns where the files of a share lie, whose names its owner chose.
func content(id share.ID) string { return Folder(id) + "/data" }

func shard(id share.ID) string { return hex.EncodeToString(id.Bytes()[digestAt : digestAt+1]) }

// digestAt is where the hash begins in the bytes of a share ID.
const digestAt = 4

// made makes the folder of a share. It lasts once named has been called.
func made(dir vfs.FS, id share.ID) (string, error) {
	at := Folder(id)
	for _, d := range []string{"shares", path.Dir(at), at} {
		if err := vfs.EnsureDir(dir, d); err != nil {
			return "", err
		}
	}
	return at, nil
}

// named makes the name of a share's folder durable. An earlier process may have made it, and ended
// before its sync.
func (r *Root) named(dir vfs.FS, id share.ID) error {
	at := path.Dir(Folder(id))
	if err := dir.SyncDir(at); err != nil {
		return err
	}
	r.mu.Lock()
	known := r.dir == dir && r.shards[at]
	r.mu.Unlock()
	if known {
		return nil
	}
	if err := errors.Join(dir.SyncDir("shares"), dir.SyncDir(".")); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dir == dir {
		r.shards[at] = true
	}
	return nil
}

// After returns shares that follow an ID, in the order of IDs, with none left out between
// them; it returns none if there are no more.
func (r *Root) After(id share.ID) ([]share.ID, error) {
	dir, err := r.there()
	if err != nil {
		return nil, err
	}
	first := 0
	if !id.IsZero() {
		first = int(id.Bytes()[digestAt])
	}
	for b := first; b < 256; b++ {
		all, err := list(dir, path.Join("shares", hex.EncodeToString([]byte{byte(b)})))
		if err != nil {
			return nil, err
		}
		if !id.IsZero() {
			all = slices.DeleteFunc(all, func(x share.ID) bool { return x.Compare(id) <= 0 })
		}
		if len(all) > 0 {
			return all, nil
		}
	}
	return nil, nil
}

// list returns the shares of a folder, in the order of their IDs.
func list(dir vfs.FS, at string) (out []share.ID, err error) {
	all, err := dir.ReadDir(at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range all {
		if id, err := share.ParseID(e.Name); err == nil && e.Type.IsDir() && id.String() == e.Name && shard(id) == path.Base(at) {
			out = append(out, id)
		}
	}
	slices.SortFunc(out, share.ID.Compare)
	return out, err
}
