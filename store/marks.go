package store

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"time"

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
//
// The head says how far a missing mark can be relied on: what has none was made by others, unless
// the power failed. It names the boot; or, synced like the marks and the names in data before it, the end of a run in
// good order.

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
	whole bool   // no mark that was written is lost
	last  int64  // when earlier runs last wrote one; zero: not known
	head  []byte // what was claimed; nil: nothing that the next boot could rely on

	mu      sync.Mutex   // guards later, and the order of what is written of an entry
	later   map[int]mark // by entry: not written yet, or in vain
	entries []int        // scratch of flush
}

// maxLater is how many marks gather before they are written.
const maxLater = 256

// closed stands in the head for the boot once the marks are durable and no more will be written.
var closed = blake3.Sum256([]byte("closed"))

// open opens the marks of a share, or makes a file for them. Its name is durable before anything is
// in data: if there is none, nothing there is ours.
func (k *marks) open(stage vfs.FS, head []byte) error {
	info, err := stage.Lstat("marks")
	k.whole, k.last = errors.Is(err, fs.ErrNotExist), info.MTime
	if err == nil {
		k.f, err = stage.Edit("marks")
	}
	if err == nil {
		old, err := vfs.ReadHead(k.f, vfs.MarksRecord, marksHead)
		if err == nil && string(old[:shareIDLen]) == string(head[:shareIDLen]) {
			boot := [32]byte(old[shareIDLen:])
			k.whole = boot == closed || boot == [32]byte(head[shareIDLen:]) && boot != [32]byte{}
			return nil
		}
		// The file stays: were it replaced, the power could take both. If it is empty, no run has claimed anything.
		k.whole = info.Size == 0
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	k.f, err = stage.Create("marks", false)
	return err
}

// claim says whose marks these are, and that from now on none is missing: what is in data has one, or
// is not ours. That is durable before anything else is made there.
func (k *marks) claim(head []byte) error {
	_, err := k.f.WriteAt(vfs.EncodeRecord(vfs.MarksRecord, head), 0)
	if err == nil {
		err = k.f.Sync()
	}
	if err == nil {
		k.whole, k.head = true, head
	}
	return err
}

// lateWrite is how long after the last mark a write that it announced may have ended.
const lateWrite = time.Second

// announced says whether a file was last changed when a write that an earlier run has announced may have been going on.
func (k *marks) announced(now vfs.Stamp) bool {
	return max(now.MTime, now.CTime) <= k.last+int64(lateWrite)
}

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

// put writes the mark of an entry. If that fails, it is tried again with the next flush.
func (k *marks) put(entry int, m mark) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.later, entry)
	_, err := k.f.WriteAt(appendMark(nil, m), markAt(entry))
	if err != nil {
		k.wait(entry, m)
	}
	return err
}

// putLater is put with the next flush, together with others.
func (k *marks) putLater(entry int, m mark) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.wait(entry, m); len(k.later) >= maxLater {
		k.write()
	}
}

// wait leaves a mark to the next flush; mu is held.
func (k *marks) wait(entry int, m mark) {
	if k.later == nil {
		k.later = map[int]mark{}
	}
	k.later[entry] = m
}

// flush writes what was put later. If that fails, the file is hashed where the old mark
// does not match it, and the next run is not told that none is missing.
func (k *marks) flush() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.write()
}

// write is flush with mu held. Neighbours are written together. What fails is left to the next.
func (k *marks) write() {
	if k.f == nil || len(k.later) == 0 {
		return
	}
	k.entries = slices.AppendSeq(k.entries[:0], maps.Keys(k.later))
	slices.Sort(k.entries)
	var b []byte
	for i, entry := range k.entries {
		b = appendMark(b, k.later[entry])
		if i+1 < len(k.entries) && k.entries[i+1] == entry+1 {
			continue
		}
		n := len(b) / markLen
		if _, err := k.f.WriteAt(b, markAt(entry+1-n)); err == nil {
			for _, entry := range k.entries[i+1-n : i+1] {
				delete(k.later, entry)
			}
		}
		b = b[:0]
	}
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
	k.mu.Lock()
	defer k.mu.Unlock()
	if m, ok := k.later[entry]; ok {
		return m
	}
	b := make([]byte, markLen)
	if n, _ := k.f.ReadAt(b, markAt(entry)); n < markLen {
		return mark{}
	}
	v := func(i int) int64 { return int64(binary.LittleEndian.Uint64(b[8*i:])) }
	return mark{vfs.Stamp{Size: v(0), MTime: v(1), CTime: v(2), Inode: uint64(v(3))}, v(4) == 1}
}

func (k *marks) close() {
	k.flush()
	if k.f == nil {
		return
	}
	if k.head != nil && len(k.later) == 0 && k.f.Sync() == nil {
		head := append(k.head[:shareIDLen:shareIDLen], closed[:]...)
		k.f.WriteAt(vfs.EncodeRecord(vfs.MarksRecord, head), 0)
	}
	k.f.Close()
	k.f, k.head = nil, nil
}
