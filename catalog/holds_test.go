package catalog

import (
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/renewal"
	"github.com/piecelease/fetcher/share"
)

// The holds are the same after a restart; those that were dropped are gone, and their numbers are
// not used again.
func TestHoldsSurvive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "catalog.db")
	db, _, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	x, at := share.IDOf([]byte("x")), time.Date(2030, 1, 2, 3, 4, 5, 6, time.UTC)
	want := renewal.Want{ID: 3, Share: x, Bytes: 5, Length: time.Hour, Depots: []peers.ID{"d", "e"}, Copies: 1, At: []peers.ID{"d"}, Entry: 9, Pin: true}
	b := renewal.Book{
		Wants:    []renewal.Want{want, {ID: 8, Share: x}},
		Holds:    []renewal.Hold{{Key: renewal.Key{Depot: "d", Share: x}, Want: 3, Bytes: 5, Expires: at, Granted: time.Hour, State: renewal.Stable, Cost: 7, Why: "refused"}},
		Accounts: []renewal.Account{{Depot: "d", Addrs: []string{"/a"}, Paid: true, Next: at, Good: at, Failed: 2, Why: "away", Credit: 4}, {Depot: "e"}},
		Last:     8,
	}
	for _, b := range []renewal.Book{b, {Wants: b.Wants[:1], Holds: b.Holds, Accounts: b.Accounts[:1], Last: 8}} {
		if err := db.SaveHolds(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		db.Close()
		if db, _, err = Open(t.Context(), path); err != nil {
			t.Fatal(err)
		}
		got, err := db.LoadHolds(t.Context())
		if err != nil || !reflect.DeepEqual(got, b) {
			t.Errorf("got %+v, want %+v, %v", got, b, err)
		}
	}
	db.Close()
}
