package catalog

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/internal/sqlitedb"
	"github.com/piecelease/fetcher/share"
)

func TestWishesThatCannotBeAreRefused(t *testing.T) {
	rig.Slow(t)
	id := share.IDOf(nil).String()
	many := make([]string, maxList+1)
	for i := range many {
		many[i] = abs("a")
	}
	for what, w := range map[string]Wish{
		"nothing":            {},
		"relative path":      {Paths: []string{"a"}},
		"relative folder":    {Source: id, Dir: "a"},
		"no ticket":          {Source: "x", Dir: abs("a")},
		"both":               {Paths: []string{abs("a")}, Source: id, Dir: abs("a")},
		"a path with a peer": {Paths: []string{abs("a")}, Peers: []string{"x"}},
		"a path that seeds":  {Paths: []string{abs("a")}, SeedTime: time.Hour},
		"two without a name": {Paths: []string{abs("a"), abs("b")}},
		"two of one name":    {Paths: []string{abs("a/x"), abs("b/x")}, Name: "n"},
		"a peer that isn't":  {Source: id, Dir: abs("a"), Peers: []string{"/ip4/1.2.3.4"}},
		"an empty peer":      {Source: id, Dir: abs("a"), Peers: []string{""}},
		"a slash":            {Source: id, Dir: abs("a"), Peers: []string{"/"}},
		"a named fetch":      {Source: id, Dir: abs("a"), Name: "n"},
		"links":              {Paths: []string{abs("a")}, Links: "follow"},
		"an exclusion":       {Paths: []string{abs("a")}, Exclude: []string{"/["}},
		"pattern":            {Source: id, Dir: abs("a"), Only: []string{"["}},
		"priority":           {Paths: []string{abs("a")}, Priority: 2},
		"ratio":              {Source: id, Dir: abs("a"), SeedRatio: math.NaN()},
		"negative ratio":     {Source: id, Dir: abs("a"), SeedRatio: -1},
		"time":               {Source: id, Dir: abs("a"), SeedTime: -1},
		"too many":           {Paths: many, Name: "n"},
		"too long":           {Paths: []string{abs(strings.Repeat("a", maxText))}},
		"too much":           {Paths: []string{abs("a")}, Exclude: slicesOf(strings.Repeat("a", maxText), 40)},
		"a zero":             {Paths: []string{abs("a\x00")}},
		"no UTF-8":           {Paths: []string{abs("a\xff")}},
	} {
		if err := w.Check(); err == nil {
			t.Errorf("%s: taken", what)
		}
		if _, err := fresh(t).Add(t.Context(), time.Now(), w); err == nil {
			t.Errorf("%s: added", what)
		}
	}
}

func slicesOf(s string, n int) (out []string) {
	for range n {
		out = append(out, s)
	}
	return out
}

func TestWhatAnEntryIsAboutDoesNotChange(t *testing.T) {
	db := fresh(t)
	e := added(t, db, Wish{Paths: []string{abs("a")}})
	if _, err := db.Set(t.Context(), e.ID, func(w *Wish) error { w.Paths = []string{abs("b")}; return nil }); err == nil {
		t.Error("an entry is about another path now")
	}
}

func TestAStatusIsCut(t *testing.T) {
	db := fresh(t)
	e := added(t, db, Wish{Paths: []string{abs("a")}})
	e, err := db.Note(t.Context(), time.Unix(2e9, 0), e.ID, func(s *Status) {
		s.State, s.Why = Missing, strings.Repeat("a", 2*maxWhy)
		for i := range 2 * MaxOlder {
			s.Older = append(s.Older, share.IDOf([]byte{byte(i)}))
		}
	})
	if err != nil || len(e.Why) != maxWhy || len(e.Older) != MaxOlder || e.Older[MaxOlder-1] != share.IDOf([]byte{2*MaxOlder - 1}) {
		t.Errorf("a reason of %d bytes, %d older versions: %v", len(e.Why), len(e.Older), err)
	}
}

// What is here is repaired once: what differs later is its owner's.
func TestWhatIsKeptIsRepaired(t *testing.T) {
	db := fresh(t)
	e := added(t, db, Wish{Source: share.IDOf(nil).String(), Dir: abs("d"), Repair: true})
	for _, s := range []State{Failed, Kept} {
		e, err := db.Note(t.Context(), time.Now(), e.ID, func(st *Status) { st.State = s })
		if got, err2 := db.Get(t.Context(), e.ID); err != nil || err2 != nil || e.Repair != (s != Kept) || got.Repair != e.Repair || got.Dir != abs("d") {
			t.Errorf("%v: %v, %+v, %v", s, err, got.Wish, err2)
		}
	}
}

func TestAFullCatalogSaysSo(t *testing.T) {
	rig.Slow(t)
	if rig.Raced {
		t.Skip("SQLite inserts 100,000 rows, which is done without the race detector")
	}
	db := fresh(t)
	const step = MaxEntries / 10 // each has a time limit of its own
	for from := 0; from < MaxEntries; from += step {
		err := db.write(t.Context(), func(x tx) error {
			return x.rows(fmt.Sprintf(`INSERT INTO entries(kind, key, wish, added, state, since)
			  WITH n(i) AS (SELECT %d UNION ALL SELECT i+1 FROM n WHERE i < %d) SELECT 1, i, '{}', 1, 1, 1 FROM n`, from+1, from+step), nil)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := db.Add(t.Context(), time.Now(), Wish{Paths: []string{abs("a")}}); !errors.Is(err, ErrFull) {
		t.Errorf("got %v", err)
	}
}

// A database of every released version can be opened, with its entries. A new step of the schema
// adds a row here.
func TestDatabasesOfEveryVersionOpen(t *testing.T) {
	row := `(2, 'k', '{"source":"` + share.IDOf(nil).String() + `","dir":"` + filepath.ToSlash(abs("d")) + `","seed_ratio":1.5}', 5, 3, 6, x'%x', x'%x'`
	fill := []string{
		`INSERT INTO entries(kind, key, wish, added, state, since, share, older) VALUES ` + row + `)`,
		`INSERT INTO entries(kind, key, wish, added, state, since, share, older, found) VALUES ` + row + `, 1)`,
		`INSERT INTO entries(kind, key, wish, added, state, since, share, older, found, verified) VALUES ` + row + `, 1, 7)`,
		`INSERT INTO entries(kind, key, wish, added, state, since, share, older, found, verified) VALUES ` + row + `, 1, 7);
		 INSERT INTO orders(id, seed, issuer, depot, keys, counts, voucher) VALUES (zeroblob(16), zeroblob(32), 'i', 'd', x'', '[0,0,0]', zeroblob(25))`,
		`INSERT INTO entries(kind, key, wish, added, state, since, share, older, found, verified) VALUES ` + row + `, 1, 7);
		 INSERT INTO hold_wants(id, want) VALUES (7, '{"Depots":["d"]}'); INSERT INTO hold_depots(depot, account) VALUES ('d', '{}')`,
		`INSERT INTO entries(kind, key, wish, added, state, since, share, older, found, verified, guarded) VALUES ` + row + `, 1, 7, 1)`,
		`INSERT INTO entries(kind, key, wish, added, state, since, share, older, found, verified, guarded) VALUES ` + row + `, 1, 7, 1);
		 INSERT INTO limits(way, rate, setting) VALUES ('up', 5, 0)`,
		`INSERT INTO entries(kind, key, wish, added, state, since, share, older, found, verified, guarded, listed) VALUES ` + row + `, 1, 7, 1, 'film')`,
		`INSERT INTO entries(kind, key, wish, added, state, since, share, older, found, verified, guarded, listed, mounts) VALUES ` + row + `, 1, 7, 1, 'film', x'2f6100')`,
		`INSERT INTO entries(kind, key, wish, added, state, since, share, older, found, verified, guarded, listed, mounts) VALUES ` + row + `, 1, 7, 1, 'film', x'2f6100');
		 INSERT INTO passes(nonce, token, size, epoch, issuer, depot, request, bad, lease) VALUES (x'00', x'0005' || zeroblob(160), 1, 1, 'i', 'd', zeroblob(16), 0, 'x')`,
		`INSERT INTO entries(kind, key, wish, added, state, since, share, older, found, verified, guarded, listed, mounts) VALUES ` + row + `, 1, 7, 1, 'film', x'2f6100');
		 INSERT INTO made(entry, file, size, mtime, ctime, inode) VALUES (1, 0, 1, 2, 3, 4)`,
	}
	if len(fill) != len(schema.Steps) {
		t.Fatalf("%d versions are tried of %d", len(fill), len(schema.Steps))
	}
	for v := range fill {
		path := filepath.Join(t.TempDir(), "catalog.db")
		old, err := sqlitedb.Open(t.Context(), path, sqlitedb.Schema{App: schema.App, Steps: schema.Steps[:v+1]})
		if err != nil {
			t.Fatal(err)
		}
		id := share.IDOf(nil)
		err = old.Write(t.Context(), func(c *sqlite.Conn) error {
			return sqlitex.ExecuteScript(c, fmt.Sprintf(fill[v], id.Bytes(), id.Bytes()), nil)
		})
		if err := errors.Join(err, old.Close()); err != nil {
			t.Fatal(err)
		}
		db, _, err := Open(t.Context(), path)
		if err != nil {
			t.Fatalf("version %d: %v", v+1, err)
		}
		all, err := db.List(t.Context())
		if err != nil || len(all) != 1 || all[0].Share != id || all[0].State != Kept || all[0].SeedRatio != 1.5 || all[0].Added.Unix() != 5 || len(all[0].Older) != 1 || all[0].Found != (v > 0) || all[0].Verified != map[bool]int64{true: 7}[v > 1] || (all[0].Listed == "film") != (v > 6) || (len(all[0].Mounts) == 2) != (v > 7) {
			t.Errorf("version %d: %+v, %v", v+1, all, err)
		}
		db.Close()
	}
}

func TestADamagedCatalogIsSetAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "catalog.db")
	if err := os.WriteFile(path, []byte(strings.Repeat("not a database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	db, aside, err := Open(t.Context(), path)
	if err != nil || aside != path+".bad-1" {
		t.Fatalf("set aside as %q: %v", aside, err)
	}
	db.Close()
}

func TestRowsThatCannotBeReadAreNamed(t *testing.T) {
	for what, set := range map[string]string{"wish": `wish = '{'`, "share": `share = x'00'`, "older": `older = x'00'`} {
		db := fresh(t)
		e := added(t, db, Wish{Paths: []string{abs("a")}})
		if err := db.write(t.Context(), func(x tx) error { return x.rows(`UPDATE entries SET `+set, nil) }); err != nil {
			t.Fatal(err)
		}
		if _, err := db.Get(t.Context(), e.ID); err == nil || !strings.Contains(err.Error(), "entry 1 cannot be read") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
