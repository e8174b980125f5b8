package catalog

import (
	"maps"
	"strings"
	"testing"

	"github.com/piecelease/fetcher/store/vfs"
)

// What was put in its place for an entry is known, as it looked when that was done last, until the entry is removed.
func TestWhatWasMadeIsKnownWithItsEntry(t *testing.T) {
	db := fresh(t)
	a, b := added(t, db, Wish{Paths: []string{abs("a")}}), added(t, db, Wish{Paths: []string{abs("b")}})
	has := func(id ID, want map[int]vfs.Stamp) {
		t.Helper()
		if got, err := db.Made(t.Context(), id); err != nil || !maps.Equal(got, want) {
			t.Errorf("made is %v, %v, want %v", got, err, want)
		}
	}
	one, two := vfs.Stamp{Size: 1, MTime: 2, CTime: -3, Inode: 1<<64 - 1}, vfs.Stamp{Size: 2}
	for _, made := range []map[int]vfs.Stamp{{0: two, 7: two}, nil, {0: one}} {
		if err := db.Make(t.Context(), a.ID, maps.All(made)); err != nil {
			t.Fatal(err)
		}
	}
	has(a.ID, map[int]vfs.Stamp{0: one, 7: two})
	has(b.ID, nil)
	if _, err := db.Remove(t.Context(), a.ID); err != nil {
		t.Fatal(err)
	}
	has(a.ID, nil)
}

// What was put in its place for an entry of very many files is written, read and forgotten in portions. The entry can be removed even if not all of
// that can be forgotten: the rest is when the catalog is opened again.
func TestVeryManyAreForgottenInTheEnd(t *testing.T) {
	db := fresh(t)
	a, b := added(t, db, Wish{Paths: []string{abs("a")}}), added(t, db, Wish{Paths: []string{abs("b")}})
	count := func(id ID, want int) {
		t.Helper()
		if got, err := db.Made(t.Context(), id); err != nil || len(got) != want {
			t.Errorf("of entry %d, %d are known, %v, want %d", id, len(got), err, want)
		}
	}
	for id, n := range map[ID]int{a.ID: 2*portion + 1, b.ID: portion} {
		if err := db.Make(t.Context(), id, func(yield func(int, vfs.Stamp) bool) {
			for file := 0; file < n && yield(file, vfs.Stamp{Size: 1}); file++ {
			}
		}); err != nil {
			t.Fatal(err)
		}
		count(id, n)
	}
	portions := 0
	db.fault = func(query string) error {
		if strings.HasPrefix(query, "DELETE FROM made") {
			if portions++; portions == 2 {
				return errCrash
			}
		}
		return nil
	}
	if _, err := db.Remove(t.Context(), a.ID); err != nil {
		t.Error(err)
	}
	count(a.ID, portion+1)
	db.fault = nil
	db.forgetRemoved(t.Context()) // as Open does
	count(a.ID, 0)
	count(b.ID, portion)
}
