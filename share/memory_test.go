package share

import (
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/piecelease/fetcher/internal/rig"
)

// allocated returns how many bytes f allocates in all.
func allocated(f func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

// made returns the bytes of a manifest of n entries that claims to have count.
func made(n, count int, entry func(i int) Entry) []byte {
	b := appendTop(nil, "x", false, count)
	for i := range n {
		e := entry(i)
		b = e.append(b)
	}
	return slices.Clip(b)
}

func folder(i int) Entry { return Entry{Path: fmt.Sprintf("%07d", i), Kind: Dir} }

// deep is a folder 2,000 folders down.
func deep(i int) Entry {
	return Entry{Path: fmt.Sprintf("%04d", i) + strings.Repeat("/a", 1998), Kind: Dir}
}

func emptyFile(i int) Entry {
	return Entry{Path: fmt.Sprintf("%07d", i), Root: EmptyRoot, PieceExp: minPieceExp}
}

func smallFile(i int) Entry {
	return Entry{Path: fmt.Sprintf("%07d", i), Root: Hash{1}, Size: 4000, PieceExp: minPieceExp}
}

// nextLink is a link to the next, so that resolving the first follows all.
func nextLink(i int) Entry {
	return Entry{Path: fmt.Sprintf("%07d", i), Kind: Symlink, Target: fmt.Sprintf("%07d", i+1)}
}

// Whatever a manifest has, reading it allocates four times its bytes and 16 MiB at most,
// including garbage, and so does checking its names for all systems.
func TestAManifestIsReadWithinItsBudget(t *testing.T) {
	rig.Slow(t)
	for _, c := range []struct {
		what  string
		n     int
		entry func(int) Entry
	}{
		{"folders", MaxEntries, folder},
		{"deep folders", MaxEntries / 1999, deep},
		{"empty files", 950_000, emptyFile},
		{"files", 950_000, smallFile},
		{"links", 1_900_000, nextLink},
	} {
		if !rig.Long() {
			c.n /= 10
		}
		if rig.Raced {
			c.n /= 10
		}
		b := made(c.n, c.n, c.entry)
		budget := 4*len(b) + 16<<20
		var m *Manifest
		var err error
		got := allocated(func() { m, err = DecodeManifest(b) })
		if err != nil || m.Len() != c.n || m.Entry(c.n-1).Path != c.entry(c.n-1).Path {
			t.Fatalf("%s: %v", c.what, err)
		}
		t.Logf("%s: %d MiB for a manifest of %d", c.what, got>>20, len(b)>>20)
		if got > budget {
			t.Errorf("%s: %d bytes allocated to read %d", c.what, got, len(b))
		}
		if got := allocated(func() { PortabilityProblems(m, "", nil) }); got > budget {
			t.Errorf("%s: %d bytes allocated to look at the names in %d", c.what, got, len(b))
		}
	}
}

// Making a manifest allocates at most three times its bytes and 16 MiB.
func TestAManifestIsMadeInLittleMemory(t *testing.T) {
	n := 100_000
	if rig.Raced {
		n /= 10
	}
	entries := make([]Entry, n)
	for i := range entries {
		entries[i] = smallFile(i)
	}
	var m *Manifest
	got := allocated(func() { m, _ = NewManifest("x", entries) })
	if got > 3*len(m.Bytes())+16<<20 {
		t.Errorf("%d bytes allocated for %d", got, len(m.Bytes()))
	}
}

// A manifest of too many entries is refused before memory is allocated for them, and so is one
// that only claims to have them.
func TestTooManyEntriesCostNoMemory(t *testing.T) {
	rig.Slow(t)
	if rig.Raced {
		t.Skip("two million entries are written, which is done without the race detector")
	}
	for what, b := range map[string][]byte{
		"has":  made(MaxEntries+1, MaxEntries+1, folder),
		"says": made(100, MaxEntries, folder),
	} {
		var err error
		if got := allocated(func() { _, err = DecodeManifest(b) }); got > 1<<20 {
			t.Errorf("%s: %d bytes allocated for %d", what, got, len(b))
		}
		if !errors.Is(err, ErrLimit) && !errors.Is(err, ErrManifest) {
			t.Error(what, err)
		}
	}
}

func TestEntriesAreFoundByTheirPaths(t *testing.T) {
	m, err := NewManifest("n", entriesOf("b", "a/b", "a.c", "d//"))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{"a.c": 0, "a/b": 1, "b": 2, "d": 3} {
		if i, ok := m.Find(path); !ok || i != want {
			t.Errorf("%s: %d, %v", path, i, ok)
		}
	}
	for path, want := range map[string]int{"": 0, "a": 0, "a/a": 1, "c": 3, "e": 4} {
		if i, ok := m.Find(path); ok || i != want {
			t.Errorf("%s: %d, %v", path, i, ok)
		}
	}
	next, stop := iter.Pull2(m.Entries())
	defer stop()
	if i, e, ok := next(); i != 0 || e.Path != "a.c" || !ok {
		t.Errorf("the first is %d, %v", i, e)
	}
}
