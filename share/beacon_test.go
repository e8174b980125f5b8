package share

import (
	"bytes"
	"encoding/hex"
	"testing"
)

func TestKeysAtBeacons(t *testing.T) {
	id := example(t).ID()
	bare, blind := id.AtBeacon(nil), id.AtBeacon(&Secret{1})
	if bare == blind || blind == id.AtBeacon(&Secret{2}) || bare == id.Blinded("fetcher lan 1") {
		t.Error("what is different has one key")
	}
	for _, k := range []Hash{bare, blind} {
		if bytes.Contains(id.Bytes(), k[:8]) {
			t.Error("the ID is in it")
		}
	}
	// As in formats.md.
	if got := hex.EncodeToString(bare[:]); got != "846ca1f16cbbc42485f197d54ec3f62de7b07ca3845791329121a576b89f8e45" {
		t.Error(got)
	}
	s := Secret{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
	blind = id.AtBeacon(&s)
	if got := hex.EncodeToString(blind[:]); got != "c36fc0e7f41250563fffdf69e777446dc98f77df029edde7b9f0575174ba3ce2" {
		t.Error(got)
	}
}
