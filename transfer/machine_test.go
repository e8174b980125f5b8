package transfer

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
	"pgregory.net/rapid"
)

// machine has anything happen to a transfer, in any order.
type machine struct {
	*world
	r     *rapid.T
	names []peers.ID
	asked int // readers
}

// lostPieces is what a disk says that forgot some.
type lostPieces struct{ error }

func (lostPieces) LostPieces() []share.Piece { return []share.Piece{0} }
func (l lostPieces) Unwrap() error           { return l.error }

func newMachine(r *rapid.T) *machine {
	cfg := Config{
		MaxSources: rapid.IntRange(1, 3).Draw(r, "most sources"), Verifiers: rapid.IntRange(1, 2).Draw(r, "verifiers"),
		Stall: rapid.SampledFrom([]time.Duration{0, time.Second, 30 * time.Second}).Draw(r, "stall"), SyncBytes: 2 << 20,
		Keep: rapid.Bool().Draw(r, "keep"), Anonymous: rapid.Bool().Draw(r, "anonymous"),
	}
	if rapid.IntRange(0, 3).Draw(r, "fleet") == 0 {
		cfg.Fleet.Coordinator.ID = "seat"
	}
	fetch := Fetch{Share: theManifest.ID()}
	if rapid.Bool().Draw(r, "the manifest is known") {
		fetch.Manifest = theManifest
	}
	m := &machine{world: newWorld(r, cfg, fetch), r: r, names: []peers.ID{"p", "q", "r", "s", "t"}}
	return m
}

func (m *machine) name() peers.ID { return rapid.SampledFrom(m.names).Draw(m.r, "peer") }
func (m *machine) some(label string) bool {
	return rapid.Bool().Draw(m.r, label)
}

func (m *machine) err(label string, of ...error) error {
	return rapid.SampledFrom(append(of, nil)).Draw(m.r, label)
}

func (m *machine) aPiece() share.Piece {
	return share.Piece(rapid.IntRange(0, thePieces-1).Draw(m.r, "piece"))
}

func (m *machine) choice() Choice {
	if m.some("all") {
		return nil
	}
	c := make(Choice, theManifest.Len())
	for i := range c {
		c[i] = rapid.SampledFrom([]leasemgr.Priority{leasemgr.Normal, leasemgr.Skip, leasemgr.High, leasemgr.Low}).Draw(m.r, "priority")
	}
	return c
}

// steps are what may happen.
func (m *machine) steps() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"":         func(*rapid.T) { m.holds() },
		"found":    func(*rapid.T) { m.aSource() },
		"manifest": func(*rapid.T) { m.manifest() },
		"open":     func(*rapid.T) { m.anOpening() },
		"disk":     func(*rapid.T) { m.aWork() },
		"fails":    func(*rapid.T) { m.failure() },
		"status":   func(*rapid.T) { m.aStatus() },
		"lied":     func(*rapid.T) { m.aLie() },
		"blocks":   func(*rapid.T) { m.someBlocks() },
		"piece":    func(*rapid.T) { m.aWholePiece() },
		"plan":     func(*rapid.T) { m.aPlan() },
		"choose":   func(*rapid.T) { m.aChoice() },
		"read":     func(*rapid.T) { m.aReader() },
		"verifier": func(*rapid.T) { m.aVerifier() },
		"stop":     func(*rapid.T) { m.aStop() },
		"time": func(*rapid.T) {
			m.pass(rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, 10 * time.Second}).Draw(m.r, "time"))
		},
	}
}

func (m *machine) aSource() {
	x := SourceFound{Addr: peers.Addr{ID: m.name(), Addrs: []string{fmt.Sprint(rapid.IntRange(0, 6).Draw(m.r, "address"))}}, Via: peers.Via(rapid.IntRange(0, 3).Draw(m.r, "via"))}
	if rapid.IntRange(0, 9).Draw(m.r, "we ourselves") == 0 {
		x.Addr.ID = self
	}
	m.happens(func() { m.x.SourceFound(x, m.now) })
}

func (m *machine) manifest() {
	from := m.name()
	if !m.asks[from] {
		return
	}
	r := wire.Reply{Status: rapid.SampledFrom([]wire.Status{wire.OK, wire.OK, wire.Busy, wire.NotFound, wire.Gone, wire.Refused}).Draw(m.r, "status")}
	m.replied(from, r, m.err("error", nil, nil, peers.ErrUnreachable, peers.ErrLost, peers.ErrProtocol, share.ErrManifest))
}

func (m *machine) anOpening() {
	if _, opening := m.work.(Open); !opening {
		return
	}
	if err := m.err("error", nil, nil, share.ErrDiskFull); err != nil {
		m.opens(nil, err)
		return
	}
	chosen := m.work.(Open).Chosen
	if chosen == nil {
		chosen = m.choice()
	}
	var have []share.Piece
	for p := range share.Piece(thePieces) {
		if m.some("have") {
			have = append(have, p)
		}
	}
	m.opens(chosen, nil, have...)
}

func (m *machine) aWork() {
	if _, ok := m.work.(Work); !ok {
		return
	}
	m.worked(m.err("error", nil, nil, share.ErrDiskFull, errors.New("broken"), lostPieces{errors.New("lost")}, lostPieces{share.ErrDiskFull}), 100, rapid.Int64Range(-1, 200).Draw(m.r, "free"))
}

func (m *machine) failure() {
	late := m.x.restarts > 0 && !m.placed // of a run that has ended
	switch rapid.IntRange(0, 2).Draw(m.r, "of") {
	case 0:
		if m.verifiers > 0 || late {
			m.happens(func() {
				m.x.DiskFailed(rapid.SampledFrom([]error{share.ErrDiskFull, share.ErrDiskFull, errors.New("broken"), lostPieces{errors.New("lost")}, lostPieces{share.ErrDiskFull}}).Draw(m.r, "error"), m.now)
			})
		}
	case 1:
		if n := m.poolOf(m.name()); n != 0 {
			delete(m.pools, n)
			m.happens(func() { m.x.PoolFailed(n, m.now) })
		}
	default:
		if m.verifiers > 0 || late {
			m.happens(func() { m.x.WorkerFailed("verifier", "a test", m.now) })
		}
	}
}

func (m *machine) aStatus() {
	s := SourceStatus{Source: m.name(), State: rapid.SampledFrom([]SourceState{Connecting, Joining, Active, Resting}).Draw(m.r, "state"), Why: "it does something",
		Connected: m.some("connected"), Answered: m.some("answered"), Dials: rapid.IntRange(0, 7).Draw(m.r, "dials"), Held: m.some("held"), LastLoss: "refused"}
	if rapid.IntRange(0, 5).Draw(m.r, "gone") == 0 {
		s.State, s.Gone, s.Outcome = Left, true, m.err("outcome", share.ErrNotFound)
	}
	m.tells(s)
}

// tells makes the pool of a source tell its state, if there is one.
func (m *machine) tells(s SourceStatus) {
	if m.poolOf(s.Source) != 0 {
		m.status(s)
	}
}

func (m *machine) aLie() {
	id := m.name()
	m.happens(func() {
		m.x.SourceLied(SourceLied{Source: id, Kind: rapid.SampledFrom([]Lie{BadBlock, BadProof, Broken}).Draw(m.r, "lie")}, m.now)
	})
	if m.some("banned") {
		m.ban(id, rapid.SampledFrom([]time.Duration{time.Second, time.Hour}).Draw(m.r, "ban"))
	}
}

func (m *machine) someBlocks() {
	if m.verifiers+m.dying == 0 {
		return
	}
	p := m.aPiece()
	if m.have.Has(p) {
		return
	}
	n := (theManifest.Layout().PieceLen(p) + share.BlockSize - 1) / share.BlockSize
	b := share.Block(rapid.IntRange(0, n-1).Draw(m.r, "block"))
	if m.blocks[p] == nil || !m.blocks[p].Has(b) {
		m.blocksOf(m.name(), p, b, 1)
	}
}

func (m *machine) aWholePiece() {
	if p := m.aPiece(); m.leases && !m.have.Has(p) && m.blocks[p] == nil {
		m.piece(m.name(), p)
	}
}

func (m *machine) aPlan() {
	if m.leases || m.x.restarts > 0 && !m.placed { // the end of a run may be heard late
		m.x.Planned(PlanStatus{Leased: rapid.IntRange(0, 2).Draw(m.r, "leased"), Why: []string{"because"}})
		m.happens(func() { m.x.PlanDone(m.now) })
	}
}

func (m *machine) aChoice() {
	entries := []int{rapid.IntRange(0, theManifest.Len()-1).Draw(m.r, "entry")}
	as := rapid.SampledFrom([]leasemgr.Priority{leasemgr.Normal, leasemgr.Skip, leasemgr.High}).Draw(m.r, "priority")
	m.happens(func() { m.x.SetPriority(port("chooser"), entries, as, m.now) })
	if answer := got[PrioritySet](m.world); len(answer) != 1 {
		m.Fatalf("%d answers", len(answer))
	} else if answer[0].Err == nil {
		if m.chosen == nil {
			m.chosen = make(Choice, theManifest.Len())
		}
		m.chosen[entries[0]] = as
		for id, entry := range m.readers {
			if !m.chosen.wants(entry) {
				delete(m.readers, id)
			}
		}
	}
}

func (m *machine) aReader() {
	if len(m.readers) == 0 || m.some("another") {
		m.asked++
		who := port(fmt.Sprint("reader", m.asked))
		m.openers[who] = true
		m.happens(func() {
			m.x.OpenReader(who, rapid.SampledFrom([]string{"a", "b", "d", "e", "nowhere"}).Draw(m.r, "path"), m.now)
		})
		return
	}
	ids := make([]leasemgr.Reader, 0, len(m.readers))
	for id := range m.readers {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	id := rapid.SampledFrom(ids).Draw(m.r, "reader")
	who := port(fmt.Sprint("wait", id))
	delete(m.waits, who) // nobody waits twice
	if m.some("close") {
		delete(m.readers, id)
		m.happens(func() { m.x.CloseReader(id, m.now) })
		return
	}
	off := rapid.Int64Range(-1, theManifest.Entry(m.readers[id]).Size+1).Draw(m.r, "offset")
	if !m.some("wait") || off < 0 {
		m.happens(func() { m.x.MoveReader(id, off, 1<<20, peers.Port{}, m.now) })
		return
	}
	m.waits[who] = MoveOf{m.readers[id], off}
	m.happens(func() { m.x.MoveReader(id, off, 1<<20, who, m.now) })
}

func (m *machine) aVerifier() {
	if m.dying > 0 {
		m.dying--
		m.happens(func() { m.x.VerifierGone(m.now) })
	}
}

func (m *machine) aStop() {
	if rapid.IntRange(0, 9).Draw(m.r, "stop") == 0 {
		m.happens(func() { m.x.Stop(m.now) })
	}
}

// holds checks what is counted.
func (m *machine) holds() {
	p := m.progress()
	if m.x.ending != nil && m.over == nil && m.work == nil && m.dying == 0 {
		m.Fatalf("it waits for nothing, and is not over")
	}
	if m.x.have == nil || m.x.again || m.x.ending != nil || !m.placed {
		return
	}
	l := theManifest.Layout()
	var bytes, verified int64
	pieces, done := 0, 0
	for i := range share.Piece(l.Pieces()) {
		if !m.chosen.wants(l.PieceSpan(i).Entry) {
			continue
		}
		n := l.PieceLen(i)
		bytes += int64(n)
		pieces++
		switch b := m.blocks[i]; {
		case m.have.Has(i):
			done++
			verified += int64(n)
		case b != nil:
			for k := range (n + share.BlockSize - 1) / share.BlockSize {
				if b.Has(share.Block(k)) {
					verified += int64(l.RunSpan(i, share.Block(k), 1).Len)
				}
			}
		}
	}
	if p.Bytes != bytes || p.Verified != verified || p.Pieces != pieces || p.Done != done {
		m.Fatalf("it counts %d of %d bytes and %d of %d pieces, and there are %d of %d and %d of %d", p.Verified, p.Bytes, p.Done, p.Pieces, verified, bytes, done, pieces)
	}
}

// Whatever happens, in whatever order, what is to be done can be done, what is counted is
// right, and what was begun ends.
func TestAnythingMayHappenToATransfer(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		m := newMachine(r)
		r.Repeat(m.steps())
		// From here on only the disk does what it is told; nothing else ever comes.
		for _, id := range m.names {
			m.tells(SourceStatus{Source: id, State: Active, Why: "says nothing"})
		}
		for calls := 0; m.over == nil; calls++ {
			if calls > 100 {
				r.Fatalf("it does not end: %v because of %q, working on %v", m.progress().State, m.progress().Reason, m.work)
			}
			switch what := m.work.(type) {
			case Open:
				m.opens(what.Chosen, nil)
			case Work:
				m.worked(nil, 100, 50)
			default:
				m.ends()
				m.pass(time.Minute)
			}
		}
		if last := m.over.Last; last.State != Complete && last.State != Failed || (m.over.Err == nil) != (last.State == Complete) {
			r.Errorf("it ends as %v with %v", last.State, m.over.Err)
		}
	})
}
