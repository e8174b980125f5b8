package p2p

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"github.com/piecelease/fetcher/peers"
)

// Two dials beside one are no more of a reason than one.
func TestADialSaysNothingOfTwoBesideIt(t *testing.T) {
	t.Parallel()
	h, at, beside := newHost(t, Config{}), ma.StringCast("/ip4/127.0.0.1/tcp/1"), 2
	to := peers.Addr{ID: peerOf(seedKey(77)), Addrs: []string{at.String()}}
	_, err := connectBy(t.Context(), h, to, func(ctx context.Context, id peer.ID) error {
		if beside--; beside >= 0 {
			h.swarm.Backoff().AddBackoff(id, at)
		}
		return h.host.Connect(ctx, peer.AddrInfo{ID: id})
	})
	if want := refused + " (TCP 127.0.0.1:1)"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// A dial beside this one that an address refused does not hide why the others failed, and takes no second time.
func TestADialBesideAnotherSaysWhatEachAddressDid(t *testing.T) {
	t.Parallel()
	limits := Timeouts{Dial: 2 * time.Second, Handshake: time.Second}
	h, at, beside := newHost(t, Config{Timeouts: limits}), ma.StringCast("/ip4/127.0.0.1/tcp/1"), true
	mute := listenRaw(t, func(net.Conn) {})
	to := peers.Addr{ID: peerOf(seedKey(77)), Addrs: []string{at.String(), mute}}
	was := time.Now()
	dial := func(ctx context.Context, id peer.ID) error {
		if beside {
			h.swarm.Backoff().AddBackoff(id, at)
		}
		beside = false
		return h.host.Connect(ctx, peer.AddrInfo{ID: id})
	}
	beside = false
	_, alone := connectBy(t.Context(), h, to, dial)
	t.Logf("alone: %v after %v", alone, time.Since(was))
	was, beside = time.Now(), true
	_, err := connectBy(t.Context(), h, to, dial)
	if err == nil || err.Error() != alone.Error() {
		t.Errorf("after %v: %v, want %v", time.Since(was), err, alone)
	}
}

// A dial beside this one that did not reach a relay is no reason not to ask that relay.
func TestADialBesideAnotherAsksTheRelayAfresh(t *testing.T) {
	t.Parallel()
	idle := newHost(t, Config{Reach: Reach{Relay: true}})
	h, beside := newHost(t, Config{Listen: []string{"none"}, Reach: Reach{Traverse: true}}), true
	id, at, err := relayOf(ma.StringCast(idle.Addrs()[0] + "/p2p-circuit"))
	if err != nil {
		t.Fatal(err)
	}
	to := peers.Addr{ID: peerOf(seedKey(77)), Addrs: []string{idle.Addrs()[0] + "/p2p-circuit"}}
	_, err = connectBy(t.Context(), h, to, func(ctx context.Context, peerID peer.ID) error {
		if beside {
			h.swarm.Backoff().AddBackoff(id, at)
		}
		beside = false
		return h.host.Connect(ctx, peer.AddrInfo{ID: peerID})
	})
	if err == nil || err.Error() != offline {
		t.Errorf("%v, want %s", err, offline)
	}
}
