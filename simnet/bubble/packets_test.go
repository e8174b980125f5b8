package bubble

import (
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/piecelease/fetcher/simnet"
)

// in runs f with a network in a bubble.
func in(t *testing.T, f func(t *testing.T, n *Net)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newNet(1, "")) })
}

// add adds a node with a line, and a socket on port 1.
func add(t *testing.T, n *Net, cfg NodeConfig) (*Node, *socket) {
	t.Helper()
	x := n.Add(cfg)
	return x, listen(t, x, 1)
}

func listen(t *testing.T, x *Node, port int) *socket {
	t.Helper()
	s, err := x.at.ListenUDP(&net.UDPAddr{Port: port})
	ok(t, err)
	t.Cleanup(func() { s.Close() })
	return s.(*socket)
}

// burst sends packets of a size, and returns how many of them arrive within a minute, and
// when the first and the last arrive.
func burst(t *testing.T, from, to *socket, count, size int) (came int, first, last time.Duration) {
	t.Helper()
	start := time.Now()
	for range count {
		if _, err := from.WriteTo(make([]byte, size), to.LocalAddr()); err != nil {
			t.Fatal(err)
		}
	}
	to.SetReadDeadline(start.Add(time.Minute))
	b := make([]byte, 2*mtu)
	for {
		k, addr, err := to.ReadFrom(b)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return came, first, last
		}
		ok(t, err)
		if k != size || addr.String() != from.LocalAddr().String() {
			t.Errorf("%d bytes from %v", k, addr)
		}
		last = time.Since(start)
		if came++; came == 1 {
			first = last
		}
	}
}

func TestPacketsTakeTheirTime(t *testing.T) {
	in(t, func(t *testing.T, n *Net) {
		oslo := n.Site("oslo", simnet.Line{Up: 50_000, Latency: 5 * time.Millisecond})
		rome := n.Site("rome", simnet.Line{Down: 100_000, Latency: 7 * time.Millisecond})
		_, a := add(t, n, NodeConfig{Name: "a", Site: oslo, Line: simnet.Line{Up: 1e6, Down: 1e6, Latency: time.Millisecond}})
		_, b := add(t, n, NodeConfig{Name: "b", Site: oslo, Line: simnet.Line{Up: 1e6, Down: 1e6, Latency: 2 * time.Millisecond}})
		_, c := add(t, n, NodeConfig{Name: "c", Site: rome, Line: simnet.Line{Up: 1e6, Down: 1e6, Latency: 3 * time.Millisecond}})
		near := time.Millisecond + 3*time.Millisecond + time.Millisecond // a's line, the way, b's line
		if k, first, last := burst(t, a, b, 10, 1000); k != 10 || first != near || last != near+9*time.Millisecond {
			t.Error("within a site:", k, first, last)
		}
		// a's line 1 ms, oslo's 20, rome's 10, the way 16, c's line 1; then one each 20 ms
		if k, first, last := burst(t, a, c, 10, 1000); k != 10 || first != 48*time.Millisecond || last != 228*time.Millisecond {
			t.Error("between sites:", k, first, last)
		}
	})
}

func TestALineThatIsFullLosesPackets(t *testing.T) {
	in(t, func(t *testing.T, n *Net) {
		_, a := add(t, n, NodeConfig{Name: "a", Line: simnet.Line{Up: 1e6, Latency: time.Millisecond}})
		_, b := add(t, n, NodeConfig{Name: "b", Line: simnet.Line{Latency: time.Millisecond}})
		k, _, last := burst(t, a, b, 1000, 1000)
		if k < 100 || k > 102 || last > 110*time.Millisecond {
			t.Errorf("%d packets of 1 ms each fit into a queue of 100 ms, the last came after %v", k, last)
		}
		if _, lost := n.Packets(); lost != int64(1000-k) {
			t.Error(lost, "are counted as lost")
		}
		if k, _, _ := burst(t, a, b, 1, mtu+1); k != 0 {
			t.Error("a packet longer than the MTU came through")
		}
	})
}

func TestLossAndJitter(t *testing.T) {
	in(t, func(t *testing.T, n *Net) {
		_, a := add(t, n, NodeConfig{Name: "a", Line: simnet.Line{Latency: time.Millisecond, Loss: 0.1, Jitter: 10 * time.Millisecond}})
		_, b := add(t, n, NodeConfig{Name: "b", Line: simnet.Line{Latency: time.Millisecond, Loss: 0.1}})
		k, first, last := burst(t, a, b, 1000, 100)
		if k < 770 || k > 850 {
			t.Error(k, "of 1000 came, where 810 are to be expected")
		}
		if first < 2*time.Millisecond || last <= 10*time.Millisecond || last >= 12*time.Millisecond {
			t.Error("between", first, "and", last)
		}
	})
}

func TestCutsFreezesAndLines(t *testing.T) {
	in(t, func(t *testing.T, n *Net) {
		x, a := add(t, n, NodeConfig{Name: "a"})
		y, b := add(t, n, NodeConfig{Name: "b"})
		z, _ := add(t, n, NodeConfig{Name: "c"})
		pass := func(what string, ab, ba bool) {
			t.Helper()
			one, _, _ := burst(t, a, b, 1, 10)
			other, _, _ := burst(t, b, a, 1, 10)
			if one == 1 != ab || other == 1 != ba {
				t.Errorf("%s: %d from a to b, %d from b to a", what, one, other)
			}
		}
		pass("at first", true, true)
		heal := n.CutOneWay([]*Node{x}, []*Node{y})
		pass("cut one way", false, true)
		both := n.Partition([]*Node{x}, []*Node{y}, []*Node{z})
		pass("cut", false, false)
		heal()
		heal() // no more than once
		pass("one of two cuts healed", false, false)
		both()
		pass("healed", true, true)
		y.Freeze()
		pass("frozen", false, false)
		y.Thaw()
		x.SetLine(simnet.Line{Latency: time.Second})
		if _, first, _ := burst(t, a, b, 1, 10); first < time.Second {
			t.Error("on the new line it took", first)
		}
	})
}

func TestANATLetsInWhomItsNodeHasSentTo(t *testing.T) {
	in(t, func(t *testing.T, n *Net) {
		_, inside := add(t, n, NodeConfig{Name: "inside", NAT: true})
		y, a := add(t, n, NodeConfig{Name: "a"})
		other := listen(t, y, 2)
		if k, _, _ := burst(t, a, inside, 1, 10); k != 0 {
			t.Error("let in unasked")
		}
		if k, _, _ := burst(t, inside, a, 1, 10); k != 1 {
			t.Error("not let out")
		}
		if k, _, _ := burst(t, a, inside, 1, 10); k != 1 {
			t.Error("the answer was not let in")
		}
		if k, _, _ := burst(t, other, inside, 1, 10); k != 0 {
			t.Error("another port was let in")
		}
		time.Sleep(natMemory)
		if k, _, _ := burst(t, a, inside, 1, 10); k != 0 {
			t.Error("let in too late")
		}
	})
}

func TestTheDeadAreSilentAndTheirAddressIsFree(t *testing.T) {
	in(t, func(t *testing.T, n *Net) {
		x, old := add(t, n, NodeConfig{Name: "a"})
		_, b := add(t, n, NodeConfig{Name: "b"})
		if _, err := x.at.ListenUDP(&net.UDPAddr{Port: 1}); err == nil {
			t.Error("two sockets on one port")
		}
		if _, err := x.at.ListenUDP(&net.UDPAddr{IP: net.IPv4(9, 9, 9, 9), Port: 3}); err == nil {
			t.Error("listens where it is not")
		}
		x.Freeze()
		x.Kill()
		if k, _, _ := burst(t, old, b, 1, 10); k != 0 {
			t.Error("the dead speak")
		}
		fresh := listen(t, x, 1)
		if k, _, _ := burst(t, b, fresh, 1, 10); k != 1 {
			t.Error("the next life does not hear")
		}
		ok(t, fresh.Close())
		if _, _, err := fresh.ReadFrom(nil); !errors.Is(err, net.ErrClosed) {
			t.Error("read after close:", err)
		}
		if _, err := fresh.WriteTo(nil, b.LocalAddr()); !errors.Is(err, net.ErrClosed) {
			t.Error("written after close:", err)
		}
	})
}

func TestWhoDoesNotReadStallsNobody(t *testing.T) {
	in(t, func(t *testing.T, n *Net) {
		_, a := add(t, n, NodeConfig{Name: "a", Line: simnet.Line{Latency: time.Millisecond}})
		_, deaf := add(t, n, NodeConfig{Name: "deaf"})
		_, b := add(t, n, NodeConfig{Name: "b", Line: simnet.Line{Latency: time.Millisecond}})
		for range 3 * inbox {
			a.WriteTo([]byte("x"), deaf.LocalAddr())
			time.Sleep(time.Millisecond)
		}
		if k, first, _ := burst(t, a, b, 10, 10); k != 10 || first != 2*time.Millisecond {
			t.Error(k, "came, the first after", first)
		}
	})
}
