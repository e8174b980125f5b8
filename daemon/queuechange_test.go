package daemon

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/simnet/bubble"
)

// An entry keeps its place in the queue when something of it is changed that has nothing to do with that.
func TestAChangeKeepsThePlaceInTheQueue(t *testing.T) {
	bubble.Test(t, 1, func(t *testing.T, net *bubble.Net) {
		d := simulated(t, net.Add(bubble.NodeConfig{Name: "a"}), t.TempDir(), Settings{Fetches: 1})
		defer func() { must(t, d.Close()) }()
		d.queue.enter(new(waiting), 0) // another is fetched
		var ids []int64
		for n := range byte(3) {
			e := added(t, d, api.Add{Ticket: share.IDOf([]byte{n}).String(), Peers: []string{"/ip4/192.0.2.1/tcp/4001/p2p/" + peerA}})
			ids = append(ids, e.ID)
			time.Sleep(time.Second)
		}
		up := int64(5000)
		set(t, d, ids[0], api.Set{LimitUp: &up})
		time.Sleep(time.Second)
		if e, err := d.Entry(t.Context(), ids[0]); err != nil || e.Reason != "others are fetched first; it is next" {
			t.Errorf("it was next, and now: %s, %v", e.Reason, err)
		}
	})
}
