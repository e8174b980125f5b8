package actors

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/peers"
)

func TestEachPeerHasOneWordOnWhereAnotherIs(t *testing.T) {
	w := &search{known: map[peers.ID][]naming{}}
	said := func(by peers.ID, addrs ...string) bool {
		return w.news(peers.Addr{ID: "x", Addrs: addrs}, PeersNamed{By: by})
	}
	switch {
	case !said("liar", "wrong"):
		t.Error("what the first says is no news")
	case said("liar", "wrong too"):
		t.Error("it was heard a second time")
	case said("friend", "wrong"):
		t.Error("what was said before is news")
	case !said("honest", "right"):
		t.Error("what another says is no news")
	}
	for i := range 100 {
		said(peers.ID(fmt.Sprint(i)), make([]string, 100)...)
		said(peers.ID(fmt.Sprint(i)), fmt.Sprint(i))
	}
	if n := len(w.known["x"]); n > maxNamers {
		t.Errorf("%d are remembered", n)
	}
	for _, n := range w.known["x"] {
		if len(n.addrs) > maxAddrs {
			t.Errorf("%d addresses of one", len(n.addrs))
		}
	}
}

// What peers say about the addresses of others is believed as far as they could know it, and
// it is recorded who said it.
func TestWhatPeersSayOfOthersIsBelievedWithinBounds(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testShare(t, 1<<20)
	source := sw.add("source", 1).seed(m, content) // it takes its time
	near, came := sw.add("near/1", 1e6), sw.add("came", 1e6)
	x := sw.add("x", 1e6)
	found := map[peers.ID]SourceFound{}
	sw.w.Observe = func(d system.Delivery) {
		if s, ok := d.Message.(SourceFound); ok {
			found[s.Addr.ID] = s
		}
	}
	x.fetch(m.ID(), source)
	sw.w.Run(time.Second)
	x.met[near.id], x.met[came.id] = true, true
	say := func(by peers.ID, sure bool, peer peers.ID, addrs ...string) {
		via := map[peers.ID]peers.Via{"x": peers.ViaItself, "lan": peers.ViaLAN, "beacon": peers.ViaBeacon}[by]
		if via == 0 {
			via = peers.ViaPeer
		}
		x.program.s.Send(actor.NewPID("x", "node/finder"), PeersNamed{Share: m.ID(), By: by, Via: via, Sure: sure, Peers: []peers.Addr{{ID: peer, Addrs: addrs}}})
		sw.w.Run(time.Second)
	}
	say("source", false, "public", "/a", "reach 1", "reach 2", "port 22", "/b", "/c", "/d", "/e")
	say("near/1", false, "neighbour", "reach 1", "reach 2")
	say("gone", false, "far", "reach 1", "/a")
	say("source", false, "nowhere", "reach 1", "reach 2", "port 22")
	say("x", false, "came", "reach 2", "/a")
	say("boss", true, "fellow", "reach 1", "port 22")
	say("lan", false, "announced", "reach 2", "reach 1", "port 22")
	say("lan", false, "moved", "reach 1")
	say("lan", false, "moved", "reach 1", "/a")
	say("beacon", false, "home", peers.Through("other"), peers.Through("beacon"), "reach 1", "/a"+peers.Through("beacon"))
	say("beacon", false, "reflected", peers.Through("victim"), peers.ThroughNamer)
	say("source", false, "elsewhere", peers.Through("source"))
	for id, want := range map[peers.ID]peers.Addr{
		"home":      {ID: "home", By: "beacon", Addrs: []string{peers.Through("beacon")}},
		"announced": {ID: "announced", By: "lan", Addrs: []string{"reach 1"}},
		"moved":     {ID: "moved", By: "lan", Addrs: []string{"reach 1", "/a"}},
		"source":    {ID: "source"},
		"public":    {ID: "public", By: "source", Addrs: []string{"/a", "/b", "/c", "/d"}},
		"neighbour": {ID: "neighbour", By: "near/1", Addrs: []string{"reach 1"}},
		"far":       {ID: "far", By: "gone", Addrs: []string{"/a"}},
		"came":      {ID: "came", By: "came", Addrs: []string{"/a"}},
		"fellow":    {ID: "fellow", Addrs: []string{"reach 1", "port 22"}},
	} {
		if got := found[id].Addr; !reflect.DeepEqual(got, want) {
			t.Errorf("%s is told of as %+v, want %+v", id, got, want)
		}
	}
	for _, id := range []peers.ID{"nowhere", "reflected", "elsewhere"} {
		if _, told := found[id]; told {
			t.Errorf("%s is told of, which cannot be reached, or through somebody else alone", id)
		}
	}
}
