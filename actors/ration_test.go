package actors

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/share"
)

// limited is a swarm with one node that fetches under a limit, and what its lease
// manager was told that counts against a source.
type limited struct {
	*swarm
	node   *simNode
	m      *share.Manifest
	lost   int // leases that missed a deadline, or were taken away
	hedges int
}

func newLimited(t *testing.T, limit int64, bytes, sources int, rate float64, cfg TransferConfig) *limited {
	l := &limited{swarm: newSwarm(t, 1)}
	m, content := testShare(t, bytes)
	l.m = m
	l.w.Observe = func(d system.Delivery) {
		switch m := d.Message.(type) {
		case LeaseReturned:
			for _, r := range m.Leases {
				if r.Why == leasemgr.Missed {
					l.lost++
				}
			}
		case LeaseResponse:
			for _, x := range m.Leases {
				if x.Hedge {
					l.hedges++
				}
			}
		case LeaseRevoked:
			l.lost += len(m.Leases)
		}
	}
	var from []*simNode
	for i := range sources {
		from = append(from, l.add(fmt.Sprint("source", i), rate).seed(m, content))
	}
	l.node = l.add("node", 1e6, func(d *Deps) { d.DownloadRate = limit })
	cfg.Verifiers = 2
	l.node.fetchWith(m.ID(), cfg, from...)
	return l
}

// asked returns how many bytes are asked for in the next d.
func (l *limited) asked(d time.Duration) int64 {
	before := l.node.asked
	l.w.Run(d)
	return l.node.asked - before
}

func (l *limited) progress() Progress {
	p, err := l.node.program.Progress(context.Background(), Handle{Share: l.m.ID()})
	if err != nil {
		l.t.Fatal(err)
	}
	return p
}

func within(got int64, want, tolerance float64) bool {
	return math.Abs(float64(got)-want) <= tolerance*want
}

func TestTheDownloadLimitHolds(t *testing.T) {
	rig.Slow(t)
	for _, c := range []struct {
		limit   int64
		sources int
	}{{1e6, 1}, {1e6, 3}, {10e6, 1}, {10e6, 3}, {200e3, 3}} {
		t.Run(fmt.Sprint(c.limit, " from ", c.sources), func(t *testing.T) {
			l := newLimited(t, c.limit, int(c.limit)*14+16<<20, c.sources, 50e6, TransferConfig{})
			first := int64(0)
			for i := range 100 { // at no moment more than the limit has allowed since the start
				first += l.asked(100 * time.Millisecond)
				if most := float64(c.limit)*float64(i+1)/10 + share.BlockSize; float64(first) > most {
					t.Errorf("%d bytes were asked for in the first %d ms", first, 100*(i+1))
				}
			}
			before := l.progress().Verified
			l.w.Run(3 * time.Second)
			p := l.progress()
			if got := p.Verified - before; !within(got, 3*float64(c.limit), 0.03+2*share.BlockSize/(3*float64(c.limit))) {
				t.Errorf("%d bytes came in 3 s", got)
			}
			if !within(first, 10*float64(c.limit), 0.03) {
				t.Errorf("%d bytes were asked for in 10 s", first)
			}
			if l.lost > 0 || p.Duplicate > 0 {
				t.Errorf("%d leases were lost, %d bytes came twice", l.lost, p.Duplicate)
			}
			for _, s := range p.Sources {
				if s.Bytes < p.Verified/int64(5*c.sources) || s.Why != "paced by the download limit of this node" {
					t.Errorf("%s gave %d bytes: %q", s.Peer, s.Bytes, s.Why)
				}
			}
		})
	}
}

func TestTheDownloadLimitIsOfAllTransfersTogether(t *testing.T) {
	l := newLimited(t, 1e6, 16e6, 1, 50e6, TransferConfig{})
	other, content := testShare(t, 15e6)
	l.node.fetch(other.ID(), l.add("other", 50e6).seed(other, content))
	if got := l.asked(10 * time.Second); !within(got, 10e6, 0.03) {
		t.Errorf("%d bytes were asked for in 10 s", got)
	}
}

// A transfer may have a limit within the node's, which can change; other transfers get what
// it leaves.
func TestATransferHasALimitOfItsOwn(t *testing.T) {
	rig.Slow(t)
	l := newLimited(t, 4e6, 80e6, 2, 50e6, TransferConfig{})
	other, content := testShare(t, 120e6)
	l.node.fetch(other.ID(), l.add("other", 50e6).seed(other, content))
	h := Handle{Share: l.m.ID()}
	for _, limit := range []int64{1e6, 200e3, 0, 8e6, 2e6} {
		l.node.program.SetTransferRate(h, limit)
		l.w.Run(time.Second)
		before := l.progress().Verified
		if all := l.asked(5 * time.Second); !within(all, 20e6, 0.05) {
			t.Errorf("below a limit of %d for one transfer, both asked for %d bytes in 5 s", limit, all)
		}
		want := 5 * float64(limit)
		if limit == 0 || limit > 4e6 {
			want = 5 * 4e6 * 2 / 3 // two of three sources
		}
		if got := l.progress().Verified - before; !within(got, want, 0.06+3*share.BlockSize/want) {
			t.Errorf("below a limit of %d, %d bytes came in 5 s, want %.0f", limit, got, want)
		}
	}
	if l.lost > 0 {
		t.Errorf("%d leases were lost", l.lost)
	}
}

func TestTheDownloadLimitCanChange(t *testing.T) {
	rig.Slow(t)
	l := newLimited(t, 0, 120e6, 3, 10e6, TransferConfig{})
	if free := l.asked(time.Second); free < 15e6 {
		t.Errorf("%d bytes were asked for in a second without a limit", free)
	}
	for _, limit := range []int64{1e6, 4e6, 100e3, 2e6} {
		l.node.program.SetDownloadRate(limit)
		l.w.Run(time.Second)
		if got := l.asked(4 * time.Second); !within(got, 4*float64(limit), 0.05+2*share.BlockSize/(4*float64(limit))) {
			t.Errorf("%d bytes were asked for in the 4 s after a second below a limit of %d", got, limit)
		}
	}
	l.node.program.SetDownloadRate(0)
	l.w.Run(time.Second)
	if free := l.asked(500 * time.Millisecond); free < 12e6 {
		t.Errorf("%d bytes were asked for in half a second after the limit was lifted", free)
	}
	if l.lost > 0 {
		t.Errorf("%d leases were lost", l.lost)
	}
}

func TestATinyDownloadLimitLosesNoLease(t *testing.T) {
	for _, c := range []struct {
		limit          int64
		bytes, sources int
	}{{10e3, 1 << 20, 1}, {10e3, 2<<20 + 7, 3}, {500, 256 << 10, 2}} {
		t.Run(fmt.Sprint(c.limit, " from ", c.sources), func(t *testing.T) {
			l := newLimited(t, c.limit, c.bytes, c.sources, 50e6, TransferConfig{Stall: 20 * time.Second})
			l.run(time.Duration(1.1*float64(c.bytes)/float64(c.limit))*time.Second, l.node)
			p := l.node.end.Last
			if l.node.end.Err != nil || l.lost > 0 || l.hedges > 0 || p.Duplicate > 0 {
				t.Errorf("%d leases were lost, %d hedged, %d bytes came twice: %v", l.lost, l.hedges, p.Duplicate, l.node.end.Err)
			}
			said := false
			for _, e := range l.node.events {
				if s, ok := e.(Stalled); ok {
					said = said || strings.Contains(s.Reason, "paced by the download limit")
				}
			}
			if !said {
				t.Error("the wait was not explained")
			}
		})
	}
}

// A source's faults are noticed under a limit as well.
func TestADownloadLimitExcusesNoSource(t *testing.T) {
	l := newLimited(t, 1e6, 8e6, 2, 50e6, TransferConfig{})
	l.w.After(2*time.Second, func() { l.order[0].mute = true })
	l.run(20*time.Second, l.node)
	if l.node.end.Err != nil {
		t.Error(l.node.end.Err)
	}
}

func TestWhyNamesTheDownloadLimit(t *testing.T) {
	for own, want := range map[int64]string{
		0:    "paced by the download limit of this node: it asks for at most 20.0 kB a second, from all sources together",
		10e3: "paced by the download limit of this fetch: it asks for at most 10.0 kB a second, from all sources together",
		30e3: "paced by the download limit of this node: it asks for at most 20.0 kB a second, from all sources together",
	} {
		l := newLimited(t, 20e3, 8<<20, 1, 50e6, TransferConfig{})
		l.node.program.SetTransferRate(Handle{Share: l.m.ID()}, own)
		l.w.Run(5 * time.Second)
		why, err := l.node.program.Why(context.Background(), Handle{Share: l.m.ID()})
		if last := strings.Join(why, "\n"); err != nil || !strings.HasSuffix(last, want) {
			t.Errorf("%v\n%s", err, last)
		}
		if why := l.progress().Sources[0].Why; why == "" || !strings.HasPrefix(want, why+": ") {
			t.Errorf("%q of the source, and %q of the fetch", why, want)
		}
	}
}

// The limit is not said to hold up what is slow by itself.
func TestASlowSourceIsNotPacedByTheDownloadLimit(t *testing.T) {
	l := newLimited(t, 1e6, 8<<20, 1, 110e3, TransferConfig{})
	l.w.Run(5 * time.Second)
	for range 20 {
		l.w.Run(170 * time.Millisecond)
		why, err := l.node.program.Why(context.Background(), Handle{Share: l.m.ID()})
		if all := strings.Join(append(why, l.progress().Sources[0].Why), "\n"); err != nil || len(why) == 0 || strings.Contains(all, "paced") {
			t.Fatalf("%v\n%s", err, all)
		}
	}
}

func TestAfterAPauseTheDownloadLimitLetsNoMoreThanABurstThrough(t *testing.T) {
	w := system.NewWorld(1)
	s := system.NewSystem(w.Runtime("a"), "a", nil, nil)
	defer s.Close(context.Background())
	r := NewRation(s, 8e6)
	p := r.For(nil)
	w.Run(time.Minute)
	got := 0
	for p.due(share.BlockSize, w.Now()) {
		p.spend(share.BlockSize, w.Now())
		got += share.BlockSize
	}
	if most := 8e6*burstTime.Seconds() + share.BlockSize; float64(got) > most {
		t.Errorf("%d bytes at once", got)
	}
	if wait := p.wait().Sub(w.Now()); wait <= 0 || wait > 10*time.Millisecond {
		t.Errorf("the next turn is in %v", wait)
	}
	p.cancel(w.Now())
	if !p.wait().IsZero() {
		t.Error("a turn that was given up is still waited for")
	}
	p.due(share.BlockSize, w.Now())
	p.spend(10*share.BlockSize, w.Now()) // more than was booked: paid for later
	if p.due(share.BlockSize, w.Now()); p.wait().Sub(w.Now()) < 70*time.Millisecond {
		t.Errorf("after a large request the next turn is in %v", p.wait().Sub(w.Now()))
	}
	p.close(w.Now())
	if len(r.turns) != 0 {
		t.Error("the part of a pool that has ended is kept")
	}
}

// A member of a fleet that waits for its own limit keeps what the coordinator leased to it.
func TestAMemberWithADownloadLimitKeepsItsLeases(t *testing.T) {
	f := newFleet(t, 1, 1<<20, 1, 20e6)
	f.coordinate(f.members...)
	m := f.members[0]
	m.program.SetDownloadRate(2500) // a block takes longer than a lease of the coordinator lasts
	taken := 0
	f.w.Observe = func(d system.Delivery) {
		if m, ok := d.Message.(LeaseRevoked); ok {
			taken += len(m.Leases)
		}
	}
	f.join(m)
	f.w.Run(3 * time.Minute)
	if taken > 0 || m.asked < 6*share.BlockSize {
		t.Errorf("%d leases were taken away, %d bytes asked for", taken, m.asked)
	}
	m.program.SetDownloadRate(0)
	f.run(10*time.Second, m)
	m.complete(f.content)
}

// The reported rate of a source is what was verified from it lately, whatever its line
// could do; so the rates of the sources add up to that of the transfer.
func TestRatesOfSourcesAddUp(t *testing.T) {
	l := newLimited(t, 1e6, 16e6, 3, 50e6, TransferConfig{})
	l.w.Run(200 * time.Millisecond)
	for range 20 {
		l.w.Run(300 * time.Millisecond)
		p, sum := l.progress(), 0.0
		for _, s := range p.Sources {
			sum += s.Rate
		}
		if !within(int64(sum), p.Rate, 0.15) || p.File != "file" {
			t.Errorf("the sources give %.0f bytes a second, the transfer gets %.0f, at last of %q", sum, p.Rate, p.File)
		}
	}
}
