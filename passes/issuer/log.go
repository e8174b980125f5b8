package issuer

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/passes"
	"github.com/piecelease/fetcher/store/vfs"
)

const (
	logFile = "book"
	logTemp = "book.new"
)

// A frame is what one sync makes durable: its number, the number of entries, the entries, and
// the SHA-256 of all that. Frame n+1 is written once frame n is durable. So after a power cut
// only the last frame may be torn, anywhere in it, and nothing was answered from it.
const (
	frameHead = 8 + 4
	frameSum  = sha256.Size
	maxFrame  = 1 << 13 // entries: more than one request can bring
)

func frame(number uint64, entries []passes.Entry) []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, frameHead+len(entries)*passes.EntryBytes+frameSum), number)
	b = binary.BigEndian.AppendUint32(b, uint32(len(entries)))
	for _, e := range entries {
		b = e.Append(b)
	}
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

// A cutter reads one frame after the other.
type cutter struct {
	f    vfs.File
	size int64
	at   int64
}

// next reads the frame with that number; ok is false if there is no valid frame.
func (c *cutter) next(number uint64) (entries []passes.Entry, ok bool, err error) {
	head := make([]byte, frameHead)
	if c.size-c.at < frameHead+frameSum {
		return nil, false, nil
	}
	if _, err := c.f.ReadAt(head, c.at); err != nil {
		return nil, false, err
	}
	n := int64(binary.BigEndian.Uint32(head[8:]))
	whole := frameHead + n*passes.EntryBytes + frameSum
	if binary.BigEndian.Uint64(head) != number || n > maxFrame || whole > c.size-c.at {
		return nil, false, nil
	}
	b := make([]byte, whole)
	if _, err := c.f.ReadAt(b, c.at); err != nil && err != io.EOF {
		return nil, false, err
	}
	body := b[:whole-frameSum]
	if sha256.Sum256(body) != [frameSum]byte(b[whole-frameSum:]) {
		return nil, false, nil
	}
	for body = body[frameHead:]; len(body) > 0; body = body[passes.EntryBytes:] {
		e, err := passes.ParseEntry(body[:passes.EntryBytes])
		if err != nil {
			return nil, false, nil
		}
		entries = append(entries, e)
	}
	c.at += whole
	return entries, true, nil
}

// ErrDamaged is keys or a book of spent passes that cannot be read, or one of both that is gone. Going on without the book would mean
// accepting passes twice. Its errors say what to do.
var ErrDamaged = errors.New("the keys of passes, or the book of spent ones, cannot be used")

// unusable is how an error of the book begins.
const unusable = "the file issuer/book in the state directory, the book of spent passes, cannot be used: "

// orElse ends the advice to move files away.
const orElse = " away: then nobody can spend the passes that those keys signed"

// damaged returns an ErrDamaged.
func (c *cutter) damaged() error {
	return words.Error(ErrDamaged, unusable+"it is damaged at byte %d of %d; put back a copy of it, or move it and issuer/keys"+orElse, c.at, c.size)
}

// read reads the book in dir, up to a torn frame. The error of one that is not there is fs.ErrNotExist.
func read(dir vfs.FS, enter func(passes.Entry)) error {
	f, err := dir.Open(logFile)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	c := &cutter{f: f, size: info.Size}
	for number := uint64(1); ; number++ {
		entries, ok, err := c.next(number)
		if err != nil {
			return err
		}
		if !ok {
			return c.torn(number)
		}
		for _, e := range entries {
			enter(e)
		}
	}
}

// torn returns an error unless what follows can be the frame that a power cut tore: at most
// one frame, and nothing of the next. It cannot be the first, which was durable before it became the book.
func (c *cutter) torn(number uint64) error {
	rest := c.size - c.at
	if number == 1 || rest > frameHead+maxFrame*passes.EntryBytes+frameSum {
		return c.damaged()
	}
	for at := c.at + 1; at < c.size; at++ {
		later := &cutter{f: c.f, size: c.size, at: at}
		if _, ok, err := later.next(number + 1); ok || err != nil {
			return errors.Join(err, c.damaged())
		}
	}
	return nil
}

// A log is a book that is open for writing.
type log struct {
	f      vfs.File
	at     int64
	number uint64 // of the last frame
	failed error
}

// begin writes a book of these entries, and puts it in place of the existing one once it is
// durable.
func begin(dir vfs.FS, entries iter.Seq[passes.Entry]) (_ *log, err error) {
	if err := vfs.RemoveFile(dir, logTemp); err != nil {
		return nil, err
	}
	f, err := dir.Create(logTemp, false)
	if err != nil {
		return nil, err
	}
	l := &log{f: f}
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	var some []passes.Entry
	for e := range entries {
		if some = append(some, e); len(some) == maxFrame {
			if err := l.write(some); err != nil {
				return nil, err
			}
			some = some[:0]
		}
	}
	if err := l.append(some); err != nil {
		return nil, err
	}
	if err := dir.Rename(logTemp, logFile); err != nil {
		return nil, err
	}
	return l, dir.SyncDir(".")
}

func (l *log) write(entries []passes.Entry) error {
	b := frame(l.number+1, entries)
	if _, err := l.f.WriteAt(b, l.at); err != nil {
		return err
	}
	l.number, l.at = l.number+1, l.at+int64(len(b))
	return nil
}

// append makes entries durable, all or none. After an error nobody knows which, and nothing
// more is written to this log.
func (l *log) append(entries []passes.Entry) error {
	if l.failed != nil {
		return l.failed
	}
	if err := errors.Join(l.write(entries), l.f.Sync()); err != nil {
		return l.fail(err)
	}
	return nil
}

// fail notes why the book cannot be written.
func (l *log) fail(err error) error {
	l.failed = fmt.Errorf("the book of spent passes cannot be written: %w; no passes are taken or signed until it can be; the node tries again after a minute", err)
	return l.failed
}

func (l *log) close() { l.f.Close() }
