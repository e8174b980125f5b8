package catalog

import (
	"maps"
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
