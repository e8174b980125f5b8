package actors

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/share"
)

// paths chooses some entries by their paths.
func paths(as leasemgr.Priority, others leasemgr.Priority, paths ...string) func(share.Entry) leasemgr.Priority {
	return func(e share.Entry) leasemgr.Priority {
		if slices.Contains(paths, e.Path) {
			return as
		}
		return others
	}
}

func TestOnlyWhatIsChosenIsFetched(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testFolder(t, 3<<20+5, 2<<20, 0, 4<<20)
	source := sw.add("source", 8e6).seed(m, content)
	n := sw.add("node", 1e6)
	n.fetchSome(m.ID(), TransferConfig{Verifiers: 2}, paths(leasemgr.Normal, leasemgr.Skip, "01", "02"), source)
	sw.run(time.Minute, n)
	p := n.end.Last
	if n.end.Err != nil || p.Bytes != 2<<20 || p.Verified != 2<<20 || p.Pieces != 2 || p.Done != 2 || p.Files != 2 {
		t.Errorf("ended with %+v", n.end)
	}
	if n.asked > 2<<20 {
		t.Errorf("%d bytes were asked for", n.asked)
	}
	for i, e := range n.events {
		if plan, ok := e.(Planned); ok && (plan.Bytes != 2<<20 || plan.Pieces != 2 || plan.Files != 2) {
			t.Errorf("event %d: %+v", i, plan)
		}
	}
	if w := n.shares[m.ID()].wanted; len(w) != 4 || w[0] || !w[1] || !w[2] || w[3] {
		t.Errorf("the disk was told %v", w)
	}

	n.end = nil
	n.fetch(m.ID(), source)
	sw.run(time.Minute, n)
	n.complete(content)
	if p := n.end.Last; p.Resumed != 2<<20 || p.Bytes != int64(len(content)) {
		t.Errorf("resumed %d of %d", p.Resumed, p.Bytes)
	}
}

func TestNothingToFetchEndsAtOnce(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testFolder(t, 3<<20+5, 0)
	source := sw.add("source", 8e6).seed(m, content)
	n := sw.add("node", 1e6)
	n.fetchSome(m.ID(), TransferConfig{Verifiers: 2}, paths(leasemgr.Normal, leasemgr.Skip, "01"), source)
	sw.run(time.Minute, n)
	if n.end.Err != nil || n.asked != 0 {
		t.Errorf("ended with %+v, asked for %d bytes", n.end, n.asked)
	}
}

func TestAChoiceThatFailsEndsTheTransfer(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testFolder(t, 3<<20)
	source := sw.add("source", 8e6).seed(m, content)
	n := sw.add("node", 1e6)
	bad := errors.New("nothing matches")
	err := n.program.Fetch(context.Background(), FetchShare{Handle: Handle{Share: m.ID()}, Manifest: m, Disk: memDisk{n},
		Select: func(*share.Manifest) ([]leasemgr.Priority, error) { return nil, bad },
		Notify: func(e Event) {
			if end, ok := e.(Ended); ok {
				n.end = &end
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	sw.run(time.Minute, n)
	if !errors.Is(n.end.Err, bad) || n.shares[m.ID()] != nil {
		t.Errorf("ended with %v", n.end.Err)
	}
	_ = source
}

// order lists the files of a folder in the order in which they became complete.
func (n *simNode) order(m *share.Manifest, files int, d time.Duration) (out []string) {
	seen, had := map[int]bool{}, -1
	n.sw.w.RunUntil(func() bool {
		target := n.shares[m.ID()]
		if target == nil || target.have.Count() == had {
			return false
		}
		had = target.have.Count()
		for i := range m.Entries() {
			first, k := m.Layout().PiecesOf(i)
			whole := !seen[i]
			for p := first; whole && p < first+share.Piece(k); p++ {
				whole = target.have.Has(p)
			}
			if whole {
				seen[i] = true
				out = append(out, m.Entry(i).Path)
			}
		}
		return len(out) == files
	}, d)
	return out
}

func TestUrgentFilesComeFirst(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testFolder(t, 4<<20, 4<<20, 4<<20)
	source := sw.add("source", 1e6).seed(m, content)
	n := sw.add("node", 1e6)
	n.fetchSome(m.ID(), TransferConfig{Verifiers: 2}, func(e share.Entry) leasemgr.Priority {
		return map[string]leasemgr.Priority{"00": leasemgr.Low, "01": leasemgr.Normal, "02": leasemgr.High}[e.Path]
	}, source)
	got := n.order(m, 3, time.Minute)
	if len(got) != 3 || got[0] != "02" || got[1] != "01" || got[2] != "00" {
		t.Errorf("files came in the order %v", got)
	}
	sw.run(time.Minute, n)
	n.complete(content)
}

func TestPrioritiesChangeWhileItRuns(t *testing.T) {
	rig.Slow(t)
	sw := newSwarm(t, 1)
	m, content := testFolder(t, 8<<20, 8<<20, 8<<20)
	source := sw.add("source", 2e6).seed(m, content)
	n := sw.add("node", 1e6)
	n.fetch(m.ID(), source)
	set := func(p leasemgr.Priority, entries ...int) {
		t.Helper()
		if err := n.program.SetPriority(context.Background(), Handle{Share: m.ID()}, SetPriority{entries, p}); err != nil {
			t.Error(err)
		}
	}
	if err := n.program.SetPriority(context.Background(), Handle{Share: m.ID()}, SetPriority{[]int{0}, leasemgr.High}); !errors.Is(err, ErrOpening) {
		t.Errorf("too early: %v", err)
	}
	sw.w.Run(time.Second)
	set(leasemgr.Skip, 0, 1)
	p, _ := n.program.Progress(context.Background(), Handle{Share: m.ID()})
	if p.Bytes != 8<<20 || p.Pieces != 8 || p.Files != 1 || p.Verified > p.Bytes {
		t.Errorf("after Skip: %+v", p)
	}
	set(leasemgr.High, 1)
	if got := n.order(m, 2, time.Minute); len(got) != 2 || got[0] != "01" || got[1] != "02" {
		t.Errorf("files came in the order %v", got)
	}
	sw.run(time.Minute, n)
	last := n.end.Last
	if n.end.Err != nil || last.Verified != 16<<20 || last.Done != 16 || last.Pieces != 16 {
		t.Errorf("ended with %+v", n.end)
	}
	if err := n.program.SetPriority(context.Background(), Handle{Share: m.ID()}, SetPriority{[]int{0}, leasemgr.High}); err == nil {
		t.Error("a transfer that has ended took a new choice")
	}
}

// Giving up the only files that are missing finishes the transfer.
func TestSkippingWhatIsMissingFinishes(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testFolder(t, 1<<20, 8<<20)
	source := sw.add("source", 2e6).seed(m, content)
	n := sw.add("node", 1e6)
	n.fetchSome(m.ID(), TransferConfig{Verifiers: 1}, paths(leasemgr.High, leasemgr.Normal, "00"), source)
	if got := n.order(m, 1, time.Minute); len(got) != 1 || got[0] != "00" {
		t.Fatal(got)
	}
	sw.w.Run(time.Second)
	if err := n.program.SetPriority(context.Background(), Handle{Share: m.ID()}, SetPriority{[]int{1}, leasemgr.Skip}); err != nil {
		t.Fatal(err)
	}
	sw.run(5*time.Second, n)
	if last := n.end.Last; n.end.Err != nil || last.Verified != 1<<20 || last.Bytes != 1<<20 {
		t.Errorf("ended with %+v", n.end)
	}
}

// An explanation of missing pieces names the files that they belong to.
func TestMissingPiecesAreOfFiles(t *testing.T) {
	rig.Slow(t)
	for want, skipped := range map[string][]string{
		"00 to 02, pieces 0-5: ":          nil,
		"00, pieces 0-1: , 02, piece 5: ": {"01"},
		"00 to 01, pieces 0-4: ":          {"02"},
	} {
		sw := newSwarm(t, 1)
		m, _ := testFolder(t, 2<<20, 3<<20, 1<<20)
		n := sw.add("node", 1e6)
		n.known = m
		n.fetchSome(m.ID(), TransferConfig{Verifiers: 1}, paths(leasemgr.Skip, leasemgr.Normal, skipped...))
		sw.w.Run(time.Second)
		why, err := n.program.Why(t.Context(), Handle{Share: m.ID()})
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range why {
			what, _, _ := strings.Cut(line, "wanted")
			why[i] = what
		}
		if got := strings.Join(why, ", "); got != want {
			t.Errorf("without %v: got %q, want %q", skipped, got, want)
		}
	}
}
