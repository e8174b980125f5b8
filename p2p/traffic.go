package p2p

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	ma "github.com/multiformats/go-multiaddr"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// maxCounted is how many peers without a stream are remembered.
const maxCounted = 8192

// traffic counts the stream bytes exchanged with one peer.
type traffic struct {
	in, out atomic.Int64
	streams int       // open now; guarded by counters.mu
	last    time.Time // when the last one closed; guarded by counters.mu
}

// Flow is the bytes of all streams with the peers of one class, framing included.
type Flow struct {
	Class   string // where they are: anywhere, on our network, on this machine; or relay: behind one
	In, Out int64
}

// flows are the classes of Flow, by share.Reach of the peer's address; the last is of those behind a relay.
var flows = [...]string{share.Anywhere: "anywhere", share.SameNetwork: "network", share.SameMachine: "machine", "relay"}

// flowOf returns the number of the class of the peer at an address; nil: not known.
func flowOf(a ma.Multiaddr) int {
	switch {
	case a == nil:
		return share.Anywhere
	case has(a, ma.P_CIRCUIT):
		return len(flows) - 1
	}
	return share.Reach(a)
}

// counters has the traffic of every peer, and of all, by class.
type counters struct {
	all [len(flows)]struct{ in, out atomic.Int64 }

	mu   sync.Mutex
	each map[peers.ID]*traffic
}

// open returns the traffic of id, counted as in use until close.
func (c *counters) open(id peers.ID) *traffic {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.each[id]
	if t == nil {
		if len(c.each) >= maxCounted {
			c.forget()
		}
		t = &traffic{}
		c.each[id] = t
	}
	t.streams++
	return t
}

func (c *counters) close(t *traffic) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t.streams--
	t.last = time.Now()
}

// forget drops the peer that has been without a stream for longest.
func (c *counters) forget() {
	var oldest peers.ID
	for id, t := range c.each {
		if t.streams == 0 && (oldest == "" || t.last.Before(c.each[oldest].last)) {
			oldest = id
		}
	}
	delete(c.each, oldest)
}

func (c *counters) of(id peers.ID) (in, out int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.each[id]; t != nil {
		return t.in.Load(), t.out.Load()
	}
	return 0, 0
}

// Traffic returns how many stream bytes of our protocols came from and went to a
// peer, including framing but not encryption. It outlives connections; of peers
// long gone only the newest few thousand are remembered.
func (h *Host) Traffic(id peers.ID) (in, out int64) { return h.counts.of(id) }

// Flows is Traffic over all peers, the forgotten ones included, by class: always the same ones in the same order.
func (h *Host) Flows() (all []Flow) {
	for i, class := range flows {
		all = append(all, Flow{class, h.counts.all[i].in.Load(), h.counts.all[i].out.Load()})
	}
	return all
}

// counted is a stream whose bytes are counted.
type counted struct {
	network.Stream
	all   *counters
	class int
	peer  *traffic
	armed time.Time // when the write deadline was last set; the writer's
}

func (h *Host) count(s network.Stream, id peers.ID) *counted {
	var at ma.Multiaddr
	if c := s.Conn(); c != nil {
		at = c.RemoteMultiaddr()
	}
	return &counted{Stream: s, all: &h.counts, class: flowOf(at), peer: h.counts.open(id)}
}

func (s *counted) Read(b []byte) (int, error) {
	n, err := s.Stream.Read(b)
	s.peer.in.Add(int64(n))
	s.all.all[s.class].in.Add(int64(n))
	return n, err
}

func (s *counted) Write(b []byte) (int, error) {
	n, err := s.Stream.Write(b)
	s.peer.out.Add(int64(n))
	s.all.all[s.class].out.Add(int64(n))
	return n, err
}

// uncount ends the counting. The stream must not be used afterwards.
func (s *counted) uncount() { s.all.close(s.peer) }
