package actors

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/share"
)

// testFolder is a share of files of seeded bytes, named by number: 00, 01 ...
func testFolder(t testing.TB, sizes ...int) (*share.Manifest, []byte) {
	t.Helper()
	var entries []share.Entry
	var all []byte
	for i, n := range sizes {
		content := make([]byte, n)
		rand.NewChaCha8([32]byte{byte(i)}).Read(content)
		e := share.Entry{Path: fmt.Sprintf("%02d", i), Size: int64(n), Root: share.EmptyRoot}
		for off := 0; off < n; off += share.MinPiece {
			_, v := share.HashPiece(nil, content[off:min(off+share.MinPiece, n)], int64(off), n <= share.MinPiece)
			e.Pieces = append(e.Pieces, v)
		}
		if n > 0 {
			e.Root = share.FileRoot(e.Pieces)
		}
		entries = append(entries, e)
		all = append(all, content...)
	}
	m, err := share.NewManifest("folder/", entries)
	if err != nil {
		t.Fatal(err)
	}
	return m, all
}

// openReader opens a reader of a file of the only transfer of n.
func (n *simNode) openReader(id share.ID, path string) (leasemgr.Reader, error) {
	r, err := n.program.OpenReader(context.Background(), Handle{Share: id}, OpenReader{path})
	return r.Reader, err
}

// readAt waits until the byte at off may be read, and returns up to where more may.
func (n *simNode) readAt(id share.ID, r leasemgr.Reader, off, ahead int64) (int64, error) {
	return n.program.AwaitByte(context.Background(), Handle{Share: id}, MoveReader{Reader: r, Offset: off, Ahead: ahead})
}

// verified returns how many bytes of a transfer are verified.
func (n *simNode) verified(id share.ID) int64 {
	p, err := n.program.Progress(context.Background(), Handle{Share: id})
	if err != nil {
		n.sw.t.Fatal(err)
	}
	return p.Verified
}

// bigShare is a share of one file of n pieces with the same content, which do not take
// n pieces of memory.
func bigShare(t testing.TB, n int) (*share.Manifest, []byte) {
	t.Helper()
	pieces := make([]hashedPiece, n)
	for i := range pieces {
		pieces[i] = hashed(spot{0, share.MinPiece, int64(i) * share.MinPiece, false})
	}
	return oneFile(t, "big", int64(n)*share.MinPiece, pieces), seeded(share.MinPiece)
}

// seedAlike gives a node a bigShare.
func (n *simNode) seedAlike(m *share.Manifest, piece []byte) *simNode {
	target := newMemTarget(n, m)
	for p := range target.data {
		target.data[p] = piece
	}
	target.hash()
	target.have = share.FullSet(len(target.data))
	n.shares[m.ID()] = target
	n.offer(m.ID(), len(target.data), nil)
	return n
}

// The first byte of 1 GiB comes two round trips and one block after the list of files.
func TestReadingStartsWithinTwoRoundTripsAndABlock(t *testing.T) {
	m, piece := bigShare(t, 256)
	for i, rate := range []float64{1e6, 10e6, 1e9, 10e6} {
		sw := newSwarm(t, 1)
		sw.w.TaskDelay = func(*rand.Rand) time.Duration { return 0 } // the disk's time does not count here
		source := sw.add("source", rate).seedAlike(m, piece)
		n := sw.add("node", 1e6)
		if known := i == 3; known { // it was asked for before
			n.met[source.id], n.known = true, m
		}
		n.fetch(m.ID(), source)
		r, err := n.openReader(m.ID(), "big")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := n.readAt(m.ID(), r, 0, 64<<20); err != nil {
			t.Fatal(err)
		}
		took := sw.w.Elapsed() - n.listed
		block := time.Duration(share.BlockSize / rate * float64(time.Second))
		if most := 4*simLatency + block; took > most {
			t.Errorf("at %.0f B/s: %v after the list of files, want at most %v", rate, took, most)
		}
		t.Logf("at %.0f B/s: %v, of which the block %v", rate, took, block)
		n.program.StopTransfer(Handle{Share: m.ID()})
		sw.run(time.Minute, n)
	}
}

// A reader that jumps to the end of a file that has not been fetched gets the last bytes before
// 5 % of the file has arrived.
func TestTheEndComesBeforeTheRest(t *testing.T) {
	m, piece := bigShare(t, 128)
	size := int64(128 * share.MinPiece)
	for _, rate := range []float64{1e6, 100e6, 1e9} {
		sw := newSwarm(t, 1)
		source := sw.add("source", rate).seedAlike(m, piece)
		n := sw.add("node", 1e6)
		n.fetch(m.ID(), source)
		r, err := n.openReader(m.ID(), "big")
		if err != nil {
			t.Fatal(err)
		}
		if end, err := n.readAt(m.ID(), r, size-1, 64<<20); err != nil || end != size {
			t.Fatal(end, err)
		}
		if got := n.verified(m.ID()); got > size/20 {
			t.Errorf("at %.0f B/s: %d of %d bytes came before", rate, got, size)
		} else {
			t.Logf("at %.0f B/s: %.1f %% of the file came before", rate, float64(got)/float64(size)*100)
		}
		n.program.StopTransfer(Handle{Share: m.ID()})
		sw.run(time.Minute, n)
	}
}

// A jump in the middle of a fetch does not wait for what was leased before it.
func TestAJumpDoesNotWaitForWhatWasLeasedBefore(t *testing.T) {
	rig.Slow(t)
	m, piece := bigShare(t, 256)
	for _, rate := range []float64{200e3, 1e6, 10e6, 200e6} {
		sw := newSwarm(t, 1)
		source := sw.add("source", rate).seedAlike(m, piece)
		n := sw.add("node", 1e6)
		n.fetch(m.ID(), source)
		sw.w.RunUntil(func() bool { return n.shares[m.ID()] != nil && n.shares[m.ID()].have.Count() >= 3 }, time.Minute)
		r, err := n.openReader(m.ID(), "big")
		if err != nil {
			t.Fatal(err)
		}
		from, had := sw.w.Elapsed(), n.verified(m.ID())
		off := int64(200*share.MinPiece + 5)
		if _, err := n.readAt(m.ID(), r, off, 64<<20); err != nil {
			t.Fatal(err)
		}
		took := sw.w.Elapsed() - from
		// At most what is under way; a slow source finishes its current piece.
		if most := time.Duration(1.1*share.MinPiece/rate*float64(time.Second)) + 4*simLatency; took > most {
			t.Errorf("at %.0f B/s: took %v, want at most %v", rate, took, most)
		}
		t.Logf("at %.0f B/s: %v, %.1f MB", rate, took, float64(n.verified(m.ID())-had)/1e6)
		n.program.StopTransfer(Handle{Share: m.ID()})
		sw.run(time.Minute, n)
	}
}

// Bytes come in order to several readers, and each gets the right ones.
func TestSeveralReadersReadAtOnce(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testFolder(t, 3<<20+17, 0, 5<<20, 100)
	a, b := sw.add("a", 4e6).seed(m, content), sw.add("b", 1e6).seed(m, content)
	n := sw.add("node", 1e6)
	n.fetch(m.ID(), a, b)
	starts := map[string]int{"00": 0, "02": 3<<20 + 17, "03": 8<<20 + 17}
	type reading struct {
		path string
		id   leasemgr.Reader
		off  int64
	}
	var rs []*reading
	for _, path := range []string{"00", "02", "02", "03"} {
		id, err := n.openReader(m.ID(), path)
		if err != nil {
			t.Fatal(err)
		}
		rs = append(rs, &reading{path: path, id: id})
	}
	l := m.Layout()
	for open := len(rs); open > 0; {
		for _, r := range rs {
			entry, _ := indexOf(m, r.path)
			size := m.Entry(entry).Size
			if r.off == size {
				continue
			}
			end, err := n.readAt(m.ID(), r.id, r.off, 1<<20)
			if errors.Is(err, ErrFinishing) {
				end, err = size, nil // all of it is here
			}
			if err != nil {
				t.Fatal(r.path, r.off, err)
			}
			for r.off < end {
				p, block := l.At(entry, r.off)
				s := l.RunSpan(p, block, 1)
				got := n.shares[m.ID()].data[p][s.Offset-l.PieceSpan(p).Offset:][:s.Len]
				at := starts[r.path] + int(s.Offset)
				if !bytes.Equal(got, content[at:at+s.Len]) {
					t.Fatalf("%s at %d differs", r.path, s.Offset)
				}
				r.off = s.Offset + int64(s.Len)
			}
			if r.off == size {
				open--
			}
		}
	}
	sw.run(time.Minute, n)
	n.complete(content)
}

func indexOf(m *share.Manifest, path string) (int, bool) {
	for i := range m.Entries() {
		if m.Entry(i).Path == path {
			return i, true
		}
	}
	return 0, false
}

func TestWhatCannotBeReadIsRefused(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testFolder(t, 2<<20, 2<<20)
	source := sw.add("source", 1e6).seed(m, content)
	n := sw.add("node", 1e6)
	n.fetchSome(m.ID(), TransferConfig{Verifiers: 1}, func(e share.Entry) leasemgr.Priority {
		if e.Path == "01" {
			return leasemgr.Skip
		}
		return leasemgr.Normal
	}, source)
	if _, err := n.openReader(m.ID(), "nowhere"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want ErrNotExist", err)
	}
	if _, err := n.openReader(m.ID(), "01"); !errors.Is(err, ErrSkipped) {
		t.Errorf("got %v, want ErrSkipped", err)
	}
	r, err := n.openReader(m.ID(), "00")
	if err != nil {
		t.Fatal(err)
	}
	n.program.CloseReader(Handle{Share: m.ID()}, r)
	if _, err := n.readAt(m.ID(), r, 0, 1); !errors.Is(err, ErrFinishing) {
		t.Errorf("closed: %v", err)
	}
}

// A reader whose file is given up is told so, and so is one whose transfer ends.
func TestAReaderThatWaitsForNothingIsTold(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testFolder(t, 2<<20, 4<<20)
	source := sw.add("source", 1e6).seed(m, content)
	n := sw.add("node", 1e6)
	n.fetch(m.ID(), source)
	a, err := n.openReader(m.ID(), "00")
	if err != nil {
		t.Fatal(err)
	}
	b, err := n.openReader(m.ID(), "01")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.readAt(m.ID(), a, 0, 1); err != nil {
		t.Fatal(err)
	}
	source.mute = true
	sw.w.After(time.Second, func() {
		n.program.s.Send(n.program.node, ToTransfer{Handle{Share: m.ID()}, SetPriority{[]int{0}, leasemgr.Skip}})
	})
	if _, err := n.readAt(m.ID(), a, 2<<20-1, 1); !errors.Is(err, ErrSkipped) {
		t.Errorf("got %v, want ErrSkipped", err)
	}
	sw.w.After(time.Second, func() { n.program.StopTransfer(Handle{Share: m.ID()}) })
	if _, err := n.readAt(m.ID(), b, 4<<20-1, 1); !errors.Is(err, ErrFinishing) {
		t.Errorf("got %v, want ErrFinishing", err)
	}
	sw.run(time.Minute, n)
}

// A caller that gave up before its reader was opened has none: its pieces are not fetched first.
func TestAReaderThatNobodyWaitsForIsClosed(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testFolder(t, 2<<20, 4<<20)
	source := sw.add("source", 4e6).seed(m, content)
	n := sw.add("node", 1e6)
	source.down = true
	n.fetch(m.ID(), source)
	ctx, cancel := context.WithCancel(context.Background())
	sw.w.After(time.Second, cancel)
	if _, err := n.program.OpenReader(ctx, Handle{Share: m.ID()}, OpenReader{"01"}); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want what ended the wait", err)
	}
	open := map[leasemgr.Reader]bool{}
	sw.w.Observe = func(d system.Delivery) {
		switch x := d.Message.(type) {
		case SetReader:
			open[x.Reader] = true
		case CloseReader:
			delete(open, x.Reader)
		}
	}
	source.down = false
	sw.run(time.Minute, n)
	if len(open) > 0 {
		t.Errorf("%d readers were never closed", len(open))
	}
}

// On demand, time in which nobody reads does not count as a stall; time in which a reader waits does.
func TestOnDemandOnlyAReaderThatWaitsStalls(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testShare(t, 8<<20)
	source := sw.add("source", 1e6).seed(m, content)
	n := sw.add("node", 1e6)
	n.fetchWith(m.ID(), TransferConfig{OnDemand: true, Stall: 10 * time.Second}, source)
	sw.w.Run(5 * time.Minute)
	p, err := n.program.Progress(t.Context(), Handle{Share: m.ID()})
	if err != nil || n.end != nil || p.Verified > 0 || !p.GivesUp.IsZero() || p.Reason == "" {
		t.Fatalf("%+v, %v, %+v", p, err, n.end)
	}
	r, err := n.openReader(m.ID(), m.Name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.readAt(m.ID(), r, 5<<20, 1<<20); err != nil {
		t.Fatal(err)
	}
	sw.w.Run(5 * time.Minute)
	if n.end != nil || n.shares[m.ID()].have.Count() > 3 {
		t.Fatalf("%d pieces are here, %+v", n.shares[m.ID()].have.Count(), n.end)
	}
	source.mute = true
	began := sw.w.Elapsed()
	if _, err := n.readAt(m.ID(), r, 1<<20, 1<<20); err == nil {
		t.Fatal("a mute source gave something")
	}
	sw.run(time.Minute, n)
	if took := sw.w.Elapsed() - began; !errors.Is(n.end.Err, share.ErrStalled) || took < 10*time.Second || took > 15*time.Second {
		t.Errorf("after %v: %v", took, n.end.Err)
	}
}
