// Package storetest has a disk in memory that fails when told to and forgets, at
// a power cut, what was not synced. Tests and simulations run package store on it.
//
// It is as unkind as a disk may be. Bytes are durable after File.Sync or SyncAll,
// names after SyncDir of the folder they are in, or after SyncAll; nothing else
// promises anything. What was not synced when the power went is kept or
// lost page by page and name by name, as a seed says. A Sync that fails throws
// away what it should have kept, and the next one succeeds without it.
package storetest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/bits"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// PageSize is the unit in which bytes are kept or lost.
const PageSize = 4096

// ErrPower is what every operation says after the power was cut, until Restart.
var ErrPower = errors.New("the power is off")

// Op is one operation, about to happen.
type Op struct {
	Kind string // open create edit lstat readdir readlink mkdir symlink setexec remove rename move syncdir syncall sub lock free read write sync stat close
	Name string // what it is about, from the root; of rename and move, the old name
}

// Changes says whether the operation changes the disk or makes a change durable.
func (o Op) Changes() bool {
	switch o.Kind {
	case "create", "mkdir", "symlink", "setexec", "remove", "rename", "move", "syncdir", "syncall", "write", "sync":
		return true
	}
	return false
}

// Disk is a file system in memory. All methods may be called concurrently, but
// for the fields, which are set before.
type Disk struct {
	// Fault is asked before each operation, and an error is its outcome. A write
	// that fails has written its first half. It is called with the disk locked.
	Fault func(Op) error
	// NoSyncAll makes SyncAll unsupported, as it is on most systems.
	NoSyncAll bool
	// FoldCase makes names that differ only in case the same name.
	FoldCase bool
	// Clone makes files share bytes, which it is shown and may change as if somebody
	// else just had. Default: that cannot be.
	Clone func([]byte)

	mu      sync.Mutex // guards the fields below, and all nodes
	root    *node
	boot    int      // counts Restarts
	changes []change // of names, not durable, in order
	free    int64
	inodes  uint64
	common  []*Pages
	clock   int64 // counts changes, as the time of files
	life    int   // grows when the power goes
	off     bool
	open    int // files and folders
	most    int
}

// change is a change of names that is not durable yet.
type change struct {
	dir   *node  // whose sync makes it durable: of a move, the new one
	apply func() // does so
}

// node is a file, a folder or a symlink.
type node struct {
	inode  uint64
	typ    fs.FileMode
	exec   bool
	mtime  int64
	ctime  int64
	target string
	locked bool

	names, durableNames map[string]*node // folders

	chunks            map[int64]*chunk // files; by their place in the file
	unsynced          map[int64]*chunk // those of chunks with pages to sync
	used              int64            // pages that there are
	size, durableSize int64
}

// chunk is a part of a file. A page is written only while it is neither durable
// nor common; from then on it is shared, and a write makes another.
type chunk struct {
	pages, durable [chunkPages]*page
	dirty          uint64 // a bit for each page to sync
	common         uint64 // a bit for each page that is one of Pages
}

// chunkPages is the pages of a chunk, as many as dirty and common have bits.
const chunkPages = 64

type page [PageSize]byte

// page finds the page at a place, counted in pages; nil: there is none.
func (n *node) page(at int64) *page {
	if c := n.chunks[at/chunkPages]; c != nil {
		return c.pages[at%chunkPages]
	}
	return nil
}

// put puts a page at a place, to be synced. A common one is never written to.
func (n *node) put(at int64, p *page, common bool) {
	c := n.chunks[at/chunkPages]
	if c == nil {
		c = &chunk{}
		n.chunks[at/chunkPages] = c
	}
	if c.pages[at%chunkPages] == nil {
		n.used++
	}
	c.pages[at%chunkPages] = p
	if c.dirty == 0 {
		n.unsynced[at/chunkPages] = c
	}
	bit := uint64(1) << (at % chunkPages)
	c.dirty |= bit
	c.common &^= bit
	if common {
		c.common |= bit
	}
}

// shared says whether the page at a place is not the file's alone.
func (n *node) shared(at int64) bool {
	c, i := n.chunks[at/chunkPages], at%chunkPages
	return c != nil && (c.pages[i] == c.durable[i] || c.common>>i&1 != 0)
}

// New is an empty disk with room for size bytes of content.
func New(size int64) *Disk {
	d := &Disk{free: size}
	d.root = d.node(fs.ModeDir)
	return d
}

func (d *Disk) node(typ fs.FileMode) *node {
	d.inodes++
	d.clock++
	n := &node{inode: d.inodes, typ: typ, mtime: d.clock, ctime: d.clock}
	if typ.IsDir() {
		n.names, n.durableNames = map[string]*node{}, map[string]*node{}
	} else {
		n.chunks, n.unsynced = map[int64]*chunk{}, map[int64]*chunk{}
	}
	return n
}

// FS is the root folder. After a Restart it must be asked for anew.
func (d *Disk) FS() vfs.FS {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &folder{d: d, n: d.root, life: d.life}
}

// BootID is the same until a Restart: what was written and not synced can be
// read until then.
func (f *folder) BootID() string {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	return fmt.Sprint("boot ", f.d.boot)
}

// Open is the number of files and folders that are open, FS not counted, and the
// largest it has been.
func (d *Disk) Open() (now, most int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.open, d.most
}

// Held is the number of locks that are held.
func (d *Disk) Held() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.root.held()
}

func (n *node) held() (locks int) {
	if n.locked {
		locks = 1
	}
	for _, c := range n.names {
		locks += c.held()
	}
	return locks
}

func (d *Disk) opened() {
	d.open++
	d.most = max(d.most, d.open)
}

// Resize sets the bytes that still fit.
func (d *Disk) Resize(free int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.free = free
}

// CutPower makes every operation fail from now on.
func (d *Disk) CutPower() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.off = true
}

// Restart turns the power on again. What was not synced is kept or lost by the
// seed; what is open is closed, locks are free.
func (d *Disk) Restart(seed uint64) {
	d.mu.Lock()
	d.boot++
	defer d.mu.Unlock()
	r := rand.New(rand.NewPCG(seed, 0))
	keep := func() bool { return r.IntN(2) == 0 }
	for _, c := range d.changes {
		if keep() {
			c.apply()
		}
	}
	d.changes = nil
	d.forget(d.root, keep)
	d.life++
	d.open = 0
	d.off = false
}

// forget makes what is durable, and what luck kept, all there is below n.
func (d *Disk) forget(n *node, keep func() bool) {
	n.locked = false
	if !n.typ.IsDir() {
		for _, at := range sorted(n.unsynced) {
			c := n.unsynced[at]
			for ; c.dirty != 0; c.dirty &= c.dirty - 1 {
				if i := bits.TrailingZeros64(c.dirty); keep() {
					c.durable[i] = c.pages[i]
				}
			}
		}
		clear(n.unsynced)
		if keep() {
			n.durableSize = n.size
		}
		n.size, n.used = n.durableSize, 0
		for _, c := range n.chunks {
			c.pages = c.durable
			for _, p := range c.pages {
				if p != nil {
					n.used++
				}
			}
		}
		return
	}
	n.names = clone(n.durableNames)
	for _, name := range sorted(n.names) {
		d.forget(n.names[name], keep)
	}
}

// TouchLocked changes a file as another program would, by its first byte, or by
// one more at its end. It is for a Fault, which is called with the disk locked.
func (d *Disk) TouchLocked(name string, grow bool) {
	n := d.root
	for part := range strings.SplitSeq(name, "/") {
		if n = n.names[part]; n == nil {
			return
		}
	}
	at := int64(0)
	if grow {
		at = n.size
		n.size++
	}
	p := new(page)
	if old := n.page(at / PageSize); old != nil {
		*p = *old
	}
	p[at%PageSize]++
	n.put(at/PageSize, p, false)
	d.written(n)
}

// written sets the times of a file that was written to.
func (d *Disk) written(n *node) {
	d.changed(n)
	n.mtime = d.clock
}

// changed sets the time of a change that is none of the bytes.
func (d *Disk) changed(n *node) {
	d.clock++
	n.ctime = d.clock
}

// SetMTime sets the time of a file, as utimes does; which sets its change time.
func (d *Disk) SetMTime(name string, mtime int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := (&folder{d: d, n: d.root}).find("utimes", name)
	if err == nil {
		n.mtime = mtime
		d.changed(n)
	}
}

// Kill ends the process that uses the disk: what is open is closed, locks are
// free, and nothing is lost.
func (d *Disk) Kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	var unlock func(*node)
	unlock = func(n *node) {
		n.locked = false
		for _, c := range n.names {
			unlock(c)
		}
	}
	unlock(d.root)
	d.life++
	d.open = 0
}

func clone[K comparable, V any](m map[K]V) map[K]V {
	out := make(map[K]V, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

func sorted[K string | int64, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// begin starts an operation; the caller unlocks d.mu, error or not.
func (d *Disk) begin(kind, name string, life int) error {
	d.mu.Lock()
	if d.off || life != d.life {
		return &fs.PathError{Op: kind, Path: name, Err: ErrPower}
	}
	if d.Fault != nil {
		if err := d.Fault(Op{kind, name}); err != nil {
			return &fs.PathError{Op: kind, Path: name, Err: err}
		}
		if d.off {
			return &fs.PathError{Op: kind, Path: name, Err: ErrPower}
		}
	}
	return nil
}

// folder is an open folder.
type folder struct {
	d    *Disk
	n    *node
	at   string // from the root
	life int

	closed bool // guarded by d.mu
}

// in finds the folder that name is in, and its last part. It does not follow links.
func (f *folder) in(op, name string) (*node, string, error) {
	fail := func(err error) (*node, string, error) {
		return nil, "", &fs.PathError{Op: op, Path: name, Err: err}
	}
	if !fs.ValidPath(name) {
		return fail(fs.ErrInvalid)
	}
	dir, base := path.Split(name)
	n := f.n
	for part := range strings.SplitSeq(strings.TrimSuffix(dir, "/"), "/") {
		if part == "" {
			continue
		}
		next := n.names[f.d.fold(n, part)]
		if next == nil {
			return fail(fs.ErrNotExist)
		}
		if !next.typ.IsDir() {
			return fail(fs.ErrInvalid)
		}
		n = next
	}
	return n, f.d.fold(n, base), nil
}

// fold is the name under which base stands in n, base itself if it does not.
func (d *Disk) fold(n *node, base string) string {
	if !d.FoldCase || n.names[base] != nil {
		return base
	}
	for _, name := range sorted(n.names) {
		if strings.EqualFold(name, base) {
			return name
		}
	}
	return base
}

// find is what stands under name.
func (f *folder) find(op, name string) (*node, error) {
	if name == "." {
		return f.n, nil
	}
	dir, base, err := f.in(op, name)
	if err != nil {
		return nil, err
	}
	n := dir.names[base]
	if n == nil {
		return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
	}
	return n, nil
}

func (f *folder) begin(kind, name string) error {
	err := f.d.begin(kind, path.Join(f.at, name), f.life)
	if err == nil && f.closed {
		err = &fs.PathError{Op: kind, Path: name, Err: fs.ErrClosed}
	}
	return err
}

// add puts a new node under a name that must be free.
func (f *folder) add(op, name string, n *node) error {
	dir, base, err := f.in(op, name)
	if err != nil {
		return err
	}
	if dir.names[base] != nil {
		return &fs.PathError{Op: op, Path: name, Err: fs.ErrExist}
	}
	if f.d.free < 0 {
		return &fs.PathError{Op: op, Path: name, Err: share.ErrDiskFull}
	}
	dir.names[base] = n
	f.d.changes = append(f.d.changes, change{dir, func() { dir.durableNames[base] = n }})
	return nil
}

func (f *folder) file(kind, name string, write bool) (vfs.File, error) {
	defer f.d.mu.Unlock()
	if err := f.begin(kind, name); err != nil {
		return nil, err
	}
	n, err := f.find(kind, name)
	if err != nil {
		return nil, err
	}
	if n.typ != 0 {
		return nil, &fs.PathError{Op: kind, Path: name, Err: fs.ErrInvalid}
	}
	f.d.opened()
	return &file{d: f.d, n: n, name: path.Join(f.at, name), life: f.life, write: write}, nil
}

func (f *folder) Open(name string) (vfs.File, error) { return f.file("open", name, false) }
func (f *folder) Edit(name string) (vfs.File, error) { return f.file("edit", name, true) }

func (f *folder) Create(name string, exec bool) (vfs.File, error) {
	defer f.d.mu.Unlock()
	if err := f.begin("create", name); err != nil {
		return nil, err
	}
	n := f.d.node(0)
	n.exec = exec
	if err := f.add("create", name, n); err != nil {
		return nil, err
	}
	f.d.opened()
	return &file{d: f.d, n: n, name: path.Join(f.at, name), life: f.life, write: true}, nil
}

func (n *node) info() vfs.Info {
	return vfs.Info{Type: n.typ, Size: n.size, MTime: n.mtime, CTime: n.ctime, Inode: n.inode, Exec: n.exec, Room: n.used * PageSize}
}

func (f *folder) Lstat(name string) (vfs.Info, error) {
	defer f.d.mu.Unlock()
	if err := f.begin("lstat", name); err != nil {
		return vfs.Info{}, err
	}
	n, err := f.find("lstat", name)
	if err != nil {
		return vfs.Info{}, err
	}
	return n.info(), nil
}

func (f *folder) ReadDir(name string) ([]vfs.DirEntry, error) {
	defer f.d.mu.Unlock()
	if err := f.begin("readdir", name); err != nil {
		return nil, err
	}
	n, err := f.find("readdir", name)
	if err != nil {
		return nil, err
	}
	var out []vfs.DirEntry
	for _, name := range sorted(n.names) {
		out = append(out, vfs.DirEntry{Name: name, Type: n.names[name].typ})
	}
	return out, nil
}

func (f *folder) Readlink(name string) (string, error) {
	defer f.d.mu.Unlock()
	if err := f.begin("readlink", name); err != nil {
		return "", err
	}
	n, err := f.find("readlink", name)
	if err == nil && n.typ != fs.ModeSymlink {
		err = &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrInvalid}
	}
	if err != nil {
		return "", err
	}
	return n.target, nil
}

func (f *folder) Mkdir(name string) error {
	defer f.d.mu.Unlock()
	if err := f.begin("mkdir", name); err != nil {
		return err
	}
	return f.add("mkdir", name, f.d.node(fs.ModeDir))
}

func (f *folder) Symlink(target, name string) error {
	defer f.d.mu.Unlock()
	if err := f.begin("symlink", name); err != nil {
		return err
	}
	n := f.d.node(fs.ModeSymlink)
	n.target = target
	return f.add("symlink", name, n)
}

func (f *folder) SetExec(name string) error {
	defer f.d.mu.Unlock()
	if err := f.begin("setexec", name); err != nil {
		return err
	}
	n, err := f.find("setexec", name)
	if err == nil && !n.exec {
		n.exec = true
		f.d.changed(n)
	}
	return err
}

func (f *folder) Remove(name string) error {
	defer f.d.mu.Unlock()
	if err := f.begin("remove", name); err != nil {
		return err
	}
	dir, base, err := f.in("remove", name)
	if err != nil {
		return err
	}
	n := dir.names[base]
	switch {
	case n == nil:
		return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrNotExist}
	case len(n.names) > 0:
		return &fs.PathError{Op: "remove", Path: name, Err: errors.New("folder is not empty")}
	}
	delete(dir.names, base)
	f.d.changed(n)
	f.d.free += n.used * PageSize
	f.d.changes = append(f.d.changes, change{dir, func() { delete(dir.durableNames, base) }})
	return nil
}

func (f *folder) rename(op, from, to string, replace bool) error {
	defer f.d.mu.Unlock()
	if err := f.begin(op, from); err != nil {
		return err
	}
	a, old, err := f.in(op, from)
	if err != nil {
		return err
	}
	b, new, err := f.in(op, to)
	if err != nil {
		return err
	}
	n := a.names[old]
	if n == nil {
		return &fs.PathError{Op: op, Path: from, Err: fs.ErrNotExist}
	}
	if there := b.names[new]; there != nil {
		if !replace {
			return &fs.PathError{Op: op, Path: to, Err: fs.ErrExist}
		}
		if there.typ.IsDir() || n.typ.IsDir() {
			return &fs.PathError{Op: op, Path: to, Err: fs.ErrInvalid}
		}
		f.d.free += there.used * PageSize
	}
	delete(a.names, old)
	b.names[new] = n
	f.d.changed(n)
	f.d.changes = append(f.d.changes, change{b, func() {
		if a.durableNames[old] == n {
			delete(a.durableNames, old)
		}
		b.durableNames[new] = n
	}})
	return nil
}

func (f *folder) Rename(from, to string) error { return f.rename("rename", from, to, true) }
func (f *folder) Move(from, to string) error   { return f.rename("move", from, to, false) }

func (f *folder) SyncDir(name string) error {
	defer f.d.mu.Unlock()
	if err := f.begin("syncdir", name); err != nil {
		return err
	}
	n, err := f.find("syncdir", name)
	if err != nil {
		return err
	}
	f.d.changes = slices.DeleteFunc(f.d.changes, func(c change) bool {
		if c.dir != n {
			return false
		}
		c.apply()
		return true
	})
	return nil
}

func (f *folder) SyncAll() error {
	defer f.d.mu.Unlock()
	err := f.begin("syncall", ".")
	if errors.Is(err, ErrPower) {
		return err
	}
	if f.d.NoSyncAll {
		return fmt.Errorf("syncall: %w", errors.ErrUnsupported)
	}
	f.d.syncBelow(f.d.root, err == nil)
	if err != nil {
		return err
	}
	for _, c := range f.d.changes {
		c.apply()
	}
	f.d.changes = nil
	return nil
}

func (d *Disk) syncBelow(n *node, well bool) {
	if !n.typ.IsDir() {
		n.sync(well)
	}
	for _, c := range n.names {
		d.syncBelow(c, well)
	}
}

// sync makes the bytes durable, or does not and believes it did.
func (n *node) sync(well bool) {
	if well {
		n.durableSize = n.size
	}
	for _, c := range n.unsynced {
		for ; c.dirty != 0; c.dirty &= c.dirty - 1 {
			if i := bits.TrailingZeros64(c.dirty); well {
				c.durable[i] = c.pages[i]
			}
		}
	}
	clear(n.unsynced)
}

func (f *folder) Sub(name string) (vfs.FS, error) {
	defer f.d.mu.Unlock()
	if err := f.begin("sub", name); err != nil {
		return nil, err
	}
	n, err := f.find("sub", name)
	if err != nil {
		return nil, err
	}
	if !n.typ.IsDir() {
		return nil, &fs.PathError{Op: "sub", Path: name, Err: fs.ErrInvalid}
	}
	f.d.opened()
	return &folder{d: f.d, n: n, at: path.Join(f.at, name), life: f.life}, nil
}

// lock is a held lock file.
type lock struct {
	d    *Disk
	n    *node
	life int
}

func (l *lock) Close() error {
	l.d.mu.Lock()
	defer l.d.mu.Unlock()
	if l.life == l.d.life {
		l.n.locked = false
	}
	return nil
}

func (f *folder) Lock(name string) (io.Closer, error) {
	defer f.d.mu.Unlock()
	if err := f.begin("lock", name); err != nil {
		return nil, err
	}
	n, err := f.find("lock", name)
	if errors.Is(err, fs.ErrNotExist) {
		n = f.d.node(0)
		err = f.add("lock", name, n)
	}
	if err != nil {
		return nil, err
	}
	if n.locked {
		return nil, &fs.PathError{Op: "lock", Path: name, Err: share.ErrHeld}
	}
	n.locked = true
	return &lock{f.d, n, f.life}, nil
}

func (f *folder) Free() (int64, error) {
	defer f.d.mu.Unlock()
	if err := f.begin("free", "."); err != nil {
		return 0, err
	}
	return max(0, f.d.free), nil
}

func (f *folder) Close() error {
	defer f.d.mu.Unlock()
	err := f.begin("close", ".")
	if f.closed {
		return fs.ErrClosed
	}
	f.closed = true
	if f.life == f.d.life {
		f.d.open--
	}
	return err
}

// file is an open file.
type file struct {
	d     *Disk
	n     *node
	name  string
	life  int
	write bool

	closed bool // guarded by d.mu
}

func (f *file) begin(kind string) error {
	err := f.d.begin(kind, f.name, f.life)
	if err == nil && f.closed {
		err = &fs.PathError{Op: kind, Path: f.name, Err: fs.ErrClosed}
	}
	return err
}

func (f *file) ReadAt(b []byte, off int64) (int, error) {
	defer f.d.mu.Unlock()
	if err := f.begin("read"); err != nil {
		return 0, err
	}
	n := int(min(int64(len(b)), max(0, f.n.size-off)))
	for done := 0; done < n; {
		at := (off + int64(done)) / PageSize
		from := (off + int64(done)) % PageSize
		part := b[done:min(n, done+int(PageSize-from))]
		if page := f.n.page(at); page != nil {
			copy(part, page[from:])
		} else {
			clear(part)
		}
		done += len(part)
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *file) WriteAt(b []byte, off int64) (int, error) {
	defer f.d.mu.Unlock()
	err := f.begin("write")
	if errors.Is(err, ErrPower) || f.closed {
		return 0, err
	}
	if !f.write {
		return 0, &fs.PathError{Op: "write", Path: f.name, Err: fs.ErrPermission}
	}
	if err != nil {
		b = b[:len(b)/2]
	}
	f.d.written(f.n)
	done := 0
	var fresh []page // for the pages that this write needs anew
	for done < len(b) {
		at, from := (off+int64(done))/PageSize, int((off+int64(done))%PageSize)
		part := b[done:min(len(b), done+PageSize-from)]
		old := f.n.page(at)
		if old == nil {
			if f.d.free < PageSize {
				return done, &fs.PathError{Op: "write", Path: f.name, Err: share.ErrDiskFull}
			}
			f.d.free -= PageSize
		}
		p := f.d.commonPage(part)
		common := p != nil
		if !common {
			p = old
			if old == nil || f.n.shared(at) {
				if len(fresh) == 0 {
					fresh = make([]page, min(chunkPages, (from+len(b)-done+PageSize-1)/PageSize))
				}
				p, fresh = &fresh[0], fresh[1:]
			}
			if p != old && old != nil {
				*p = *old
			}
			copy(p[from:], part)
		}
		f.n.put(at, p, common)
		done += len(part)
		f.n.size = max(f.n.size, off+int64(done))
	}
	return done, err
}

// CloneRange is for vfs.Clone. It takes room as a write does.
func (f *file) CloneRange(off int64, from vfs.File, fromOff, n int64) error {
	if f.d.Clone == nil {
		return errors.ErrUnsupported
	}
	b := make([]byte, n)
	if k, err := from.ReadAt(b, fromOff); int64(k) < n {
		return err
	}
	f.d.Clone(b)
	_, err := f.WriteAt(b, off)
	return err
}

func (f *file) Sync() error {
	defer f.d.mu.Unlock()
	err := f.begin("sync")
	if !errors.Is(err, ErrPower) && !f.closed {
		f.n.sync(err == nil)
	}
	return err
}

func (f *file) Stat() (vfs.Info, error) {
	defer f.d.mu.Unlock()
	if err := f.begin("stat"); err != nil {
		return vfs.Info{}, err
	}
	return f.n.info(), nil
}

func (f *file) Close() error {
	defer f.d.mu.Unlock()
	err := f.d.begin("close", f.name, f.life)
	if f.closed {
		return fs.ErrClosed
	}
	f.closed = true
	if f.life == f.d.life {
		f.d.open--
	}
	return err
}
