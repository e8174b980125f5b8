package kvtest

import (
	"net"
	"sync"
	"testing"
)

// A Link is a TCP proxy in front of a server that loses what a test wants lost. While
// it loses something, connections stay open; afterwards they are cut, since bytes are
// missing from them.
type Link struct {
	Addr string // for clients

	server string
	listen net.Listener
	wg     sync.WaitGroup

	mu     sync.Mutex
	lose   Loss
	conns  map[net.Conn]struct{}
	closed bool
}

// Loss is what a [Link] loses.
type Loss int

// What a link loses.
const (
	Nothing Loss = iota
	Requests
	Answers
	Connections // every connection is refused
)

// NewLink returns a link to a server that loses nothing yet.
func NewLink(t testing.TB, server string) *Link {
	t.Helper()
	listen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &Link{Addr: listen.Addr().String(), server: server, listen: listen, conns: map[net.Conn]struct{}{}}
	l.wg.Go(l.accept)
	t.Cleanup(l.close)
	return l
}

// Lose begins to lose something; Nothing heals the link.
func (l *Link) Lose(what Loss) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if what == Nothing && l.lose != Nothing || what == Connections {
		for c := range l.conns {
			c.Close()
		}
	}
	l.lose = what
}

func (l *Link) accept() {
	for {
		client, err := l.listen.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", l.server)
		if err != nil || !l.add(client, server) {
			client.Close()
			if server != nil {
				server.Close()
			}
			continue
		}
		l.wg.Go(func() { l.carry(server, client, Requests) })
		l.wg.Go(func() { l.carry(client, server, Answers) })
	}
}

func (l *Link) add(conns ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.lose == Connections {
		return false
	}
	for _, c := range conns {
		l.conns[c] = struct{}{}
	}
	return true
}

// carry copies one way, until either end is closed.
func (l *Link) carry(to, from net.Conn, way Loss) {
	defer l.remove(to, from)
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		l.mu.Lock()
		lost := l.lose == way
		l.mu.Unlock()
		if !lost && n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (l *Link) remove(conns ...net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range conns {
		c.Close()
		delete(l.conns, c)
	}
}

func (l *Link) close() {
	l.listen.Close()
	l.mu.Lock()
	l.closed = true
	for c := range l.conns {
		c.Close()
	}
	l.mu.Unlock()
	l.wg.Wait()
}
