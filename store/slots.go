package store

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// Block hashes are kept in slots of 32 bytes, one for each block of each file
// with more than one block, files in manifest order. They need no checksum of
// their own: the slots of a piece are a proof, and either fold to what the manifest
// says or count as missing. So they may be written in place, in any order,
// and a power cut costs at most the hashing of a piece.
const (
	slotsStart = 4096 // where slots begin in their file, after the head
	slotLen    = len(share.Hash{})

	// maxMemSlots bounds the slots kept in memory where there is no file for
	// them. It covers 128 GiB of content; what lies beyond is hashed again when
	// it is asked for.
	maxMemSlots = 64 << 20
)

// slotMap says where the slots of each file of a share lie.
type slotMap struct {
	layout *share.Layout
	first  []int64 // by entry; nil if no file has slots
	total  int64
}

func newSlotMap(m *share.Manifest) *slotMap {
	s := &slotMap{layout: m.Layout()}
	for i, e := range m.Entries() {
		n := slotsOf(e.Size)
		if s.first == nil && n > 0 {
			s.first = make([]int64, m.Len()) // those before have none
		}
		if s.first != nil {
			s.first[i] = s.total
		}
		s.total += n
	}
	return s
}

// at is the first slot of an entry, or where it would be.
func (s *slotMap) at(entry int) int64 {
	if s.first == nil {
		return 0
	}
	return s.first[entry]
}

// slotsOf is the number of slots for a file of size bytes: one for each block,
// none where the only block's hash is the file's root.
func slotsOf(size int64) int64 {
	if size <= share.BlockSize {
		return 0
	}
	return (size + share.BlockSize - 1) / share.BlockSize
}

// of returns the range of p's slots.
func (s *slotMap) of(p share.Piece) (first int64, n int) {
	entry := s.layout.PieceSpan(p).Entry
	start, _ := s.layout.PiecesOf(entry)
	return s.at(entry) + int64(p-start)*int64(s.layout.Blocks(start)), s.layout.Blocks(p)
}

// place is the first slot of the file found at i, or where it would be.
func (im *importing) place(i int) int64 {
	if im.places == nil {
		return 0
	}
	return im.places[i]
}

// slotFile is block hashes, on disk or in memory. The zero value keeps them in
// memory. New values gather until flush, so that neighbours are written together.
type slotFile struct {
	f vfs.File // nil: memory

	flushing sync.Mutex // held by flush

	mu      sync.Mutex             // guards the fields below
	fresh   map[int64][]share.Hash // by first slot
	leaving map[int64][]share.Hash // what flush is writing; not changed meanwhile
	count   int                    // hashes in fresh
	mem     map[int64][]share.Hash
	used    int // bytes in mem
}

// put takes the hashes of one piece, which lie from slot first on. It keeps values.
func (s *slotFile) put(first int64, values []share.Hash) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.f == nil {
		if s.used += len(values) * slotLen; s.used > maxMemSlots {
			return
		}
		if s.mem == nil {
			s.mem = map[int64][]share.Hash{}
		}
		s.mem[first] = values
		return
	}
	if s.fresh == nil {
		s.fresh = map[int64][]share.Hash{}
	}
	s.fresh[first] = values
	s.count += len(values)
}

// waiting is the number of bytes that flush would write.
func (s *slotFile) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count * slotLen
}

// get returns the n hashes from slot first on. It must be asked for the same ranges
// that were put. Even without an error they may be wrong.
func (s *slotFile) get(first int64, n int) ([]share.Hash, error) {
	s.mu.Lock()
	for _, kept := range []map[int64][]share.Hash{s.fresh, s.leaving, s.mem} {
		if values := kept[first]; len(values) == n {
			s.mu.Unlock()
			return values, nil
		}
	}
	s.mu.Unlock()
	if s.f == nil {
		return nil, errNoSlots
	}
	b := make([]byte, n*slotLen)
	if k, err := s.f.ReadAt(b, slotsStart+first*int64(slotLen)); k < len(b) {
		return nil, err
	}
	return hashes(b), nil
}

var errNoSlots = errors.New("block hashes are not kept")

func hashes(b []byte) []share.Hash {
	out := make([]share.Hash, len(b)/slotLen)
	for i := range out {
		out[i] = share.Hash(b[i*slotLen:])
	}
	return out
}

// maxRunBytes is the most that goes to a file in one write.
const maxRunBytes = 1 << 20

// flush writes what was put. What could not be written waits for the next flush.
func (s *slotFile) flush() error {
	if s.f == nil {
		return nil
	}
	s.flushing.Lock()
	defer s.flushing.Unlock()
	s.mu.Lock()
	s.leaving, s.fresh, s.count = s.fresh, nil, 0
	s.mu.Unlock()
	err := s.write(s.leaving)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		for at, values := range s.leaving {
			if s.fresh == nil {
				s.fresh = map[int64][]share.Hash{}
			}
			if _, newer := s.fresh[at]; !newer {
				s.fresh[at] = values
				s.count += len(values)
			}
		}
	}
	s.leaving = nil
	return err
}

// write writes pieces' hashes in rising order, neighbours together.
func (s *slotFile) write(pieces map[int64][]share.Hash) error {
	var buf []byte
	var start, end int64 // the run in buf, in slots
	out := func() error {
		if len(buf) == 0 {
			return nil
		}
		_, err := s.f.WriteAt(buf, slotsStart+start*int64(slotLen))
		buf = buf[:0]
		return err
	}
	for _, at := range slices.Sorted(maps.Keys(pieces)) {
		if at != end || len(buf) >= maxRunBytes {
			if err := out(); err != nil {
				return err
			}
			start = at
		}
		for _, v := range pieces[at] {
			buf = append(buf, v[:]...)
		}
		end = at + int64(len(pieces[at]))
	}
	return out()
}

// createSlots makes a file of slots. It belongs to a share once claim has written its head.
func createSlots(d vfs.FS, name string) (*slotFile, error) {
	f, err := d.Create(name, false)
	if err != nil {
		return nil, err
	}
	return &slotFile{f: f}, nil
}

// claim writes the head: these are the slots of the share id.
func (s *slotFile) claim(id share.ID) error {
	_, err := s.f.WriteAt(vfs.EncodeRecord(vfs.SlotsRecord, id.Bytes()), 0)
	return err
}

// copySlots copies the hashes of the pieces first to first+n of one share, which
// are one file's, to where those of the same file lie in another. What is missing stays missing.
func copySlots(to *slotFile, at int64, from *slotFile, m *slotMap, first share.Piece, n int) error {
	start, _ := m.of(first)
	for p := first; p < first+share.Piece(n); p++ {
		slot, blocks := m.of(p)
		values, err := from.get(slot, blocks)
		if err != nil {
			continue
		}
		to.put(at+slot-start, values)
		if to.waiting() >= maxRunBytes {
			if err := to.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// openSlots opens the slots of the share id.
func openSlots(d vfs.FS, name string, id share.ID) (*slotFile, error) {
	f, err := d.Edit(name)
	if err != nil {
		return nil, err
	}
	head, err := vfs.ReadHead(f, vfs.SlotsRecord, shareIDLen)
	if err == nil && string(head) != string(id.Bytes()) {
		err = fmt.Errorf("%w: of another share", vfs.ErrRecord)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &slotFile{f: f}, nil
}

func (s *slotFile) close() error {
	if s == nil || s.f == nil {
		return nil
	}
	return s.f.Close()
}
