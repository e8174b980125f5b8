package bubble

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/simnet"
	"github.com/piecelease/fetcher/store/storetest"
)

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// seed opens a node that shares a file of seeded bytes, and returns its ticket.
func seed(t *testing.T, x *Node, size int) (ticket string, content []byte) {
	t.Helper()
	content = make([]byte, size)
	rand.NewChaCha8([32]byte{1}).Read(content)
	ticket, err := x.Serve("film", content)
	ok(t, err)
	return ticket, content
}

// fetch begins to fetch into a node's folder.
func fetch(t *testing.T, x *Node, ticket string, more ...*Node) *fetcher.Transfer {
	t.Helper()
	f, err := x.Open()
	ok(t, err)
	opt := fetcher.FetchOptions{Dir: x.Folder(), Stall: time.Hour}
	if x.cfg.Disk != nil {
		opt.Dir = "."
	}
	for _, y := range more {
		opt.Peers = append(opt.Peers, y.Addrs()...)
	}
	tr, err := f.Fetch(t.Context(), ticket, opt)
	ok(t, err)
	return tr
}

// whole waits for a transfer, and compares.
func whole(t *testing.T, tr *fetcher.Transfer, want []byte) {
	t.Helper()
	ok(t, tr.Wait(context.Background()))
	got, err := os.ReadFile(tr.Path())
	ok(t, err)
	if !bytes.Equal(got, want) {
		t.Error("other bytes")
	}
}

func TestANodeFetchesFromAnother(t *testing.T) {
	Test(t, 1, func(t *testing.T, net *Net) {
		a, b := net.Add(NodeConfig{Name: "a"}), net.Add(NodeConfig{Name: "b"})
		start := time.Now()
		ticket, want := seed(t, a, 12_500_000)
		whole(t, fetch(t, b, ticket), want)
		if d := time.Since(start); d < time.Second || d > 3*time.Second {
			t.Error("100 Mbit took", d, "over 100 Mbit/s")
		}
		if in, out := b.Traffic(); in < 12_500_000 || out > 1<<20 {
			t.Error(in, out, "bytes of traffic")
		}
		if again, err := b.Open(); err != nil || again != b.Fetcher() {
			t.Error("opened twice:", err)
		}
	})
}

// One for the connection, one for the list of files, with which the source says what it has, and one for the byte.
// Then the node ends without waiting for an answer.
func TestAByteIsThreeRoundTripsAway(t *testing.T) {
	Test(t, 1, func(t *testing.T, net *Net) {
		const trip = 100 * time.Millisecond
		far := simnet.Line{Up: 100 * simnet.Mbit, Down: 100 * simnet.Mbit, Latency: trip / 4} // of each end
		a, b := net.Add(NodeConfig{Name: "a", Line: far}), net.Add(NodeConfig{Name: "b", Line: far})
		ticket, want := seed(t, a, 1)
		_, err := b.Open()
		ok(t, err)
		start := time.Now()
		whole(t, fetch(t, b, ticket), want)
		took := time.Since(start)
		ok(t, b.Fetcher().Close())
		if all := time.Since(start); took < 3*trip || took > 13*trip/4 || all > took+3*trip/4 {
			t.Errorf("it took %.2f round trips, %.2f with the end", took.Seconds()/trip.Seconds(), all.Seconds()/trip.Seconds())
		}
	})
}

func TestAKilledNodeSaysNothingAndGoesOnInItsNextLife(t *testing.T) {
	rig.Slow(t)
	Test(t, 2, func(t *testing.T, net *Net) {
		disk := storetest.New(1 << 30)
		a, b := net.Add(NodeConfig{Name: "a"}), net.Add(NodeConfig{Name: "b", Disk: disk})
		ticket, want := seed(t, a, 12_500_000)
		tr := fetch(t, b, ticket)
		id := b.Fetcher().ID()
		time.Sleep(700 * time.Millisecond)
		b.Kill()
		if b.Fetcher() != nil {
			t.Error("it still runs")
		}
		if err := tr.Wait(context.Background()); err == nil {
			t.Error("the fetch of the dead went well")
		}
		tr = fetch(t, b, ticket)
		ok(t, tr.Wait(context.Background()))
		if p := tr.Progress(); p.Resumed == 0 || p.Verified != int64(len(want)) {
			t.Errorf("%d of %d bytes, %d resumed", p.Verified, len(want), p.Resumed)
		}
		if b.Fetcher().ID() != id || id != b.ID() {
			t.Error("another identity")
		}
	})
}

func TestLiarsOfEveryKindAreSurvived(t *testing.T) {
	rig.Slow(t)
	for name, acts := range map[string]simnet.Behaviour{
		"blocks": simnet.Liar(1), "proofs": simnet.ProofLiar(), "claims": simnet.Claimer(), "mute": simnet.Mute(0), "trickle": simnet.Trickle(1000),
		"maps": simnet.MapLiar(), "flood": simnet.Flooder(1000), "late": simnet.LateLiar(3),
	} {
		t.Run(name, func(t *testing.T) {
			Test(t, 3, func(t *testing.T, net *Net) {
				good, bad, x := net.Add(NodeConfig{Name: "good"}), net.Add(NodeConfig{Name: "bad", Acts: acts}), net.Add(NodeConfig{Name: "x"})
				ticket, want := seed(t, good, 4<<20)
				seed(t, bad, 4<<20)
				tr := fetch(t, x, ticket, bad)
				whole(t, tr, want)
				for _, s := range tr.Progress().Sources {
					if s.Peer == good.ID() && (s.BadBlocks > 0 || s.Banned) {
						t.Errorf("the honest one is blamed: %s", s.Lie)
					}
				}
			})
		})
	}
}

func TestANodeMayBecomeALiar(t *testing.T) {
	Test(t, 4, func(t *testing.T, net *Net) {
		a, x := net.Add(NodeConfig{Name: "a"}), net.Add(NodeConfig{Name: "x"})
		ticket, _ := seed(t, a, 1<<20)
		a.Become(simnet.Liar(1))
		if err := fetch(t, x, ticket).Wait(context.Background()); !errors.Is(err, share.ErrLied) {
			t.Error("ended with", err)
		}
	})
}

func TestConfigReachesTheNode(t *testing.T) {
	Test(t, 5, func(t *testing.T, net *Net) {
		a := net.Add(NodeConfig{Name: "a", Config: fetcher.Config{UploadRate: 100_000}})
		x := net.Add(NodeConfig{Name: "x"})
		ticket, want := seed(t, a, 2<<20)
		start := time.Now()
		whole(t, fetch(t, x, ticket), want)
		if d := time.Since(start); d < 10*time.Second {
			t.Error("2 MiB at 100 kB/s took", d)
		}
	})
}

func TestInFlightIsBoundedAndComesBack(t *testing.T) {
	rig.Slow(t)
	Test(t, 6, func(t *testing.T, net *Net) {
		a := net.Add(NodeConfig{Name: "a", Line: simnet.Line{Up: 1e6}})
		x := net.Add(NodeConfig{Name: "x", Config: fetcher.Config{InFlight: 512 << 10}})
		ticket, want := seed(t, a, 4<<20)
		tr := fetch(t, x, ticket)
		var most int64
		for range 30 {
			time.Sleep(100 * time.Millisecond)
			now, _ := x.Fetcher().InFlight()
			most = max(most, now)
		}
		whole(t, tr, want)
		time.Sleep(time.Second)
		if now, buffers := x.Fetcher().InFlight(); now != 0 || buffers != 0 || most == 0 || most > 512<<10 {
			t.Errorf("at most %d bytes in flight, in the end %d in %d buffers", most, now, buffers)
		}
	})
}

func TestTwoNodesOfOneNameAreAMistake(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	n := newNet(1, "")
	n.Add(NodeConfig{Name: "a"})
	n.Add(NodeConfig{Name: "a"})
}
