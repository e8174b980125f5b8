package passes

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/cloudflare/circl/oprf"
	"github.com/gtank/ristretto255"
)

var suite = oprf.SuiteRistretto255

// A Size is what a pass is good for, in MiB, for 31 days.
type Size uint16

// Sizes are all the sizes, the largest first. Each divides the one before.
var Sizes = [...]Size{4096, 64, 1}

func (s Size) valid() bool { return slices.Contains(Sizes[:], s) }

// EpochDays is how long a key signs, in days. Its passes are good in the next epoch too, so
// two epochs are alive at any time.
const EpochDays = 183

// An Epoch is a period of EpochDays days, counted from 1970.
type Epoch uint16

// EpochAt returns the epoch of a moment.
func EpochAt(t time.Time) Epoch {
	return Epoch(max(t.Unix(), 0) / (EpochDays * 86400))
}

// Signs reports whether keys of the epoch sign at now.
func (e Epoch) Signs(now time.Time) bool { return e == EpochAt(now) }

// Alive reports whether passes of the epoch are accepted at now.
func (e Epoch) Alive(now time.Time) bool {
	at := EpochAt(now)
	return e == at || e+1 == at
}

// End returns when passes of the epoch become worthless.
func (e Epoch) End() time.Time { return time.Unix((int64(e)+2)*EpochDays*86400, 0) }

// Forget returns when nobody needs to know any more which passes of the epoch were spent.
func (e Epoch) Forget() time.Time { return e.End().AddDate(0, 0, 31) }

// A KeyID names a key: the SHA-256 of its public half, as in RFC 9578.
type KeyID [sha256.Size]byte

func (id KeyID) String() string { return hex.EncodeToString(id[:8]) }

const publicBytes = 32

// A PublicKey is what wallets know about a key.
type PublicKey struct {
	Size  Size
	Epoch Epoch
	key   oprf.PublicKey
	raw   [publicBytes]byte
}

// ID returns the key's ID.
func (k *PublicKey) ID() KeyID { return sha256.Sum256(k.raw[:]) }

// ParsePublic reads the 32 bytes of a public key.
func ParsePublic(size Size, epoch Epoch, b []byte) (*PublicKey, error) {
	k := &PublicKey{Size: size, Epoch: epoch}
	if len(b) != publicBytes || !size.valid() {
		return nil, fmt.Errorf("%w: a key of %d bytes for passes of %d MiB", ErrMessage, len(b), size)
	}
	if err := k.key.UnmarshalBinary(suite, b); err != nil {
		return nil, fmt.Errorf("%w: a public key: %v", ErrMessage, err)
	}
	copy(k.raw[:], b)
	return k, nil
}

// A PrivateKey signs passes and recognises them.
type PrivateKey struct {
	PublicKey
	private oprf.PrivateKey
	scalar  *ristretto255.Scalar // the same, to sign with
}

// NewKey makes a key from 32 bytes of chance, as RFC 9497 derives it.
func NewKey(size Size, epoch Epoch, chance io.Reader) (*PrivateKey, error) {
	seed := make([]byte, 32)
	if _, err := io.ReadFull(chance, seed); err != nil {
		return nil, err
	}
	k, err := oprf.DeriveKey(suite, oprf.VerifiableMode, seed, []byte("fetcher pass"))
	if err != nil {
		return nil, err
	}
	b, err := k.MarshalBinary()
	if err != nil {
		return nil, err
	}
	return ParsePrivate(size, epoch, b)
}

// ParsePrivate reads what Secret wrote.
func ParsePrivate(size Size, epoch Epoch, b []byte) (*PrivateKey, error) {
	k := &PrivateKey{}
	if len(b) != 32 {
		return nil, fmt.Errorf("%w: a private key of %d bytes", ErrMessage, len(b))
	}
	if err := k.private.UnmarshalBinary(suite, b); err != nil {
		return nil, fmt.Errorf("%w: a private key: %v", ErrMessage, err)
	}
	scalar, err := ristretto255.NewScalar().SetCanonicalBytes(b)
	if err != nil {
		return nil, fmt.Errorf("%w: a private key: %v", ErrMessage, err)
	}
	public, err := k.private.Public().MarshalBinary()
	if err != nil {
		return nil, err
	}
	p, err := ParsePublic(size, epoch, public)
	if err != nil {
		return nil, err
	}
	k.PublicKey, k.scalar = *p, scalar
	return k, nil
}

// Secret returns the private half, 32 bytes.
func (k *PrivateKey) Secret() []byte {
	b, err := k.private.MarshalBinary()
	if err != nil {
		panic(err) // circl returns no error for a key that it made
	}
	return b
}

// ErrTagged: an issuer that shows different keys to different wallets could tell whose
// passes are whose.
var ErrTagged = errors.New("the issuer lists different keys for this account than for the others, and so could recognize the passes of this account")

// ErrMessage wraps errors about a malformed message or key.
var ErrMessage = errors.New("invalid data about passes")

// A Listing has the keys that an issuer says it uses.
type Listing []*PublicKey

// listed is the size of a key in a listing: size, epoch, key.
const listed = 2 + 2 + publicBytes

// MaxListing bounds the keys of a listing: two epochs are alive.
const MaxListing = 2 * len(Sizes)

// Append writes the listing: two bytes of size, two of epoch and 32 of key for each.
func (l Listing) Append(b []byte) []byte {
	for _, k := range l {
		b = append(b, byte(k.Size>>8), byte(k.Size), byte(k.Epoch>>8), byte(k.Epoch))
		b = append(b, k.raw[:]...)
	}
	return b
}

// ParseListing reads a listing. No two keys may have the same size and epoch, and no key may
// be listed twice: one key for two sizes would make small passes worth as much as large
// ones.
func ParseListing(b []byte) (Listing, error) {
	if len(b)%listed != 0 || len(b)/listed > MaxListing {
		return nil, fmt.Errorf("%w: a listing of %d bytes", ErrMessage, len(b))
	}
	var l Listing
	for ; len(b) > 0; b = b[listed:] {
		k, err := ParsePublic(Size(b[0])<<8|Size(b[1]), Epoch(b[2])<<8|Epoch(b[3]), b[4:listed])
		if err != nil {
			return nil, err
		}
		for _, o := range l {
			if o.Size == k.Size && o.Epoch == k.Epoch || o.raw == k.raw {
				return nil, fmt.Errorf("%w: a listing with two keys of one size for the same half year, or with one key twice", ErrMessage)
			}
		}
		l = append(l, k)
	}
	return l, nil
}

// Agrees returns ErrTagged if two listings, seen at two times, have different keys for one size and epoch.
func (l Listing) Agrees(o Listing) error {
	for _, a := range l {
		for _, b := range o {
			if a.Size == b.Size && a.Epoch == b.Epoch && a.raw != b.raw {
				return ErrTagged
			}
		}
	}
	return nil
}

// Key returns the listed key with an ID; nil if it is not listed.
func (l Listing) Key(id KeyID) *PublicKey {
	for _, k := range l {
		if k.ID() == id {
			return k
		}
	}
	return nil
}

// Signing returns the listed key that signs passes of a size at now; nil if none does.
func (l Listing) Signing(size Size, now time.Time) *PublicKey {
	for _, k := range l {
		if k.Size == size && k.Epoch.Signs(now) {
			return k
		}
	}
	return nil
}
