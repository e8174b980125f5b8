package fetcher

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/connmgr"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/piecelease/fetcher/internal/rig"
)

// dialSpy notes whom a node dials.
type dialSpy struct {
	connmgr.ConnectionGater
	mu     sync.Mutex
	dialed map[peer.ID]bool
}

func (d *dialSpy) InterceptPeerDial(p peer.ID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dialed[p] = true
	return d.ConnectionGater.InterceptPeerDial(p)
}

func (d *dialSpy) put(c *libp2p.Config) error {
	d.dialed, d.ConnectionGater, c.ConnectionGater = map[peer.ID]bool{}, c.ConnectionGater, d
	return nil
}

// all returns whom it dialled.
func (d *dialSpy) all() []peer.ID {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.dialed))
}

// sockets returns this process's sockets by their inode: for those over IP the protocol, the local and the remote
// port, in hexadecimal.
func sockets(t *testing.T) map[string]string {
	t.Helper()
	of := map[string]string{}
	for _, proto := range []string{"tcp", "tcp6", "udp", "udp6"} {
		table, err := os.ReadFile("/proc/self/net/" + proto)
		must(t, err)
		for line := range strings.Lines(string(table)) {
			if f := strings.Fields(line); f[0] != "sl" {
				of[f[9]] = fmt.Sprintf("%s %s %s", proto[:3], f[1][strings.Index(f[1], ":")+1:], f[2][strings.Index(f[2], ":")+1:])
			}
		}
	}
	out := map[string]string{}
	fds, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	for _, fd := range fds {
		to, _ := os.Readlink(filepath.Join("/proc/self/fd", fd.Name())) // it may be closed by now
		if inode, ok := strings.CutPrefix(to, "socket:["); ok {
			inode = strings.TrimSuffix(inode, "]")
			out[inode] = of[inode]
		}
	}
	return out
}

// goroutines returns the goroutines of this process, each with the function that it runs.
func goroutines() map[string]string {
	buf := make([]byte, 16<<20)
	buf = buf[:runtime.Stack(buf, true)]
	out := map[string]string{}
	for one := range strings.SplitSeq(string(buf), "\n\n") {
		head, calls, _ := strings.Cut(one, "\n")
		for line := range strings.Lines(calls) {
			switch {
			case strings.HasPrefix(line, "\t"), strings.HasPrefix(line, "created by "), strings.HasPrefix(line, "sync.(*WaitGroup).Go"):
			default:
				out[strings.TrimSuffix(head, ":")[:strings.Index(head, " [")]] = line[:strings.LastIndex(line, "(")]
			}
		}
	}
	return out
}

// Goroutines of a node that was asked for nothing, without those of whoever is connected with it. The
// node's own actors have none while they have nothing to do.
var idle = []string{
	"libp2p/p2p/host/autonat.(*AmbientAutoNAT).background", // probes peers that offer it, as no node of ours does
	"libp2p/p2p/host/basic.(*addrsManager).background",
	"libp2p/p2p/host/peerstore/pstoremem.(*memoryAddrBook).background",
	"libp2p/p2p/host/pstoremanager.(*PeerstoreManager).background",
	"libp2p/p2p/host/resource-manager.(*resourceManager).background",
	"libp2p/p2p/net/connmgr.(*BasicConnMgr).background",
	"libp2p/p2p/net/connmgr.(*decayer).process",
	"libp2p/p2p/net/swarm.(*DialBackoff).background",
	"libp2p/p2p/net/swarm.(*Swarm).AddListenAddr.func2",
	"libp2p/p2p/net/swarm.(*connectionEventsEmitter).runEmitter",
	"libp2p/p2p/net/upgrader.(*listener).handleIncoming",
	"libp2p/p2p/protocol/identify.(*idService).loop",
	"libp2p/p2p/protocol/identify.(*idService).loop.func1",
	"libp2p/p2p/transport/quicreuse.(*quicListener).Run",
	"libp2p/p2p/transport/quicreuse.(*reuse).gc",
	"(*Transport).init.func1.1", // of quic-go, however it is inlined
	"quic-go.(*Transport).runSendQueue",
	"quic-go.(*baseServer).run",
	"quic-go.(*baseServer).runSendQueue",
}

// Goroutines of a connection over TCP.
var connected = []string{
	"libp2p/p2p/net/swarm.(*Conn).start.func1",
	"libp2p/p2p/net/swarm.(*Conn).start.func1.1",
	"go-yamux/v5.(*Session).recv",
	"go-yamux/v5.(*Session).send",
	"go-yamux/v5.(*Session).startMeasureRTT",
	"fetcher/p2p.(*Host).start.func1",
}

// A node that was asked for nothing of discovery, routers or beacons has its listeners, its goroutines, and
// the connections that a fetch needs; and it dials only whom a ticket names.
func TestANodeDoesNothingThatNobodyAskedFor(t *testing.T) {
	rig.Slow(t)
	had, ran := sockets(t), goroutines()
	rest := func(when string, open []string, may ...string) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			var more, now []string
			for id, f := range goroutines() {
				if _, old := ran[id]; !old && !slices.ContainsFunc(may, func(ok string) bool { return strings.HasSuffix(f, ok) }) {
					more = append(more, f)
				}
			}
			for inode, s := range sockets(t) {
				if _, old := had[inode]; !old {
					now = append(now, s)
				}
			}
			slices.Sort(now)
			if len(more) == 0 && slices.Equal(now, open) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%s: goroutines that are not stated: %q; sockets %q, want %q", when, more, now, open)
			}
		}
	}
	open := func(spy *dialSpy) (n *Node, listens []string) {
		n = openNode(t, func(c *Config) {
			c.Listen = []string{loopback[0], "/ip4/127.0.0.1/udp/0/quic-v1"}
			c.P2P.Libp2p = []libp2p.Option{spy.put}
		})
		for _, a := range n.Addrs() {
			f := strings.Split(a, "/")
			port, err := strconv.Atoi(f[4])
			must(t, err)
			listens = append(listens, fmt.Sprintf("%s %04X 0000", f[3], port))
		}
		return n, listens
	}
	var serving, fetching dialSpy
	source, listens := open(&serving)
	slices.Sort(listens)
	rest("open", listens, idle...)
	s, err := source.Share(t.Context(), someFile(t, 8<<20), ShareOptions{})
	must(t, err)
	rest("shared", listens, idle...)

	x, more := open(&fetching)
	overTCP := slices.DeleteFunc(source.Addrs(), func(a string) bool { return !strings.Contains(a, "/tcp/") }) // on a busy machine QUIC would be tried too
	if _, err := fetchInto(t, x, s.ID().String(), t.TempDir(), FetchOptions{Keep: true, Peers: overTCP}); err != nil {
		t.Fatal(err)
	}
	if to := fetching.all(); len(serving.all()) > 0 || len(to) != 1 || to[0].String() != string(source.ID()) {
		t.Errorf("the source dialled %v, and whoever fetched %v", serving.all(), to)
	}
	var pair []string // the two ends of their one connection
	for inode, f := range sockets(t) {
		if _, old := had[inode]; !old && strings.HasPrefix(f, "tcp ") && !strings.HasSuffix(f, " 0000") {
			pair = append(pair, f)
		}
	}
	if at := strings.TrimSuffix(strings.TrimPrefix(listens[0], "tcp "), " 0000"); len(pair) != 2 || !strings.Contains(pair[0], at) || !strings.Contains(pair[1], at) {
		t.Errorf("connections %q, want the two ends of one to the source's port %s", pair, at)
	}
	all := slices.Sorted(slices.Values(slices.Concat(listens, more, pair)))
	rest("fetched", all, slices.Concat(idle, connected)...)
}
