package passes

import (
	"bytes"
	crand "crypto/rand"
	"encoding/json"
	"os"
	"testing"

	"github.com/gtank/ristretto255"
)

// The vectors of RFC 9497, appendix A.1.2, for what an issuer does: a batch of one, and of two.
func TestProofsAreThoseOfTheStandard(t *testing.T) {
	t.Parallel()
	var all struct {
		Vectors []struct {
			SkS, Blinded, Evaluated, R, Proof hexes
		}
	}
	if err := json.Unmarshal(must[[]byte](t)(os.ReadFile("testdata/rfc9497-voprf.json")), &all); err != nil || len(all.Vectors) != 3 {
		t.Fatal(err, len(all.Vectors))
	}
	for i, v := range all.Vectors {
		key := must[*PrivateKey](t)(ParsePrivate(1, 1, v.SkS))
		signed, proof, err := key.evaluate(v.Blinded, must[*ristretto255.Scalar](t)(ristretto255.NewScalar().SetCanonicalBytes(v.R)))
		if err != nil || !bytes.Equal(signed, v.Evaluated) || !bytes.Equal(proof, v.Proof) {
			t.Errorf("vector %d: %x, %x, %v", i, signed, proof, err)
		}
	}
}

// Another implementation of the standard checks the proofs of batches of any size; a proof is never made with the same
// chance again.
func TestProofsOfBatchesAreAccepted(t *testing.T) {
	t.Parallel()
	key := newKey(t, 1, 1)
	for _, n := range []int{1, 2, 3, 17} {
		p := must[*Pending](t)(Prepare(&key.PublicKey, "depot", n, Seed{1}))
		a, b := must[[]byte](t)(key.Sign(p.Request, crand.Reader)), must[[]byte](t)(key.Sign(p.Request, crand.Reader))
		if len(must[[]Pass](t)(p.Finish(a))) != n || len(must[[]Pass](t)(p.Finish(b))) != n {
			t.Errorf("%d passes were not signed", n)
		}
		if bytes.Equal(a[len(a)-proofBytes:], b[len(b)-proofBytes:]) {
			t.Error("two proofs are one")
		}
	}
}
