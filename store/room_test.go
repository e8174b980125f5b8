package store_test

import (
	"errors"
	"testing"

	testrig "github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/storetest"
	"github.com/piecelease/fetcher/store/vfs"
)

// Pieces that were in progress when a transfer was killed are lost, but the space of what
// was written of them is reused: a disk on which the rest just fits is not full.
func TestWhatWasWrittenBeforeAKillNeedsNoRoomAgain(t *testing.T) {
	testrig.Slow(t)
	m, content := oneFile(t, 24<<20)
	d := storetest.New(24<<20 + 1<<20)
	fetchSome(t, d, m, content, 4)
	p, err := store.OpenPartialIn(t.Context(), kill(d), m, store.PartialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for piece := share.Piece(4); piece < 20; piece++ { // all but the last block of each
		s := m.Layout().PieceSpan(piece)
		if err := p.Write(piece, 0, []byte(content[s.Offset:][:s.Len-share.BlockSize])); err != nil {
			t.Fatal(err)
		}
	}
	left := int64(4<<20 + 16*share.BlockSize)
	if need, _ := p.Need(); need != left {
		t.Errorf("%d bytes are needed, want %d", need, left)
	}
	if p, err = store.OpenPartialIn(t.Context(), kill(d), m, store.PartialOptions{}); err != nil {
		t.Fatal(err)
	}
	if need, free := p.Need(); need != left || free < need {
		t.Errorf("%d bytes are needed and %d are free; want %d", need, free, left)
	}
	for piece := share.Piece(4); piece < 24; piece++ {
		s := m.Layout().PieceSpan(piece)
		if err := p.Write(piece, 0, []byte(content[s.Offset:][:s.Len])); err != nil {
			t.Fatal(err)
		}
	}
	kill(d)
	d.Resize(left - 1<<20)
	if _, err := store.OpenPartialIn(t.Context(), d.FS(), m, store.PartialOptions{}); err != nil {
		t.Error("all is written, and still:", err)
	}
	if err := d.FS().Remove("f.partial/data"); err != nil {
		t.Fatal(err)
	}
	kill(d)
	d.Resize(20 << 20)
	if _, err := store.OpenPartialIn(t.Context(), d.FS(), m, store.PartialOptions{}); !errors.Is(err, share.ErrDiskFull) {
		t.Error("nothing is written any more:", err)
	}
}

func kill(d *storetest.Disk) vfs.FS {
	d.Kill()
	return d.FS()
}
