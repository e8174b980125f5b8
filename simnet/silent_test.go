package simnet

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// silent is a tier of nodes whose programs do nothing and say nothing.
type silent struct{ n *Net }

func (*silent) Add(x *Node) (Host, peers.ID)                    { return silentHost{}, peers.ID(x.cfg.Name) }
func (*silent) Blocked(_, _ *Node, _ bool)                      {}
func (t *silent) After(d time.Duration, f func()) (stop func()) { return t.n.World.After(d, f) }
func (t *silent) Pass(until func() bool, d time.Duration) bool  { return t.n.RunUntil(until, d) }

type silentHost struct{ Host }

func (silentHost) Start()                            {}
func (silentHost) Offer(*Content)                    {}
func (silentHost) Fetch(*Fetch)                      {}
func (silentHost) Serves(*Content, share.Piece) bool { return true }
func (silentHost) Verified(*Fetch) *share.Set        { return nil } // it has no list of files

// A fetch says why it waits for its first byte, as it does later.
func TestAWaitForTheFirstByteIsSilent(t *testing.T) {
	n := New(1)
	n.tier = &silent{n}
	c := n.File("film", 8<<20)
	n.Add(NodeConfig{Name: "node"}).Fetch(c, n.Add(NodeConfig{Name: "source"}).Seed(c))
	n.Pass(func() bool { return false }, 2*time.Minute)
	if got := ruled(&Result{Faults: n.ref.Faults}, "silent wait"); len(got) != 1 {
		t.Errorf("a node said nothing for two minutes, and the referee said: %v", got)
	}
}
