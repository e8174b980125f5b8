package p2p

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
)

// A router that knows NAT-PMP, and no UPnP, is asked for a port by a node that is to have one forwarded.
func TestARouterForwardsAPortByNATPMP(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	line := rig.New(t, rig.Path{Mbit: 100, Delay: 5 * time.Millisecond, Queue: 100 * time.Millisecond, MTU: 1500})
	if _, err := send(t, line.Ends[1], errand{Role: "forward"}).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	rig.Sh(t, "ip -n %s route add default via %s", line.Ends[0], line.Addr(1))
	if got, err := send(t, line.Ends[0], errand{Role: "map"}).ReadString('\n'); err != nil || got != "forwarded\n" {
		t.Errorf("%q, %v", got, err)
	}
}

// A node begins before its machine has a network, as at boot, or the machine goes to another one: the router that is there then is asked as well.
func TestARouterThatComesLaterForwardsAPort(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	line := rig.New(t, rig.Path{Mbit: 100, Delay: 5 * time.Millisecond, Queue: 100 * time.Millisecond, MTU: 1500})
	if _, err := send(t, line.Ends[1], errand{Role: "forward"}).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	out := send(t, line.Ends[0], errand{Role: "map", Late: true})
	for _, want := range []string{"alone\n", "forwarded\n"} {
		if got, err := out.ReadString('\n'); err != nil || got != want {
			t.Fatalf("%q, %v; want %q", got, err, want)
		}
		if want == "alone\n" {
			rig.Sh(t, "ip -n %s route add default via %s", line.Ends[0], line.Addr(1))
		}
	}
}
