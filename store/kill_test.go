package store_test

import (
	"context"
	"errors"
	"testing"

	testrig "github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/storetest"
)

// noted is a share that is large enough for what is complete to be noted.
func noted(t *testing.T) rig {
	tr := tree{"big": random(2*share.MinPiece + 1000), "a/other": random(share.MinPiece), "a/b/small": random(10), "x*": "x"}
	for _, name := range []string{"s/1", "s/2", "s/3", "s/4", "s/5"} {
		tr[name] = name
	}
	return newRig(t, tr)
}

// The process may be killed before any operation: what the next one believes is
// true, and it completes the share.
func TestEachKillIsSurvived(t *testing.T) {
	testrig.Slow(t)
	t.Parallel()
	r := noted(t)
	for n := 0; ; n += stride {
		d := storetest.New(1 << 30)
		fault, count := nth(n, storetest.Op.Changes, storetest.ErrPower)
		d.Fault = func(op storetest.Op) error {
			err := fault(op)
			if *count > n {
				return storetest.ErrPower
			}
			return err
		}
		r.fetch(d.FS(), 5)
		d.Fault = nil
		d.Kill()
		if err := r.checkVerified(d); err != nil {
			t.Fatalf("kill %d: %v", n, err)
		}
		if _, err := r.fetch(d.FS(), 5); err != nil {
			t.Fatalf("kill %d, resumed: %v", n, err)
		}
		d.CutPower()
		d.Restart(uint64(n))
		if err := errors.Join(r.checkFinished(d.FS()), r.checkDone(d.FS())); err != nil {
			t.Fatalf("kill %d, resumed, and the power went: %v", n, err)
		}
		if *count <= n {
			t.Logf("%d operations", n)
			return
		}
	}
}

// checkVerified fails if a piece that an opened Partial calls verified is not. It
// leaves the disk as a kill does.
func (r rig) checkVerified(d *storetest.Disk) error {
	p, err := store.OpenPartialIn(context.Background(), d.FS(), r.m, store.PartialOptions{Workers: 1})
	if err != nil {
		return err
	}
	defer d.Kill()
	l := r.m.Layout()
	for piece := range p.Verified().All() {
		got, want := make([]byte, l.PieceLen(piece)), make([]byte, l.PieceLen(piece))
		_, err := p.ReadRun(piece, 0, l.Blocks(piece), got)
		if _, e := r.im.Tree.ReadRun(piece, 0, l.Blocks(piece), want); err != nil || e != nil {
			return errors.Join(err, e)
		}
		if string(got) != string(want) {
			return errors.New("a piece that is verified has other bytes")
		}
	}
	return nil
}

// A fault loses bytes, the process is killed before it is done, the next one syncs,
// and then the power fails: no bit is wrong, whichever operation failed.
func TestAFaultIsRememberedOverAKill(t *testing.T) {
	testrig.Slow(t)
	t.Parallel()
	r := noted(t)
	for _, noSyncAll := range []bool{true, false} {
		for n := 0; ; n += stride {
			d := storetest.New(1 << 30)
			d.NoSyncAll = noSyncAll
			fault, count := nth(n, storetest.Op.Changes, errDisk)
			d.Fault = fault
			if p, err := store.OpenPartialIn(context.Background(), d.FS(), r.m, store.PartialOptions{Workers: 1}); err == nil {
				for piece := range share.Piece(r.m.Layout().Pieces()) {
					copyPiece(p, r.im.Tree, piece, 16)
					if every := share.Piece(map[bool]int{true: 4, false: 10}[noSyncAll]); piece%every == every-1 {
						p.Sync()
					}
				}
			}
			d.Fault = nil
			d.Kill()
			p, err := store.OpenPartialIn(context.Background(), d.FS(), r.m, store.PartialOptions{Workers: 1})
			if err != nil {
				t.Fatalf("fault %d: %v", n, err)
			}
			durable, err := p.Sync()
			if err != nil {
				t.Fatalf("fault %d: %v", n, err)
			}
			d.CutPower()
			d.Restart(uint64(n))
			if err := r.checkBits(d.FS(), durable); err != nil {
				t.Fatalf("fault %d: %v", n, err)
			}
			if *count <= n {
				t.Logf("%d operations", n)
				break
			}
		}
	}
}
