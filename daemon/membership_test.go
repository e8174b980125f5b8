package daemon

import (
	"errors"
	"strings"
	"testing"
)

// A membership that cannot be read is not replaced by another.
func TestADamagedMembershipIsNotOverwritten(t *testing.T) {
	dir := t.TempDir()
	path := file(t, "{\"url\":", dir, MembershipName)
	m := Membership{URL: "nats://127.0.0.1:4222/ours", Secret: strings.Repeat("ab", 32)}
	if err := m.Save(dir); !errors.Is(err, ErrMembership) || !strings.Contains(err.Error(), path) {
		t.Error(err)
	}
	same(t, path, "{\"url\":")
}

func TestADamagedTokenIsNoOtherText(t *testing.T) {
	token := Membership{URL: "nats://127.0.0.1:4222/ours", Secret: strings.Repeat("ab", 32)}.Token()
	for text, says := range map[string]string{"share1": "begins with fleet1.", token[:len(token)-3]: "is damaged; copy the whole", "fleet1.": "is damaged"} {
		if _, err := ParseToken(text); !errors.Is(err, ErrMembership) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
}
