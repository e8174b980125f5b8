package simnet

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/simnet/model"
)

// Net is a world of nodes in virtual time, on one goroutine. Everything in it
// follows from its seed. It is not safe for concurrent use.
type Net struct {
	*system.World

	seed  uint64
	tier  Tier    // nil: nodes are modelled here
	nodes []*Node // in order of birth
	byID  map[peers.ID]*Node
	conns map[[2]peers.ID]*conn // the latest of each pair, by ID
	cuts  map[[2]peers.ID]int   // from, to: how many are in force
	links int                   // opened so far

	chance *rand.Rand // of the network
	conds  []*condition
	log    *Timeline
	ref    *referee
	pages  pages

	contents []*Content // all so far
	rec      *recorder  // nil: nothing is recorded
}

// New is a world without nodes.
func New(seed uint64) *Net { return NewOn(nil, seed) }

// NewOn is a world whose nodes are run by tier.
func NewOn(tier Tier, seed uint64) *Net {
	n := &Net{tier: tier, World: system.NewWorld(seed), seed: seed, byID: map[peers.ID]*Node{}, conns: map[[2]peers.ID]*conn{},
		cuts: map[[2]peers.ID]int{}, pages: pages{}}
	n.chance = n.Rand("simnet")
	n.log = &Timeline{n: n}
	n.ref = newReferee(n)
	n.World.Log = slog.New(&complaints{n: n})
	n.World.Observe = n.ref.observe
	return n
}

// Timeline is what has happened so far.
func (n *Net) Timeline() *Timeline { return n.log }

// Modelled says whether simnet itself runs the nodes, over modelled links, without a [Tier].
func (n *Net) Modelled() bool { return n.tier == nil }

// Links is how many links were opened so far.
func (n *Net) Links() int { return n.links }

// Nodes are all nodes, in the order in which they were added.
func (n *Net) Nodes() []*Node { return n.nodes }

// Site is a place whose nodes share a line to the rest of the world. Between
// nodes of one site only their own lines count.
type Site struct {
	name string
	line Line
	up   *model.Pipe
	down *model.Pipe
}

// Site makes a place. Two offices and a WAN are
//
//	oslo := net.Site("oslo", simnet.Line{Up: 10 * simnet.Mbit, Down: 50 * simnet.Mbit, Latency: 15 * time.Millisecond})
//	rome := net.Site("rome", simnet.Line{Up: 20 * simnet.Mbit, Down: 20 * simnet.Mbit, Latency: 25 * time.Millisecond})
//	a, b := net.Add(simnet.NodeConfig{Name: "a", Site: oslo}), net.Add(simnet.NodeConfig{Name: "b", Site: rome})
func (n *Net) Site(name string, line Line) *Site {
	return &Site{name, line, &model.Pipe{World: n.World, Rate: line.Up}, &model.Pipe{World: n.World, Rate: line.Down}}
}

// Name is the site's name, and Line its line.
func (s *Site) Name() string { return s.name }
func (s *Site) Line() Line   { return s.line }

// path is the way from one node to another.
func (n *Net) path(from, to *Node) model.Path {
	p := model.Path{
		Latency: from.cfg.Line.Latency + to.cfg.Line.Latency,
		Jitter:  from.cfg.Line.Jitter + to.cfg.Line.Jitter,
		Loss:    1 - (1-from.cfg.Line.Loss)*(1-to.cfg.Line.Loss),
	}
	if a, b := from.cfg.Site, to.cfg.Site; a != b {
		for i, s := range []*Site{a, b} {
			if s == nil {
				continue
			}
			p.Latency += s.line.Latency
			p.Jitter += s.line.Jitter
			p.Loss = 1 - (1-p.Loss)*(1-s.line.Loss)
			p.Pipes = append(p.Pipes, []*model.Pipe{s.up, s.down}[i])
		}
	}
	p.Pipes = append(p.Pipes, to.down)
	return p
}

// rtt is the round trip between two nodes on idle lines.
func (n *Net) rtt(a, b *Node) time.Duration {
	there, back := n.path(a, b), n.path(b, a)
	return there.Latency + back.Latency
}

// ---- faults of the network ----

// each does something with each pair of nodes.
func each(a, b []*Node, do func(x, y *Node)) {
	for _, x := range a {
		for _, y := range b {
			do(x, y)
		}
	}
}

// Cut stops everything between each of a and each of b. What is in flight or
// sent meanwhile is held. A node with a connection through the cut finds out in ten to
// forty seconds, as TCP does.
func (n *Net) Cut(a, b []*Node) {
	n.log.add(MarkCut, "", "cut: %s | %s", names(a), names(b))
	each(a, b, func(x, y *Node) {
		n.block(x, y)
		n.block(y, x)
	})
}

// Heal undoes Cut.
func (n *Net) Heal(a, b []*Node) {
	n.log.add(MarkHeal, "", "heal: %s | %s", names(a), names(b))
	each(a, b, func(x, y *Node) {
		n.unblock(x, y)
		n.unblock(y, x)
	})
}

// CutOneWay stops what is sent by each of from to each of to. In the other direction a
// little more gets through: without acknowledgements a stream soon stalls.
func (n *Net) CutOneWay(from, to []*Node) {
	n.log.add(MarkCut, "", "cut one way: %s > %s", names(from), names(to))
	each(from, to, n.block)
}

// HealOneWay undoes CutOneWay.
func (n *Net) HealOneWay(from, to []*Node) {
	n.log.add(MarkHeal, "", "heal one way: %s > %s", names(from), names(to))
	each(from, to, n.unblock)
}

// Partition cuts every group of nodes from every other, and returns a function that undoes it.
func (n *Net) Partition(groups ...[]*Node) (heal func()) {
	each := func(f func(a, b []*Node)) {
		for i, a := range groups {
			for _, b := range groups[i+1:] {
				f(a, b)
			}
		}
	}
	each(n.Cut)
	return func() { each(n.Heal) }
}

func (n *Net) block(from, to *Node) {
	key := [2]peers.ID{from.id, to.id}
	n.cuts[key]++
	if n.tier != nil && n.cuts[key] == 1 {
		n.tier.Blocked(from, to, true)
	}
	if conn := n.conns[pair(from.id, to.id)]; conn != nil {
		conn.doubt()
	}
}

func (n *Net) unblock(from, to *Node) {
	key := [2]peers.ID{from.id, to.id}
	switch n.cuts[key] {
	case 0:
		return
	case 1:
		delete(n.cuts, key)
	default:
		n.cuts[key]--
		return
	}
	if n.tier != nil {
		n.tier.Blocked(from, to, false)
	}
	n.healed(from)
	n.healed(to)
	if conn := n.conns[pair(from.id, to.id)]; conn != nil {
		conn.resume()
	}
}

// healed records that a node's surroundings have changed: it has a moment to recover.
func (n *Net) healed(x *Node) { x.disturbed = n.Elapsed() }

// blocked says whether nothing passes from one node to another now.
func (n *Net) blocked(from, to *Node) bool {
	return n.cuts[[2]peers.ID{from.id, to.id}] > 0 || from.state == frozen || from.dark || to.dark
}

// pair is the key of two nodes, whatever their order.
func pair(a, b peers.ID) [2]peers.ID {
	if b < a {
		a, b = b, a
	}
	return [2]peers.ID{a, b}
}

// called returns the name of the node with a peer ID, or the start of the ID.
func (n *Net) called(id peers.ID) string {
	if x := n.byID[id]; x != nil {
		return x.cfg.Name
	}
	return id.Short()
}

func names(nodes []*Node) (s string) {
	for i, x := range nodes {
		if i == 4 && len(nodes) > 5 {
			return fmt.Sprintf("%s and %d more", s, len(nodes)-i)
		}
		if i > 0 {
			s += " "
		}
		s += x.cfg.Name
	}
	return s
}

// ---- time ----

// After calls f once d has passed. The returned function cancels it.
func (n *Net) After(d time.Duration, f func()) (stop func()) {
	if n.tier != nil {
		return n.tier.After(d, f)
	}
	return n.World.After(d, f)
}

// Pass lets d of virtual time pass, or less if until returns true first.
func (n *Net) Pass(until func() bool, d time.Duration) bool {
	if n.tier != nil {
		return n.tier.Pass(until, d)
	}
	return n.RunUntil(until, d)
}

// condition is something that is waited for.
type condition struct {
	is   func() bool
	then func()
}

// lookEvery is how often a condition of When is checked.
const lookEvery = 10 * time.Millisecond

// When calls then once is returns true, checking every 10 ms.
func (n *Net) When(is func() bool, then func()) {
	n.conds = append(n.conds, &condition{is, then})
	if len(n.conds) == 1 {
		n.After(lookEvery, n.look)
	}
}

func (n *Net) look() {
	var due []*condition
	n.conds = slices.DeleteFunc(n.conds, func(c *condition) bool {
		if c.is() {
			due = append(due, c)
			return true
		}
		return false
	})
	for _, c := range due {
		c.then()
	}
	if len(n.conds) > 0 {
		n.After(lookEvery, n.look)
	}
}

// Every calls f every d until it returns false.
func (n *Net) Every(d time.Duration, f func() bool) {
	n.After(d, func() {
		if f() {
			n.Every(d, f)
		}
	})
}
