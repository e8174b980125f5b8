package spoken

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"github.com/bwesterb/go-ristretto"
)

// vectors are those of draft-irtf-cfrg-cpace for ristretto255 and SHA-512: of the generator, of a
// session, and of what is no element.
func vectors(t *testing.T) (all [3]map[string]any) {
	t.Helper()
	data, err := os.ReadFile("testdata/cpace-ristretto255.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Vectors [3]map[string]any }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	return file.Vectors
}

func unhex(t *testing.T, v any) []byte {
	t.Helper()
	text, _ := v.(string)
	b, err := hex.DecodeString(text)
	if err != nil || len(b) == 0 {
		t.Fatalf("%v is no hex: %v", v, err)
	}
	return b
}

func halfOf(t *testing.T, g *ristretto.Point, secret []byte) half {
	t.Helper()
	var wide [64]byte
	copy(wide[:], secret) // it is smaller than the order of the group: reducing changes nothing
	h := newHalf(g, &wide)
	if !bytes.Equal(h.secret.Bytes(), secret) {
		t.Fatal("another scalar")
	}
	return h
}

func TestThePublishedVectors(t *testing.T) {
	all := vectors(t)
	v := all[0]
	g := generator(unhex(t, v["PRS"]), unhex(t, v["CI"]), unhex(t, v["sid"]))
	if want := unhex(t, v["encoded generator g"]); !bytes.Equal(g.Bytes(), want) {
		t.Fatalf("the generator is %X, want %X", g.Bytes(), want)
	}

	v = all[1]
	sid := unhex(t, v["sid"])
	g = generator(unhex(t, v["PRS"]), unhex(t, v["CI"]), sid)
	a, b := halfOf(t, g, unhex(t, v["ya"])), halfOf(t, g, unhex(t, v["yb"]))
	if !bytes.Equal(a.public, unhex(t, v["Ya"])) || !bytes.Equal(b.public, unhex(t, v["Yb"])) {
		t.Errorf("the elements are %X and %X", a.public, b.public)
	}
	for _, h := range [][2]half{{a, b}, {b, a}} {
		common, err := h[0].with(h[1].public)
		if err != nil || !bytes.Equal(common, unhex(t, v["K"])) {
			t.Fatalf("the common element is %X, %v", common, err)
		}
		key := keyOf(sid, common, party{a.public, unhex(t, v["ADa"])}, party{b.public, unhex(t, v["ADb"])})
		if !bytes.Equal(key, unhex(t, v["ISK_IR"])) {
			t.Errorf("the key is %X", key)
		}
	}

	v = all[2]
	valid := v["Valid"].(map[string]any)
	h := halfOf(t, g, unhex(t, valid["s"]))
	if got, err := h.with(unhex(t, valid["X"])); err != nil || !bytes.Equal(got, unhex(t, valid["G.scalar_mult_vfy(s,X)"])) {
		t.Errorf("%X, %v", got, err)
	}
	for _, name := range []string{"Invalid Y1", "Invalid Y2"} {
		if got, err := h.with(unhex(t, v[name])); err == nil {
			t.Errorf("%s is taken, and gives %X", name, got)
		}
	}
}

// Encodings that RFC 9496 refuses (its appendix A.2), and some of another length.
func TestWhatIsNoElementIsRefused(t *testing.T) {
	h := newHalf(generator([]byte("x"), []byte("y"), []byte("z")), &[64]byte{1})
	for _, text := range []string{
		"00ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff", // not below the prime
		"f3ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f", // the neutral element, but not as it is written
		"0100000000000000000000000000000000000000000000000000000000000000", // negative
		"01ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"26948d35ca62e643e26a83177332e6b6afeb9d08e4268b650f1f5bbd8d81d371", // no square
		"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f", // s = -1
		"0000000000000000000000000000000000000000000000000000000000000000", // the neutral element
		"00", "000000000000000000000000000000000000000000000000000000000000000000",
	} {
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := h.with(b); err == nil {
			t.Errorf("%s is taken, and gives %X", text, got)
		}
	}
}
