package passes

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/cloudflare/circl/group"
	"github.com/cloudflare/circl/oprf"
	"github.com/cloudflare/circl/zk/dleq"
)

// tokenType is VOPRF(ristretto255, SHA-512) in the registry of RFC 9577.
const tokenType = 5

// MaxBatch is how many passes of one size are signed at a time.
const MaxBatch = 500

const (
	elementBytes = 32
	proofBytes   = 64
	nonceBytes   = 32
	codeBytes    = 64 // an authenticator
)

// ErrProof: the issuer's response was not signed with the key that it lists.
var ErrProof = errors.New("the issuer signed with a key other than the one it lists")

// Challenge is the digest of a TokenChallenge of RFC 9577 that names a depot: a pass is
// good there and nowhere else.
func Challenge(depot string) [sha256.Size]byte {
	b := binary.BigEndian.AppendUint16(nil, tokenType)
	b = binary.BigEndian.AppendUint16(b, uint16(len(depot)))
	b = append(b, depot...)
	b = append(b, 0)    // no redemption context
	b = append(b, 0, 0) // no origin but the issuer
	return sha256.Sum256(b)
}

// A Seed is all that a wallet must remember about a request, and must keep secret.
type Seed [32]byte

// derive makes the i-th nonce and blind of a request to a key. They differ between keys.
func (s Seed) derive(key KeyID, i int) (nonce [nonceBytes]byte, blind oprf.Blind) {
	at := binary.BigEndian.AppendUint32(append(s[:], key[:]...), uint32(i))
	nonce = sha256.Sum256(append([]byte("nonce"), at...))
	return nonce, group.Ristretto255.HashToScalar(at, []byte("fetcher pass blind"))
}

// A Pending is a request with what is needed to make passes from its response.
type Pending struct {
	Request []byte // what to send to the issuer

	key       *PublicKey
	challenge [sha256.Size]byte
	nonces    [][nonceBytes]byte
	data      *oprf.FinalizeData
}

// Prepare asks for n passes for a depot, 1 to MaxBatch, signed with a key. The same
// arguments make the same request.
func Prepare(key *PublicKey, depot string, n int, seed Seed) (*Pending, error) {
	if n < 1 || n > MaxBatch {
		return nil, fmt.Errorf("%w: %d passes at a time", ErrMessage, n)
	}
	nonces, blinds := make([][nonceBytes]byte, n), make([]oprf.Blind, n)
	for i := range n {
		nonces[i], blinds[i] = seed.derive(key.ID(), i)
	}
	return prepare(key, Challenge(depot), nonces, blinds)
}

func prepare(key *PublicKey, challenge [sha256.Size]byte, nonces [][nonceBytes]byte, blinds []oprf.Blind) (*Pending, error) {
	p := &Pending{key: key, challenge: challenge, nonces: nonces}
	id := key.ID()
	inputs := make([][]byte, len(nonces))
	for i := range nonces {
		inputs[i] = input(nonces[i], challenge, id)
	}
	data, request, err := oprf.NewVerifiableClient(suite, &key.key).DeterministicBlind(inputs, blinds)
	if err != nil {
		return nil, err
	}
	p.data = data
	p.Request = binary.BigEndian.AppendUint16(nil, tokenType)
	p.Request = append(p.Request, key.Tag())
	p.Request, err = appendElements(p.Request, request.Elements)
	return p, err
}

// input is what a pass authenticates: RFC 9577's authenticator input.
func input(nonce [nonceBytes]byte, challenge [sha256.Size]byte, key KeyID) []byte {
	b := binary.BigEndian.AppendUint16(make([]byte, 0, 2+nonceBytes+2*sha256.Size), tokenType)
	b = append(b, nonce[:]...)
	b = append(b, challenge[:]...)
	return append(b, key[:]...)
}

// requestHead is the size of a request's type and of the last byte of the key's ID.
const requestHead = 3

// count returns how many passes a request asks for. It does not check that its elements are
// valid.
func count(request []byte) (int, error) {
	if len(request) < requestHead || binary.BigEndian.Uint16(request) != tokenType {
		return 0, fmt.Errorf("%w: a request of another type", ErrMessage)
	}
	raw, rest, err := splitElements(request[requestHead:])
	if err != nil {
		return 0, err
	}
	if len(rest) > 0 {
		return 0, fmt.Errorf("%w: bytes after a request", ErrMessage)
	}
	return len(raw) / elementBytes, nil
}

// Tag is the last byte of the key's ID, by which requests name the key.
func (k *PublicKey) Tag() byte {
	id := k.ID()
	return id[len(id)-1]
}

// Asked reports whether a request names the key.
func (k *PublicKey) Asked(request []byte) bool {
	return len(request) >= requestHead && request[2] == k.Tag()
}

// Sign signs what a request asks for. chance is for the proof: whoever can guess it, or sees two proofs made
// with the same, knows the key.
func (k *PrivateKey) Sign(request []byte, chance io.Reader) (response []byte, err error) {
	if _, err := count(request); err != nil {
		return nil, err
	}
	if !k.Asked(request) {
		return nil, fmt.Errorf("%w: a request for another key", ErrMessage)
	}
	raw, _, err := splitElements(request[requestHead:])
	if err != nil {
		return nil, err
	}
	r, err := uniform(chance)
	if err != nil {
		return nil, err
	}
	signed, proof, err := k.evaluate(raw, r)
	if err != nil {
		return nil, err
	}
	response = append(appendLength(nil, len(signed)), signed...)
	return append(response, proof...), nil
}

// Finish makes passes from the issuer's response, in the order of the request. If the listed
// key did not sign it, the error is ErrProof.
func (p *Pending) Finish(response []byte) ([]Pass, error) {
	elements, rest, err := parseElements(response)
	if err != nil {
		return nil, err
	}
	if len(elements) != len(p.nonces) || len(rest) != proofBytes {
		return nil, fmt.Errorf("%w: a response of %d passes to a request for %d", ErrMessage, len(elements), len(p.nonces))
	}
	var proof dleq.Proof
	if err := proof.UnmarshalBinary(group.Ristretto255, rest); err != nil {
		return nil, fmt.Errorf("%w: a proof: %v", ErrMessage, err)
	}
	codes, err := oprf.NewVerifiableClient(suite, &p.key.key).Finalize(p.data, &oprf.Evaluation{Elements: elements, Proof: &proof})
	switch {
	case errors.Is(err, oprf.ErrInvalidProof):
		return nil, ErrProof
	case err != nil:
		return nil, err
	}
	passes := make([]Pass, len(codes))
	for i, code := range codes {
		passes[i] = Pass{Nonce: p.nonces[i], Challenge: p.challenge, Key: p.key.ID(), Code: [codeBytes]byte(code)}
	}
	return passes, nil
}

// appendLength writes the number of bytes of elements that follow, as a QUIC variable-length integer
// (RFC 9000, section 16).
func appendLength(b []byte, n int) []byte {
	if n >= 64 {
		b = append(b, 0x40|byte(n>>8))
	}
	return append(b, byte(n))
}

// appendElements writes the elements after their length.
func appendElements(b []byte, elements []group.Element) ([]byte, error) {
	b = appendLength(b, len(elements)*elementBytes)
	for _, e := range elements {
		raw, err := e.MarshalBinaryCompress()
		if err != nil {
			return nil, err
		}
		b = append(b, raw...)
	}
	return b, nil
}

// splitElements separates the bytes of the elements from what follows them.
func splitElements(b []byte) (raw, rest []byte, err error) {
	if len(b) < 2 || b[0] >= 0x80 {
		return nil, nil, fmt.Errorf("%w: no list of elements", ErrMessage)
	}
	n, b := int(b[0]), b[1:]
	if n >= 0x40 {
		n, b = (n&0x3f)<<8|int(b[0]), b[1:]
	}
	if n == 0 || n%elementBytes != 0 || n > len(b) || n/elementBytes > MaxBatch {
		return nil, nil, fmt.Errorf("%w: a list of elements of %d bytes", ErrMessage, n)
	}
	return b[:n], b[n:], nil
}

// parseElements reads what appendElements wrote, and returns what follows it. As RFC 9497
// demands, it refuses the identity as an element.
func parseElements(b []byte) (elements []group.Element, rest []byte, err error) {
	raw, rest, err := splitElements(b)
	for ; len(raw) > 0; raw = raw[elementBytes:] {
		e := group.Ristretto255.NewElement()
		if err := e.UnmarshalBinary(raw[:elementBytes]); err != nil {
			return nil, nil, fmt.Errorf("%w: %v", ErrMessage, err)
		}
		if e.IsIdentity() {
			return nil, nil, fmt.Errorf("%w: an element that is not allowed", ErrMessage)
		}
		elements = append(elements, e)
	}
	return elements, rest, err
}
