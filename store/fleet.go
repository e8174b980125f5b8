package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"

	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
	"github.com/piecelease/fetcher/wire"
)

// Limits of a kept Fleet.
const (
	maxEpoch   = 1<<24 - 1 // a token has 24 bits for it
	maxMembers = 1 << 16
)

// maxFleet is the longest payload of a fleet record.
const maxFleet = shareIDLen + 8 + 4 + maxMembers*(1+wire.MaxPeerID)

// shareIDLen is the length of a share ID in binary.
const shareIDLen = 36

// Fleet is what a State keeps about a share that the node coordinates for a fleet:
// how often it has begun to, and who was a member. One process at a time has it open. Its
// methods are safe for concurrent use.
type Fleet struct {
	s     *State
	id    share.ID
	epoch uint64
	was   []peers.ID

	mu   sync.Mutex
	lock io.Closer // nil: closed
}

// OpenFleet opens what is kept about a share's fleet, and begins a new epoch of it,
// which is durable when it returns. The error wraps share.ErrHeld when another
// process coordinates the share. A damaged record is an error and never
// replaced: tokens of earlier epochs must stay old.
func (s *State) OpenFleet(id share.ID) (*Fleet, error) {
	f := &Fleet{s: s, id: id}
	if err := f.open(); err != nil {
		if f.lock != nil {
			f.lock.Close()
		}
		return nil, fmt.Errorf("open the fleet of share %s: %w", id.Short(), err)
	}
	return f, nil
}

func (f *Fleet) open() (err error) {
	if err := vfs.EnsureDir(f.s.fs, "fleets"); err != nil {
		return err
	}
	if err := f.s.fs.SyncDir("."); err != nil {
		return err
	}
	if f.lock, err = f.s.fs.Lock(f.name() + ".lock"); err != nil {
		return err
	}
	b, err := vfs.ReadRecord(f.s.fs, f.name(), vfs.FleetRecord, maxFleet)
	switch {
	case err == nil:
		if f.epoch, f.was, err = parseFleet(f.id, b); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if f.epoch++; f.epoch > maxEpoch {
		return words.Error(share.ErrLimit, "it was begun %d times, and cannot be begun again", f.epoch-1)
	}
	return f.save(f.was)
}

func (f *Fleet) name() string { return "fleets/" + f.id.String() }

// Epoch is the number of this run. It is higher than the last.
func (f *Fleet) Epoch() uint64 { return f.epoch }

// Members are those that were kept before this run. They are the caller's.
func (f *Fleet) Members() []peers.ID { return append([]peers.ID(nil), f.was...) }

// Remember stores who is a member now; the first 65,536 of them.
func (f *Fleet) Remember(members []peers.ID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lock == nil {
		return fs.ErrClosed
	}
	return f.save(members)
}

func (f *Fleet) save(members []peers.ID) error {
	members = members[:min(len(members), maxMembers)]
	return f.s.save(f.name(), vfs.EncodeRecord(vfs.FleetRecord, appendFleet(nil, f.id, f.epoch, members)), true)
}

// Close lets another process open the Fleet.
func (f *Fleet) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lock == nil {
		return nil
	}
	err := f.lock.Close()
	f.lock = nil
	return err
}

// appendFleet encodes the payload of a fleet record: ID; epoch, 8 bytes; members,
// 4 bytes; for each, the length of its peer ID, 1 byte, and that.
func appendFleet(dst []byte, id share.ID, epoch uint64, members []peers.ID) []byte {
	dst = append(dst, id.Bytes()...)
	dst = binary.LittleEndian.AppendUint64(dst, epoch)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(members)))
	for _, m := range members {
		if len(m) > wire.MaxPeerID {
			panic("store: a peer ID that is too long")
		}
		dst = append(append(dst, byte(len(m))), m...)
	}
	return dst
}

func parseFleet(id share.ID, b []byte) (epoch uint64, members []peers.ID, err error) {
	if len(b) < shareIDLen+12 || string(b[:shareIDLen]) != string(id.Bytes()) {
		return 0, nil, fmt.Errorf("%w: of another share", vfs.ErrRecord)
	}
	b = b[shareIDLen:]
	epoch = binary.LittleEndian.Uint64(b)
	n := binary.LittleEndian.Uint32(b[8:])
	b = b[12:]
	if n > maxMembers || int64(n) > int64(len(b)) {
		return 0, nil, fmt.Errorf("%w: %d members", vfs.ErrRecord, n)
	}
	for range n {
		if len(b) == 0 || b[0] == 0 || b[0] > wire.MaxPeerID || len(b) < 1+int(b[0]) {
			return 0, nil, fmt.Errorf("%w: a member is cut short", vfs.ErrRecord)
		}
		members = append(members, peers.ID(b[1:1+int(b[0])]))
		b = b[1+int(b[0]):]
	}
	if len(b) > 0 || epoch > maxEpoch {
		return 0, nil, fmt.Errorf("%w: epoch %d, %d bytes left", vfs.ErrRecord, epoch, len(b))
	}
	return epoch, members, nil
}
