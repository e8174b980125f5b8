package wire

import (
	"encoding/hex"
	"os"
	"strings"
	"testing"
)

func TestExamplesInTheFormatsPageAreRight(t *testing.T) {
	page, err := os.ReadFile("../docs/formats.md")
	if err != nil {
		t.Fatal(err)
	}
	flat := strings.Join(strings.Fields(string(page)), "")
	unsubscribe := Envelope{Kind: KindTell, To: "seeder", Reply: 9, Type: TypeUnsubscribe, Payload: Append(nil, Unsubscribe{Share: someID})}
	for name, message := range map[string][]byte{
		"request":  codecOf("piece-request").append(nil, codecOf("piece-request").sample),
		"busy":     codecOf("piece-header-busy").append(nil, codecOf("piece-header-busy").sample),
		"hello":    AppendEnvelope(nil, Envelope{Kind: KindCredit, Token: 9}),
		"envelope": AppendEnvelope(nil, unsubscribe),
	} {
		if want := hex.EncodeToString(AppendFrame(nil, message)); !strings.Contains(flat, want) {
			t.Errorf("%s: no %s", name, want)
		}
	}
}
