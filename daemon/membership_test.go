package daemon

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/piecelease/fetcher"
)

// A membership that cannot be read is not replaced by another.
func TestADamagedMembershipIsNotOverwritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := file(t, "{\"url\":", dir, MembershipName)
	m := Membership{URL: "nats://127.0.0.1:4222/ours", Secret: strings.Repeat("ab", 32)}
	if err := m.Save(dir); !errors.Is(err, ErrMembership) || !strings.Contains(err.Error(), path) {
		t.Error(err)
	}
	same(t, path, "{\"url\":")
}

func TestADamagedTokenIsNoOtherText(t *testing.T) {
	t.Parallel()
	token := Membership{URL: "nats://127.0.0.1:4222/ours", Secret: strings.Repeat("ab", 32)}.Token()
	for text, says := range map[string]string{"share1": `begins with "fleet1."`, token[:len(token)-3]: "is damaged", "fleet1.": "is damaged"} {
		if _, err := ParseToken(text); !errors.Is(err, ErrMembership) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
}

// A machine whose membership cannot be read may belong to another fleet.
func TestAMembershipThatCannotBeReadIsNotReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := file(t, `{"url": "nats://127.0.0.1:4222/ours", "secret": "the secret`, dir, MembershipName)
	m := Membership{URL: "nats://127.0.0.1:4222/other", Secret: "the secret of a fleet"}
	if err := m.Save(dir); !errors.Is(err, ErrMembership) || !strings.Contains(err.Error(), path) {
		t.Errorf("it joined: %v", err)
	}
	must(t, os.Remove(path))
	must(t, m.Save(dir))
	if got, ok, err := Joined(dir); got != m || !ok || err != nil {
		t.Errorf("it has joined %+v, %v, %v", got, ok, err)
	}
}

// The new secret is kept before the store is changed, so that what was cut short is finished with the same one;
// machines of the fleet take its token, and the token does not have a secret that may never be used.
func TestAMachineFollowsItsFleetToAnotherSecret(t *testing.T) {
	t.Parallel()
	dir, lost := t.TempDir(), errors.New("the connection was lost")
	m := Membership{URL: "nats://127.0.0.1:4222/ours", Secret: "the secret of a fleet"}
	must(t, m.Save(dir))
	var tried []string
	change := func(err error) func(context.Context, string) error {
		return func(_ context.Context, secret string) error { tried = append(tried, secret); return err }
	}
	if _, err := m.ChangeSecret(t.Context(), dir, change(lost)); !errors.Is(err, lost) {
		t.Fatal(err)
	}
	half, _, err := Joined(dir)
	must(t, err)
	if half.Secret != m.Secret || len(tried) != 1 || half.Next != tried[0] {
		t.Errorf("cut short: %+v, tried %q", half, tried)
	}
	if again, err := ParseToken(half.Token()); err != nil || again.Next != "" || again.Secret != m.Secret {
		t.Errorf("its token: %+v, %v", again, err)
	}
	next, err := half.ChangeSecret(t.Context(), dir, change(nil))
	if err != nil || next.Secret != tried[0] || tried[1] != tried[0] || next.Next != "" || next.Fleet() != m.Fleet() {
		t.Errorf("finished: %+v, %v; tried %q", next, err, tried)
	}
	if is, ok, err := Joined(dir); is != next || !ok || err != nil {
		t.Errorf("kept: %+v, %v", is, err)
	}
	other := t.TempDir()
	must(t, m.Save(other))
	token, err := ParseToken(next.Token())
	must(t, err)
	must(t, token.Save(other))
	stranger := t.TempDir()
	must(t, Membership{URL: m.URL, Secret: "the secret of another"}.Save(stranger))
	if token.Save(stranger) == nil {
		t.Error("a machine of another fleet followed")
	}
	third, err := next.ChangeSecret(t.Context(), dir, change(nil))
	if err != nil || third.Secret == next.Secret || third.Fleet() != m.Fleet() {
		t.Errorf("changed once more: %+v, %v", third, err)
	}
}

// The secret of a fleet is kept before its store is claimed, and is gone only if that is another fleet's.
func TestTheSecretOfAClaimedStoreIsKept(t *testing.T) {
	t.Parallel()
	m := Membership{URL: "nats://127.0.0.1:4222/ours", Secret: "the secret of a fleet"}
	lost := errors.New("the answer was lost")
	for _, x := range []struct {
		err  error
		kept bool
	}{{nil, true}, {lost, true}, {fetcher.ErrOtherFleet, false}} {
		dir := t.TempDir()
		err := m.Found(t.Context(), dir, func(context.Context) error {
			if got, ok, err := Joined(dir); got != m || !ok || err != nil {
				t.Errorf("a kill here loses the secret: %+v, %v, %v", got, ok, err)
			}
			return x.err
		})
		if _, ok, err2 := Joined(dir); !errors.Is(err, x.err) || ok != x.kept || err2 != nil {
			t.Errorf("%v: %v, kept %v, %v", x.err, err, ok, err2)
		}
	}
	other, dir := Membership{URL: m.URL, Secret: "the secret of another"}, t.TempDir()
	must(t, other.Save(dir))
	if err := m.Found(t.Context(), dir, func(context.Context) error { t.Error("claimed"); return nil }); err == nil {
		t.Error("a machine of another fleet founded one")
	}
}

// Whatever is joined while a change of the secret is cut short, the next secret, which nobody else may know, is kept; and
// a token from before a change does not take the secret away.
func TestNoTokenTakesASecretAway(t *testing.T) {
	t.Parallel()
	dir, elsewhere := t.TempDir(), t.TempDir()
	m := Membership{URL: "nats://127.0.0.1:4222/ours", Secret: "the secret of a fleet"}
	must(t, m.Save(dir))
	must(t, m.Save(elsewhere))
	lost, inStore := errors.New("the answer was lost"), ""
	cut := func(_ context.Context, secret string) error { inStore = secret; return lost }
	done := func(context.Context, string) error { return nil }
	if _, err := m.ChangeSecret(t.Context(), dir, cut); !errors.Is(err, lost) {
		t.Fatal(err)
	}
	next := inStore
	theirs, err := m.ChangeSecret(t.Context(), elsewhere, done)
	must(t, err)
	join := func(m Membership, refused bool) {
		t.Helper()
		token, err := ParseToken(m.Token())
		must(t, err)
		if err := token.Save(dir); (err != nil) != refused {
			t.Errorf("joined: %v", err)
		}
	}
	for _, token := range []Membership{m, theirs} { // the old one again, and what another machine made of it
		join(token, false)
		if is, _, err := Joined(dir); err != nil || is.Secret != token.Secret || is.Next != next {
			t.Errorf("the next secret is kept nowhere: %+v, %v", is, err)
		}
	}
	if _, err := theirs.ChangeSecret(t.Context(), dir, cut); !errors.Is(err, lost) || inStore != next { // by a process that did not know of it
		t.Errorf("%v, changed to %q", err, inStore)
	}
	last, err := theirs.ChangeSecret(t.Context(), dir, done)
	if err != nil || last.Secret != next || last.Next != "" {
		t.Errorf("%+v, %v", last, err)
	}
	same := last
	same.Secret = "made up by somebody"
	for _, token := range []Membership{m, theirs, same} {
		join(token, true)
	}
	join(last, false)
	if is, _, err := Joined(dir); err != nil || is != last {
		t.Errorf("%+v, %v", is, err)
	}
}

// Of two machines that change the secret at once one does; the other joins again, and may leave: nobody will ever need what it had made up.
func TestAMachineWhoseChangeOfTheSecretWasRefusedMayLeave(t *testing.T) {
	t.Parallel()
	dir, elsewhere := t.TempDir(), t.TempDir()
	m := Membership{URL: "nats://127.0.0.1:4222/ours", Secret: "the secret of a fleet"}
	must(t, m.Save(dir))
	must(t, m.Save(elsewhere))
	theirs, err := m.ChangeSecret(t.Context(), elsewhere, func(context.Context, string) error { return nil })
	must(t, err)
	refused := func(context.Context, string) error { return fetcher.ErrOtherFleet }
	if _, err := m.ChangeSecret(t.Context(), dir, refused); !errors.Is(err, fetcher.ErrOtherFleet) {
		t.Fatal(err)
	}
	if is, _, err := Joined(dir); err != nil || is != m {
		t.Errorf("it is not as before: %+v, %v", is, err)
	}
	token, err := ParseToken(theirs.Token())
	must(t, err)
	must(t, token.Save(dir))
	if err := Leave(dir); err != nil {
		t.Error(err)
	}
}
