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
	goodbye := Envelope{Kind: KindTell, To: "seeder", Reply: 9, Type: TypeGoodbye, Payload: AppendGoodbye(nil, Goodbye{someID})}
	for name, message := range map[string][]byte{
		"request":  codecOf("piece-request").append(nil, codecOf("piece-request").sample),
		"busy":     codecOf("piece-header-busy").append(nil, codecOf("piece-header-busy").sample),
		"envelope": AppendEnvelope(nil, goodbye),
	} {
		if want := hex.EncodeToString(AppendFrame(nil, message)); !strings.Contains(flat, want) {
			t.Errorf("%s: no %s", name, want)
		}
	}
}
