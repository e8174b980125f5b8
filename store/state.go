package store

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// State is what a node keeps between its runs: its key, the manifests and block
// hashes of shares that it has handled, what imported folders looked like, and
// small records of other packages. All but the key can be made again; what is damaged
// counts as missing.
//
//	key, key.lock     the node's Ed25519 seed, and who uses it
//	manifests/ID      as received, checked against the ID when read
//	hashes/ID         block hashes
//	imports/HASH      one per imported path: size, times and inode of each file
//	temp/N            files being written, of the process that has its lock
//	fleets/ID         who was in a fleet that the node coordinated, and how often it did
//	ranking, port
//
// Any number of processes may have one State open; only the key has one user.
type State struct {
	fs    vfs.FS
	at    string // where fs is, if that is known
	owned bool   // fs is closed with the State
	temp  vfs.Temp

	mu   sync.Mutex // guards the fields below
	key  ed25519.PrivateKey
	lock io.Closer // key.lock; nil unless key is the stored one

	heads map[string]remembered // of records of imports, by name
	paths int                   // how many are remembered
}

const (
	maxRanking = 16 << 20
	maxImports = 4096     // paths remembered
	maxImport  = 64 << 20 // bytes of one remembered path
)

// OpenState opens the folder dir as a State. It is created if need be, for its
// owner alone.
func OpenState(dir string) (*State, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	d, err := vfs.PrivateDir(dir)
	if err != nil {
		return nil, err
	}
	s, err := OpenStateIn(d)
	if err != nil {
		d.Close()
		return nil, err
	}
	s.at, s.owned = dir, true
	return s, nil
}

// OpenStateIn opens a State in d, which stays the caller's.
func OpenStateIn(d vfs.FS) (*State, error) {
	for _, name := range stateFolders {
		if err := vfs.EnsureDir(d, name); err != nil {
			return nil, err
		}
	}
	return &State{fs: d, paths: maxImports}, nil
}

// Close releases the key. What the State handed out stays valid.
func (s *State) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if s.lock != nil {
		err = s.lock.Close()
		s.lock = nil
	}
	err = errors.Join(err, s.temp.Close())
	if s.owned {
		err = errors.Join(err, s.fs.Close())
	}
	return err
}

// Key returns the key for this run. The first to ask while nobody else has it gets
// the stored one, made on first use, and holds it until Close: stored is true.
// Everybody else gets a fresh key that is not stored.
//
// A stored key that is damaged is an error and never replaced: peers know the
// node by it.
func (s *State) Key() (key ed25519.PrivateKey, stored bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lock != nil {
		return s.key, true, nil
	}
	lock, err := s.fs.Lock("key.lock")
	if errors.Is(err, share.ErrHeld) {
		_, key, err = ed25519.GenerateKey(rand.Reader)
		return key, false, err
	}
	if err != nil {
		return nil, false, fmt.Errorf("the node's key cannot be locked: %w", err)
	}
	key, err = s.storedKey()
	if err != nil {
		lock.Close()
		switch at := filepath.Join(s.at, "key"); {
		case errors.Is(err, vfs.ErrRecord):
			return nil, false, words.Error(err, "%s, which holds the node's private key, is damaged: restore it from a backup, or remove it, and the node gets a new ID", at)
		case errors.Is(err, vfs.ErrNotPrivate):
			return nil, false, words.Error(err, "others could read %s, which holds the node's private key, as that disk does not keep permissions, or the file belongs to another user; choose a state directory of your own on a disk that keeps them", at)
		}
		return nil, false, fmt.Errorf("the node's key cannot be read or made: %w", err)
	}
	s.key, s.lock = key, lock
	return key, true, nil
}

func (s *State) storedKey() (ed25519.PrivateKey, error) {
	seed, err := vfs.ReadRecord(s.fs, "key", vfs.KeyRecord, ed25519.SeedSize)
	switch {
	case err == nil && len(seed) == ed25519.SeedSize:
		return ed25519.NewKeyFromSeed(seed), s.keyIsPrivate()
	case err == nil:
		return nil, fmt.Errorf("%w: a key of %d bytes", vfs.ErrRecord, len(seed))
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	if err = s.save("key", vfs.EncodeRecord(vfs.KeyRecord, key.Seed()), true); err == nil {
		if err = s.keyIsPrivate(); err != nil {
			s.fs.Remove("key") // nobody knows the node by it yet
		}
	}
	return key, err
}

// keyIsPrivate is an error if others may read the key.
func (s *State) keyIsPrivate() error {
	if s.at == "" {
		return nil
	}
	return vfs.Confine(filepath.Join(s.at, "key"), 0o600)
}

// save writes a file whole. Several processes may do so at once.
func (s *State) save(name string, b []byte, durable bool) error {
	temp, err := s.temp.Name(s.fs)
	if err != nil {
		return err
	}
	return vfs.WriteFile(s.fs, name, temp, b, durable)
}

// SaveManifest keeps a manifest, so that the share can be opened without a peer.
func (s *State) SaveManifest(m *share.Manifest) error {
	name := "manifests/" + m.ID().String()
	if kept, err := vfs.ReadFile(s.fs, name, share.MaxManifest); err == nil && bytes.Equal(kept, m.Bytes()) {
		return nil // comparing sizes alone would leave a damaged one as it is
	}
	return s.save(name, m.Bytes(), false)
}

// Manifest returns a kept manifest; the error is fs.ErrNotExist when there is none.
func (s *State) Manifest(id share.ID) (*share.Manifest, error) {
	b, err := vfs.ReadFile(s.fs, "manifests/"+id.String(), share.MaxManifest)
	if err != nil {
		return nil, err
	}
	if share.IDOf(b) != id {
		return nil, words.Error(fs.ErrNotExist, "the list of files of %s is damaged", id)
	}
	return share.DecodeManifest(b)
}

// SaveGuarded remembers, durably, that sources of a share gave it only to peers that know its
// secret.
func (s *State) SaveGuarded(id share.ID) error { return s.save("guarded/"+id.String(), nil, true) }

// Guarded reports whether SaveGuarded was called for a share, in this run or before, or may have been, as that cannot be read.
func (s *State) Guarded(id share.ID) bool {
	_, err := s.fs.Lstat("guarded/" + id.String())
	return !errors.Is(err, fs.ErrNotExist)
}

// SaveRanking keeps what the node knows of its peers, at most 16 MiB.
func (s *State) SaveRanking(b []byte) error {
	if len(b) > maxRanking {
		return words.Error(share.ErrLimit, "save ranking: it has %d bytes, and may have at most %d", len(b), maxRanking)
	}
	return s.save("ranking", vfs.EncodeRecord(vfs.RankingRecord, b), false)
}

// LoadRanking returns what SaveRanking kept; nil if there is nothing whole.
func (s *State) LoadRanking() []byte {
	b, err := vfs.ReadRecord(s.fs, "ranking", vfs.RankingRecord, maxRanking)
	if err != nil {
		return nil
	}
	return b
}

// SavePort keeps the port that the node listens on, durably. What cannot be read of an earlier run it leaves as it is.
func (s *State) SavePort(port int) error {
	if _, err := s.loadPort(); err != nil {
		return fmt.Errorf("the port saved earlier cannot be read: %w", err)
	}
	return s.save("port", vfs.EncodeRecord(vfs.PortRecord, binary.LittleEndian.AppendUint16(nil, uint16(port))), true)
}

// LoadPort is the port the node last listened on, 0 if unknown.
func (s *State) LoadPort() int {
	port, _ := s.loadPort()
	return port
}

func (s *State) loadPort() (int, error) {
	b, err := vfs.ReadRecord(s.fs, "port", vfs.PortRecord, 2)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, vfs.ErrRecord) || err == nil && len(b) != 2 {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return int(binary.LittleEndian.Uint16(b)), nil
}

// keptSlots opens the kept block hashes of a share; nil if there are none.
func (s *State) keptSlots(id share.ID) *slotFile {
	f, err := openSlots(s.fs, "hashes/"+id.String(), id)
	if err != nil {
		return nil
	}
	return f
}

// takeSlots keeps a copy of a share's block hashes; nil if that does not work.
func (s *State) takeSlots(from *slotFile, m *share.Manifest, total int64) *slotFile {
	temp, err := s.temp.Name(s.fs)
	if err != nil {
		return nil
	}
	to, err := createSlots(s.fs, temp)
	if err != nil {
		return nil
	}
	buf := make([]byte, min(maxRunBytes, max(1, total*int64(slotLen))))
	for at, end := int64(slotsStart), slotsStart+total*int64(slotLen); at < end && err == nil; at += int64(len(buf)) {
		var n int
		n, err = from.f.ReadAt(buf[:min(int64(len(buf)), end-at)], at)
		if err == io.EOF { // the last ones were never put, or lost
			err = nil
		}
		if err == nil && n > 0 {
			_, err = to.f.WriteAt(buf[:n], at)
		}
	}
	if err == nil {
		err = to.claim(m.ID())
	}
	if err == nil {
		err = s.fs.Rename(temp, "hashes/"+m.ID().String())
	}
	if err != nil {
		to.close()
		s.fs.Remove(temp)
		return nil
	}
	return to
}
