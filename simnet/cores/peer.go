package cores

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/piecelease/fetcher/fetchpool"
	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/verifier"
)

const (
	maxSources  = 12
	maxChildren = 4096
	maxNamed    = 32
	gather      = 100 * time.Millisecond // new pieces are gathered this long before children hear of them
	noAnswer    = 3 * time.Second        // to a dial
	noticedMin  = 10 * time.Second       // after a death, by peers that had a connection
	noticedMax  = 40 * time.Second
)

// peer is one member of the swarm. Its cores belong to it alone.
type peer struct {
	w              *world
	n              int32
	id             peers.ID
	up, down       float64 // bytes per second
	latency        time.Duration
	liar, leaver   bool
	came           time.Duration
	have           *share.Set
	upAt, downAt   time.Duration // when its line is free, each way
	alarm          time.Duration // the earliest that is set; 0: none
	fetch          *fetch        // nil: it has all of it
	uploads        *peers.Uploads
	job            peers.Job
	jobs           map[peers.Job]*job
	byAsker        map[asker]peers.Job
	order          []int32 // its children as they came
	children       map[int32]bool
	turns          peers.Turns // of its children, to be named
	news           []share.Piece
	flushes, ended bool
}

// fetch is what a peer needs until it is whole.
type fetch struct {
	leases   *leasemgr.Manager
	verifier *verifier.Verifier
	ranking  *peers.Ranking
	conns    []*conn
}

// conn is a source of a peer.
type conn struct {
	to       int32
	id       peers.ID
	pool     *fetchpool.Pool
	link     int // the number of links opened so far; what an older one reports is ignored
	requests map[uint64]fetchpool.Request
	wake     time.Time
	look     bool // its pool is to be asked what to do
}

func idOf(n int32) peers.ID { return peers.ID(fmt.Sprintf("peer%06d", n)) }

func (p *peer) whole() bool { return p.have.Full() }

// begin starts to fetch from the one source that is known.
func (p *peer) begin() {
	now, seed := p.w.time(), p.w.rng.Uint64()
	p.fetch = &fetch{
		leases:   leasemgr.New(leasemgr.Config{}, leasemgr.Plan{Layout: p.w.c.m.Layout(), Epoch: 1, Seed: seed}, now),
		verifier: verifier.New(p.w.c.m),
		ranking:  peers.NewRanking(peers.RankingConfig{}),
	}
	p.find(0)
	p.settle()
}

// find makes another peer a source.
func (p *peer) find(n int32) {
	f := p.fetch
	if f == nil || n == p.n || len(f.conns) >= maxSources || slices.ContainsFunc(f.conns, func(c *conn) bool { return c.to == n }) {
		return
	}
	c := &conn{to: n, id: idOf(n), requests: map[uint64]fetchpool.Request{}, look: true,
		pool: fetchpool.New(fetchpool.Config{}, p.w.c.m.Layout(), p.w.rng.Uint64(), p.w.time())}
	f.conns = append(f.conns, c)
	f.leases.AddSource(c.id, p.w.time())
}

// trip is how long a message takes to another peer.
func (p *peer) trip(to int32) time.Duration {
	if q := p.w.peers[to]; q != nil {
		return p.latency + q.latency
	}
	return p.latency
}

// tell makes something happen at another peer when a message has reached it.
func (p *peer) tell(to int32, do func(*peer)) { p.w.after(p.trip(to), to, do) }

// settle does what the cores want done, until they want nothing more.
func (p *peer) settle() {
	for p.fetch != nil {
		i := slices.IndexFunc(p.fetch.conns, func(c *conn) bool { return c.look })
		if i < 0 {
			break
		}
		p.step(p.fetch.conns[i])
	}
	if p.fetch != nil && p.whole() {
		p.finish()
	}
	if !p.ended {
		p.setAlarm()
	}
}

// step is what the actor of a source does after each message.
func (p *peer) step(c *conn) {
	f, now := p.fetch, p.w.time()
	c.look = false
	todo := c.pool.Next(now, func(int) fetchpool.Permission { return fetchpool.Granted })
	for _, id := range todo.Cancel {
		a := asker{p.n, c.link, id}
		p.tell(c.to, func(q *peer) { q.cancelled(a) })
	}
	for _, r := range todo.Ended {
		delete(c.requests, r.ID)
	}
	for _, b := range todo.Return {
		p.giveBack(c, b)
	}
	if todo.Close || todo.Gone {
		c.link++
		p.do(f.leases.SetHave(c.id, nil, now))
	}
	if todo.Dial {
		p.dial(c)
	}
	if todo.Subscribe {
		link := c.link
		p.tell(c.to, func(q *peer) { q.subscribe(p.n, link) })
	}
	if len(todo.Believe) > 0 {
		p.do(f.leases.Have(c.id, slices.Clone(todo.Believe), now))
		c.pool.Available(now)
		c.look = true
	}
	for _, r := range todo.Requests {
		c.requests[r.ID] = r
		a := asker{p.n, c.link, r.ID}
		p.tell(c.to, func(q *peer) { q.asked(a, r) })
	}
	c.wake = todo.Wake
	if todo.Gone {
		p.do(f.leases.RemoveSource(c.id, now))
		return
	}
	if todo.Want > 0 {
		p.ask(c, todo.Want)
	}
}

// ask passes leases from the lease manager to a pool.
func (p *peer) ask(c *conn, n int) {
	f, now := p.fetch, p.w.time()
	if rate, rtt, known := c.pool.Measure(); known {
		p.do(f.leases.Measured(c.id, rate, rtt, now))
	}
	leases, refused := f.leases.Acquire(c.id, n, now)
	works := make([]fetchpool.Work, len(leases))
	for i, l := range leases {
		works[i] = fetchpool.Work{Piece: l.Piece, Token: l.Token, Hedge: l.Hedge, Urgent: l.Urgent, Pressed: l.Pressed}
		works[i].Have, works[i].Proven = f.verifier.State(l.Piece)
	}
	c.pool.Grant(works, now)
	if refused.Reason != 0 {
		c.pool.Refused(refused.String(), refused.Until, now)
	}
	c.look = true
}

func (p *peer) giveBack(c *conn, b fetchpool.Return) {
	f, now := p.fetch, p.w.time()
	switch b.Why {
	case fetchpool.GivenToOthers:
		p.do(f.leases.Defer(c.id, b.Piece, b.Token, b.Retry, now))
	case fetchpool.MissedDeadline:
		p.missed(c)
		p.do(f.leases.Fail(c.id, b.Piece, b.Token, leasemgr.Missed, now))
	case fetchpool.NoSuchPiece:
		p.do(f.leases.Fail(c.id, b.Piece, b.Token, leasemgr.NotFound, now))
	default:
		p.do(f.leases.Fail(c.id, b.Piece, b.Token, leasemgr.GaveBack, now))
	}
}

// do does what the actor of the leases does with a Todo.
func (p *peer) do(todo leasemgr.Todo) {
	now := p.w.time()
	for _, l := range todo.Expired {
		if c := p.source(l.Source); c != nil {
			p.missed(c)
			c.pool.Revoke(l.Piece, l.Token, now)
			c.look = true
		}
	}
	for _, l := range todo.Revoked {
		if c := p.source(l.Source); c != nil {
			c.pool.Revoke(l.Piece, l.Token, now)
			c.look = true
		}
	}
	for _, id := range todo.Wake {
		if c := p.source(id); c != nil {
			c.pool.Available(now)
			c.look = true
		}
	}
}

func (p *peer) source(id peers.ID) *conn {
	for _, c := range p.fetch.conns {
		if c.id == id {
			return c
		}
	}
	return nil
}

func (p *peer) missed(c *conn) { p.fetch.ranking.Missed(c.id, p.w.time()) }

func (p *peer) dial(c *conn) {
	c.link++
	link, q := c.link, p.w.peers[c.to]
	if q == nil {
		p.w.after(noAnswer, p.n, func(p *peer) { p.on(c, link, func() { c.pool.Lost(peers.ErrUnreachable, p.w.time()) }) })
		return
	}
	rtt := 2 * p.trip(c.to)
	p.w.after(2*rtt, p.n, func(p *peer) {
		p.on(c, link, func() {
			if p.w.peers[c.to] == nil {
				c.pool.Lost(peers.ErrUnreachable, p.w.time())
			} else {
				c.pool.Opened(rtt, p.w.time())
			}
		})
	})
}

// on does something with a source, if it is still fetched from over the same link.
func (p *peer) on(c *conn, link int, do func()) {
	if p.fetch != nil && c.link == link {
		do()
		c.look = true
	}
}

// from finds the link over which a peer sends to us.
func (p *peer) from(n int32, link int, do func(*conn)) {
	if p.fetch == nil {
		return
	}
	for _, c := range p.fetch.conns {
		if c.to == n && (c.link == link || link == anyLink) {
			do(c)
			c.look = true
		}
	}
}

const anyLink = -1

// arrived handles what comes in for a request.
func (p *peer) arrived(c *conn, id uint64, data []byte) {
	f, now := p.fetch, p.w.time()
	r, ok := c.requests[id]
	if !ok {
		p.w.twice += int64(len(data)) // it came despite a Cancel
		return
	}
	c.pool.Arrived(id, len(data), now)
	p.do(f.leases.Progress(c.id, r.Piece, r.Token, len(data), now))
	c.pool.Finished(id, now)
	p.w.bytes += int64(len(data))
	if r.Proof {
		if err := f.verifier.Proof(r.Piece, c.id, p.w.c.proofs[r.Piece]); err != nil {
			p.w.fault("%s: a correct proof is refused: %v", p.id, err)
		}
	}
	verdict := f.verifier.Check(r.Piece, r.First, c.id, data)
	p.w.twice += int64(verdict.Duplicate)
	var done *verifier.Completion
	for _, run := range verdict.Write {
		f.leases.Begun(r.Piece)
		f.ranking.Verified(c.id, int64(len(run.Data)), now)
		done = f.verifier.Wrote(r.Piece, run.First, run.Blocks(), c.id, r.Token)
		for _, other := range f.conns {
			if other != c && other.pool.Leases() > 0 {
				other.pool.Verified(r.Piece, run.First, run.Blocks(), now)
				other.look = true
			}
		}
	}
	if done != nil {
		p.complete(done)
	}
	if len(verdict.Bad) > 0 {
		p.lied(c, r)
	} else if verdict.Err != nil {
		p.do(f.leases.Fail(c.id, r.Piece, r.Token, leasemgr.GaveBack, now))
	}
}

func (p *peer) complete(done *verifier.Completion) {
	tokens := make([]share.Token, len(done.Credits))
	for i, c := range done.Credits {
		tokens[i] = c.Token
	}
	p.have.Add(done.Piece)
	if p.news = append(p.news, done.Piece); !p.flushes && len(p.order) > 0 {
		p.flushes = true
		p.w.after(gather, p.n, (*peer).flush)
	}
	p.do(p.fetch.leases.Verified(done.Piece, p.w.time(), tokens...))
}

func (p *peer) lied(c *conn, r fetchpool.Request) {
	f, now := p.fetch, p.w.time()
	if q := p.w.peers[c.to]; q != nil && !q.liar {
		p.w.fault("%s says that %s, which is honest, lied", p.id, c.id)
	}
	banned := f.ranking.Lied(c.id, false, now)
	p.do(f.leases.Fail(c.id, r.Piece, r.Token, leasemgr.BadData, now))
	p.do(f.leases.Rank(c.id, f.ranking.Score(c.id, now), banned, now))
	c.pool.Revoke(r.Piece, r.Token, now)
	if banned {
		c.pool.Stop("banned", now)
	}
	c.look = true
}

// finish ends the fetching of a peer that is whole, and checks what is left.
func (p *peer) finish() {
	f, now, w := p.fetch, p.w.time(), p.w
	if wanted, leased, verified := f.leases.Counts(); wanted != 0 || leased != 0 || verified != w.c.pieces() {
		w.fault("%s is whole, with %d pieces wanted, %d leased and %d verified", p.id, wanted, leased, verified)
	}
	for _, c := range f.conns {
		c.pool.Stop("all is here", now)
		for range 2 { // once for what ends, once to see that nothing is left
			p.step(c)
		}
		if bytes, _ := c.pool.InFlight(); bytes != 0 || c.pool.Leases() != 0 || len(c.requests) != 0 {
			w.fault("%s is whole, with %d bytes in flight from %s in %d requests and %d leases", p.id, bytes, c.id, len(c.requests), c.pool.Leases())
		}
		p.tell(c.to, func(q *peer) { q.lost(p.n) })
	}
	p.fetch = nil
	took := w.now - p.came
	w.sum += took
	w.left--
	w.res.Whole++
	w.res.Slowest = max(w.res.Slowest, took)
	if p.leaver {
		p.leave()
		return
	}
	w.after(w.cfg.Stay, p.n, (*peer).leave)
}

// leave says goodbye.
func (p *peer) leave() {
	for _, n := range p.order {
		me := p.n
		p.tell(n, func(q *peer) {
			q.from(me, anyLink, func(c *conn) { c.pool.Lost(peers.ErrLost, q.w.time()) })
		})
	}
	p.gone()
}

// die says nothing. Peers that had a connection find out some time later.
func (p *peer) die() {
	if p.fetch == nil {
		return // it is whole: it will leave
	}
	noticed := func() time.Duration {
		return noticedMin + time.Duration(p.w.rng.Int64N(int64(noticedMax-noticedMin)))
	}
	me := p.n
	for _, c := range p.fetch.conns {
		p.w.after(noticed(), c.to, func(q *peer) { q.lost(me) })
	}
	for _, n := range p.order {
		p.w.after(noticed(), n, func(q *peer) {
			q.from(me, anyLink, func(c *conn) { c.pool.Lost(peers.ErrLost, q.w.time()) })
		})
	}
	p.w.left--
	p.w.res.Died++
	p.fetch = nil
	p.gone()
}

func (p *peer) gone() {
	p.ended = true
	p.w.there--
	p.w.peers[p.n] = nil
}

// setAlarm makes sure that a core is told the time when it wants it.
func (p *peer) setAlarm() {
	at := time.Duration(math.MaxInt64)
	sooner := func(t time.Time) {
		if !t.IsZero() {
			at = min(at, max(p.w.now, t.Sub(epoch)))
		}
	}
	if p.fetch != nil {
		sooner(p.fetch.leases.Wake())
		for _, c := range p.fetch.conns {
			sooner(c.wake)
		}
	}
	if p.uploads != nil {
		sooner(p.uploads.Wake())
	}
	if at == math.MaxInt64 || p.alarm != 0 && p.alarm <= at {
		return
	}
	p.alarm = at
	p.w.after(at-p.w.now, p.n, (*peer).ring)
}

func (p *peer) ring() {
	now := p.w.time()
	p.alarm = 0
	if f := p.fetch; f != nil {
		if at := f.leases.Wake(); !at.IsZero() && !at.After(now) {
			p.do(f.leases.Expire(now))
		}
		for _, c := range f.conns {
			c.look = c.look || !c.wake.IsZero() && !c.wake.After(now)
		}
	}
	if p.uploads != nil {
		next, busy := p.uploads.Tick(now)
		p.serve(next)
		for _, j := range busy {
			p.refuse(j, fetchpool.Busy, time.Second)
		}
		p.sendElsewhere()
	}
}

// why is what a peer waits for.
func (p *peer) why() string {
	var out string
	for _, e := range p.fetch.leases.Missing(3, p.w.time()) {
		out += "\n\t" + e.String()
	}
	for _, c := range p.fetch.conns {
		out += fmt.Sprintf("\n\t%s: %v, %s", c.id, c.pool.State(), c.pool.Why())
	}
	return out
}
