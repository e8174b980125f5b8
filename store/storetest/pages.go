package storetest

import (
	"bytes"
	"encoding/binary"
	"io/fs"

	"github.com/piecelease/fetcher/store/vfs"
)

// Pages are pages that disks may have in common. Where many disks hold the same
// content, it is in memory once. They never change, and may be used concurrently.
type Pages struct {
	byHead map[uint64]*page // by the first bytes of each
}

// Durable returns the durable pages of the disk's files. Of pages that begin with the
// same eight bytes it has one.
func (d *Disk) Durable() *Pages {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := &Pages{byHead: map[uint64]*page{}}
	p.add(d.root)
	return p
}

func (p *Pages) add(n *node) {
	for _, c := range n.chunks {
		for _, pg := range c.durable {
			if pg != nil {
				p.byHead[head(pg[:])] = pg
			}
		}
	}
	for _, c := range n.names {
		p.add(c)
	}
}

func head(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

// Share makes the disk keep what equals one of the pages, if it is written from now
// on, as that page. The only difference is the memory used.
func (d *Disk) Share(p *Pages) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.common = append(d.common, p)
}

// commonPage is the common page with these bytes, if they are a whole page.
func (d *Disk) commonPage(b []byte) *page {
	if len(b) < PageSize {
		return nil
	}
	for _, p := range d.common {
		if known := p.byHead[head(b)]; known != nil && bytes.Equal(known[:], b) {
			return known
		}
	}
	return nil
}

// Same says whether two files of disks, open for reading, hold the same bytes.
func Same(a, b vfs.File) (bool, error) {
	x, y := a.(*file), b.(*file)
	defer x.d.mu.Unlock()
	if err := x.begin("read"); err != nil {
		return false, err
	}
	if x.d != y.d {
		defer y.d.mu.Unlock()
		y.d.mu.Lock()
	}
	if y.closed || y.life != y.d.life {
		return false, fs.ErrClosed
	}
	return x.n.same(y.n), nil
}

func (n *node) same(m *node) bool {
	if n.size != m.size {
		return false
	}
	for at := int64(0); at*PageSize < n.size; at++ {
		p, q, size := n.page(at), m.page(at), min(PageSize, n.size-at*PageSize)
		if p != q && !bytes.Equal(p.bytes()[:size], q.bytes()[:size]) {
			return false
		}
	}
	return true
}

var zeros page

// bytes is what the page holds; nil is a hole.
func (p *page) bytes() []byte {
	if p == nil {
		return zeros[:]
	}
	return p[:]
}
