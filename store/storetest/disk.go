// Package storetest has a disk in memory that fails when told to and forgets, at
// a power cut, what was not synced. Tests and simulations run package store on it.
//
// It behaves as badly as a disk may. Bytes are durable after File.Sync or SyncAll,
// names after SyncDir of the folder they are in, or after SyncAll; nothing else
// promises anything. What was not synced when the power failed is kept or
// lost page by page and name by name, as a seed says. A Sync that fails throws
// away what it should have kept, and the next one succeeds without it.
package storetest

import (
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/piecelease/fetcher/store/vfs"
)

// PageSize is the unit in which bytes are kept or lost.
const PageSize = 4096

// ErrPower is what every operation returns after the power was cut, until Restart.
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

// Disk is a file system in memory. All methods may be called concurrently; the
// fields are set before.
type Disk struct {
	// Fault is asked before each operation, and an error is its outcome. A write
	// that fails has written its first half. It is called with the disk locked.
	Fault func(Op) error
	// NoSyncAll makes SyncAll unsupported, as it is on most systems.
	NoSyncAll bool
	// FoldCase makes names that differ only in case the same name.
	FoldCase bool
	// Clone lets files share bytes. It is shown these, and may change them as if somebody
	// else just had. Default: files cannot share bytes.
	Clone func([]byte)

	mu      sync.Mutex // guards the fields below, and all nodes
	root    *node
	boot    int      // counts Restarts
	changes []change // of names, not durable, in order
	free    int64
	inodes  uint64
	common  []*Pages
	clock   int64 // counts changes, as the time of files
	life    int   // grows when the power fails
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
	used              int64            // pages in all
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

// FS returns the root folder. After a Restart it must be asked for again.
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

// forget removes everything below n but what is durable, and what luck kept.
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

// changed sets the time of a change that is not one of the bytes.
func (d *Disk) changed(n *node) {
	d.clock++
	n.ctime = d.clock
}

// SetMTime sets the time of a file, as utimes does, and so its change time too.
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
