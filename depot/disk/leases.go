package disk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

const (
	maxLeases = 16 << 20 // bytes of the leases beside a share, and of changes that are appended at once
	syncsAt   = 16       // shares whose leases are written at once: a disk syncs several files in the time of one
	manyBytes = 8 << 10  // bytes of leases from which on changes are appended: some 128 leases
	maxReads  = 16       // times that leases are read which are written meanwhile
	sumLen    = 32       // bytes of the checksum at the end of a record

	// maxMore is how long leases.more gets: changes are appended while it is shorter than the leases.
	maxMore = vfs.RecordHead + sumLen + 2*(vfs.RecordHead+maxLeases+sumLen)
)

// growing is the leases beside the shares that have many: what this process has written of them
// since it wrote them whole.
type growing struct {
	mu sync.Mutex
	of map[share.ID]grown
}

type grown struct {
	base, size int64        // bytes of the leases, and of the changes
	sum        [sumLen]byte // with which the leases end
}

func (g *growing) get(id share.ID) (is grown, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	is, ok = g.of[id]
	return is, ok
}

func (g *growing) set(id share.ID, is grown) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.of == nil {
		g.of = map[share.ID]grown{}
	}
	g.of[id] = is
}

// forget makes the next Write of a share write its leases whole.
func (g *growing) forget(id share.ID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.of, id)
}

func (g *growing) forgetAll() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.of = nil
}

// Grows reports whether Write takes changes of a share's leases. Then they are many, and this
// process knows what lies beside the share.
func (r *Root) Grows(id share.ID) bool {
	is, ok := r.growing.get(id)
	return ok && is.size < is.base
}

// Write replaces or changes leases beside the data of shares, durably.
func (r *Root) Write(all []depot.Promised) error {
	dir, err := r.there()
	if err != nil {
		return err
	}
	var g errgroup.Group
	g.SetLimit(syncsAt)
	if r.Workers == 1 {
		g.SetLimit(1)
	}
	for _, p := range all {
		g.Go(func() error {
			err := r.write(dir, p)
			if err != nil {
				r.growing.forget(p.Share) // what an append that failed has left is not known
				err = fmt.Errorf("%v: %w", p.Share, err)
			}
			return err
		})
	}
	return g.Wait()
}

func (r *Root) write(dir vfs.FS, p depot.Promised) error {
	b := encodeLeases(p.Leases)
	if p.Changes {
		return r.appendLeases(dir, p.Share, b)
	}
	at, err := made(dir, p.Share)
	if err != nil {
		return err
	}
	if len(b) == 0 {
		return r.writeNone(dir, p.Share)
	}
	record, err := leasesRecord(p.Share, b)
	if err != nil {
		return err
	}
	if err := vfs.WriteFile(dir, at+"/leases", at+"/leases.new", record, true); err != nil {
		return err
	}
	if err := r.named(dir, p.Share); err != nil {
		return err
	}
	if err := dir.Remove(at + "/leases.more"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(b) < manyBytes {
		r.growing.forget(p.Share)
		return nil
	}
	if err := dir.SyncDir(at); err != nil { // else older changes come back, and count if the leases are as they were then
		return err
	}
	is := grown{base: int64(len(record))}
	copy(is.sum[:], record[len(record)-len(is.sum):])
	r.growing.set(p.Share, is)
	return nil
}

// writeNone writes that a share has no leases, for which a full disk has room: their file goes.
func (r *Root) writeNone(dir vfs.FS, id share.ID) error {
	r.growing.forget(id)
	for _, name := range []string{"/leases", "/leases.more"} { // in this order: without its leases, a change says nothing
		if err := dir.Remove(Folder(id) + name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := dir.SyncDir(Folder(id)); err != nil { // also of what a try before has removed
			return err
		}
	}
	return nil
}

// appendLeases appends changes of leases to those beside a share.
func (r *Root) appendLeases(dir vfs.FS, id share.ID, b []byte) (err error) {
	is, ok := r.growing.get(id)
	if !ok {
		return errLeases
	}
	if len(b) > maxLeases {
		return errMany
	}
	name := Folder(id) + "/leases.more"
	record := vfs.EncodeRecord(vfs.MoreLeasesRecord, b)
	var f vfs.File
	if is.size == 0 {
		record = append(vfs.EncodeRecord(vfs.MoreLeasesRecord, is.sum[:]), record...)
		f, err = dir.Create(name, false)
	} else {
		f, err = dir.Edit(name)
	}
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(record, is.size); err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil && is.size == 0 {
		err = dir.SyncDir(Folder(id))
	}
	is.size += int64(len(record))
	if err == nil {
		r.growing.set(id, is)
	}
	return err
}

func leasesRecord(id share.ID, leases []byte) ([]byte, error) {
	b := append(id.Bytes(), leases...)
	if len(b) > maxLeases {
		return nil, errMany
	}
	return vfs.EncodeRecord(vfs.LeasesRecord, b), nil
}

// encodeLeases encodes leases, or changes of leases: one that ended has an end of 0.
func encodeLeases(leases []depot.Promise) (b []byte) {
	for _, p := range leases {
		at := uint64(0)
		if !p.Expires.IsZero() {
			at = uint64(p.Expires.Unix())
		}
		b = binary.LittleEndian.AppendUint64(b, at)
		b = binary.LittleEndian.AppendUint16(b, uint16(len(p.Account)))
		b = append(b, p.Account...)
	}
	return b
}

var errMany = errors.New("a share has more leases than can be kept beside its data")

// Promises returns the leases beside the data of a share, also while they are written. A damaged file is
// an error: nobody may think that there is no lease.
func (r *Root) Promises(id share.ID) ([]depot.Promise, error) {
	dir, err := r.there()
	if err != nil {
		return nil, err
	}
	for range maxReads {
		record, err := readLeases(dir, id)
		if err != nil || record == nil {
			return nil, err
		}
		all, err := parseLeases(record[vfs.RecordHead+len(id.Bytes()) : len(record)-sumLen])
		if err != nil {
			return nil, err
		}
		more, err := vfs.ReadFile(dir, Folder(id)+"/leases.more", maxMore)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		changes, err := parseChanges(more, record[len(record)-sumLen:])
		if err != nil || len(changes) > 0 || len(record) < manyBytes {
			return depot.Changed(all, changes), err
		}
		if again, err := readLeases(dir, id); err != nil || bytes.Equal(again, record) {
			return all, err
		} // they were written whole meanwhile, and their changes removed
	}
	return nil, fmt.Errorf("the leases of %v cannot be read: they are being rewritten all the time", id)
}

// readLeases returns the record of the leases of a share without their changes; nil if there is none.
func readLeases(dir vfs.FS, id share.ID) ([]byte, error) {
	record, err := vfs.ReadFile(dir, Folder(id)+"/leases", int64(vfs.RecordLen(maxLeases)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	b, err := vfs.DecodeRecord(vfs.LeasesRecord, record)
	if err == nil && !bytes.HasPrefix(b, id.Bytes()) {
		err = errLeases
	}
	return record, err
}

var errLeases = errors.New("the leases beside the data cannot be read")

// parseLeases parses leases, or changes of leases, of which one that ended has no end.
func parseLeases(b []byte) (out []depot.Promise, err error) {
	for len(b) > 0 {
		if len(b) < 10 {
			return nil, errLeases
		}
		at, n := int64(binary.LittleEndian.Uint64(b)), int(binary.LittleEndian.Uint16(b[8:]))
		if b = b[10:]; n == 0 || n > len(b) || at < 0 || at > 1<<40 {
			return nil, errLeases
		}
		p := depot.Promise{Account: string(b[:n])}
		if at != 0 {
			p.Expires = time.Unix(at, 0)
		}
		out, b = append(out, p), b[n:]
	}
	return out, nil
}

// parseChanges parses the changes of the leases whose record ends with sum. Changes of other leases
// are left from before those were written whole. A last record that a power cut has torn was granted
// to nobody, and is left out.
func parseChanges(file, sum []byte) (out []depot.Promise, err error) {
	for at := 0; at < len(file); {
		n := recordLen(file[at:])
		payload, err := vfs.DecodeRecord(vfs.MoreLeasesRecord, file[at:min(at+n, len(file))])
		if err != nil {
			if torn(file, at, n) {
				return out, nil
			}
			return nil, err
		}
		if at += n; at == n {
			if !bytes.Equal(payload, sum) {
				return nil, nil
			}
			continue
		}
		changes, err := parseLeases(payload)
		if err != nil {
			return nil, err
		}
		out = append(out, changes...)
	}
	return out, nil
}

// torn reports whether the record of n bytes at the place at of file, which cannot be read, is one that a
// power cut has torn: the last, of which the end or a block is missing.
func torn(file []byte, at, n int) bool {
	next := vfs.EncodeRecord(vfs.MoreLeasesRecord, nil)[:8]
	return (n > len(file)-at || lostBlock(file, at, at+n)) && !bytes.Contains(file[at+1:], next)
}

// recordLen returns how long the record at the start of b says that it is; more than there is if it
// does not say.
func recordLen(b []byte) int {
	if len(b) < vfs.RecordHead {
		return vfs.RecordHead
	}
	return vfs.RecordLen(int(min(binary.LittleEndian.Uint64(b[8:]), maxLeases)))
}

// lostBlock reports whether a block of file, or what of it is in [from, to), is zero: it was never
// written. File systems write whole blocks, of at least 512 bytes each.
func lostBlock(file []byte, from, to int) bool {
	const block = 512
	for from < to {
		end := min((from/block+1)*block, to)
		if len(bytes.Trim(file[from:end], "\x00")) == 0 {
			return true
		}
		from = end
	}
	return false
}

// Last returns the latest end of a lease beside the data of a share; zero if there is none.
func (r *Root) Last(id share.ID) (last time.Time, err error) {
	all, err := r.Promises(id)
	for _, p := range all {
		if p.Expires.After(last) {
			last = p.Expires
		}
	}
	return last, err
}
