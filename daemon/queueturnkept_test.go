package daemon

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/simnet/bubble"
)

// An entry that is being fetched keeps its turn when its owner says what of it is to be fetched first.
func TestAChangeKeepsTheTurn(t *testing.T) {
	bubble.Test(t, 1, func(t *testing.T, net *bubble.Net) {
		d := simulated(t, net.Add(bubble.NodeConfig{Name: "a"}), t.TempDir(), Settings{Fetches: 1})
		defer func() { must(t, d.Close()) }()
		var ids []int64
		for n := range byte(2) {
			e := added(t, d, api.Add{Ticket: share.IDOf([]byte{n}).String(), Peers: []string{"/ip4/192.0.2.1/tcp/4001/p2p/" + peerA}})
			ids = append(ids, e.ID)
			time.Sleep(time.Second)
		}
		if e, err := d.Entry(t.Context(), ids[0]); err != nil || e.State != api.Fetching {
			t.Fatal(e.State, e.Reason, err)
		}
		set(t, d, ids[0], api.Set{First: &[]string{"urgent"}})
		time.Sleep(time.Second)
		if e, err := d.Entry(t.Context(), ids[0]); err != nil || e.State != api.Fetching {
			t.Errorf("it was being fetched, and is %s: %s, %v", e.State, e.Reason, err)
		}
	})
}
