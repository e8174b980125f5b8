package fleet

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// Secret is what the members of a fleet know and nobody else does: whoever proves
// that it knows it is a member. The empty one proves nothing.
type Secret string

// Least and greatest length of a Secret, in bytes.
const (
	MinSecret = 16
	MaxSecret = 1 << 10
)

// Proof is what one peer shows another to be accepted as a member of the fleet of a
// share. It is of no use to a third peer: connections prove who the two are.
func (s Secret) Proof(id share.ID, from, to peers.ID) [sha256.Size]byte {
	return s.sum("fetcher fleet member 1", id.Bytes(), []byte(from), []byte(to))
}

// Proves reports whether a proof is valid for the peer it comes from.
func (s Secret) Proves(proof [sha256.Size]byte, id share.ID, from, to peers.ID) bool {
	want := s.Proof(id, from, to)
	return s != "" && hmac.Equal(proof[:], want[:])
}

func (s Secret) sum(what string, parts ...[]byte) [sha256.Size]byte {
	h := hmac.New(sha256.New, []byte(s))
	h.Write([]byte(what))
	for _, p := range parts {
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(p))))
		h.Write(p)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// sealed is the form of what members write into the store of their fleet: JSON, for
// an operator to read, and the proof that a member wrote it, under that key.
type sealed struct {
	Is   json.RawMessage `json:"is"`
	MAC  string          `json:"mac"`
	Also string          `json:"also,omitempty"` // ... with the secret that the fleet is given
}

// ErrSeal means that an entry was not written with the secret of the fleet.
var ErrSeal = errors.New("it was not written with the secret of this fleet")

// Seal returns v, which JSON must be able to encode, as it is stored under a key.
func (s Secret) Seal(key string, v any) []byte { return s.SealAlso(key, v, "") }

// SealAlso is Seal such that another secret, unless it is empty, opens the entry as well.
func (s Secret) SealAlso(key string, v any, also Secret) []byte {
	is, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	e := sealed{Is: is, MAC: s.seal(key, is)}
	if also != "" {
		e.Also = also.seal(key, is)
	}
	out, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	return out
}

func (s Secret) seal(key string, is []byte) string {
	sum := s.sum("fetcher fleet entry 1", []byte(key), is)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// Open reads what Seal wrote into v.
func (s Secret) Open(key string, value []byte, v any) error {
	var e sealed
	if err := json.Unmarshal(value, &e); err != nil {
		return fmt.Errorf("%s: not an entry of a fleet: %w", key, err)
	}
	mac := []byte(s.seal(key, e.Is))
	if s == "" || !hmac.Equal([]byte(e.MAC), mac) && !hmac.Equal([]byte(e.Also), mac) {
		return fmt.Errorf("%s: %w", key, ErrSeal)
	}
	if err := json.Unmarshal(e.Is, v); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}
