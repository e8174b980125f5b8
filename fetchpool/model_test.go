package fetchpool

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// model is what must hold for a pool whose owner keeps the rules. It is driven by any
// events in any order, and checks every Todo.
type model struct {
	t      *rapid.T
	p      *Pool
	layout *share.Layout
	now    time.Time

	token  share.Token
	leases map[share.Piece]*modelLease // live ones
	ended  map[share.Token]bool
	reqs   map[uint64]*modelRequest // in flight
	lastID uint64
	room   int        // left in the node's budget
	scarce Permission // what the pool is told when there is none
	taken  int
	gone   bool
	wake   time.Time
}

type modelLease struct {
	Work
	blocks []blockState
	proven bool
}

type blockState uint8

const (
	missing blockState = iota
	requested
	here
)

type modelRequest struct {
	Request
	got int
}

const budget = 3 << 20

func newModel(t *rapid.T) *model {
	sizes := []int64{10, 64 << 10, 100 << 10, 1 << 20, 5<<20 + 7, 3 << 20, 200 << 10}
	m := &model{t: t, now: start, leases: map[share.Piece]*modelLease{}, ended: map[share.Token]bool{},
		reqs: map[uint64]*modelRequest{}, room: budget, scarce: NoMemory}
	m.layout = modelLayout
	if m.layout == nil {
		m.layout = layoutOf(nopTB{}, sizes...)
		modelLayout = m.layout
	}
	m.p = New(Config{MaxRequests: rapid.IntRange(1, 20).Draw(t, "pipeline"), MaxLeases: 6}, m.layout, rapid.Uint64().Draw(t, "seed"), m.now)
	return m
}

var modelLayout *share.Layout

// nopTB stands in for a testing.TB: a layout that cannot be made panics.
type nopTB struct{ testing.TB }

func (nopTB) Helper()           {}
func (nopTB) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

// next calls Next and checks its Todo.
func (m *model) next() {
	t := m.t
	state := m.p.State()
	todo := m.p.Next(m.now, func(n int) Permission {
		if n <= 0 || n > m.room {
			return m.scarce
		}
		m.room -= n
		m.taken += n
		return Granted
	})
	for _, r := range todo.Ended {
		was := m.reqs[r.ID]
		if was == nil || was.Request != r {
			t.Fatalf("request %+v ended, known as %+v", r, was)
		}
		delete(m.reqs, r.ID)
		m.room += r.Bytes
		m.taken -= r.Bytes
		if l := m.leases[r.Piece]; l != nil && l.Token == r.Token {
			for b := int(r.First); b < int(r.First)+r.Count; b++ {
				if l.blocks[b] == requested {
					l.blocks[b] = missing // unless finished, which the model notes itself
				}
			}
		}
	}
	for _, id := range todo.Cancel {
		if !slices.ContainsFunc(todo.Ended, func(r Request) bool { return r.ID == id }) {
			t.Fatalf("request %d cancelled and not ended", id)
		}
	}
	for _, r := range todo.Return {
		m.finish(r.Token, fmt.Sprint("returned: ", r.Why))
		if l := m.leases[r.Piece]; l != nil && l.Token == r.Token {
			delete(m.leases, r.Piece)
		}
	}
	m.settle()
	if (todo.Dial || todo.Subscribe || len(todo.Requests) > 0 || todo.Want > 0) && m.gone {
		t.Fatalf("a pool that is gone wants %+v", todo)
	}
	for _, r := range todo.Requests {
		m.request(r)
	}
	inFlight := 0
	for _, r := range m.reqs {
		inFlight += r.Bytes - r.got
	}
	n, window := m.p.InFlight()
	if n != inFlight {
		t.Fatalf("%d bytes in flight, the pool says %d", inFlight, n)
	}
	if len(todo.Requests) > 0 && n > window {
		t.Fatalf("%d bytes in flight of a window of %d", n, window)
	}
	if m.p.Leases() != len(m.leases) {
		t.Fatalf("%d leases, the pool says %d", len(m.leases), m.p.Leases())
	}
	if m.taken+m.room != budget || m.room < 0 {
		t.Fatalf("budget: %d taken and %d left of %d", m.taken, m.room, budget)
	}
	if todo.Gone != (m.p.State() == Gone) {
		t.Fatalf("gone: %v in state %v", todo.Gone, m.p.State())
	}
	if todo.Gone {
		m.gone = true
		if len(m.leases) > 0 || len(m.reqs) > 0 {
			t.Fatalf("gone with %d leases and %d requests", len(m.leases), len(m.reqs))
		}
	} else if m.gone {
		t.Fatal("came back from being gone")
	}
	if todo.Want > 0 && m.p.State() != Ready {
		t.Fatalf("wants leases in state %v", m.p.State())
	}
	if len(m.reqs) > 0 && todo.Wake.IsZero() {
		t.Fatal("requests in flight and no alarm")
	}
	if s := m.p.State(); (s == Dialing || s == Waiting || s == Subscribing) && todo.Wake.IsZero() {
		t.Fatalf("no alarm in state %v", s)
	}
	if m.p.Why() == "" {
		t.Fatalf("no reason in state %v", state)
	}
	m.wake = todo.Wake
}

// request checks a new request.
func (m *model) request(r Request) {
	t := m.t
	l := m.leases[r.Piece]
	switch {
	case r.ID <= m.lastID:
		t.Fatalf("request ID %d after %d", r.ID, m.lastID)
	case l == nil || l.Token != r.Token:
		t.Fatalf("request %+v without a live lease", r)
	case !m.layout.ValidRun(r.Piece, r.First, r.Count) || m.layout.RunSpan(r.Piece, r.First, r.Count).Len != r.Bytes:
		t.Fatalf("request %+v is not in its piece", r)
	case r.Bytes > 1<<20:
		t.Fatalf("request of %d bytes", r.Bytes)
	case m.p.State() != Ready:
		t.Fatalf("request in state %v", m.p.State())
	}
	m.lastID = r.ID
	for b := int(r.First); b < int(r.First)+r.Count; b++ {
		if l.blocks[b] != missing {
			t.Fatalf("request %+v for block %d, which is %v", r, b, l.blocks[b])
		}
		l.blocks[b] = requested
	}
	proofs := 0
	for _, x := range m.reqs {
		if x.Piece == r.Piece && x.Token == r.Token && x.Proof {
			proofs++
		}
	}
	if need := !l.proven && proofs == 0; r.Proof != need {
		t.Fatalf("request %+v: asks for the proof: %v, should: %v", r, r.Proof, need)
	}
	m.reqs[r.ID] = &modelRequest{Request: r}
}

// finish records the one end of a lease.
func (m *model) finish(token share.Token, how string) {
	if m.ended[token] {
		m.t.Fatalf("lease %d ended again: %s", token, how)
	}
	m.ended[token] = true
}

// settle ends the leases whose blocks have all arrived.
func (m *model) settle() {
	for p, l := range m.leases {
		if !slices.ContainsFunc(l.blocks, func(b blockState) bool { return b != here }) {
			busy := false
			for _, r := range m.reqs {
				busy = busy || r.Piece == p && r.Token == l.Token
			}
			if !busy {
				m.finish(l.Token, "finished")
				delete(m.leases, p)
			}
		}
	}
}

func (m *model) anyRequest() *modelRequest {
	ids := make([]uint64, 0, len(m.reqs))
	for id := range m.reqs {
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		m.t.Skip("no request")
	}
	slices.Sort(ids)
	return m.reqs[rapid.SampledFrom(ids).Draw(m.t, "request")]
}

// got records bytes of a request as the pool counts them.
func (m *model) got(r *modelRequest, n int) {
	r.got = min(r.got+n, r.Bytes)
	if l := m.leases[r.Piece]; l != nil && l.Token == r.Token && r.got > 0 && r.Proof {
		l.proven = true
	}
}

// came marks the blocks of a request that its bytes complete.
func (m *model) came(r *modelRequest) {
	if l := m.leases[r.Piece]; l != nil && l.Token == r.Token {
		whole := r.got / share.BlockSize
		if r.got == r.Bytes {
			whole = r.Count
		}
		for b := range whole {
			l.blocks[int(r.First)+b] = here
		}
	}
}

func (m *model) actions() map[string]func(*rapid.T) {
	on := func(f func(*rapid.T)) func(*rapid.T) {
		return func(t *rapid.T) {
			m.t = t
			f(t)
			m.next()
		}
	}
	return map[string]func(*rapid.T){
		"opened": on(func(t *rapid.T) {
			m.p.Opened(time.Duration(rapid.IntRange(0, 300).Draw(t, "ms"))*time.Millisecond, m.now)
			if rapid.Bool().Draw(t, "early") {
				m.p.Early(m.now)
			}
		}),
		"subscribed": on(func(t *rapid.T) { m.p.Subscribed(m.now) }),
		"declined": on(func(t *rapid.T) {
			m.p.Declined(time.Duration(rapid.IntRange(0, 60).Draw(t, "s"))*time.Second, "full", m.now)
		}),
		"lost": on(func(t *rapid.T) {
			if rapid.IntRange(0, 3).Draw(t, "rarely") == 0 {
				m.p.Lost(rapid.SampledFrom([]error{peers.ErrLost, peers.ErrUnreachable, peers.ErrProtocol}).Draw(t, "err"), m.now)
			}
		}),
		"grant":  on(m.grant),
		"grant2": on(m.grant),
		"revoke": on(func(t *rapid.T) {
			token := share.Token(rapid.Uint64Range(0, uint64(m.token)).Draw(t, "token"))
			piece := share.Piece(rapid.IntRange(0, m.layout.Pieces()-1).Draw(t, "piece"))
			if l := m.leases[piece]; l != nil && rapid.Bool().Draw(t, "live") {
				token = l.Token
			}
			m.p.Revoke(piece, token, m.now)
			if l := m.leases[piece]; l != nil && l.Token == token {
				m.finish(token, "revoked")
				delete(m.leases, piece)
			}
		}),
		"refused": on(func(t *rapid.T) {
			until := time.Time{}
			if rapid.Bool().Draw(t, "timed") {
				until = m.now.Add(time.Second)
			}
			m.p.Refused("", until, m.now)
		}),
		"available": on(func(t *rapid.T) { m.p.Available(m.now) }),
		"announced": on(func(t *rapid.T) { m.p.Announced(nil, m.now) }),
		"limited": on(func(t *rapid.T) {
			m.scarce = rapid.SampledFrom([]Permission{NoMemory, TooSoon}).Draw(t, "scarce")
			m.p.Limit(rapid.SampledFrom([]float64{0, 10e3, 1e6, 100e6}).Draw(t, "limit"), "this node", m.now)
		}),
		"arrived":   on(m.arrive),
		"arrived2":  on(m.arrive),
		"partial":   on(func(t *rapid.T) { m.p.Partial(m.anyRequest().ID, 100, m.now) }),
		"finished":  on(m.complete),
		"finished2": on(m.complete),
		"finished3": on(m.complete),
		"failed": on(func(t *rapid.T) {
			r := m.anyRequest()
			how := rapid.SampledFrom([]Outcome{Busy, Busy, Busy, NotFound, NotFound, Elsewhere, Elsewhere, NoShare}).Draw(t, "how")
			m.came(r)
			m.p.Failed(r.ID, how, time.Duration(rapid.IntRange(0, 5000).Draw(t, "retry"))*time.Millisecond, m.now)
		}),
		"stale": on(func(t *rapid.T) {
			id := m.lastID + uint64(rapid.IntRange(1, 9).Draw(t, "id"))
			m.p.Arrived(id, 5, m.now)
			m.p.Finished(id, m.now)
			m.p.Failed(id, NoShare, 0, m.now)
		}),
		"verified": on(func(t *rapid.T) {
			piece := share.Piece(rapid.IntRange(0, m.layout.Pieces()-1).Draw(t, "piece"))
			first := rapid.IntRange(0, m.layout.Blocks(piece)-1).Draw(t, "first")
			n := rapid.IntRange(1, m.layout.Blocks(piece)-first).Draw(t, "n")
			m.p.Verified(piece, share.Block(first), n, m.now)
			if l := m.leases[piece]; l != nil {
				for b := first; b < first+n; b++ {
					if l.blocks[b] == missing {
						l.blocks[b] = here
					}
				}
				for _, r := range m.reqs {
					if r.Piece == piece && r.Token == l.Token && r.got == 0 && int(r.First) >= first && int(r.First)+r.Count <= first+n {
						for b := range r.Count {
							l.blocks[int(r.First)+b] = here
						}
					}
				}
			}
		}),
		"wait": on(func(t *rapid.T) {
			m.now = m.now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond)
		}),
		"wake": on(func(t *rapid.T) {
			if m.wake.After(m.now) {
				m.now = m.wake
			}
		}),
		"stop": on(func(t *rapid.T) {
			if rapid.IntRange(0, 20).Draw(t, "rarely") == 0 {
				m.p.Stop("enough", m.now)
			}
		}),
	}
}

func (m *model) grant(t *rapid.T) {
	var works []Work
	for range rapid.IntRange(0, 3).Draw(t, "leases") {
		m.token++
		w := Work{
			Piece:  share.Piece(rapid.IntRange(0, m.layout.Pieces()).Draw(t, "piece")), // one too many
			Token:  m.token,
			Proven: rapid.Bool().Draw(t, "proven"),
			Hedge:  rapid.Bool().Draw(t, "hedge"),
		}
		if m.layout.Valid(w.Piece) && rapid.Bool().Draw(t, "begun") {
			w.Have = rapid.SliceOfN(rapid.Bool(), 0, m.layout.Blocks(w.Piece)).Draw(t, "have")
		}
		works = append(works, w)
	}
	before := len(m.p.todo.Return)
	m.p.Grant(works, m.now)
	refused := map[share.Token]bool{}
	for _, r := range m.p.todo.Return[before:] {
		refused[r.Token] = true
	}
	for _, w := range works {
		if old := m.leases[w.Piece]; old != nil {
			m.finish(old.Token, "replaced")
			delete(m.leases, w.Piece)
		}
		if refused[w.Token] {
			continue
		}
		l := &modelLease{Work: w, blocks: make([]blockState, m.layout.Blocks(w.Piece)), proven: w.Proven || m.layout.Blocks(w.Piece) == 1}
		for b := range w.Have {
			if w.Have[b] {
				l.blocks[b] = here
			}
		}
		m.leases[w.Piece] = l
	}
}

func (m *model) arrive(t *rapid.T) {
	r := m.anyRequest()
	n := rapid.IntRange(0, 300<<10).Draw(t, "bytes")
	m.p.Arrived(r.ID, n, m.now)
	m.got(r, n)
}

func (m *model) complete(t *rapid.T) {
	r := m.anyRequest()
	m.p.Finished(r.ID, m.now)
	m.got(r, r.Bytes)
	m.came(r)
}

// Invariant 35, and what DESIGN adds: every byte taken from the budget is given
// back once, every lease ends once, and nothing is asked for that is here, under
// way, or no longer leased.
func TestInvariant35BytesInFlightAreBoundedAndEveryLeaseEndsOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		m.next()
		m.p.Opened(10*time.Millisecond, m.now)
		m.next()
		m.p.Subscribed(m.now)
		m.next()
		t.Repeat(m.actions())
		m.t = t

		// Whatever the state: if nothing more happens, alarms alone end every request.
		until := m.now.Add(3 * time.Hour)
		for len(m.reqs) > 0 {
			if !m.wake.After(m.now) {
				m.now = m.now.Add(time.Millisecond) // due now
			} else {
				m.now = m.wake
			}
			if m.now.After(until) {
				t.Fatalf("requests still in flight: %v", m.reqs)
			}
			m.next()
		}
		m.p.Stop("end", m.now)
		m.next()
		for token := range m.token {
			if !m.ended[token+1] {
				t.Fatalf("lease %d never ended", token+1)
			}
		}
		if m.taken != 0 {
			t.Fatalf("%d bytes of the budget never came back", m.taken)
		}
	})
}

func TestSameEventsGiveTheSameAnswers(t *testing.T) {
	run := func() string {
		w := newWorld(t, Config{}, layoutOf(t, 64<<20, 10, 5<<20), 2e6, 30*time.Millisecond)
		w.to(start.Add(2 * time.Second))
		w.pool.Lost(errors.New("cut"), w.now)
		w.to(start.Add(10 * time.Second))
		return fmt.Sprint(w.arrived, w.sent, w.most, w.dials, w.back, w.pool.until, w.pool.win.size, w.pool.win.rate)
	}
	if a, b := run(), run(); a != b {
		t.Errorf("%s\n%s", a, b)
	}
}
