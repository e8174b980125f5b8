package wire

import (
	"crypto/hmac"
	"crypto/sha256"
	"slices"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// NonceSize is the number of bytes of a nonce in Prove; a proof has ProofSize.
const NonceSize = 16

// Prove is one message of the protocol by which two peers show each other that they know
// the secret of a share. Share is in the first, Nonce in the first two, Proof in the second and third.
// An empty second message says that no secret is asked for; an empty fourth ends the protocol.
type Prove struct {
	Share share.ID
	Nonce []byte // none, or NonceSize bytes
	Proof []byte // none, or ProofSize bytes
}

// AppendProve encodes p.
func AppendProve(dst []byte, p Prove) []byte {
	c := coder{b: dst}
	c.prove(&p)
	return c.b
}

// ParseProve reads what AppendProve made.
func ParseProve(b []byte) (p Prove, err error) {
	c := coder{b: b, reading: true}
	for c.next() {
		c.prove(&p)
	}
	c.need(len(p.Nonce) == 0 || len(p.Nonce) == NonceSize, "prove: a nonce of %d bytes", len(p.Nonce))
	c.need(len(p.Proof) == 0 || len(p.Proof) == ProofSize, "prove: a proof of %d bytes", len(p.Proof))
	p.Nonce, p.Proof = slices.Clone(p.Nonce), slices.Clone(p.Proof)
	return p, c.err
}

func (c *coder) prove(p *Prove) {
	c.otherShare(1, &p.Share)
	c.bytes(2, &p.Nonce, NonceSize)
	c.bytes(3, &p.Proof, ProofSize)
}

// ProofOf is what a prover sends to a verifier. Both are as the connection between them has
// authenticated them, so a proof is of no use to a third peer. The source of the share and the asker make different
// proofs, so that neither can send back what the other sent.
func ProofOf(secret share.Secret, id share.ID, prover, verifier peers.ID, isSource bool, nonce []byte) []byte {
	label := "fetcher secret 1 asker"
	if isSource {
		label = "fetcher secret 1 source"
	}
	h := hmac.New(sha256.New, secret[:])
	for _, part := range [][]byte{[]byte(label), id.Bytes(), []byte(prover), []byte(verifier), nonce} {
		h.Write([]byte{byte(len(part))}) // a peer ID has at most MaxPeerID bytes, and the others fewer
		h.Write(part)
	}
	return h.Sum(nil)
}
