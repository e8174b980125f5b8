package passes

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cloudflare/circl/oprf"
)

// A Pass is a signed pass. Whoever knows Code can spend it: only what Spend makes from it leaves
// the wallet.
type Pass struct {
	Nonce     [nonceBytes]byte
	Challenge [sha256.Size]byte // of the depot where it is good
	Key       KeyID
	Code      [codeBytes]byte
}

// Token returns the pass as RFC 9577 writes it.
func (p *Pass) Token() []byte {
	return append(input(p.Nonce, p.Challenge, p.Key), p.Code[:]...)
}

// ParseToken reads what Token wrote.
func ParseToken(b []byte) (p Pass, err error) {
	if len(b) != 2+nonceBytes+2*sha256.Size+codeBytes || binary.BigEndian.Uint16(b) != tokenType {
		return p, fmt.Errorf("%w: a pass of %d bytes", ErrMessage, len(b))
	}
	b = b[2:]
	b = b[copy(p.Nonce[:], b):]
	b = b[copy(p.Challenge[:], b):]
	b = b[copy(p.Key[:], b):]
	copy(p.Code[:], b)
	return p, nil
}

// A RequestID is a wallet's name for one change that it pays for. A depot gives the same answer
// to the same request again.
type RequestID [16]byte

// A Binding is what a pass is spent for: one request of one account at one depot. A spend made
// for it is good for nothing else.
type Binding struct {
	Depot, Account string // peer IDs
	Share          string // a share ID; empty in an exchange
	Until          time.Time
	Request        RequestID
	Batch          [sha256.Size]byte // in an exchange: the hash of the requests to sign
}

// A Mark is by what a ledger knows a payment that it has noted; the book of spent passes has it too. The
// same payment noted by another ledger, or by an older copy, has another.
type Mark [16]byte

// PaymentOf is what a pass is spent for that an account pays a depot with: its credit there, which its
// leases are taken from.
func PaymentOf(depot, account string, id RequestID) Binding {
	return Binding{Depot: depot, Account: account, Until: time.Unix(0, 0), Request: id}
}

// Name is what a book calls a binding: the same request ID for something else has another
// name.
func (b Binding) Name() RequestID { return RequestID(b.digest()[:16]) }

func (b Binding) digest() []byte {
	h := sha256.New()
	h.Write([]byte("fetcher pass spent\x00"))
	field := func(s []byte) {
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(s))))
		h.Write(s)
	}
	field([]byte(b.Depot))
	field([]byte(b.Account))
	field([]byte(b.Share))
	field(binary.BigEndian.AppendUint64(nil, uint64(b.Until.Unix())))
	field(b.Request[:])
	field(b.Batch[:])
	return h.Sum(nil)
}

// A Spend is a pass as a depot sees it: enough to check it, too little to spend it for
// anything else.
type Spend struct {
	Nonce     [nonceBytes]byte
	Challenge [sha256.Size]byte
	Key       KeyID
	Proof     [sha256.Size]byte // HMAC-SHA-256 of the binding under the pass's code
}

// Spend makes from a pass what is sent for a binding.
func (p *Pass) Spend(b Binding) Spend {
	return Spend{Nonce: p.Nonce, Challenge: p.Challenge, Key: p.Key, Proof: prove(p.Code[:], b)}
}

func prove(code []byte, b Binding) [sha256.Size]byte {
	h := hmac.New(sha256.New, code)
	h.Write(b.digest())
	return [sha256.Size]byte(h.Sum(nil))
}

// Why a spend is refused. None of these uses up the pass.
var (
	ErrForeign = errors.New("the pass is for another depot")
	ErrKey     = errors.New("the pass has a key that is not, or no longer, in use")
	ErrForged  = errors.New("the pass was not signed by this issuer, or was spent for something else")
)

// Check returns an error unless a spend was made, for this very binding, with a pass that the key
// signed and that is good at now. Only the issuer's log knows whether it was spent before.
func (k *PrivateKey) Check(s Spend, b Binding, now time.Time) error {
	switch {
	case s.Key != k.ID() || !k.Epoch.Alive(now):
		return ErrKey
	case s.Challenge != Challenge(b.Depot):
		return ErrForeign
	}
	code, err := oprf.NewVerifiableServer(suite, &k.private).FullEvaluate(input(s.Nonce, s.Challenge, s.Key))
	if err != nil {
		return fmt.Errorf("%w: %v", ErrForged, err)
	}
	if want := prove(code, b); !hmac.Equal(want[:], s.Proof[:]) {
		return ErrForged
	}
	return nil
}

// spendBytes is the size of a spend: nonce, challenge, key, proof.
const spendBytes = nonceBytes + 3*sha256.Size

// MaxSpends is the most passes that may pay for one request.
const MaxSpends = 4096

// AppendSpends writes spends one after the other, 128 bytes each. They include the pass's challenge
// and key, so that a depot that is not the issuer can pass them on.
func AppendSpends(b []byte, spends []Spend) []byte {
	for _, s := range spends {
		b = append(b, s.Nonce[:]...)
		b = append(b, s.Challenge[:]...)
		b = append(b, s.Key[:]...)
		b = append(b, s.Proof[:]...)
	}
	return b
}

// ParseSpends reads spends. A pass that occurs twice is an error: it would pay twice.
func ParseSpends(b []byte) ([]Spend, error) {
	if len(b)%spendBytes != 0 || len(b)/spendBytes > MaxSpends {
		return nil, fmt.Errorf("%w: spends of %d bytes", ErrMessage, len(b))
	}
	spends := make([]Spend, 0, len(b)/spendBytes)
	seen := make(map[[nonceBytes]byte]bool, cap(spends))
	for len(b) > 0 {
		var s Spend
		b = b[copy(s.Nonce[:], b):]
		b = b[copy(s.Challenge[:], b):]
		b = b[copy(s.Key[:], b):]
		b = b[copy(s.Proof[:], b):]
		if seen[s.Nonce] {
			return nil, fmt.Errorf("%w: a pass that is spent twice in one request", ErrMessage)
		}
		seen[s.Nonce] = true
		spends = append(spends, s)
	}
	return spends, nil
}
