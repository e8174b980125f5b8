package actors

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/fleet"
	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/rounds/memkv"
)

// A coordinator whose fleet has another secret now gives its office up at the next heartbeat, and takes none
// again; nor does one that was not elected yet. Neither writes more than once.
func TestACoordinatorWithAnOldSecretGivesItsOfficeUp(t *testing.T) {
	const old, changed = fleet.Secret("the secret of a fleet"), fleet.Secret("another secret of it")
	ctx, kv := context.Background(), memkv.New()
	var revs uint64
	kv.Wrote = func(e rounds.Entry) { revs = e.Rev }
	var mono time.Duration
	ballotOf := func(self string) *ballot {
		b := &ballot{kv: kv, secret: old, self: "a", ttl: 3 * time.Second, within: 2 * time.Second, name: "fleet.x", wall: time.Now, log: slog.New(slog.DiscardHandler)}
		var err error
		b.round, err = rounds.New(kv, rounds.Config{Name: b.name, Office: true, Holder: self, Run: self, Clock: func() rounds.Now { return rounds.Now{Wall: time.Now(), Mono: mono} }})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	call := func(b *ballot, what fleet.Call) fleet.Answer {
		mono += time.Second
		return b.call(ctx, what, nil, nil)
	}
	mark := func(by fleet.Secret) { kv.Overwrite(fleet.MarkKey, by.Seal(fleet.MarkKey, struct{}{})) }

	a, b := ballotOf("a"), ballotOf("b")
	mark(old)
	if x := call(a, fleet.TakeOffice); x.Outcome != fleet.Won {
		t.Fatalf("%+v", x)
	}
	if x := call(a, fleet.KeepOffice); x.Outcome != fleet.Kept {
		t.Fatalf("%+v", x)
	}
	mark(changed)
	if x := call(a, fleet.KeepOffice); x.Outcome != fleet.CallFailed || x.Why != fleet.ErrOther.Error() {
		t.Errorf("with an old secret it goes on: %+v", x)
	}
	if rec, err := rounds.Current(ctx, kv, "fleet.x"); err != nil || rec.State != rounds.Abandoned {
		t.Errorf("the office: %+v, %v", rec, err)
	}
	if x := call(b, fleet.TakeOffice); x.Outcome != fleet.CallFailed {
		t.Errorf("with an old secret it is elected: %+v", x)
	}
	was := revs
	for range 5 {
		call(a, fleet.KeepOffice)
		call(b, fleet.TakeOffice)
	}
	if call(a, fleet.TakeOffice); revs != was {
		t.Errorf("%d writes into the store of another fleet", revs-was)
	}
	mark(old)
	if x := call(b, fleet.TakeOffice); x.Outcome != fleet.Won {
		t.Errorf("the store is the fleet's again: %+v", x)
	}
}

// Members that were written with an earlier secret are complained of by whoever is elected, and not once more when it writes its own.
func TestMembersThatCannotBeReadAreToldOfOnce(t *testing.T) {
	t.Parallel()
	kv := memkv.New()
	var said bytes.Buffer
	b := &ballot{kv: kv, secret: "a secret of a fleet, the new one", self: "a", ttl: 3 * time.Second, within: 2 * time.Second, name: "fleet.x", wall: time.Now, log: slog.New(slog.NewTextHandler(&said, nil))}
	key := fleet.MembersKey(b.name)
	if _, err := kv.Create(t.Context(), key, fleet.Secret("a secret of a fleet, the old one").Seal(key, &members{Term: 1})); err != nil {
		t.Fatal(err)
	}
	if m, err := b.members(t.Context()); err != nil || m.Term != 0 {
		t.Errorf("%+v, %v", m, err)
	}
	b.remember(2, nil)
	if m, err := b.members(t.Context()); err != nil || m.Term != 2 || strings.Count(said.String(), "cannot be read") != 1 {
		t.Errorf("%+v, %v; it said %s", m, err, &said)
	}
}
