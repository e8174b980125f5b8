package leasemgr

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

func peerID(s string) peers.ID { return peers.ID(s) }

func TestCaps(t *testing.T) {
	const mib = share.MinPiece
	for _, c := range []struct {
		name   string
		cfg    Config
		length int
		rate   float64
		trip   time.Duration
		want   int
	}{
		{"not measured", Config{}, mib, 0, 0, 4},
		{"not measured, own cap", Config{MaxLeasesPerPeer: 7}, mib, 0, 0, 7},
		{"not measured, large pieces", Config{}, share.MaxPiece, 0, 0, 4},
		{"not measured, pieces of 100 kB", Config{}, 100_000, 0, 0, 41},
		{"not measured, tiny pieces", Config{}, 100, 0, 0, 256},
		{"not measured, tiny pieces, own cap", Config{MaxSmallLeases: 20}, 100, 0, 0, 20},
		{"slow", Config{}, mib, 1000, 0, 2},
		{"slow, small pieces", Config{}, share.BlockSize, 1000, 0, 4},
		{"10 MiB/s", Config{}, mib, 10 * mib, 0, 5},
		{"10 MiB/s, twice the pipeline", Config{Ahead: time.Second}, mib, 10 * mib, 0, 10},
		{"10 MiB/s, one second away", Config{}, mib, 10 * mib, time.Second, 15},
		{"1 GB/s", Config{}, mib, 1e9, 0, 64},
		{"1 GB/s, own window", Config{MaxWindow: 8 * mib}, mib, 1e9, 0, 8},
		{"1 GB/s, tiny pieces", Config{}, 100, 1e9, 0, 4096},
		{"1 GB/s, tiny pieces, own cap", Config{MaxMeasuredLeases: 100}, 100, 1e9, 0, 100},
	} {
		r := newRigOf(t, even{5000, c.length}, c.cfg)
		r.add("a").full("a")
		if c.rate > 0 {
			r.rate("a", c.rate, c.trip)
		}
		got, no := r.m.Acquire("a", 5000, r.now)
		if len(got) != c.want || no.Reason != AtCapacity {
			t.Errorf("%s: %d leases, then %q, want %d", c.name, len(got), no.Reason, c.want)
		}
	}
}

func TestProgressMakesRoom(t *testing.T) {
	r := newRig(t, 100, Config{})
	r.add("a").full("a").rate("a", 20<<20, 0)
	ls := r.get("a", 100)
	equal(t, "leases", len(ls), 10)
	r.not("a", AtCapacity)
	todo := r.m.Progress("a", ls[0].Piece, ls[0].Token, share.MinPiece, r.now)
	r.woken(todo, "a")
	r.one("a")
}

func TestLowScoreMeansOneLeaseAtATime(t *testing.T) {
	for _, c := range []struct {
		min, score float64
		want       int
	}{{0, 0.1, 1}, {0, 0.2, 4}, {0.5, 0.4, 1}, {-1, 0, 4}} {
		r := newRig(t, 100, Config{MinPeerScore: c.min})
		r.add("a").full("a")
		r.m.Rank("a", c.score, false, r.now)
		equal(t, "leases", len(r.get("a", 10)), c.want)
	}
}

func TestLowRankedSourceIsExploredAndRecovers(t *testing.T) {
	r := newRig(t, 10_000, Config{})
	ids := []peers.ID{"bad", "b", "c", "d"}
	r.add(ids...).full(ids...)
	r.m.Rank("bad", 0.01, false, r.now)
	count := map[peers.ID]int{}
	out := map[peers.ID][]Lease{}
	for range 2000 {
		for _, id := range ids {
			if len(out[id]) == 4 || id == "bad" && len(out[id]) == 1 {
				r.done(out[id][0])
				out[id] = out[id][1:]
			}
			if ls := r.get(id, 1); len(ls) > 0 {
				count[id]++
				out[id] = append(out[id], ls...)
			}
		}
	}
	total := 0
	for _, n := range count {
		total += n
	}
	if count["bad"]*20 < total {
		t.Errorf("low-ranked source got %d of %d grants, less than a twentieth", count["bad"], total)
	}
	r.m.Rank("bad", 1, false, r.now)
	if r.m.Done() {
		t.Fatal("done too early")
	}
	if got := len(r.get("bad", 10)) + len(out["bad"]); got != 4 {
		t.Errorf("recovered source holds %d leases", got)
	}
}

func TestBatchAsksForNoMoreThanMax(t *testing.T) {
	r := newRig(t, 100, Config{})
	r.add("a").full("a")
	got, no := r.m.Acquire("a", 3, r.now)
	equal(t, "leases", len(got), 3)
	equal(t, "refusal", no, Refusal{})
	got, no = r.m.Acquire("a", 0, r.now)
	equal(t, "leases", len(got), 0)
	equal(t, "refusal", no, Refusal{})
	got, _ = r.m.Acquire("a", -5, r.now)
	equal(t, "leases", len(got), 0)
}
