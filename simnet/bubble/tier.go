package bubble

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/simnet"
)

// tier runs the nodes of a simnet.Net in a Net. The simnet.Net's world has no
// actors then, only the scenario's events and their times; Pass keeps it in
// step with the clock of the bubble, on one goroutine.
type tier struct {
	net   *Net
	sim   *simnet.Net
	began time.Time
	nodes map[*simnet.Node]*host
	sites map[*simnet.Site]*Site

	mu    sync.Mutex
	calls []func()      // to be made by Pass
	woken chan struct{} // calls has something
}

func newTier(n *Net) *tier {
	t := &tier{net: n, began: time.Now(), nodes: map[*simnet.Node]*host{}, sites: map[*simnet.Site]*Site{}, woken: make(chan struct{}, 1)}
	t.sim = simnet.NewOn(t, n.seed)
	n.log = func(x *Node, r slog.Record) {
		t.post(func() { t.sim.Log.With("node", string(x.ID())).Log(context.Background(), r.Level, text(r)) })
	}
	return t
}

// post has f called by Pass as soon as possible.
func (t *tier) post(f func()) {
	t.mu.Lock()
	t.calls = append(t.calls, f)
	t.mu.Unlock()
	signal(t.woken)
}

// After implements simnet.Tier.
func (t *tier) After(d time.Duration, f func()) (stop func()) {
	var mu sync.Mutex
	stopped := false
	due := time.Since(t.began) + d
	t.post(func() {
		t.sim.World.After(due-t.sim.Elapsed(), func() {
			mu.Lock()
			gone := stopped
			mu.Unlock()
			if !gone {
				f()
			}
		})
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		stopped = true
	}
}

// Pass implements simnet.Tier.
func (t *tier) Pass(until func() bool, d time.Duration) bool {
	w := t.sim.World
	end := w.Elapsed() + d
	for {
		w.Run(min(time.Since(t.began), end) - w.Elapsed())
		if t.called() {
			continue
		}
		if until() {
			return true
		}
		if w.Elapsed() >= end {
			return false
		}
		next := end
		if at, ok := w.Next(); ok {
			next = min(next, at)
		}
		timer := time.NewTimer(next - time.Since(t.began))
		select {
		case <-t.woken:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// called makes the calls that were posted.
func (t *tier) called() bool {
	t.mu.Lock()
	calls := t.calls
	t.calls = nil
	t.mu.Unlock()
	for _, f := range calls {
		f()
	}
	return len(calls) > 0
}

// Add implements simnet.Tier.
func (t *tier) Add(x *simnet.Node) (simnet.Host, peers.ID) {
	c := x.Config()
	if c.Deps != nil {
		panic("bubble: a node with Deps cannot be whole; its scenario must say so in Only")
	}
	h := &host{t: t, x: x, shared: map[*simnet.Content]*fetcher.Share{}, fetches: map[*simnet.Fetch]*fetcher.Transfer{},
		seats: map[*simnet.Fleet]*fetcher.Coordination{}}
	h.node = t.net.Add(NodeConfig{Name: c.Name, Site: t.site(c.Site), Line: c.Line, NAT: c.NAT, Acts: c.Acts, Disk: x.Disk(),
		Config: fetcher.Config{InFlight: c.InFlight, Buffers: c.Buffers, Wall: h.wall}})
	t.nodes[x] = h
	return h, h.node.ID()
}

// node returns the one with a peer ID; nil if there is none.
func (t *tier) node(id peers.ID) *Node {
	for _, h := range t.nodes {
		if h.node.ID() == id {
			return h.node
		}
	}
	return nil
}

func (t *tier) site(s *simnet.Site) *Site {
	if s == nil {
		return nil
	}
	if t.sites[s] == nil {
		t.sites[s] = t.net.Site(s.Name(), s.Line())
	}
	return t.sites[s]
}

// Blocked implements simnet.Tier.
func (t *tier) Blocked(from, to *simnet.Node, blocked bool) {
	t.net.packets.block(t.nodes[from].node.at, t.nodes[to].node.at, blocked)
}
