package p2p

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	ma "github.com/multiformats/go-multiaddr"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
)

// socksServer is a proxy for IPv4 and IPv6 addresses.
type socksServer struct {
	t      *testing.T
	l      net.Listener
	answer byte   // of RFC 1928, 6; 0: it connects
	user   string // and password, with a colon; empty: anybody
	hang   bool   // it takes connections, and says nothing
	cut    bool   // it takes connections, and ends them

	mu   sync.Mutex
	made []string // connections
	work sync.WaitGroup
	all  []net.Conn
}

func newSocks(t *testing.T, change func(*socksServer)) *socksServer {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &socksServer{t: t, l: l}
	if change != nil {
		change(s)
	}
	s.work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.keep(c)
			s.work.Go(func() { s.serve(c); c.Close() })
		}
	})
	t.Cleanup(func() {
		l.Close()
		s.mu.Lock()
		for _, c := range s.all {
			c.Close()
		}
		s.all = nil
		s.mu.Unlock()
		s.work.Wait()
	})
	return s
}

func (s *socksServer) keep(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, c)
}

func (s *socksServer) url() string {
	if s.user != "" {
		return "socks5://" + s.user + "@" + s.l.Addr().String()
	}
	return "socks5://" + s.l.Addr().String()
}

func (s *socksServer) connections() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.made...)
}

func read(c net.Conn, n int) []byte {
	b := make([]byte, n)
	io.ReadFull(c, b)
	return b
}

func (s *socksServer) serve(c net.Conn) {
	if s.hang {
		io.Copy(io.Discard, c)
		return
	}
	methods := read(c, int(read(c, 2)[1]))
	if s.cut {
		return
	}
	switch {
	case s.user == "":
		c.Write([]byte{5, 0})
	case !bytes.Contains(methods, []byte{2}):
		c.Write([]byte{5, 0xff})
		return
	default:
		c.Write([]byte{5, 2})
		user := read(c, int(read(c, 2)[1]))
		password := read(c, int(read(c, 1)[0]))
		if string(user)+":"+string(password) != s.user {
			c.Write([]byte{1, 1})
			return
		}
		c.Write([]byte{1, 0})
	}
	size := 4
	if read(c, 4)[3] == 4 {
		size = 16
	}
	ip, _ := netip.AddrFromSlice(read(c, size))
	at := netip.AddrPortFrom(ip, binary.BigEndian.Uint16(read(c, 2))).String()
	s.mu.Lock()
	s.made = append(s.made, at)
	s.mu.Unlock()
	reply := []byte{5, s.answer, 0, 1, 0, 0, 0, 0, 0, 0}
	if s.answer != 0 {
		c.Write(reply)
		return
	}
	to, err := net.Dial("tcp", at)
	if err != nil {
		reply[1] = 5
		c.Write(reply)
		return
	}
	s.keep(to)
	c.Write(reply)
	s.work.Go(func() { io.Copy(to, c); to.Close() })
	io.Copy(c, to)
}

// Everything that is fetched comes through the proxy, and the peer's address is its own, not the
// proxy's.
func TestPeersAreDialledThroughAProxy(t *testing.T) {
	x := newMemory(t, 300<<10)
	src := newHost(t, Config{Listen: []string{"/ip4/127.0.0.1/tcp/0", "/ip4/127.0.0.1/udp/0/quic-v1"}})
	src.Serve(toAll(x), everybody{})
	for name, proxy := range map[string]*socksServer{"anybody's": newSocks(t, nil), "with a password": newSocks(t, func(s *socksServer) { s.user = "me:secret" })} {
		h := newHost(t, Config{Listen: []string{"none"}, Reach: Reach{Proxy: proxy.url()}})
		c := newCatcher()
		l := h.Open(addr(src), x.m.ID(), x.m.Layout(), c)
		recv(t, "the link", c.up)
		fetchAll(t, x, l, c)
		if got := proxy.connections(); len(got) != 1 {
			t.Errorf("%s: connections %v, want one", name, got)
		}
		for _, c := range h.swarm.Conns() {
			if want := src.Addrs()[0]; !strings.HasPrefix(want, c.RemoteMultiaddr().String()+"/") {
				t.Errorf("%s: the peer is reported at %s, want %s", name, c.RemoteMultiaddr(), want)
			}
		}
		l.Close()
	}
}

// With a proxy, QUIC is used only if an address to listen on names it.
func TestQUICGoesPastAProxyOnlyIfNamed(t *testing.T) {
	rig.Slow(t)
	proxy := newSocks(t, nil)
	src := newHost(t, Config{Listen: []string{"/ip4/127.0.0.1/udp/0/quic-v1"}})
	for _, listen := range [][]string{{"0"}, {"none"}} {
		h := newHost(t, Config{Listen: listen, Reach: Reach{Proxy: proxy.url()}})
		for _, a := range h.swarm.ListenAddresses() {
			if has(a, ma.P_UDP) {
				t.Errorf("listens at %s", a)
			}
		}
		if _, err := h.connect(t.Context(), addr(src)); err == nil || err.Error() != noTCP || !errors.Is(err, peers.ErrNoTCP) {
			t.Errorf("listening at %s: %v", listen, err)
		}
	}
	h := newHost(t, Config{Listen: []string{"/ip4/127.0.0.1/udp/0/quic-v1"}, Reach: Reach{Proxy: proxy.url()}})
	if _, err := h.connect(t.Context(), addr(src)); err != nil {
		t.Error(err)
	}
	if got := proxy.connections(); len(got) > 0 {
		t.Error("the proxy was asked for", got)
	}
}

// Whatever a proxy does, the dial ends in time, and its error blames the proxy.
func TestProxiesThatFailAreNamed(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	src := newHost(t, Config{})
	locked := newSocks(t, func(s *socksServer) { s.user = "me:secret" })
	for at, x := range map[string]struct {
		want string
		is   error
	}{
		"socks5://" + gone.Addr().String():                         {"cannot be reached: refused: nothing listens there", peers.ErrNoProxy},
		"socks5://proxy.invalid:1080":                              {"cannot be reached: its name cannot be resolved", peers.ErrNoProxy},
		newSocks(t, func(s *socksServer) { s.hang = true }).url():  {"takes the connection and does not answer", peers.ErrNoProxy},
		newSocks(t, func(s *socksServer) { s.answer = 2 }).url():   {"answers: connection not allowed by ruleset", peers.ErrProxyRule},
		newSocks(t, func(s *socksServer) { s.answer = 5 }).url():   {"answers: connection refused", nil},
		newSocks(t, func(s *socksServer) { s.answer = 200 }).url(): {"answers: ", nil},
		"socks5://" + locked.l.Addr().String():                     {"wants a user and a password", peers.ErrProxyUser},
		"socks5://me:wrong@" + locked.l.Addr().String():            {"refuses this user or password", peers.ErrProxyUser},
		newSocks(t, func(s *socksServer) { s.cut = true }).url():   {"takes the connection and closes it without an answer", peers.ErrNoProxy},
	} {
		want, dial := x.want, patience // whoever answers does so in time, also on a busy machine
		if strings.HasSuffix(want, "does not answer") {
			dial = 4 * time.Second
		}
		h := newHost(t, Config{Listen: []string{"none"}, Reach: Reach{Proxy: at}, Timeouts: Timeouts{Dial: dial}})
		if _, err := h.connect(t.Context(), addr(src)); err == nil || !strings.HasPrefix(err.Error(), "the proxy "+at[strings.LastIndexAny(at, "/@")+1:]+" "+want) || !errors.Is(err, peers.ErrUnreachable) {
			t.Errorf("%s: %v, want %q", at, err, want)
		} else if is := peers.ProxyFault(err); is != x.is {
			t.Errorf("%s: %v is %v, want %v", at, err, is, x.is)
		} else if answers := strings.HasPrefix(want, "answers"); strings.Contains(err.Error(), " (TCP 127.0.0.1:") != answers {
			t.Errorf("%s: %v; the peer's address matters if the proxy answers", at, err)
		}
	}
}

func TestProxiesAreChecked(t *testing.T) {
	for at, want := range map[string]string{
		"127.0.0.1:1080":                                  "socks5://HOST:PORT",
		"http://127.0.0.1:1080":                           "socks5://HOST:PORT",
		"socks5://127.0.0.1":                              "socks5://HOST:PORT",
		"socks5://:1080":                                  "socks5://HOST:PORT",
		"socks5://127.0.0.1:1080/x":                       "socks5://HOST:PORT",
		"socks5://127.0.0.1:port":                         "socks5://HOST:PORT",
		"socks5://h:0":                                    "from 1 to 65535",
		"socks5://me:secret@h:65536":                      "from 1 to 65535",
		"socks5://:secret@h:1":                            "from 1 to 255 bytes",
		"socks5://" + strings.Repeat("u", 256) + ":x@h:1": "from 1 to 255 bytes",
	} {
		if err := (Reach{Proxy: at}).Validate(); !errors.Is(err, ErrAddress) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, want %q", at, err, want)
		}
	}
	if err := (Config{QUICOnly: true, Reach: Reach{Proxy: "socks5://h:1"}}).Validate(); err == nil || !strings.Contains(err.Error(), "needs TCP") {
		t.Error(err)
	}
}

// What is no proxy is said to be none.
func TestAnotherProgramIsNoProxy(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() { // ends with the listener
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
			c.Close()
		}
	}()
	_, err = proxyDialer{proxy{at: l.Addr().String()}, nil}.DialContext(t.Context(), "tcp", "192.0.2.1:4001")
	if err == nil || err.Error() != l.Addr().String()+" is not a SOCKS5 proxy" {
		t.Error(err)
	}
}
