package fetcher

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/piecelease/fetcher/p2p"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// Fifty attackers, each in a network of its own: as many addresses of loopback.
const attackers = 50

func attackerAt(i int) string { return fmt.Sprintf("127.9.%d.9", i+1) }

// silence keeps 528 connections over TCP open to a port, evenly from all attackers, and says
// nothing on any. One that is closed is opened again. It returns when as many have been tried.
func silence(t *testing.T, port string) (turnedAway *atomic.Int64) {
	turnedAway = new(atomic.Int64)
	end := make(chan struct{})
	var work, tried sync.WaitGroup
	for i := range 528 {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(attackerAt(i % attackers))}}
		tried.Add(1)
		work.Go(func() {
			for first := sync.OnceFunc(tried.Done); ; turnedAway.Add(1) {
				c, err := d.Dial("tcp", "127.0.0.1:"+port)
				first()
				if err == nil {
					stop := make(chan struct{})
					go func() {
						defer close(stop)
						io.Copy(io.Discard, c) // returns when the other side, or the test, closes it
					}()
					select {
					case <-stop:
					case <-end:
					}
					c.Close()
					<-stop
				}
				select {
				case <-end:
					return
				case <-time.After(100 * time.Millisecond): // the attackers share these processors
				}
			}
		})
	}
	t.Cleanup(func() { close(end); work.Wait() })
	tried.Wait()
	return turnedAway
}

// victims is a machine that accepts connections at any address of loopback, counts them, and
// answers nothing.
func victims(t *testing.T) (port string, dialled *atomic.Int64) {
	l, err := net.Listen("tcp4", "0.0.0.0:0")
	must(t, err)
	dialled = new(atomic.Int64)
	var work sync.WaitGroup
	work.Go(func() {
		var open []net.Conn
		for {
			c, err := l.Accept()
			if err != nil {
				break
			}
			dialled.Add(1)
			open = append(open, c)
		}
		for _, c := range open {
			c.Close()
		}
	})
	t.Cleanup(func() { l.Close(); work.Wait() })
	return l.Addr().String()[strings.LastIndex(l.Addr().String(), ":")+1:], dialled
}

// namer makes a node name 32 peers that do not exist, each at eight addresses of victims, to
// everyone who fetches from it.
func namer(t *testing.T, n int, port string) func(peers.ID, []byte) [][]byte {
	var named []peers.Addr
	for i := range wire.MaxChildren {
		a := peers.Addr{ID: somebody(t)}
		for j := range wire.MaxAddrs {
			a.Addrs = append(a.Addrs, fmt.Sprintf("/ip4/127.%d.%d.%d/tcp/%s", 100+n, i, j+1, port))
		}
		named = append(named, a)
	}
	return func(_ peers.ID, f []byte) [][]byte {
		e, err := wire.ParseEnvelope(f)
		if err != nil || e.Type != wire.TypeSubscribeResult {
			return [][]byte{f}
		}
		m, err := wire.Parse[wire.SubscribeResult](e.Payload)
		if err != nil {
			return [][]byte{f}
		}
		m.Children = named
		e.Payload = wire.Append(nil, m)
		return [][]byte{wire.AppendEnvelope(nil, e)}
	}
}

// somebody is the ID of a peer that does not exist.
func somebody(t *testing.T) peers.ID {
	_, key, err := crypto.GenerateEd25519Key(rand.Reader)
	must(t, err)
	id, err := peer.IDFromPublicKey(key)
	must(t, err)
	return peers.ID(id.String())
}

// Silent connections to a source, and to whoever fetches from it, and fifty other sources that
// name victims and send nothing: the honest source still does what it can.
func TestFiftyAttackersSlowAFetchByLessThanHalf(t *testing.T) {
	if os.Getenv("ATTACK") == "" {
		t.Skip("only with ATTACK=1")
	}
	src := filepath.Join(t.TempDir(), "big.bin")
	want := writeRandom(t, src, 32<<20, 7)
	honest := shareOf(t, src, func(c *Config) { c.UploadRate = 8e6 }) // time goes into the line and not into these processors
	fetch := func(n *Node, more ...string) time.Duration {
		dir, began := t.TempDir(), time.Now()
		_, err := fetchInto(t, n, honest.Ticket(), dir, FetchOptions{Peers: more})
		must(t, err)
		took := time.Since(began)
		if got, _ := os.ReadFile(filepath.Join(dir, "big.bin")); !bytes.Equal(got, want) {
			t.Error("content differs")
		}
		return took
	}
	alone := fetch(openNode(t))

	port, dialled := victims(t)
	var more []string
	for i := range attackers {
		liar := shareOf(t, src, func(c *Config) {
			c.Listen = []string{"/ip4/" + attackerAt(i) + "/tcp/0"}
			c.Simulation.Send = namer(t, i, port)
			c.Simulation.Serve = toAll(func(b p2p.Blocks) p2p.Blocks {
				return &liar{Blocks: b, run: func(*liar, share.ID, share.Piece, share.Block, int, []byte) (int, wire.Reply) {
					return 0, wire.Reply{Status: wire.NotFound}
				}}
			})
		})
		more = append(more, liar.node.Addrs()...)
	}
	n := openNode(t)
	var silent []*atomic.Int64
	for _, x := range []*Node{honest.node, n} {
		for _, a := range x.Addrs() {
			if _, rest, tcp := strings.Cut(a, "/tcp/"); tcp {
				port, _, _ := strings.Cut(rest, "/")
				silent = append(silent, silence(t, port))
			}
		}
	}
	beside := fetch(n, more...)
	ratio := beside.Seconds() / alone.Seconds()
	t.Logf("alone %v, beside %d attackers %v: %.2f times; %d connections to victims of %d that were named", alone, attackers, beside, ratio, dialled.Load(), attackers*wire.MaxChildren*wire.MaxAddrs)
	for _, x := range silent {
		if t.Logf("%d silent connections turned away", x.Load()); x.Load() == 0 {
			t.Error("no silent connection was turned away")
		}
	}
	if dialled.Load() == 0 {
		t.Error("no victim was dialled, so nobody was named")
	}
	if ratio > 1.5 {
		t.Errorf("%.2f times as long, want 1.5 at most", ratio)
	}
}
