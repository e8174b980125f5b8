package bubble

import (
	"context"
	"testing"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/internal/rig"
)

// meetingPlace is a node that all can reach, relay and beacon at once; at is how others use it as both.
func meetingPlace(t *testing.T, net *Net) (x *Node, at fetcher.Config) {
	t.Helper()
	x = net.Add(NodeConfig{Name: "beacon", Config: fetcher.Config{Reach: fetcher.Reach{Relay: true}, Beacons: fetcher.Beacons{Serve: true}}})
	_, err := x.Open()
	ok(t, err)
	at.Reach = fetcher.Reach{Traverse: true, Relays: x.Addrs()[:1]}
	at.Beacons = fetcher.Beacons{Use: true, At: x.Addrs()[:1]}
	return x, at
}

// Everybody is at home, behind a router that lets nothing in. The source of a private share has gone; its
// beacon, which is a relay too, leads whoever has the ticket to a peer that has kept the share.
func TestABeaconThatIsARelayIntroducesPeersBehindRouters(t *testing.T) {
	rig.Slow(t)
	Test(t, 1, func(t *testing.T, net *Net) {
		_, at := meetingPlace(t, net)
		home := behind(RouterConfig{})
		source, keeper := home(net, NodeConfig{Name: "source", Config: at}), home(net, NodeConfig{Name: "keeper", Config: at})
		ticket, want := seed(t, source, 1<<20)
		keep, err := keeper.Open()
		ok(t, err)
		kept, err := keep.Fetch(t.Context(), ticket, fetcher.FetchOptions{Dir: keeper.Folder(), Keep: true})
		ok(t, err)
		whole(t, kept, want)
		ok(t, source.Close())
		time.Sleep(10 * time.Second)
		newcomer := home(net, NodeConfig{Name: "newcomer", Config: fetcher.Config{Reach: fetcher.Reach{Traverse: true}, Beacons: fetcher.Beacons{Use: true}}})
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		tr := fetch(t, newcomer, ticket)
		ok(t, tr.Wait(ctx))
		whole(t, tr, want)
		if way := newcomer.Fetcher().Way(keeper.ID()); way != fetcher.Punched {
			t.Errorf("the way is %q", way)
		}
		t.Log("after", time.Since(began))
	})
}
