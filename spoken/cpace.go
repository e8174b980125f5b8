package spoken

import (
	"crypto/hmac"
	"crypto/sha512"
	"encoding/binary"
	"errors"

	"github.com/bwesterb/go-ristretto"
)

// The names of this suite in draft-irtf-cfrg-cpace, and the block of SHA-512 in bytes.
const (
	dsi       = "CPaceRistretto255"
	dsiKey    = "CPaceRistretto255_ISK"
	dsiMac    = "CPaceMac"
	hashBlock = 128
)

// pointSize is the length of an encoded element of the group.
const pointSize = 32

// errPoint says that an element is not one of the group, or the neutral one.
var errPoint = errors.New("it sent an invalid key")

// lv is each part after its length, one after another: the draft's lv_cat. No part is longer
// than 16,383 bytes.
func lv(parts ...[]byte) (out []byte) {
	for _, p := range parts {
		out = append(binary.AppendUvarint(out, uint64(len(p))), p...)
	}
	return out
}

// generator is the element that a password stands for, in one session of one channel.
func generator(password, channel, session []byte) *ristretto.Point {
	pad := max(0, hashBlock-1-len(lv(password))-len(lv([]byte(dsi))))
	text := lv([]byte(dsi), password, make([]byte, pad), channel, session)
	return new(ristretto.Point).DeriveDalek(text) // SHA-512, then the map of RFC 9496, 4.3.4
}

// half is what one side brings: a secret scalar, and its element.
type half struct {
	secret ristretto.Scalar
	public []byte
}

// newHalf makes a half of 64 random bytes.
func newHalf(g *ristretto.Point, chance *[64]byte) half {
	var h half
	h.secret.SetReduced(chance)
	h.public = new(ristretto.Point).ScalarMult(g, &h.secret).Bytes()
	return h
}

// with is the element that both sides have in common.
func (h half) with(public []byte) ([]byte, error) {
	var theirs, zero ristretto.Point
	zero.SetZero()
	if theirs.UnmarshalBinary(public) != nil {
		return nil, errPoint
	}
	k := new(ristretto.Point).ScalarMult(&theirs, &h.secret)
	if k.Equals(&zero) {
		return nil, errPoint
	}
	return k.Bytes(), nil
}

// party is what a session knows of one side: its element, and who it is.
type party struct{ public, name []byte }

// keyOf is the key of a session, in which a spoke first.
func keyOf(session, common []byte, a, b party) []byte {
	sum := sha512.Sum512(append(lv([]byte(dsiKey), session, common), lv(a.public, a.name, b.public, b.name)...))
	return sum[:]
}

// proofOf is what shows that the side p has the key.
func proofOf(session, key []byte, p party) []byte {
	sum := sha512.Sum512(append(append([]byte(dsiMac), session...), key...))
	m := hmac.New(sha512.New, sum[:])
	m.Write(lv(p.public, p.name))
	return m.Sum(nil)
}
