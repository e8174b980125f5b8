package cores

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/piecelease/fetcher/share"
)

// Config describes a swarm. The zero value of each field but Peers means its default.
type Config struct {
	Seed  uint64
	Peers int // that come, besides the source
	// PerSecond is how many come in a second. Default: all within a hundred
	// seconds, at least 50.
	PerSecond int
	// Liars, Deaths and Leavers are how many of a hundred peers send wrong bytes,
	// die at a random moment without notice, and leave as soon as they are done.
	// Others serve for Stay first.
	Liars, Deaths, Leavers int
	Stay                   time.Duration // default 20 s
	// Content is what they fetch; default DefaultContent.
	Content *Content
	// Limit bounds the virtual time. Default half an hour.
	Limit time.Duration
}

// Result is the outcome of a swarm.
type Result struct {
	Virtual   time.Duration
	Events    uint64
	Whole     int // peers that have all of it
	Died      int // before they had
	Faults    []string
	Copies    float64       // of the share, sent by the source
	Twice     float64       // the share of what arrived that was already there
	Slowest   time.Duration // from coming to whole
	Mean      time.Duration
	MostAtOne int    // peers that were there at the same time
	Digest    uint64 // of all events: the same for the same Config
}

const maxFaults = 20

// world is the time and all peers in it.
type world struct {
	cfg    Config
	c      *Content
	rng    *rand.Rand
	now    time.Duration
	seq    uint64
	events events
	peers  []*peer // the source first; nil: gone and forgotten
	there  int
	left   int // peers that have yet to come, or to be whole or dead
	res    Result
	sum    time.Duration // of all times to whole
	sent   int64         // by the source
	bytes  int64         // that arrived
	twice  int64
}

// epoch is an arbitrary moment: cores take a time.Time.
var epoch = time.Unix(1_700_000_000, 0)

func (w *world) time() time.Time { return epoch.Add(w.now) }

// event is something that happens to one peer.
type event struct {
	at  time.Duration
	seq uint64
	who int32
	do  func(*peer)
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	(*e)[len(*e)-1] = event{}
	*e = (*e)[:len(*e)-1]
	return last
}

// after calls do for a peer after some time, if it still exists then.
func (w *world) after(d time.Duration, who int32, do func(*peer)) {
	w.seq++
	heap.Push(&w.events, event{w.now + max(0, d), w.seq, who, do})
}

// Run plays a swarm until everybody is whole or dead.
func Run(cfg Config) Result {
	if cfg.PerSecond == 0 {
		cfg.PerSecond = max(50, cfg.Peers/100)
	}
	if cfg.Stay == 0 {
		cfg.Stay = 20 * time.Second
	}
	if cfg.Limit == 0 {
		cfg.Limit = 30 * time.Minute
	}
	if cfg.Content == nil {
		cfg.Content = DefaultContent()
	}
	w := &world{cfg: cfg, c: cfg.Content, rng: rand.New(rand.NewPCG(cfg.Seed, 0)), left: cfg.Peers}
	w.add(&peer{up: 100 * mbit, down: 100 * mbit, latency: 10 * time.Millisecond, have: share.FullSet(w.c.pieces())})
	for i := range cfg.Peers {
		w.after(time.Duration(i)*time.Second/time.Duration(cfg.PerSecond), 0, func(*peer) { w.come() })
	}
	for w.left > 0 && len(w.events) > 0 && w.now < cfg.Limit {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		w.res.Events++
		w.res.Digest = (w.res.Digest^uint64(e.at)^e.seq<<40^uint64(e.who)<<20)*0x9e3779b97f4a7c15 + 1
		if p := w.peers[e.who]; p != nil {
			e.do(p)
			p.settle()
		}
	}
	return w.result()
}

func (w *world) result() Result {
	r := &w.res
	r.Virtual = w.now
	for _, p := range w.peers {
		if p != nil && p.fetch != nil && !p.whole() {
			w.fault("%s is not whole after %v: %s", p.id, w.now-p.came, p.why())
		}
	}
	r.Copies = float64(w.sent) / float64(w.c.bytes())
	r.Twice = float64(w.twice) / float64(max(1, w.bytes))
	r.Mean = w.sum / time.Duration(max(1, r.Whole))
	return *r
}

func (w *world) fault(format string, args ...any) {
	if len(w.res.Faults) < maxFaults {
		w.res.Faults = append(w.res.Faults, fmt.Sprintf("%v: ", w.now)+fmt.Sprintf(format, args...))
	}
}

const mbit = 1e6 / 8 // bytes per second

// come adds a peer, with a line and a character drawn from the seed.
func (w *world) come() {
	p := &peer{
		up:      (1 + 19*w.rng.Float64()) * mbit,
		down:    (5 + 45*w.rng.Float64()) * mbit,
		latency: time.Duration(5+w.rng.IntN(95)) * time.Millisecond,
		liar:    w.rng.IntN(100) < w.cfg.Liars,
		leaver:  w.rng.IntN(100) < w.cfg.Leavers,
		have:    share.NewSet(w.c.pieces()),
	}
	w.add(p)
	if w.rng.IntN(100) < w.cfg.Deaths {
		w.after(time.Duration(w.rng.Int64N(int64(10*time.Second))), p.n, (*peer).die)
	}
	p.begin()
}

func (w *world) add(p *peer) {
	p.w, p.n, p.came = w, int32(len(w.peers)), w.now
	p.id = idOf(p.n)
	p.children = map[int32]bool{}
	w.peers = append(w.peers, p)
	w.there++
	w.res.MostAtOne = max(w.res.MostAtOne, w.there)
}
