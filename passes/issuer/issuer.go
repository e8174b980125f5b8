// Package issuer keeps what an issuer of passes must never lose: its keys, and its book of
// vouchers sold and passes spent. Everything is durable before it is answered. It promises
// nothing to outsiders.
//
//	issuer.go  Issuer: sells, signs, takes
//	log.go     the book on disk, in frames that a power cut keeps whole or not at all
//	keys.go    the keys on disk, made when they are needed
//
// The book is in a file of its own, not in a database of leases: if that database is lost
// and restored from an older copy, no spent pass becomes valid again.
package issuer

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"time"

	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/passes"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// MaxUnits bounds the value of one voucher: 500 of the largest passes.
const MaxUnits = passes.MaxBatch * 4096

// An Issuer may be used from several goroutines; it answers one call at a time. It holds a
// lock on its folder, so that two processes cannot both take a pass.
type Issuer struct {
	mu     sync.Mutex // guards the fields below
	dir    vfs.FS
	lock   io.Closer
	chance io.Reader
	book   *passes.Book
	log    *log
	tried  time.Time            // when the book could not be written; see again
	keys   []*passes.PrivateKey // of the epochs that are alive, or will be
}

// bookRetry is how long after a failure the book is written anew.
const bookRetry = time.Minute

// Open opens the issuer in a folder, or makes one. It owns dir from then on. An error that
// wraps share.ErrHeld means that another process has it. chance is the source of keys and
// vouchers: crypto/rand.Reader.
func Open(dir vfs.FS, chance io.Reader) (_ *Issuer, err error) {
	lock, err := dir.Lock("lock")
	if err != nil {
		dir.Close()
		if errors.Is(err, share.ErrHeld) {
			err = fmt.Errorf("another process issues these passes: %w", err)
		}
		return nil, err
	}
	i := &Issuer{dir: dir, lock: lock, chance: chance, book: passes.NewBook()}
	defer func() {
		if err != nil {
			i.Close()
		}
	}()
	if err := i.load(); err != nil {
		return nil, err
	}
	return i, i.rewrite()
}

// load reads the book and the keys. The book was made before the first key, and the first key before anything was signed.
func (i *Issuer) load() error {
	signed := false
	err := read(i.dir, func(e passes.Entry) {
		signed = signed || e.Kind != passes.Sold
		i.book.Enter(e)
	})
	gone := errors.Is(err, fs.ErrNotExist)
	if err != nil && !gone {
		return err
	}
	switch i.keys, err = readKeys(i.dir); {
	case err != nil:
		return err
	case gone && len(i.keys) > 0:
		return words.Error(ErrDamaged, unusable+"it is missing; put back a copy of it, or move issuer/keys"+orElse)
	case signed && len(i.keys) == 0:
		return errNoKeys
	}
	return nil
}

// rewrite starts a new log: after a power cut or a failed write, nobody knows how much of the
// old one is on the disk. All that was answered is in the book in memory.
func (i *Issuer) rewrite() error {
	if i.log != nil {
		i.log.close()
	}
	log, err := begin(i.dir, i.book.Entries)
	if err == nil {
		i.log = log
	} else if i.log != nil {
		err = i.log.fail(err)
	}
	return err
}

// again writes the book anew if it could not be written, a minute or more ago by the clock of
// the caller, or if that clock was set back.
func (i *Issuer) again(now time.Time) error {
	if i.log.failed == nil {
		return nil
	}
	if ago := now.Sub(i.tried); ago >= 0 && ago < bookRetry {
		return i.log.failed
	}
	i.tried = now
	return i.rewrite()
}

// Trouble is why nothing is taken or signed; nil: nothing is wrong.
func (i *Issuer) Trouble() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.log.failed
}

// Close waits for the answer under way.
func (i *Issuer) Close() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.log != nil {
		i.log.close()
	}
	return errors.Join(i.lock.Close(), i.dir.Close())
}

// Listing returns the keys in use at now, the same for every peer that asks.
func (i *Issuer) Listing(now time.Time) (passes.Listing, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if err := i.renew(now); err != nil {
		return nil, err
	}
	var l passes.Listing
	for _, k := range i.keys {
		if k.Epoch.Alive(now) {
			l = append(l, &k.PublicKey)
		}
	}
	return l, nil
}

// renew makes the keys of a new epoch, and forgets those that nobody needs any more, with
// the record of what was spent under them.
func (i *Issuer) renew(now time.Time) error {
	keys, changed, err := renewed(i.keys, now, i.chance)
	if err != nil || !changed {
		return err
	}
	if err := writeKeys(i.dir, keys); err != nil {
		return err
	}
	i.keys = keys
	i.book.Forget(now) // only together with the keys: then a wrong clock makes no spent pass valid again
	i.tried = now
	return i.rewrite()
}

// Sell makes a voucher for passes worth units, 1 to MaxUnits.
func (i *Issuer) Sell(units int64, now time.Time) (passes.Voucher, error) {
	if units < 1 || units > MaxUnits {
		return passes.Voucher{}, fmt.Errorf("a voucher is for 1 to %d passes, not for %d", MaxUnits, units)
	}
	v, err := passes.NewVoucher(i.chance)
	if err != nil {
		return v, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return v, i.enter([]passes.Entry{i.book.Sell(v, units, now)}, now)
}

// Redeem signs the requests that a voucher pays for. The same requests may be sent again.
func (i *Issuer) Redeem(v passes.Voucher, r passes.Requests, now time.Time) (passes.Responses, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	entries, err := i.book.Redeem(v, r, now)
	if err != nil {
		return passes.Responses{}, err
	}
	return i.signed(r, entries, now)
}

// signed signs requests, and returns once entries are durable.
func (i *Issuer) signed(r passes.Requests, entries []passes.Entry, now time.Time) (passes.Responses, error) {
	signed, err := i.sign(r, now)
	if err == nil {
		err = i.enter(entries, now)
	}
	if err != nil {
		return passes.Responses{}, err
	}
	return signed, nil
}

// Exchange signs requests that passes of the same sum pay for. The same may be sent again, also when the keys of those passes
// have ended. With passes.ErrSpent it returns the names of passes that were spent for something else.
func (i *Issuer) Exchange(spends []passes.Spend, b passes.Binding, r passes.Requests, now time.Time) (_ passes.Responses, bad []passes.Name, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if b.Batch != r.Hash() {
		return passes.Responses{}, nil, passes.ErrForged
	}
	units, err := r.Units()
	if err != nil {
		return passes.Responses{}, nil, err
	}
	var entries []passes.Entry
	if !i.book.Taken(spends, b.Name()) {
		if entries, bad, err = i.check(spends, b, units, now); err != nil {
			return passes.Responses{}, bad, err
		}
	}
	signed, err := i.signed(r, entries, now)
	return signed, nil, err
}

// Spend takes passes that pay units for what they are bound to, all or none. Those that were taken for that
// before, under the same mark, are taken, also when their keys have ended; under another mark it is
// passes.ErrSpent, without names. With passes.ErrSpent come the names of those that were spent for something else.
func (i *Issuer) Spend(spends []passes.Spend, b passes.Binding, mark passes.Mark, units int64, now time.Time) (bad []passes.Name, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	keys := make([]*passes.PublicKey, len(spends))
	for at, s := range spends {
		key := i.key(s.Key)
		if key == nil {
			return nil, passes.ErrKey
		}
		keys[at] = &key.PublicKey
	}
	if entries, _, err := i.book.Spend(spends, keys, units, b.Name()); err == nil && len(entries) == 0 {
		if !i.book.Marked(spends, keys, mark) {
			return nil, passes.ErrSpent
		}
		return nil, nil
	}
	entries, bad, err := i.check(spends, b, units, now)
	if err != nil {
		return bad, err
	}
	for at := range entries {
		copy(entries[at].For[len(passes.RequestID{}):], mark[:])
	}
	return nil, i.enter(entries, now)
}

// check returns the entries to write if the spends are taken.
func (i *Issuer) check(spends []passes.Spend, b passes.Binding, units int64, now time.Time) (entries []passes.Entry, bad []passes.Name, err error) {
	keys := make([]*passes.PublicKey, len(spends))
	for at, s := range spends {
		key := i.key(s.Key)
		if key == nil {
			return nil, nil, passes.ErrKey
		}
		if err := key.Check(s, b, now); err != nil {
			return nil, nil, err
		}
		keys[at] = &key.PublicKey
	}
	return i.book.Spend(spends, keys, units, b.Name())
}

func (i *Issuer) key(id passes.KeyID) *passes.PrivateKey {
	for _, k := range i.keys {
		if k.ID() == id {
			return k
		}
	}
	return nil
}

// sign signs each request with the living key of its size that it names: the one of now, or,
// for an older order, the one of the epoch before.
func (i *Issuer) sign(r passes.Requests, now time.Time) (signed passes.Responses, err error) {
	for at, one := range r {
		if len(one) == 0 {
			continue
		}
		var key *passes.PrivateKey
		for _, k := range i.keys {
			if k.Size == passes.Sizes[at] && k.Epoch.Alive(now) && k.Asked(one) {
				key = k
			}
		}
		if key == nil {
			return signed, passes.ErrKey
		}
		if signed[at], err = key.Sign(one, i.chance); err != nil {
			return signed, err
		}
	}
	return signed, nil
}

// enter makes entries durable, and then adds them to the book.
func (i *Issuer) enter(entries []passes.Entry, now time.Time) error {
	if len(entries) == 0 {
		return nil
	}
	if err := i.again(now); err != nil {
		return err
	}
	if err := i.log.append(entries); err != nil {
		i.tried = now
		return err
	}
	for _, e := range entries {
		i.book.Enter(e)
	}
	return nil
}
