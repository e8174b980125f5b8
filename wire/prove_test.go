package wire

import (
	"bytes"
	"errors"
	"testing"

	"github.com/piecelease/fetcher/share"
)

// A proof covers one secret, one share, two peers in their roles, and one nonce.
func TestAProofIsOfNothingElse(t *testing.T) {
	nonce := make([]byte, NonceSize)
	proof := ProofOf(share.Secret{}, someID, "a", "b", true, nonce)
	if !bytes.Equal(proof, ProofOf(share.Secret{}, someID, "a", "b", true, nonce)) {
		t.Fatal("it changes by itself")
	}
	for what, other := range map[string][]byte{
		"secret":   ProofOf(share.Secret{1}, someID, "a", "b", true, nonce),
		"share":    ProofOf(share.Secret{}, share.IDOf([]byte("x")), "a", "b", true, nonce),
		"prover":   ProofOf(share.Secret{}, someID, "c", "b", true, nonce),
		"verifier": ProofOf(share.Secret{}, someID, "a", "c", true, nonce),
		"sides":    ProofOf(share.Secret{}, someID, "b", "a", true, nonce),
		"split":    ProofOf(share.Secret{}, someID, "ab", "", true, nonce),
		"role":     ProofOf(share.Secret{}, someID, "a", "b", false, nonce),
		"nonce":    ProofOf(share.Secret{}, someID, "a", "b", true, bytes.Repeat([]byte{1}, NonceSize)),
	} {
		if bytes.Equal(proof, other) {
			t.Errorf("another %s gives the same proof", what)
		}
	}
}

func TestProofsOfOtherSizesAreRefused(t *testing.T) {
	for _, b := range [][]byte{{2<<3 | 2, 1, 0}, {3<<3 | 2, 1, 0}, append([]byte{3<<3 | 2, ProofSize + 1}, make([]byte, ProofSize+1)...)} {
		if _, err := ParseProve(b); !errors.Is(err, ErrMalformed) {
			t.Errorf("%x: %v", b, err)
		}
	}
}
