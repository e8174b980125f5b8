package store_test

import (
	"testing"

	testrig "github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/storetest"
)

// fetchSome opens a Partial of m on d and completes its first n pieces, without a Sync.
func fetchSome(t *testing.T, d *storetest.Disk, m *share.Manifest, content []byte, n int) *store.Partial {
	t.Helper()
	p, err := store.OpenPartialIn(t.Context(), d.FS(), m, store.PartialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	l := m.Layout()
	for piece := range share.Piece(n) {
		s := l.PieceSpan(piece)
		data := content[s.Offset : s.Offset+int64(s.Len)]
		values, _ := share.HashPiece(nil, data, s.Offset, l.Pieces() == 1)
		if err := p.Write(piece, 0, data); err != nil {
			t.Fatal(err)
		}
		p.Complete(piece, values)
	}
	return p
}

func TestWhatWasNotSyncedSurvivesAKillButNotAPowerCut(t *testing.T) {
	testrig.Slow(t)
	m, content := oneFile(t, 24<<20)
	for name, c := range map[string]struct {
		end func(*storetest.Disk)
		min int
		max int
	}{
		"kill":  {func(d *storetest.Disk) { d.Kill() }, 16, 20},
		"power": {func(d *storetest.Disk) { d.CutPower(); d.Restart(1) }, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := storetest.New(1 << 30)
			fetchSome(t, d, m, content, 20)
			c.end(d)
			p, err := store.OpenPartialIn(t.Context(), d.FS(), m, store.PartialOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			have := p.Verified()
			if n := have.Count(); n < c.min || n > c.max {
				t.Errorf("%d pieces are here of 20 that were complete", n)
			}
			for piece := range have.All() { // each is what it should be, and can be proven
				values, err := p.Proof(piece)
				if err != nil {
					t.Fatal(err)
				}
				buf := make([]byte, m.Layout().PieceLen(piece))
				if _, err := p.ReadRun(piece, 0, len(values), buf); err != nil {
					t.Fatal(err)
				}
				s := m.Layout().PieceSpan(piece)
				if got, _ := share.HashPiece(nil, buf, s.Offset, false); share.Hash(got[0]) != values[0] {
					t.Errorf("piece %d has other bytes", piece)
				}
			}
			if _, err := p.Sync(); err != nil {
				t.Fatal(err)
			}
			d.CutPower() // now they are durable
			d.Restart(2)
			q, err := store.OpenPartialIn(t.Context(), d.FS(), m, store.PartialOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer q.Close()
			if got := q.Verified().Count(); got != have.Count() {
				t.Errorf("%d pieces are durable after a sync of %d", got, have.Count())
			}
		})
	}
}

// oneFile is a share of one file of n bytes.
func oneFile(t *testing.T, n int) (*share.Manifest, []byte) {
	t.Helper()
	content := []byte(random(n))
	var values []share.Hash
	for off := 0; off < n; off += share.MinPiece {
		_, v := share.HashPiece(nil, content[off:min(off+share.MinPiece, n)], int64(off), n <= share.MinPiece)
		values = append(values, v)
	}
	m, err := share.NewManifest("f", []share.Entry{{Path: "f", Size: int64(n), Root: share.FileRoot(values), Pieces: values, PieceExp: share.PieceExp(int64(n))}})
	if err != nil {
		t.Fatal(err)
	}
	return m, content
}
