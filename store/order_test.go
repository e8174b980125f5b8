package store_test

import (
	"sync"
	"testing"

	testrig "github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/storetest"
	"github.com/piecelease/fetcher/store/vfs"
)

// These tests check what must be on the disk before what.

// The block hashes of a piece are durable before its bit is.
func TestBlockHashesAreSyncedBeforeTheBits(t *testing.T) {
	testrig.Slow(t)
	l := newLostRig(t)
	dirty, bits := false, 0
	l.d.Fault = func(op storetest.Op) error {
		switch {
		case op.Name == "stuff.partial/hashes" && op.Kind == "write":
			dirty = true
		case op.Name == "stuff.partial/hashes" && op.Kind == "sync":
			dirty = false
		case op.Name == "stuff.partial/bits.new" && op.Kind == "write":
			if bits++; dirty {
				t.Error("the bits are written before the hashes are synced")
			}
		}
		return nil
	}
	for p := range share.Piece(3) {
		l.write(p, 0, 16)
		l.complete(p)
		if _, err := l.p.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	if bits != 3 {
		t.Errorf("bits were written %d times", bits)
	}
}

// What is written while a sync of its file is already over is lost if the next one
// fails.
func TestWhatIsWrittenAfterTheSyncOfItsFileIsInDangerStill(t *testing.T) {
	testrig.Slow(t)
	r := newRig(t, tree{"big": random(3 * share.MinPiece)})
	d := storetest.New(1 << 30)
	d.NoSyncAll = true
	l := &lostRig{r, t, d, nil}
	var before func()
	var err error
	l.p, err = store.OpenPartialIn(t.Context(), writing{d.FS(), &before}, r.m, store.PartialOptions{})
	check(t, err)
	l.write(0, 0, 16)
	l.complete(0)
	var syncing sync.WaitGroup
	before = func() {
		before = nil
		synced := make(chan struct{})
		d.Fault = func(op storetest.Op) error {
			if op.Kind == "sync" && op.Name == "stuff.partial/data/big" {
				close(synced)
				d.Fault = nil
			}
			return nil
		}
		syncing.Go(func() {
			if _, err := l.p.Sync(); err != nil {
				t.Error(err)
			}
		})
		<-synced
	}
	l.write(1, 0, 8)
	syncing.Wait()
	l.write(2, 0, 16)
	l.complete(2)
	l.failSync("big")
	l.wantLost(1, 2)
}

// writing is a disk on which something happens before a file is written to.
type writing struct {
	vfs.FS
	before *func()
}

func (d writing) Sub(name string) (vfs.FS, error) {
	sub, err := d.FS.Sub(name)
	return writing{sub, d.before}, err
}

func (d writing) Create(name string, exec bool) (vfs.File, error) {
	f, err := d.FS.Create(name, exec)
	if name == "big" {
		f = writtenFile{f, d.before}
	}
	return f, err
}

type writtenFile struct {
	vfs.File
	before *func()
}

func (f writtenFile) WriteAt(b []byte, off int64) (int, error) {
	if *f.before != nil {
		(*f.before)()
	}
	return f.File.WriteAt(b, off)
}
