package p2p

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"

	ma "github.com/multiformats/go-multiaddr"

	"github.com/piecelease/fetcher/internal/rig"
)

// held takes UDP ports of an address, each of which is free for TCP.
func held(t *testing.T, ip string, n int) []*net.UDPConn {
	t.Helper()
	var out []*net.UDPConn
	for range n {
		c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP(ip)})
		if err != nil {
			t.Skip("cannot hold so many ports: ", err)
		}
		t.Cleanup(func() { c.Close() })
		out = append(out, c)
	}
	return out
}

// Port 0 is a port that is free for TCP and for QUIC, however many are free for TCP alone.
func TestAnyPortIsOneThatIsFreeForAll(t *testing.T) {
	rig.Slow(t)
	const ip = "127.0.0.77" // where no other test listens
	held(t, ip, 3500)       // about one in eight
	h := newHost(t, Config{})
	before := h.swarm.ListenAddresses()
	for range 60 {
		if err := h.listenPort([]string{"/ip4/" + ip}, 0); err != nil {
			t.Fatal(err)
		}
		got := since(before, h.swarm.ListenAddresses())
		if len(got) != 2 || firstPort(got[:1]) != firstPort(got[1:]) {
			t.Fatal("it listens on ", got)
		}
		h.swarm.ListenClose(got...)
	}
}

// Each address to listen on gets a port of its own, and one that is taken leaves nothing behind.
func TestAnyPortOfTwoAddresses(t *testing.T) {
	h := newHost(t, Config{Listen: []string{"127.0.0.1:0", "127.0.0.77:0"}})
	if ports := map[int]bool{}; len(h.swarm.ListenAddresses()) == 4 {
		for _, a := range h.swarm.ListenAddresses() {
			ports[firstPort([]ma.Multiaddr{a})] = true
		}
		if len(ports) != 2 {
			t.Error("it listens on ", h.swarm.ListenAddresses())
		}
	} else {
		t.Error("it listens on ", h.swarm.ListenAddresses())
	}
	before := h.swarm.ListenAddresses()
	port := held(t, "127.0.0.78", 1)[0].LocalAddr().(*net.UDPAddr).Port
	if err := h.listenPort([]string{"/ip4/127.0.0.78"}, port); !errors.Is(err, syscall.EADDRINUSE) {
		t.Error("the port is taken, and it says ", err)
	}
	if left := since(before, h.swarm.ListenAddresses()); len(left) > 0 {
		t.Error("it still listens on ", left)
	}
}

// An address that is named twice, as itself and by a port alone, is taken.
func TestAnAddressIsListenedOnOnce(t *testing.T) {
	for _, proto := range []string{"tcp/%d", "udp/%d/quic-v1"} {
		port := held(t, "127.0.0.79", 1)[0].LocalAddr().(*net.UDPAddr).Port + 1
		h, err := New(Config{Listen: []string{fmt.Sprintf("127.0.0.78:%d", port), fmt.Sprintf("/ip4/127.0.0.78/"+proto, port)}})
		if err == nil {
			h.Close()
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("%s: %v", proto, err)
		}
	}
}
