package wire

import (
	"errors"
	"reflect"
	"testing"
)

// lastType is the type of the last payload.
const lastType = TypeHeard

func TestEveryPayloadHasItsType(t *testing.T) {
	seen := map[uint32]bool{}
	for _, c := range codecs {
		typ, b, ok := Codec{}.Encode(c.sample)
		if !ok {
			continue // of another protocol
		}
		seen[typ] = true
		if got, err := (Codec{}).Decode(typ, b); err != nil || !reflect.DeepEqual(got, c.sample) {
			t.Errorf("%#v came as %#v, %v", c.sample, got, err)
		}
	}
	if len(seen) != int(lastType) {
		t.Errorf("%d of %d types are tried", len(seen), lastType)
	}
	for _, typ := range []uint32{0, lastType + 1, 1<<32 - 1} {
		if _, err := (Codec{}).Decode(typ, nil); !errors.Is(err, ErrUnknownType) {
			t.Errorf("type %d: %v", typ, err)
		}
	}
	if typ, _, ok := (Codec{}).Encode(nil); ok {
		t.Errorf("nothing travels as type %d", typ)
	}
}

// A decoded message can be sent on, and then means the same.
func FuzzDecode(f *testing.F) {
	for _, c := range codecs {
		if typ, b, ok := (Codec{}).Encode(c.sample); ok {
			f.Add(typ, b)
		}
	}
	f.Fuzz(func(t *testing.T, typ uint32, b []byte) {
		m, err := Codec{}.Decode(typ, b)
		if err != nil {
			return
		}
		again, b, ok := Codec{}.Encode(m)
		if !ok || again != typ {
			t.Fatalf("%#v of type %d is of type %d, ok %v", m, typ, again, ok)
		}
		same, err := Codec{}.Decode(again, b)
		if err != nil {
			t.Fatalf("%#v: %v", m, err)
		}
		if _, c, _ := (Codec{}).Encode(same); string(c) != string(b) {
			t.Fatalf("%#v came as %#v", m, same)
		}
	})
}
