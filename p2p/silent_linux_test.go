package p2p

import (
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	ma "github.com/multiformats/go-multiaddr"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
)

// silent opens a connection to a host from each of some addresses of this machine,
// sends nothing, and fails unless the host lets at most that many stay.
func silent(t *testing.T, h *Host, most int, from ...string) {
	t.Helper()
	var closed atomic.Int64
	var work sync.WaitGroup
	t.Cleanup(work.Wait)
	for _, ip := range from {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
		c, err := d.Dial("tcp", fmt.Sprint("127.0.0.1:", portOf(t, h, ma.P_TCP)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		work.Go(func() {
			io.Copy(io.Discard, c)
			closed.Add(1)
		})
	}
	eventually(t, fmt.Sprintf("no more than %d of %d are open", most, len(from)), func() bool { return len(from)-int(closed.Load()) <= most })
}

func times(n int, format string) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf(format, i+1))
	}
	return out
}

// patient is how long a host of these tests waits for a first word: longer than the tests take.
var patient = Timeouts{Accept: time.Minute}

// reaches fails unless another peer can connect to a host over a transport.
func reaches(t *testing.T, h *Host, what int) {
	t.Helper()
	to := peers.Addr{ID: h.ID()}
	for _, a := range h.swarm.ListenAddresses() {
		if has(a, what) {
			to.Addrs = append(to.Addrs, a.String())
		}
	}
	if _, err := newHost(t, Config{Listen: []string{"none"}}).connect(t.Context(), to); err != nil {
		t.Error(err)
	}
}

func tcpAndQUIC() []string { return []string{"/ip4/127.0.0.1/tcp/0", "/ip4/127.0.0.1/udp/0/quic-v1"} }

func TestSilentConnectionsOfOneAddressLockOutNobody(t *testing.T) {
	rig.Slow(t)
	h := newHost(t, Config{Listen: tcpAndQUIC(), Timeouts: patient})
	lim := newLimits(256, 2)
	silent(t, h, lim.silentOfOne, slices.Repeat([]string{"127.9.9.9"}, lim.conns+10)...)
	reaches(t, h, ma.P_TCP)
	reaches(t, h, ma.P_QUIC_V1)
}

func TestSilentConnectionsOfOneNetworkLockOutNobody(t *testing.T) {
	const most = 16
	h := newHost(t, Config{Listen: tcpAndQUIC(), MaxPeers: most, Timeouts: patient})
	lim := newLimits(most, 2)
	silent(t, h, lim.silentOfNet, times(lim.conns, "127.9.9.%d")...)
	reaches(t, h, ma.P_TCP)
	reaches(t, h, ma.P_QUIC_V1)
}

// Whoever comes from a network without any takes the place of one from a network with several.
func TestSilentConnectionsOfManyNetworksLeaveOthersAPlace(t *testing.T) {
	rig.Slow(t)
	const most = 16
	h := newHost(t, Config{Listen: tcpAndQUIC(), MaxPeers: most, Timeouts: patient})
	lim := newLimits(most, 2)
	silent(t, h, lim.silent, slices.Repeat(times(lim.silent/2, "127.9.%d.9"), 4)...)
	for range lim.silentOfOne + 1 { // once they have spoken they count no more
		reaches(t, h, ma.P_TCP)
	}
}

// However many networks the silent ones come from: peers that speak QUIC, and those that the
// node dials itself, have places of their own.
func TestSilentConnectionsOfAllNetworksLeaveQUICAlone(t *testing.T) {
	rig.Slow(t)
	const most = 16
	h := newHost(t, Config{Listen: tcpAndQUIC(), MaxPeers: most, Timeouts: patient})
	lim := newLimits(most, 2)
	silent(t, h, lim.silent, times(lim.conns, "127.9.%d.9")...)
	reaches(t, h, ma.P_QUIC_V1)
	if _, err := h.connect(t.Context(), addr(newHost(t, Config{}))); err != nil {
		t.Error("the node itself reaches nobody:", err)
	}
}

func TestSilentConnectionsEnd(t *testing.T) {
	t.Parallel()
	h := newHost(t, Config{Timeouts: Timeouts{Accept: soon}})
	c, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", portOf(t, h, ma.P_TCP)))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	start := time.Now()
	c.SetReadDeadline(start.Add(patience))
	io.Copy(io.Discard, c)
	elapsed(t, start)
}
