package peers

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/piecelease/fetcher/internal/bounds"
)

// UploadConfig bounds what is served. The zero value is the default.
type UploadConfig struct {
	// Slots is how many requests are served at once. Default 64.
	Slots int
	// SlotsPerChild is how many of them one child may hold. Default 8: a few
	// streams of its own, and no way to sit on all of ours.
	SlotsPerChild int
	// PerChild is how many requests of one child may wait. Default 256.
	PerChild int
	// Queue is how many requests may wait in all. Default 8,192.
	Queue int
	// QueueFor is how long a request waits before its child is told to come again.
	// Default 1.5 s: less than the 2 s after which a fetcher gives up.
	QueueFor time.Duration
	// Rate is the limit in bytes per second for all together; 0 is none. At least
	// 1 KiB/s: a block then takes a minute, and a slower node looks dead to others.
	Rate int64
	// Burst is the bytes that may be served at once after a pause when there is a
	// Rate. Default a quarter of a second of it, at least 256 KiB.
	Burst int
	// Spread is how long a piece takes from child to child: to be sent, verified,
	// announced and asked for. The source of a share lets each piece get around
	// before it sends it again. Default 1.5 s; negative: no piece is held back,
	// neither while it gets around nor while it is on its way.
	Spread time.Duration
}

// Validate names the fields that are out of range, with their ranges. NewUploads
// takes a configuration that Validate has not refused.
func (c UploadConfig) Validate() error {
	var f bounds.Fields
	bounds.In(&f, "Slots", c.Slots, 1, 1<<16)
	bounds.In(&f, "SlotsPerChild", c.SlotsPerChild, 1, 1<<16)
	bounds.In(&f, "PerChild", c.PerChild, 1, 1<<16)
	bounds.In(&f, "Queue", c.Queue, 1, 1<<20)
	bounds.In(&f, "QueueFor", c.QueueFor, 10*time.Millisecond, time.Hour)
	bounds.In(&f, "Rate", c.Rate, 1<<10, 1<<50)
	bounds.In(&f, "Burst", c.Burst, 1, 1<<40)
	bounds.UpToOrOff(&f, "Spread", c.Spread, time.Hour)
	return f.Err()
}

func (c UploadConfig) withDefaults() UploadConfig {
	bounds.Default(&c.Slots, 64)
	bounds.Default(&c.SlotsPerChild, 8)
	bounds.Default(&c.PerChild, 256)
	bounds.Default(&c.Queue, 8192)
	bounds.Default(&c.QueueFor, 1500*time.Millisecond)
	bounds.Default(&c.Spread, 1500*time.Millisecond)
	return c
}

// Job names a request to be served; the asker chooses it, and never the same one twice.
type Job uint64

// Ask is a request of a child.
type Ask struct {
	Job   Job
	Child ID
	Key   string // of the share
	Piece uint32
	Bytes int // to be sent, at most 16 MiB

	// Crowd is how many other children could pass the piece on to this one, and
	// Spreads says that this one passes on what it has. See spread.go.
	Crowd   int
	Spreads bool
	Whole   bool // this node had the share from the start: it is the source for the others
	Fed     bool // the child was given its part here, and those that it knows have all of the share
	Fleet   bool // the child is a member of the same fleet
	Flash   bool // so many are coming that it will soon be a large crowd
	Pressed bool // the child was sent elsewhere, and gets less there than it could here
	Set     Set  // of the child: no child of a set is served while one of a better set waits
}

// Verdict answers an Ask: exactly one of Go, Queued, Busy, Elsewhere and Refused is set.
type Verdict struct {
	Go      bool          // serve it, then say Done
	Queued  bool          // wait: Done, Tick or Forget will return it, or Elsewhere
	Busy    bool          // tell the child to ask again after Retry
	Retry   time.Duration // for Busy and Elsewhere
	Refused bool          // never: it asks for more than a piece at once, for no bytes, or by the same request twice

	// Elsewhere: another child was just given the piece, and will soon have it to
	// give; tell the child to ask here again after Retry, if need be.
	Elsewhere bool
}

// typicalAsk is the size of a request in bytes, for estimates.
const typicalAsk = 128 << 10

// maxAsk bounds the bytes of one request: the largest piece.
const maxAsk = 16 << 20

// headStart is how many bytes a child that had nothing waiting may lag behind the
// others without losing them: the time between a reply and the next request is not
// counted as idle.
const headStart = 1 << 20

// Uploads decides who is served when. It has one owner; it is not safe for
// concurrent use. Every call costs O(log n) in children and waiting requests.
//
// Children share by start-time fair queueing (Goyal, Vin, Cheng, 1996): each has
// a clock of bytes given to it, and the one whose clock is behind is next,
// however much the others ask for. A child that comes back from a pause starts at
// the common clock, so that nobody saves up.
type Uploads struct {
	cfg      UploadConfig
	limit    *rate.Limiter    // nil: no limit
	gates    map[string]*gate // of shares that have a limit of their own
	holding  []*gate          // ... those that hold requests, in the order in which they began to
	children map[ID]*child    // idle ones may be forgotten
	ready    childHeap        // children that have something waiting and a slot to spare
	clock    float64          // the clock of the child served last
	jobs     map[Job]*job
	fifo     []*job // waiting, by time; some may no longer wait
	waiting  int
	serving  int
	active   int // of these, requests of active children
	seq      uint64
	tags     uint16 // given to children
	sent     sentMap
	spreads  spreads
	tokenAt  time.Time // when the rate allows the next; zero: now, or nobody waits for it
}

type child struct {
	id      ID
	clock   float64
	seq     uint64 // order of becoming ready, to break ties
	at      int    // in the heap; -1: not
	set     Set
	jobs    jobHeap
	queue   []*job // the same in order of arrival; those that are served or gone are dropped when met
	serving int    // being served, parked ones included
	slots   int    // ... without them
	held    int    // held by the gates of shares
	tag     uint16
}

type job struct {
	Ask
	child  *child
	until  time.Time // when the child is told to come again
	sent   uint16    // how often its piece was sent, as of the last check
	seq    uint64
	began  time.Time // to be served
	paid   int       // bytes taken from the limit
	counts bool      // in sent
	parked bool
	spread *spread // what it holds back while it is served; nil: nothing
	at     int     // in the child's heap; -1: not in it
	gate   *gate   // of its share; nil: it has no limit
	held   bool    // by it
	toll   int     // bytes taken from its limit
}

// waits says whether a request is neither served nor over.
func (j *job) waits() bool { return j.at >= 0 || j.held }

// NewUploads makes an Uploads that serves nobody yet.
func NewUploads(cfg UploadConfig) *Uploads {
	u := &Uploads{cfg: cfg.withDefaults(), children: map[ID]*child{}, jobs: map[Job]*job{}, gates: map[string]*gate{}, sent: sentMap{}, spreads: spreads{each: map[pieceKey]*spread{}}}
	u.SetRate(cfg.Rate, time.Time{})
	return u
}

// Waiting and Serving are the numbers of requests that wait and are being served, without parked ones.
func (u *Uploads) Waiting() int { return u.waiting }
func (u *Uploads) Serving() int { return u.serving }

// Ask returns whether a request may be served now.
func (u *Uploads) Ask(a Ask, now time.Time) Verdict {
	if a.Bytes <= 0 || a.Bytes > maxAsk || u.jobs[a.Job] != nil {
		return Verdict{Refused: true}
	}
	c := u.child(a.Child)
	if retry, yes := u.elsewhere(&a, c, now); yes {
		return Verdict{Elsewhere: true, Retry: retry}
	}
	if u.waiting >= u.cfg.Queue || len(c.jobs)+c.held >= u.cfg.PerChild {
		return Verdict{Busy: true, Retry: u.retry()}
	}
	u.seq++
	j := &job{Ask: a, child: c, until: now.Add(u.cfg.QueueFor), seq: u.seq, at: -1}
	u.jobs[a.Job] = j
	u.waiting++
	if u.pass(j, now) {
		u.enter(j)
		if len(u.ready) > 0 && u.ready[0] == c && u.best(c, now) == j && u.admit(now) == j {
			return Verdict{Go: true}
		}
	}
	u.fifo = append(u.fifo, j)
	return Verdict{Queued: true}
}

// enter adds a request to those of its child whose turn may come.
func (u *Uploads) enter(j *job) {
	c := j.child
	if c.set != j.Set {
		u.moved(c, j.Set)
	}
	if len(c.jobs) == 0 && c.serving == 0 {
		c.clock = max(c.clock, u.clock-headStart)
	}
	j.sent = u.sent.get(j.Key, j.Piece, c.tag)
	heap.Push(&c.jobs, j)
	c.queue = append(c.queue, j)
	u.reheap(c)
}

func (u *Uploads) child(id ID) *child {
	c := u.children[id]
	if c == nil {
		if len(u.children) >= maxClocks*u.cfg.Queue {
			u.sweep()
		}
		if u.tags++; u.tags == 0 {
			u.tags = 1
		}
		c = &child{id: id, clock: u.clock, at: -1, tag: u.tags}
		u.children[id] = c
	}
	return c
}

// retry is when a child that found no room may find some: when about half of
// what waits is gone.
func (u *Uploads) retry() time.Duration {
	if u.limit == nil {
		return time.Second
	}
	half := float64(u.waiting) / 2 * typicalAsk / float64(u.limit.Limit())
	return time.Duration(min(max(half, 0.5), 10) * float64(time.Second))
}

// Done ends a request that was served, given up, or is no longer wanted while it
// waits. next are those that may be served now.
func (u *Uploads) Done(id Job, now time.Time) (next []Job) {
	if j := u.jobs[id]; j != nil {
		u.remove(j, now)
	}
	return u.run(now)
}

// Park gives the slot of a request to others, because its child takes nothing of it at
// present. left bytes were not taken, and do not count as sent. The request is still one
// of its child's SlotsPerChild, so that a child that takes nothing gets no other slots
// in place of these; and the child's clock stays where its turn has put it. When it
// takes bytes again, call Done, and Ask for what is left.
func (u *Uploads) Park(id Job, left int, now time.Time) (next []Job) {
	if j := u.jobs[id]; j != nil && !j.waits() && !j.parked {
		j.parked = true
		u.count(j, -1)
		j.refund(left, now)
		if u.limit != nil && j.paid > 0 {
			u.limit.ReserveN(now, -min(left, j.paid)) // gives bytes back to the limit
		}
		if j.counts {
			u.sent.undo(j.Key, j.Piece, j.child.tag)
		}
		u.letGo(j)
	}
	return u.run(now)
}

// Tick does what is due: next may be served now, and busy have waited too long.
func (u *Uploads) Tick(now time.Time) (next, busy []Job) {
	for len(u.fifo) > 0 {
		j := u.fifo[0]
		if now.Before(j.until) {
			break
		}
		u.shift()
		if j.waits() {
			u.remove(j, now)
			busy = append(busy, j.Job)
		}
	}
	return u.run(now), busy
}

// Wake is when Tick has something to do; zero if never.
func (u *Uploads) Wake() (at time.Time) {
	for len(u.fifo) > 0 && !u.fifo[0].waits() {
		u.shift()
	}
	if len(u.fifo) == 0 {
		return time.Time{}
	}
	at = u.fifo[0].until
	if u.room() && u.tokenAt.Before(at) {
		at = u.tokenAt
		if at.IsZero() {
			at = u.fifo[0].until.Add(-u.cfg.QueueFor) // in the past
		}
	}
	for _, g := range u.holding {
		if g.at.Before(at) {
			at = g.at
		}
	}
	return at
}

func (u *Uploads) shift() {
	u.fifo[0] = nil
	if u.fifo = u.fifo[1:]; len(u.fifo) == 0 {
		u.fifo = nil
	}
}

// Forget ends all requests of a child that has disconnected. Its clock is kept as
// long as it matters, so that the child gains nothing by coming back.
func (u *Uploads) Forget(id ID, now time.Time) (next []Job) {
	c := u.children[id]
	if c == nil {
		return u.run(now)
	}
	for len(c.jobs) > 0 {
		u.remove(c.jobs[0], now)
	}
	if c.serving+c.held > 0 {
		var over []*job
		for _, j := range u.jobs {
			if j.child == c {
				over = append(over, j)
			}
		}
		slices.SortFunc(over, func(a, b *job) int { return cmp.Compare(a.Job, b.Job) })
		for _, j := range over { // in a fixed order, because the usual service is smoothed over them
			u.remove(j, now)
		}
	}
	u.unspread(c)
	return u.run(now)
}

// maxClocks bounds the children that are known, as a multiple of the longest queue.
const maxClocks = 2

// sweep drops the clocks of children that ask for nothing, gone or not: those that
// the common one has overtaken, and if half of the bound is not free then, the next.
func (u *Uploads) sweep() {
	var idle []*child
	for id, c := range u.children {
		switch {
		case len(c.jobs)+c.held+c.serving > 0:
		case c.clock <= u.clock:
			delete(u.children, id)
		default:
			idle = append(idle, c)
		}
	}
	slices.SortFunc(idle, func(a, b *child) int { return cmp.Or(cmp.Compare(a.clock, b.clock), cmp.Compare(a.id, b.id)) })
	for _, c := range idle[:min(len(idle), max(0, len(u.children)-maxClocks*u.cfg.Queue/2))] {
		delete(u.children, c.id)
	}
}

// run admits whatever may be served now.
func (u *Uploads) run(now time.Time) (next []Job) {
	u.open(now)
	for {
		j := u.admit(now)
		if j == nil {
			return next
		}
		next = append(next, j.Job)
	}
}

// turn is the request whose turn it is, nil if there is none or no slot. Those
// before it whose piece was given to others meanwhile are sent elsewhere.
func (u *Uploads) turn(now time.Time) *job {
	for u.room() {
		c := u.ready[0]
		j := u.best(c, now)
		retry, yes := u.elsewhere(&j.Ask, c, now)
		if !yes {
			return j
		}
		u.remove(j, now)
		u.spreads.refused = append(u.spreads.refused, Deferral{j.Job, retry})
	}
	return nil
}

// admit begins to serve the request whose turn it is, if there is a slot and the rate allows.
func (u *Uploads) admit(now time.Time) *job {
	u.tokenAt = time.Time{}
	j := u.turn(now)
	if j == nil {
		return nil
	}
	c := j.child
	if u.limit != nil {
		if j.paid, u.tokenAt = take(u.limit, j.Bytes, now); !u.tokenAt.IsZero() {
			return nil
		}
	}
	u.clock = max(u.clock, c.clock)
	c.clock += float64(j.Bytes)
	heap.Remove(&c.jobs, j.at)
	j.at = -1
	u.waiting--
	c.serving++
	u.count(j, 1)
	u.begun(j, now)
	j.counts = u.sent.add(j.Key, j.Piece, c.tag)
	u.reheap(c)
	return j
}

// best is the waiting request of a child whose piece was sent least, or the
// oldest once that has waited half of its time: else the last blocks of a piece
// could wait behind every piece that is new. What is sent meanwhile nearly always
// moves requests back, so looking at the first until it stays first is enough.
func (u *Uploads) best(c *child, now time.Time) *job {
	if j := c.oldest(); !now.Before(j.until.Add(-u.cfg.QueueFor / 2)) {
		return j
	}
	for {
		j := c.jobs[0]
		n := u.sent.get(j.Key, j.Piece, c.tag)
		if n == j.sent {
			return j
		}
		j.sent = n
		heap.Fix(&c.jobs, 0)
	}
}

// oldest is the request that has waited longest; there is one.
func (c *child) oldest() *job {
	for c.queue[0].at < 0 {
		c.queue[0] = nil
		c.queue = c.queue[1:]
	}
	return c.queue[0]
}

// remove ends a request, waiting or being served.
func (u *Uploads) remove(j *job, now time.Time) {
	c := j.child
	delete(u.jobs, j.Job)
	switch {
	case j.held:
		u.unhold(j)
		u.waiting--
		return
	case j.at >= 0:
		heap.Remove(&c.jobs, j.at)
		j.at = -1
		u.waiting--
		j.refund(j.toll, now)
	case j.parked:
		c.serving--
	default:
		c.serving--
		u.count(j, -1)
		u.served(j, now)
	}
	u.reheap(c)
}

// reheap puts a child into the heap of those that can be served, or takes it out, or to its place in it.
func (u *Uploads) reheap(c *child) {
	if len(c.jobs) == 0 {
		c.queue = nil
	}
	can := len(c.jobs) > 0 && c.serving < u.cfg.SlotsPerChild
	switch {
	case can && c.at < 0:
		u.seq++
		c.seq = u.seq
		heap.Push(&u.ready, c)
	case can:
		heap.Fix(&u.ready, c.at)
	case c.at >= 0:
		heap.Remove(&u.ready, c.at)
		c.at = -1
	}
}
