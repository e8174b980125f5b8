package store

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"sync"

	"lukechampine.com/blake3"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// What each file of data looked like after our last write to it is kept in a file
// of marks, so that the next run knows which of them somebody else has touched.
//
//	marks   a mark for each entry
//
// A process may be killed during a write, before it has noted what the file looks
// like then. So a mark also says whether a write was going on. If so, the file is believed
// to be ours, and hashed while the fetch goes on.
//
// The second mark of a file that is whole after one write is written together with those of others,
// before its piece is noted (recent.go) or gets its bit: before that, the next run wants nothing
// of it but to know that it is ours.
//
// Marks are written in place, without a sync and without a checksum. A lost or torn
// mark does not match its file, which is then hashed.

const (
	marksStart = 4096 // where the marks begin, after the head
	markLen    = 5 * 8
	marksHead  = shareIDLen + 32 // the share's ID, and the hash of the boot ID
)

// mark is what is known of a file of data.
type mark struct {
	vfs.Stamp      // what it looked like when that was last noted; zero: not known
	writing   bool // a write was to follow
}

// maybe says whether a file that looks so now may be what it was but for that write.
func (m mark) maybe(now vfs.Stamp) bool {
	return m.writing && now.Size >= m.Size && m.Inode == now.Inode
}

// marks is the file of marks.
type marks struct {
	f     vfs.File
	whole bool // all marks written are there: the system has not gone down since

	mu      sync.Mutex   // guards later, and the order of what is written of an entry
	later   map[int]mark // by entry: not written yet
	entries []int        // scratch of flush
}

// maxLater is how many marks gather before they are written.
const maxLater = 256

// open opens the marks of a share, or makes a file for them.
func (k *marks) open(stage vfs.FS, head []byte) (err error) {
	if k.f, err = stage.Edit("marks"); err == nil {
		old, err := vfs.ReadHead(k.f, vfs.MarksRecord, marksHead)
		if err == nil && string(old[:shareIDLen]) == string(head[:shareIDLen]) {
			k.whole = string(old) == string(head) && [32]byte(head[shareIDLen:]) != [32]byte{}
			return nil
		}
		k.f.Close()
		k.f = nil
		if err := stage.Remove("marks"); err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	k.f, err = stage.Create("marks", false)
	return err
}

// claim says whose marks these are, and that from now on none is missing.
func (k *marks) claim(head []byte) { k.f.WriteAt(vfs.EncodeRecord(vfs.MarksRecord, head), 0) }

// marksHead is the payload of the head of the marks that are written now.
func (p *Partial) marksHead() []byte { return headOfMarks(p.m.ID(), p.recent.boot) }

// headOfMarks is the payload of the head of a share's marks under a boot; "" stands for a
// boot that cannot be told from another.
func headOfMarks(id share.ID, boot string) []byte {
	var sum [32]byte
	if boot != "" {
		sum = blake3.Sum256([]byte(boot))
	}
	return append(id.Bytes(), sum[:]...)
}

// put writes the mark of an entry. If that fails, the file is hashed where the old mark
// does not match it.
func (k *marks) put(entry int, m mark) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.later, entry)
	_, err := k.f.WriteAt(appendMark(nil, m), markAt(entry))
	return err
}

// putLater is put with the next flush, together with others.
func (k *marks) putLater(entry int, m mark) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.later == nil {
		k.later = map[int]mark{}
	}
	if k.later[entry] = m; len(k.later) >= maxLater {
		k.write()
	}
}

// flush writes what was put later.
func (k *marks) flush() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.write()
}

// write is flush with mu held. Neighbours are written together.
func (k *marks) write() {
	if k.f == nil || len(k.later) == 0 {
		return
	}
	k.entries = slices.AppendSeq(k.entries[:0], maps.Keys(k.later))
	slices.Sort(k.entries)
	var b []byte
	for i, entry := range k.entries {
		b = appendMark(b, k.later[entry])
		if i+1 == len(k.entries) || k.entries[i+1] != entry+1 {
			k.f.WriteAt(b, markAt(entry+1)-int64(len(b))) // as in put
			b = b[:0]
		}
	}
	clear(k.later)
}

// markAt is where the mark of an entry lies.
func markAt(entry int) int64 { return marksStart + int64(entry)*markLen }

func appendMark(b []byte, m mark) []byte {
	writing := int64(0)
	if m.writing {
		writing = 1
	}
	for _, v := range []int64{m.Size, m.MTime, m.CTime, int64(m.Inode), writing} {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	return b
}

// get returns the mark of an entry, the zero value if there is none.
func (k *marks) get(entry int) mark {
	k.flush()
	b := make([]byte, markLen)
	if n, _ := k.f.ReadAt(b, markAt(entry)); n < markLen {
		return mark{}
	}
	v := func(i int) int64 { return int64(binary.LittleEndian.Uint64(b[8*i:])) }
	return mark{vfs.Stamp{Size: v(0), MTime: v(1), CTime: v(2), Inode: uint64(v(3))}, v(4) == 1}
}

func (k *marks) close() {
	if k.flush(); k.f != nil {
		k.f.Close()
		k.f = nil
	}
}
