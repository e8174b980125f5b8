package catalog

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/piecelease/fetcher/passes"
)

// A wallet that was written is read as it was after a restart.
func TestAWalletSurvives(t *testing.T) {
	db := fresh(t)
	now := time.Unix(1e9, 0)
	key, err := passes.NewKey(64, passes.EpochAt(now), rand.NewChaCha8([32]byte{1}))
	if err != nil {
		t.Fatal(err)
	}
	o, err := passes.NewOrder(passes.RequestID{1}, passes.Seed{2}, "issuer", "depot", passes.Listing{&key.PublicKey}, 128, 64, now)
	if err != nil {
		t.Fatal(err)
	}
	o.Voucher[3] = 'x'
	held := []passes.Held{
		{Pass: passes.Pass{Nonce: [32]byte{1}, Key: key.ID()}, Size: 64, Epoch: 3, Issuer: "issuer", Depot: "depot", Request: passes.RequestID{7}, Lease: "share"},
		{Pass: passes.Pass{Nonce: [32]byte{2}}, Size: 1, Issuer: "issuer", Depot: "depot", Bad: true},
	}
	for _, c := range []passes.Change{
		{Put: held, Order: &o},
		{Put: []passes.Held{{Pass: passes.Pass{Nonce: [32]byte{3}}, Size: 1, Depot: "depot"}}},
		{Drop: [][32]byte{{3}}},
	} {
		if err := db.WriteWallet(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	w, err := db.Wallet(t.Context())
	if err != nil || !reflect.DeepEqual(w, passes.Load(held, []passes.Order{o})) {
		t.Fatalf("%+v, %v", w, err)
	}
	if err := db.WriteWallet(t.Context(), passes.Change{DropOrder: o.ID}); err != nil {
		t.Fatal(err)
	}
	if w, err = db.Wallet(t.Context()); err != nil || len(w.Orders()) != 0 {
		t.Errorf("%v, %v", w.Orders(), err)
	}
}

func TestPassesThatCannotBeReadAreNamed(t *testing.T) {
	for _, set := range []string{
		`INSERT INTO passes VALUES (x'00', x'00', 1, 1, 'i', 'd', zeroblob(16), 0, '')`,
		`INSERT INTO passes VALUES (x'00', x'0005' || zeroblob(160), 1, 1, 'i', 'd', x'00', 0, '')`,
		`INSERT INTO orders VALUES (x'00', zeroblob(32), 'i', 'd', x'', '[0,0,0]', zeroblob(25))`,
		`INSERT INTO orders VALUES (zeroblob(16), zeroblob(32), 'i', 'd', x'00', '[0,0,0]', zeroblob(25))`,
		`INSERT INTO orders VALUES (zeroblob(16), zeroblob(32), 'i', 'd', x'', '{', zeroblob(25))`,
		`INSERT INTO orders VALUES (zeroblob(16), zeroblob(32), 'i', 'd', x'', '[1,0,0]', zeroblob(25))`,
	} {
		db := fresh(t)
		if err := db.write(t.Context(), func(t tx) error { return t.rows(set, func(*sqlite.Stmt) error { return nil }) }); err != nil {
			t.Fatal(err)
		}
		if _, err := db.Wallet(t.Context()); err == nil || !strings.Contains(err.Error(), "for d cannot be read") {
			t.Errorf("%s: %v", set, err)
		}
	}
}
