package rounds

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/piecelease/fetcher/internal/words"
)

// A KV is a store of small values that many processes share. Each key has its own
// history, whose latest revision can be read and replaced. Once a call is answered,
// every later call from any process sees what it wrote. A call may wait for as long
// as its context lasts. A KV is safe for concurrent use.
//
// Keys are 1 to 200 bytes: words of A-Z, a-z, 0-9, "_" and "-", with single dots
// between them. Values are 1 to [MaxValue] bytes.
//
// Create, Update and Delete return the revision that they made, or say why they
// made none with [ErrExists], [ErrConflict], [ErrKey] or [ErrTooLarge]. After any
// other error it is unknown whether the write happened, or still will: read the key
// again.
type KV interface {
	// Get returns the latest revision of a key, even if it is a tombstone, or
	// [ErrNotFound] if the key has none.
	Get(ctx context.Context, key string) (Entry, error)

	// Create writes the first revision of a key. It returns [ErrExists] if there is
	// one, even a tombstone.
	Create(ctx context.Context, key string, value []byte) (rev uint64, err error)

	// Update replaces revision rev of a key. It returns [ErrConflict] if that is not
	// the latest, or the key has none.
	Update(ctx context.Context, key string, value []byte, rev uint64) (uint64, error)

	// Delete replaces revision rev with a tombstone: an entry without a value. The
	// key remains. Errors are the same as for Update.
	Delete(ctx context.Context, key string, rev uint64) (uint64, error)

	// Watch calls f first with the latest revisions of the keys it watches, which
	// may be none, and then with each change, until ctx ends or something breaks; it
	// returns why. A key that ends in a dot stands for all keys that begin with it.
	// A key may change more than once between two calls of f; then only its latest
	// revision is sure to come. No revision comes after a later one of its key, and
	// the latest always comes, however often the connection is lost. A store that was
	// replaced or restored may have an earlier revision than came, or none, of a key: then
	// it returns [ErrBack], and another Watch begins with what the store has now.
	Watch(ctx context.Context, key string, f func([]Entry)) error
}

// An Entry is one revision of a key.
type Entry struct {
	Key   string
	Value []byte // empty: a tombstone
	Rev   uint64 // at least 1; grows with each write to any key of the store
}

// MaxValue is the largest value of a [KV], in bytes.
const MaxValue = 64 << 10

const (
	maxKey      = 200
	callTimeout = 30 * time.Second // for each call that this package makes
)

// Errors that a [KV] returns, wrapped with details.
var (
	ErrNotFound = errors.New("there is no such key")
	ErrExists   = errors.New("the key exists")
	ErrConflict = errors.New("the key has another revision")
	ErrKey      = errors.New("not a name")
	ErrTooLarge = errors.New("the value is too large")
)

// ErrAway is wrapped by what the packages of stores return if no server answers when a store
// is opened.
var ErrAway = errors.New("the store cannot be reached")

// Unanswered is why a call of a store ended with its ctx: that the store does not answer, if the time for it was
// up, which wraps [ErrAway] and [context.DeadlineExceeded].
func Unanswered(ctx context.Context) error {
	err := context.Cause(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return words.Error(errors.Join(ErrAway, err), "the store does not answer")
	}
	return err
}

// ErrUnfit is wrapped by what they return if a server answers then, and cannot be used, or a file cannot be. The rest of the error
// says why, and what is to be changed.
var ErrUnfit = errors.New("the store cannot be used")

// What stores on servers have in common to say. The first two are kinds of [ErrUnfit].
var (
	ErrLogin  = fmt.Errorf("%w: its server does not let this user in: the user and the password go before the host in the URL", ErrUnfit)
	ErrDenied = fmt.Errorf("%w: its server does not let this user read and write it", ErrUnfit)
	ErrBack   = errors.New("the store has gone back to an earlier state: it was replaced, or restored from a backup")
)

// CheckKey returns an [ErrKey] if the key is not valid in any [KV].
func CheckKey(key string) error {
	if len(key) == 0 || len(key) > maxKey {
		return fmt.Errorf("%w: it has %d bytes, and a name has 1 to %d", ErrKey, len(key), maxKey)
	}
	before := byte('.')
	for i := range len(key) {
		c := key[i]
		word := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
		if !word && (c != '.' || before == '.' || i == len(key)-1) {
			return fmt.Errorf("%w: %q; a name has letters, digits, _ and -, and dots between them", ErrKey, key)
		}
		before = c
	}
	return nil
}

// CheckValue returns an error if the value is not valid in any [KV].
func CheckValue(value []byte) error {
	switch {
	case len(value) == 0:
		return errors.New("a value needs at least one byte")
	case len(value) > MaxValue:
		return fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(value), MaxValue)
	}
	return nil
}
