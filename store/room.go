package store

import "github.com/piecelease/fetcher/share"

// Need returns how many bytes the disk must have room for, and how many fit; free is -1
// where that cannot be known. The parts of a missing piece that were written before need
// no room.
func (p *Partial) Need() (bytes, free int64) {
	p.life.RLock()
	defer p.life.RUnlock()
	return p.need()
}

// hasRoom returns an error that wraps share.ErrDiskFull if what is missing cannot fit.
func (p *Partial) hasRoom() error {
	if need, free := p.Need(); free >= 0 && need > free {
		return share.NoRoom(need, free)
	}
	return nil
}

// need needs life to be read-held.
func (p *Partial) need() (bytes, free int64) {
	free, err := p.dir.Free()
	if err != nil {
		free = -1
	}
	p.mu.Lock()
	bytes = p.missing()
	p.mu.Unlock()
	return bytes - p.used(), free
}

// used returns how much of the disk the missing pieces take already.
func (p *Partial) used() (bytes int64) {
	if p.handles == nil || p.tree != nil || p.over {
		return 0
	}
	for entry, b := range p.begun() {
		if info, err := p.handles.Lstat(p.file(entry)); err == nil {
			bytes += max(0, min(b.missing, info.Room-b.here))
		}
	}
	return bytes
}

// begun is a file of which some is missing.
type begun struct{ here, missing int64 } // bytes

// begun is those that are wanted, by entry.
func (p *Partial) begun() map[int]begun {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.m.Layout()
	out := map[int]begun{}
	for entry, made := range p.made {
		if !made || p.m.Entry(entry).Kind != share.File || p.sel.wanted != nil && !p.sel.wanted[entry] {
			continue
		}
		var here int64
		for piece := range l.EachOf(entry) {
			if p.have.Has(piece) {
				here += int64(l.PieceLen(piece))
			}
		}
		if size := p.m.Entry(entry).Size; here < size {
			out[entry] = begun{here, size - here}
		}
	}
	return out
}
