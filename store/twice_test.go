package store_test

import (
	"strings"
	"testing"

	testrig "github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/storetest"
)

// Troubles that come one after another: an error of the disk, then a kill, then a power cut.

// A sync fails, the process is killed before it has done anything about it, and the next one can still read
// what will be lost: it writes that again before it believes it.
func TestAFailedSyncBeforeAKillIsMadeGood(t *testing.T) {
	l := newLostRig(t)
	for piece := range share.Piece(3) {
		l.write(piece, 0, 16)
		l.complete(piece)
	}
	failed := false
	l.d.Fault = func(op storetest.Op) error {
		switch {
		case failed:
			return storetest.ErrPower
		case op.Kind == "sync" && op.Name == "stuff.partial/data/big":
			failed = true
			return errDisk
		}
		return nil
	}
	l.p.Sync()
	l.d.Fault = nil
	l.d.Kill()
	l.open()
	if n := l.p.Verified().Count(); n < 2 {
		t.Fatalf("%d pieces are noted", n)
	}
	n, err := l.p.Sync()
	if n < 2 || err != nil {
		t.Fatalf("%d pieces are durable, %v", n, err)
	}
	l.d.CutPower()
	l.d.Restart(1)
	check(t, l.checkBits(l.d.FS(), n))
}

// What was noted and cannot be written again is not durable, and is by the next sync that can.
func TestWhatWasNotedIsRenewedOnceItCanBe(t *testing.T) {
	l := newLostRig(t)
	for piece := range share.Piece(2) {
		l.write(piece, 0, 16)
		l.complete(piece)
	}
	l.d.Kill()
	l.open()
	l.d.Fault = func(op storetest.Op) error {
		if op.Kind == "write" && op.Name == "stuff.partial/data/big" {
			return errDisk
		}
		return nil
	}
	if n, err := l.p.Sync(); n != 0 || err == nil {
		t.Errorf("%d pieces are durable, %v", n, err)
	}
	l.d.Fault = nil
	if n, err := l.p.Sync(); n != 2 || err != nil {
		t.Errorf("then %d pieces are durable, %v", n, err)
	}
}

// The name of the manifest is not durable when NAME.partial is opened again, as the sync of its folder failed: it is
// before there is anything beside it.
func TestAManifestIsDurableBeforeThereIsData(t *testing.T) {
	r := newRig(t, tree{"a": random(10)})
	for seed := range uint64(32) {
		d := storetest.New(1 << 30)
		begun := false
		d.Fault = func(op storetest.Op) error {
			if op.Kind == "syncdir" && !begun {
				begun = true
				return errDisk
			}
			if op.Kind == "rename" && strings.HasSuffix(op.Name, "bits.new") {
				return storetest.ErrPower
			}
			return nil
		}
		for range 2 {
			if _, err := store.OpenPartialIn(t.Context(), d.FS(), r.m, store.PartialOptions{}); err == nil {
				t.Fatal("nothing failed")
			}
		}
		d.Fault = nil
		d.Restart(seed)
		p, err := store.OpenPartialIn(t.Context(), d.FS(), r.m, store.PartialOptions{})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		check(t, p.Close())
	}
}

// afterCuts ends runs with a power cut, in many ways, and fails if the next takes a file of ours for somebody else's.
func afterCuts(t *testing.T, run func(l *lostRig)) {
	t.Helper()
	for seed := range uint64(32) {
		l := newLostRig(t)
		l.write(0, 0, 8)
		l.d.NoSyncAll = false
		check(t, l.d.FS().SyncAll())
		l.d.NoSyncAll = true
		l.d.Restart(seed)
		run(l)
		l.d.Fault = nil
		l.d.CutPower()
		l.d.Restart(seed)
		l.open()
		if at := l.p.Aside(); len(at) > 0 {
			t.Fatalf("seed %d: set aside: %q", seed, at)
		}
		check(t, l.p.Close())
	}
}

// A file that an opening has removed is back after a power cut, though that run ended in good order.
func TestARemovedFileThatComesBackIsOurs(t *testing.T) {
	afterCuts(t, func(l *lostRig) {
		l.open()
		l.write(0, 0, 1)
		check(t, l.p.Close())
	})
}

// The same if the run could not make the names durable.
func TestARemovedFileThatComesBackIsOursThoughNamesWereNotSynced(t *testing.T) {
	testrig.Slow(t)
	afterCuts(t, func(l *lostRig) {
		l.open()
		l.write(0, 0, 1)
		l.d.Fault = func(op storetest.Op) error {
			if op.Kind == "syncdir" {
				return errDisk
			}
			return nil
		}
		l.p.Close()
	})
}

// Marks whose head is torn are put right where they are: the power fails before another file would be durable.
func TestTornMarksAreKept(t *testing.T) {
	afterCuts(t, func(l *lostRig) {
		f, err := l.d.FS().Edit("stuff.partial/marks")
		check(t, err)
		_, err = f.WriteAt([]byte("torn"), 8)
		check(t, err)
		check(t, f.Sync())
		check(t, f.Close())
		l.d.Fault = func(op storetest.Op) error {
			if op.Kind == "write" && strings.HasSuffix(op.Name, "bits.new") {
				return storetest.ErrPower
			}
			return nil
		}
		if p, err := store.OpenPartialIn(l.t.Context(), l.d.FS(), l.m, store.PartialOptions{}); err == nil {
			p.Close()
			l.t.Fatal("nothing failed")
		}
	})
}

// A mark that could not be written is written with the next.
func TestAMarkThatCouldNotBeWrittenIsWrittenLater(t *testing.T) {
	r := newRig(t, tree{"a": random(1000), "b": random(1000)})
	d := storetest.New(1 << 30)
	p, err := store.OpenPartialIn(t.Context(), d.FS(), r.m, store.PartialOptions{})
	check(t, err)
	d.Fault = func(op storetest.Op) error {
		if op.Kind == "write" {
			return errDisk
		}
		return nil
	}
	if copyPiece(p, r.im.Tree, 0, 1) == nil {
		t.Fatal("nothing failed")
	}
	d.Fault = nil
	check(t, copyPiece(p, r.im.Tree, 1, 1))
	_, err = p.Sync()
	check(t, err)
	d.Kill()
	p, err = store.OpenPartialIn(t.Context(), d.FS(), r.m, store.PartialOptions{})
	check(t, err)
	if at := p.Aside(); len(at) > 0 {
		t.Errorf("set aside: %q", at)
	}
	check(t, p.Close())
}
