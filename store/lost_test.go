package store_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	testrig "github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/storetest"
	"github.com/piecelease/fetcher/store/vfs"
)

// lostRig is a file of three pieces beside one of a single piece, being fetched
// to a disk without SyncAll.
type lostRig struct {
	rig
	t *testing.T
	d *storetest.Disk
	p *store.Partial
}

func newLostRig(t *testing.T) *lostRig {
	r := newRig(t, tree{"big": random(3 * share.MinPiece), "small": random(share.BlockSize)})
	d := storetest.New(1 << 30)
	d.NoSyncAll = true
	l := &lostRig{r, t, d, nil}
	l.open()
	return l
}

func (l *lostRig) open() {
	l.t.Helper()
	var err error
	if l.p, err = store.OpenPartialIn(context.Background(), l.d.FS(), l.m, store.PartialOptions{}); err != nil {
		l.t.Fatal(err)
	}
}

// write writes blocks first to end of a piece.
func (l *lostRig) write(p share.Piece, first, end int) {
	l.t.Helper()
	buf := make([]byte, (end-first)*share.BlockSize)
	n, err := l.im.Tree.ReadRun(p, share.Block(first), end-first, buf)
	if err == nil {
		err = l.p.Write(p, share.Block(first), buf[:n])
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *lostRig) complete(p share.Piece) {
	l.t.Helper()
	values, err := l.im.Tree.Proof(p)
	if err != nil {
		l.t.Fatal(err)
	}
	l.p.Complete(p, values)
}

// failSync makes the next sync of the file fail.
func (l *lostRig) failSync(name string) {
	l.d.Fault = func(op storetest.Op) error {
		if op.Kind == "sync" && op.Name == "stuff.partial/data/"+name {
			l.d.Fault = nil
			return errDisk
		}
		return nil
	}
}

func (l *lostRig) wantLost(want ...share.Piece) {
	l.t.Helper()
	_, err := l.p.Sync()
	var lost *store.SyncError
	if !errors.As(err, &lost) {
		l.t.Fatalf("sync: %v, want a SyncError", err)
	}
	if !slices.Equal(lost.Lost, want) || !slices.Equal(lost.LostPieces(), want) {
		l.t.Fatalf("lost %v, want %v", lost.Lost, want)
	}
	for _, p := range want {
		if l.p.Verified().Has(p) {
			l.t.Fatalf("piece %d is lost and verified", p)
		}
		if _, err := l.p.Proof(p); !errors.Is(err, store.ErrNotYet) {
			l.t.Fatalf("proof of a lost piece: %v", err)
		}
	}
}

// durable syncs, cuts the power, and returns what is verified then.
func (l *lostRig) durable() []share.Piece {
	l.t.Helper()
	n, _ := l.p.Sync()
	l.d.CutPower()
	l.d.Restart(7)
	if err := l.checkBits(l.d.FS(), n); err != nil {
		l.t.Fatal(err)
	}
	l.open()
	return slices.Collect(l.p.Verified().All())
}

// pieces: big is 0, 1, 2; small is 3.

// A small file is closed as soon as it is written. If only that shows that its bytes were lost, they
// are written again.
func TestASmallFileThatCannotBeClosedIsLost(t *testing.T) {
	testrig.Slow(t)
	l := newLostRig(t)
	l.d.Fault = func(op storetest.Op) error {
		if op.Kind == "close" && op.Name == "stuff.partial/data/small" {
			return errDisk
		}
		return nil
	}
	l.write(3, 0, 1)
	l.complete(3)
	l.wantLost(3)
	l.d.Fault = nil
	l.write(3, 0, 1)
	l.complete(3)
	if got := l.durable(); !slices.Equal(got, []share.Piece{3}) {
		t.Fatalf("verified: %v", got)
	}
}

// A small file whose piece was lost, and that somebody else has replaced since, is not written to.
func TestALostSmallFileThatWasReplacedStays(t *testing.T) {
	l := newLostRig(t)
	l.write(3, 0, 1)
	l.complete(3)
	l.failSync("small")
	l.wantLost(3)
	theirs := "stuff.partial/data/small"
	check(t, l.d.FS().Remove(theirs))
	check(t, vfs.WriteFile(l.d.FS(), theirs, theirs+".new", []byte("theirs"), false))
	if err := copyPiece(l.p, l.im.Tree, 3, 1); !errors.Is(err, share.ErrChanged) {
		t.Errorf("written: %v", err)
	}
	if b, err := vfs.ReadFile(l.d.FS(), theirs, 1<<20); string(b) != "theirs" {
		t.Errorf("the other file has %d bytes (%v)", len(b), err)
	}
}

func TestAFailedSyncLosesPiecesInProgressToo(t *testing.T) {
	l := newLostRig(t)
	l.write(1, 0, 8) // half of it
	l.write(0, 0, 16)
	l.complete(0)
	l.failSync("big")
	l.wantLost(0, 1)

	// The other half does not complete it.
	l.write(1, 8, 16)
	l.complete(1)
	l.wantLost(1)
	if got := l.durable(); len(got) != 0 {
		t.Fatalf("verified: %v", got)
	}
}

func TestALostPieceIsGoodOnceWrittenAgain(t *testing.T) {
	testrig.Slow(t)
	l := newLostRig(t)
	l.write(0, 0, 16)
	l.complete(0)
	l.failSync("big")
	l.wantLost(0)
	l.write(0, 8, 16)
	l.write(0, 0, 8)
	l.complete(0)
	if got := l.durable(); !slices.Equal(got, []share.Piece{0}) {
		t.Fatalf("verified: %v", got)
	}
}

// A sync of other files does not protect what was written here.
func TestASyncOfOtherFilesDoesNotCoverThisOne(t *testing.T) {
	testrig.Slow(t)
	l := newLostRig(t)
	l.write(1, 0, 8)
	l.write(3, 0, 1)
	l.complete(3)
	if n, err := l.p.Sync(); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	l.write(0, 0, 16)
	l.complete(0)
	l.failSync("big")
	l.wantLost(0, 1)
}

// What was durable before stays so.
func TestAFailedSyncLeavesDurablePiecesAlone(t *testing.T) {
	testrig.Slow(t)
	l := newLostRig(t)
	l.write(0, 0, 16)
	l.complete(0)
	if n, err := l.p.Sync(); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	l.write(0, 3, 4) // a late duplicate
	l.write(2, 0, 16)
	l.complete(2)
	l.failSync("big")
	l.wantLost(2)
	if got := l.durable(); !slices.Equal(got, []share.Piece{0}) {
		t.Fatalf("verified: %v", got)
	}
}

// When the bits cannot be written, nothing is lost: the next Sync writes them.
func TestFailingToWriteBitsLosesNothing(t *testing.T) {
	testrig.Slow(t)
	for _, kind := range []string{"create", "write", "sync", "rename", "syncdir"} {
		l := newLostRig(t)
		l.write(0, 0, 16)
		l.complete(0)
		if _, err := l.p.Sync(); err != nil {
			t.Fatal(err)
		}
		l.write(1, 0, 16)
		l.complete(1)
		l.d.Fault = func(op storetest.Op) error {
			if op.Kind == kind && (op.Name == "stuff.partial/bits.new" || kind == "syncdir") {
				l.d.Fault = nil
				return errDisk
			}
			return nil
		}
		n, err := l.p.Sync()
		if n != 1 || !errors.Is(err, errDisk) || errors.As(err, new(*store.SyncError)) {
			t.Fatalf("%s: %d pieces durable, %v", kind, n, err)
		}
		if l.d.Fault != nil {
			t.Fatalf("%s: never happened", kind)
		}
		if got := l.durable(); !slices.Equal(got, []share.Piece{0, 1}) {
			t.Fatalf("%s: verified %v", kind, got)
		}
	}
}

// A piece whose bytes contradict its bit is noticed when it has to be proven from
// the bytes, and fetched again.
func TestAPieceThatIsNotWhatItsBitSaysIsLost(t *testing.T) {
	l := newLostRig(t)
	l.write(0, 0, 16)
	l.complete(0)
	l.garble()
	if _, err := l.p.Proof(0); !errors.Is(err, share.ErrChanged) {
		t.Fatal(err)
	}
	l.wantLost(0)
}

// renaming is a disk on which something happens before a file gets a new name.
type renaming struct {
	vfs.FS
	before *func(to string)
}

func (d renaming) Sub(name string) (vfs.FS, error) {
	sub, err := d.FS.Sub(name)
	return renaming{sub, d.before}, err
}

func (d renaming) Rename(from, to string) error {
	(*d.before)(to)
	return d.FS.Rename(from, to)
}

// A piece that turns out to be wrong while its bit is being written is not believed after a kill.
func TestAPieceThatIsFoundWrongWhileItsBitIsWrittenIsLost(t *testing.T) {
	testrig.Slow(t)
	l := newLostRig(t)
	must(t, l.p.Close())
	before := func(string) {}
	var err error
	l.p, err = store.OpenPartialIn(t.Context(), renaming{l.d.FS(), &before}, l.m, store.PartialOptions{})
	must(t, err)
	for p := range share.Piece(2) {
		l.write(p, 0, 16)
		l.complete(p)
	}
	before = func(to string) {
		if to == "bits" {
			before = func(string) {}
			l.change()
			if _, err := l.p.Proof(0); !errors.Is(err, share.ErrChanged) {
				t.Error(err)
			}
		}
	}
	l.wantLost(0)
	l.d.CutPower()
	l.d.Restart(7)
	if err := l.checkBits(l.d.FS(), 1); err != nil {
		t.Error(err)
	}
}

// A piece that is found wrong and written anew while its bit is being written is durable with the next sync.
func TestAPieceThatIsWrittenAnewWhileItsBitIsWrittenIsNotDurableYet(t *testing.T) {
	testrig.Slow(t)
	l := newLostRig(t)
	must(t, l.p.Close())
	before := func(string) {}
	var err error
	l.p, err = store.OpenPartialIn(t.Context(), renaming{l.d.FS(), &before}, l.m, store.PartialOptions{})
	must(t, err)
	for p := range share.Piece(2) {
		l.write(p, 0, 16)
		l.complete(p)
	}
	before = func(to string) {
		if to == "bits" {
			before = func(string) {}
			l.change()
			if _, err := l.p.Proof(0); !errors.Is(err, share.ErrChanged) {
				t.Error(err)
			}
			l.write(0, 0, 16)
			l.complete(0)
		}
	}
	if n, err := l.p.Sync(); n != 1 {
		t.Errorf("%d pieces are durable: %v", n, err)
	}
	if n, err := l.p.Sync(); n != 2 {
		t.Errorf("%d pieces are durable after another sync: %v", n, err)
	}
}

// A block that is written again while its piece is lost once more is written a third time.
func TestABlockThatIsWrittenDuringALossDoesNotCount(t *testing.T) {
	l := newLostRig(t)
	must(t, l.p.Close())
	before := func() {}
	var err error
	l.p, err = store.OpenPartialIn(t.Context(), writing{l.d.FS(), &before}, l.m, store.PartialOptions{})
	must(t, err)
	lose := func() {
		l.failSync("big")
		if _, err := l.p.Sync(); !errors.As(err, new(*store.SyncError)) {
			t.Error(err)
		}
	}
	l.write(0, 0, 16)
	l.complete(0)
	lose()
	l.write(1, 0, 16)
	l.complete(1)
	lost := make(chan struct{})
	before = func() {
		before = func() {}
		go func() {
			defer close(lost)
			lose()
		}()
		for l.p.Verified().Has(1) { // the loss; Sync then waits for the write
			runtime.Gosched()
		}
	}
	l.write(0, 3, 4)
	<-lost
	l.write(0, 0, 3)
	l.write(0, 4, 16)
	l.complete(0)
	if l.p.Verified().Has(0) {
		t.Error("a piece is verified of which a block may be lost")
	}
}

// Nothing of what was fetched is removed before the share's name is durable.
func TestWhatIsFetchedStaysUntilItsNameIsDurable(t *testing.T) {
	testrig.Slow(t)
	l := newLostRig(t)
	for p := range share.Piece(4) {
		n := 16
		if p == 3 {
			n = 1
		}
		l.write(p, 0, n)
		l.complete(p)
	}
	failed := false
	l.d.Fault = func(op storetest.Op) error {
		if op.Kind == "syncdir" && op.Name == "." {
			failed = true
			return errDisk
		}
		return nil
	}
	if _, err := l.p.Finish(t.Context()); !errors.Is(err, errDisk) || !failed {
		t.Fatal(err)
	}
	if _, err := l.d.FS().Lstat("stuff.partial/bits"); err != nil {
		t.Error("the name is not durable, and what knows of the pieces is gone:", err)
	}
	l.d.Fault = nil
	if _, err := l.p.Finish(t.Context()); err != nil {
		t.Error(err)
	}
}

// garble makes what is complete durable, then changes the first piece and forgets
// all block hashes, as another program would.
func (l *lostRig) garble() {
	l.t.Helper()
	if _, err := l.p.Sync(); err != nil {
		l.t.Fatal(err)
	}
	l.change()
}

// change changes the first piece, and forgets all block hashes.
func (l *lostRig) change() {
	l.t.Helper()
	for name, at := range map[string]int64{"data/big": 100, "hashes": 4096} {
		f, err := l.d.FS().Edit("stuff.partial/" + name)
		if err == nil {
			_, err = f.WriteAt(make([]byte, 32*16), at)
		}
		if err != nil {
			l.t.Fatal(err)
		}
	}
}

func TestLostBlockHashesAreMadeAgain(t *testing.T) {
	testrig.Slow(t)
	l := newLostRig(t)
	for p := range share.Piece(3) {
		l.write(p, 0, 16)
		l.complete(p)
	}
	if err := l.p.Close(); err != nil {
		t.Fatal(err)
	}
	d := l.d.FS()
	f, err := d.Edit("stuff.partial/hashes")
	if err != nil {
		t.Fatal(err)
	}
	f.WriteAt(make([]byte, 8192), 4096) // all slots
	for range 2 {
		l.open()
		for p := range share.Piece(3) {
			values, err := l.p.Proof(p)
			if err != nil || l.m.CheckProof(p, values) != nil {
				t.Fatal(p, err)
			}
		}
		l.p.Close()
		if err := d.Remove("stuff.partial/hashes"); err != nil {
			t.Fatal(err)
		}
	}
}

// What a failed sync lost is not believed after a kill either.
func TestALostPieceIsNotBelievedAfterAKill(t *testing.T) {
	testrig.Slow(t)
	r := newRig(t, tree{"big": random(8 * share.MinPiece)})
	d := storetest.New(1 << 30)
	d.NoSyncAll = true
	l := &lostRig{r, t, d, nil}
	l.open()
	for p := range share.Piece(6) { // enough to be recorded
		l.write(p, 0, 16)
		l.complete(p)
	}
	l.failSync("big")
	l.wantLost(0, 1, 2, 3, 4, 5)
	d.Kill()
	l.open()
	if n := l.p.Verified().Count(); n != 0 {
		t.Fatalf("%d pieces verified", n)
	}

	// What was recorded is lost if the next run's sync fails.
	for p := range share.Piece(6) {
		l.write(p, 0, 16)
		l.complete(p)
	}
	d.Kill()
	l.open()
	if n := l.p.Verified().Count(); n < 4 {
		t.Fatalf("%d pieces verified", n)
	}
	noted := slices.Collect(l.p.Verified().All())
	l.failSync("big")
	l.wantLost(noted...)
	if got := l.durable(); len(got) != 0 {
		t.Fatalf("verified: %v", got)
	}
}

// What others have touched is as durable as what we wrote before it is believed; many files are made so at once.
func TestFilesThatOthersTouchedAreSyncedAtAnOpening(t *testing.T) {
	tr := tree{}
	for i := range 12 {
		tr[fmt.Sprintf("%02d", i)] = random(1000 + i)
	}
	for what, c := range map[string]struct {
		touched   int
		noSyncAll bool
		want      string
	}{
		"a few": {2, false, "sync sync"},
		"many":  {12, false, "syncall"},
		"many, and a system that cannot sync all": {9, true, "sync sync sync sync sync sync sync sync sync"},
	} {
		t.Run(what, func(t *testing.T) {
			l := &lostRig{newRig(t, tr), t, storetest.New(1 << 30), nil}
			l.d.NoSyncAll = c.noSyncAll
			l.open()
			for piece := range share.Piece(len(tr)) {
				l.write(piece, 0, 1)
				l.complete(piece)
			}
			if n, err := l.p.Sync(); n != len(tr) || err != nil {
				t.Fatal(n, err)
			}
			if err := l.p.Close(); err != nil {
				t.Fatal(err)
			}
			for i := range c.touched { // others write what lay there, and sync nothing
				name := fmt.Sprintf("%02d", i)
				f, err := l.d.FS().Edit("stuff.partial/data/" + name)
				if err == nil {
					_, err = f.WriteAt([]byte(tr[name]), 0)
				}
				if err = errors.Join(err, f.Close()); err != nil {
					t.Fatal(err)
				}
			}
			var syncs []string
			fail := true
			l.d.Fault = func(op storetest.Op) error {
				if op.Kind == "syncall" && c.noSyncAll || op.Kind != "syncall" && (op.Kind != "sync" || !strings.Contains(op.Name, "/data/")) {
					return nil
				}
				if fail {
					fail = false
					return errDisk
				}
				syncs = append(syncs, op.Kind)
				return nil
			}
			if _, err := store.OpenPartialIn(t.Context(), l.d.FS(), l.m, store.PartialOptions{}); !errors.Is(err, errDisk) {
				t.Fatalf("opened: %v", err)
			}
			l.open()
			if got := strings.Join(syncs, " "); got != c.want {
				t.Errorf("synced: %s, want %s", got, c.want)
			}
			if got := l.p.Verified().Count(); got != len(tr) {
				t.Errorf("%d pieces are verified", got)
			}
			l.d.Fault = nil
			l.d.CutPower()
			l.d.Restart(7)
			if err := l.checkBits(l.d.FS(), len(tr)); err != nil {
				t.Error(err)
			}
		})
	}
}
