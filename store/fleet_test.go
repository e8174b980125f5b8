package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	testrig "github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

func TestAnEpochIsNeverUsedTwice(t *testing.T) {
	dir := t.TempDir()
	id, other := share.IDOf([]byte("a")), share.IDOf([]byte("b"))
	state := func() *State {
		t.Helper()
		s, err := OpenState(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	open := func(id share.ID, epoch uint64, members ...peers.ID) *Fleet {
		t.Helper()
		f, err := state().OpenFleet(id)
		if err != nil || f.Epoch() != epoch || !slices.Equal(f.Members(), members) {
			t.Fatalf("opened %+v, %v, want epoch %d and %v", f, err, epoch, members)
		}
		return f
	}
	f := open(id, 1)
	if _, err := state().OpenFleet(id); !errors.Is(err, share.ErrHeld) {
		t.Errorf("a second process: %v", err)
	}
	open(other, 1).Close()
	if err := f.Remember([]peers.ID{"m", "n"}); err != nil {
		t.Error(err)
	}
	if err := errors.Join(f.Close(), f.Close()); err != nil {
		t.Error(err)
	}
	if err := f.Remember(nil); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("remembered after Close: %v", err)
	}
	f = open(id, 2, "m", "n")
	f.Close() // without writing anything, as when it is killed
	f = open(id, 3, "m", "n")
	f.Remember(nil)
	f.Close()
	open(id, 4).Close()

	// A damaged record is not started afresh.
	at := filepath.Join(dir, "fleets", id.String())
	b, err := os.ReadFile(at)
	if err != nil {
		t.Fatal(err)
	}
	b[20]++
	if err := os.WriteFile(at, b, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if f, err := state().OpenFleet(id); !errors.Is(err, vfs.ErrRecord) {
			t.Fatalf("opened a damaged record: %+v, %v", f, err)
		}
	}
}

func TestAFleetRecordIsReadAsItWasWritten(t *testing.T) {
	testrig.Slow(t)
	id := share.IDOf([]byte("a"))
	long := peers.ID(strings.Repeat("p", 128))
	for _, members := range [][]peers.ID{nil, {"m"}, {long, "n"}, slices.Repeat([]peers.ID{long}, maxMembers)} {
		b := appendFleet(nil, id, maxEpoch, members)
		if len(b) > maxFleet {
			t.Errorf("%d members: %d bytes", len(members), len(b))
		}
		epoch, got, err := parseFleet(id, b)
		if err != nil || epoch != maxEpoch || !slices.Equal(got, members) {
			t.Errorf("%d members: read epoch %d, %d members, %v", len(members), epoch, len(got), err)
		}
		for _, n := range []int{0, 35, 47, len(b) - 1} {
			if _, _, err := parseFleet(id, b[:min(n, len(b)-1)]); !errors.Is(err, vfs.ErrRecord) {
				t.Errorf("%d members, %d of %d bytes: %v", len(members), n, len(b), err)
			}
		}
	}
	if _, _, err := parseFleet(share.IDOf([]byte("b")), appendFleet(nil, id, 1, nil)); !errors.Is(err, vfs.ErrRecord) {
		t.Errorf("of another share: %v", err)
	}
	if _, _, err := parseFleet(id, appendFleet(nil, id, maxEpoch+1, nil)); !errors.Is(err, vfs.ErrRecord) {
		t.Errorf("an epoch that no token has room for: %v", err)
	}
}

func FuzzParseFleet(f *testing.F) {
	id := share.IDOf([]byte("a"))
	f.Add(appendFleet(nil, id, 3, []peers.ID{"m", "n"}))
	f.Add(appendFleet(nil, id, 0, nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		epoch, members, err := parseFleet(id, b)
		if err != nil {
			return
		}
		if again := appendFleet(nil, id, epoch, members); fmt.Sprint(again) != fmt.Sprint(b) {
			t.Errorf("%x is written as %x", b, again)
		}
	})
}
