package wire

import (
	"bytes"
	"fmt"
	"os"
	"testing"
)

// Older peers give reasons in prose, and refusals in a field of their own; newer ones may
// use codes that are not known here. Their text is shown, unless we know better.
func TestReasonsOfOlderAndNewerPeers(t *testing.T) {
	prose, known, unknown := field(3, "so"), number(7, uint64(CodeFull)), number(7, 200)
	for name, x := range map[string]struct {
		b    []byte
		want Reason
	}{
		"nothing":             {nil, Reason{}},
		"prose":               {prose, Reason{Prose: "so"}},
		"a code":              {known, Why(CodeFull)},
		"both":                {join(prose, known), Why(CodeFull)},
		"both, turned round":  {join(known, prose), Why(CodeFull)},
		"an unknown code":     {join(prose, unknown), Reason{200, "so"}},
		"not allowed":         {number(6, 1), Why(CodeNotAllowed)},
		"not allowed, prose":  {join(prose, number(6, 1)), Why(CodeNotAllowed)},
		"it is not forbidden": {number(6, 0), Reason{}},
	} {
		m, err := Parse[SubscribeResult](join(field(1, someID.Bytes()), x.b))
		if err != nil || m.Reason != x.want {
			t.Errorf("%s: %+v, %v", name, m.Reason, err)
		}
	}
	if want := join(field(1, someID.Bytes()), field(3, CodeNotAllowed.String()), number(6, 1), number(7, 3)); !bytes.Equal(Append(nil, SubscribeResult{Share: someID, Reason: Why(CodeNotAllowed)}), want) {
		t.Error("an older peer would not know that it is not allowed")
	}
	if _, err := Parse[SubscribeResult](join(field(1, someID.Bytes()), number(7, 256))); err == nil {
		t.Error("a code over the limit")
	}
	if r, err := Parse[SubscribeResult](golden(t, "subscribe-result-not-allowed", nil)); err != nil || r.Reason != Why(CodeNotAllowed) {
		t.Errorf("a subscriber is told %+v, %v", r, err)
	}
	if r, _, err := ParseManifestHeader(golden(t, "manifest-header-not-allowed", nil)); err != nil || r.Reason != Why(CodeNotAllowed) {
		t.Errorf("an asker is told %+v, %v", r, err)
	}
}

// not_allowed means nothing with any status but REFUSED, or when a subscription is accepted, and code and reason nothing with
// OK. And fields may come in any order.
func TestReasonsThatMeanNothingAreIgnored(t *testing.T) {
	for status, b := range map[Status][]byte{OK: join(number(4, 5), field(3, "so"), number(6, 10)), NotFound: nil, Gone: nil, Busy: nil} {
		if r, _, err := ParseManifestHeader(join(number(1, uint64(status)), b, number(5, 1))); err != nil || r.Reason != (Reason{}) {
			t.Errorf("with %v, which is not REFUSED, an asker is told %q, %v", status, r.Reason, err)
		}
	}
	if r, err := Parse[SubscribeResult](join(field(1, someID.Bytes()), number(2, 1), number(6, 1))); err != nil || r.Reason != (Reason{}) {
		t.Errorf("a subscriber that is accepted is told %q, %v", r.Reason, err)
	}
	one, err := Parse[SubscribeResult](join(field(1, someID.Bytes()), number(6, 1), number(7, uint64(CodeFull))))
	if err != nil {
		t.Fatal(err)
	}
	if other, err := Parse[SubscribeResult](join(number(7, uint64(CodeFull)), number(6, 1), field(1, someID.Bytes()))); err != nil || other.Reason != one.Reason {
		t.Errorf("in another order it is %q, %v, and not %q", other.Reason, err, one.Reason)
	}
}

func TestTheFormatsPageHasTheCodes(t *testing.T) {
	page, err := os.ReadFile("../docs/formats.md")
	if err != nil {
		t.Fatal(err)
	}
	for c := range Code(255) {
		if row := fmt.Sprintf("| %d | %s |\n", c, c); c.String() != "" && !bytes.Contains(page, []byte(row)) {
			t.Errorf("no %s", row)
		}
	}
}
