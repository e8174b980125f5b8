package passes

import (
	"crypto"
	"crypto/sha512"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/cloudflare/circl/expander"
	"github.com/gtank/ristretto255"
)

// protocol is the context string of RFC 9497, section 3.1, of the verifiable mode.
const protocol = "OPRFV1-\x01-ristretto255-SHA512"

// uniform draws a scalar.
func uniform(chance io.Reader) (*ristretto255.Scalar, error) {
	var b [64]byte
	if _, err := io.ReadFull(chance, b[:]); err != nil {
		return nil, err
	}
	return ristretto255.NewScalar().SetUniformBytes(b[:])
}

// blinded reads the elements of a request. As RFC 9497 demands, it refuses the identity.
func blinded(raw []byte) (all []*ristretto255.Element, err error) {
	for ; len(raw) > 0; raw = raw[elementBytes:] {
		e, err := ristretto255.NewIdentityElement().SetCanonicalBytes(raw[:elementBytes])
		if err != nil {
			return nil, fmt.Errorf("%w: %v", ErrMessage, err)
		}
		if e.Equal(ristretto255.NewIdentityElement()) == 1 {
			return nil, fmt.Errorf("%w: an element that is not allowed", ErrMessage)
		}
		all = append(all, e)
	}
	return all, nil
}

// evaluate multiplies the elements in raw by the key, and proves that to whoever has the public key: RFC
// 9497's BlindEvaluate, for a batch. r is to be drawn at random for each call.
func (k *PrivateKey) evaluate(raw []byte, r *ristretto255.Scalar) (signed, proof []byte, err error) {
	elements, err := blinded(raw)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range elements {
		signed = append(signed, ristretto255.NewIdentityElement().ScalarMult(k.scalar, e).Bytes()...)
	}
	// The weights are public, so the time of their multiplication may depend on them: it is most of the work that
	// a proof takes, and a fifth of what multiplying one by one would take.
	m := ristretto255.NewIdentityElement().VarTimeMultiScalarMult(k.weights(raw, signed), elements)
	z := ristretto255.NewIdentityElement().ScalarMult(k.scalar, m)
	t2 := ristretto255.NewIdentityElement().ScalarBaseMult(r)
	t3 := ristretto255.NewIdentityElement().ScalarMult(r, m)
	transcript := prefixed(nil, k.raw[:])
	for _, e := range []*ristretto255.Element{m, z, t2, t3} {
		transcript = prefixed(transcript, e.Bytes())
	}
	c := hashed(append(transcript, "Challenge"...))
	s := ristretto255.NewScalar().Multiply(c, k.scalar)
	s.Subtract(r, s)
	return signed, append(c.Bytes(), s.Bytes()...), nil
}

// weights returns the factors by which a proof sums up a batch, as in ComputeCompositesFast of RFC 9497.
func (k *PrivateKey) weights(raw, signed []byte) (all []*ristretto255.Scalar) {
	seed := sha512.Sum512(prefixed(prefixed(nil, k.raw[:]), []byte("Seed-"+protocol)))
	for i := 0; i < len(raw); i += elementBytes {
		transcript := binary.BigEndian.AppendUint16(prefixed(nil, seed[:]), uint16(i/elementBytes))
		transcript = prefixed(prefixed(transcript, raw[i:i+elementBytes]), signed[i:i+elementBytes])
		all = append(all, hashed(append(transcript, "Composite"...)))
	}
	return all
}

// prefixed appends a field after its length.
func prefixed(b, field []byte) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(field))), field...)
}

// hashed is HashToScalar of RFC 9497, section 4.1.
func hashed(b []byte) *ristretto255.Scalar {
	s, err := ristretto255.NewScalar().SetUniformBytes(expander.NewExpanderMD(crypto.SHA512, []byte("HashToScalar-"+protocol)).Expand(b, 64))
	if err != nil {
		panic(err) // it takes 64 bytes
	}
	return s
}
