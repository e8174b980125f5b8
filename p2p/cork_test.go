package p2p

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/sec"
	libp2ptls "github.com/libp2p/go-libp2p/p2p/security/tls"
)

// calls counts the reads and writes of a connection.
type calls struct {
	net.Conn
	reads, writes atomic.Int64
}

func (c *calls) Read(b []byte) (int, error)  { c.reads.Add(1); return c.Conn.Read(b) }
func (c *calls) Write(b []byte) (int, error) { c.writes.Add(1); return c.Conn.Write(b) }

// securedPair is a connection over TCP, secured at both ends, and the counters of the
// calls at its ends.
func securedPair(t *testing.T) (conns [2]sec.SecureConn, below [2]*calls) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	came := make(chan net.Conn, 1)
	go func() {
		c, _ := l.Accept()
		came <- c
	}()
	out, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	below = [2]*calls{{Conn: out}, {Conn: <-came}}
	var ends [2]*corkedTLS
	for i := range ends {
		key, err := crypto.UnmarshalEd25519PrivateKey(seedKey(byte(i)))
		if err == nil {
			ends[i], err = newTLS(libp2ptls.ID, key, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { below[i].Conn.Close() })
	}
	done := make(chan error, 1)
	go func() {
		var err error
		conns[1], err = ends[1].SecureInbound(context.Background(), below[1], "")
		done <- err
	}()
	conns[0], err = ends[0].SecureOutbound(context.Background(), below[0], hostID(seedKey(1)))
	if err := errors.Join(err, recv(t, "the handshake", done)); err != nil {
		t.Fatal(err)
	}
	return conns, below
}

func TestAWriteOverTLSIsOneWriteToTheSocket(t *testing.T) {
	conns, below := securedPair(t)
	data := make([]byte, 1<<20) // 64 records and more
	rand.NewChaCha8([32]byte{}).Read(data)
	got := make(chan []byte, 1)
	go func() {
		b := make([]byte, 3*len(data))
		n, _ := io.ReadFull(conns[1], b)
		got <- b[:n]
	}()
	before := below[0].writes.Load()
	for range 3 {
		if n, err := conns[0].Write(data); n != len(data) || err != nil {
			t.Fatal(n, err)
		}
	}
	if n := below[0].writes.Load() - before; n != 3 {
		t.Errorf("3 writes became %d", n)
	}
	if !bytes.Equal(recv(t, "the bytes", got), bytes.Repeat(data, 3)) {
		t.Error("other bytes came than were sent")
	}
}

// endless is a connection that always has as many bytes as a read can take.
type endless struct {
	net.Conn
	each  int // the most bytes of one read; 0: unlimited
	reads int
	next  byte
}

func (e *endless) Read(b []byte) (int, error) {
	e.reads++
	if e.each > 0 && len(b) > e.each {
		b = b[:e.each]
	}
	for i := range b {
		b[i] = e.next
		e.next++
	}
	return len(b), nil
}

func TestBulkIsReadAheadOfTLS(t *testing.T) {
	below := &endless{}
	k := &cork{Conn: below}
	buf := make([]byte, 17<<10)
	var want byte
	for range 64 {
		if _, err := io.ReadFull(k, buf); err != nil {
			t.Fatal(err)
		}
		for _, b := range buf {
			if b != want {
				t.Fatal("bytes are lost or out of order")
			}
			want++
		}
	}
	if most := 64*17/64 + 2; below.reads > most {
		t.Errorf("%d reads of the socket, want at most %d", below.reads, most)
	}
}

func TestSmallMessagesMakeNobodyReadAhead(t *testing.T) {
	k := &cork{Conn: &endless{each: 1000}}
	for range 100 {
		if n, err := k.Read(make([]byte, 17<<10)); n != 1000 || err != nil {
			t.Fatal(n, err)
		}
	}
	if k.ahead != nil {
		t.Error("it keeps a buffer")
	}
}

// An end that is stuck in a write must be closable at once, and nothing may follow
// what was cut off.
func TestAWriteThatIsStuckEndsWithItsConnection(t *testing.T) {
	conns, _ := securedPair(t)
	stuck := make(chan error, 1)
	go func() {
		for {
			if _, err := conns[0].Write(make([]byte, 1<<20)); err != nil {
				stuck <- err
				return
			}
		}
	}()
	k := conns[0].(*corkedConn).below
	eventually(t, "a write that is stuck", func() bool {
		if k.mu.TryLock() {
			k.mu.Unlock()
			return false
		}
		return k.held.Load() > 0
	})
	closed := make(chan error, 1)
	go func() { closed <- conns[0].Close() }()
	recv(t, "the end of Close", closed)
	recv(t, "the end of the write", stuck)
}

func TestNothingFollowsAWriteThatFailed(t *testing.T) {
	conns, below := securedPair(t)
	conns[0].SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
	var err error
	for err == nil {
		_, err = conns[0].Write(make([]byte, 1<<20))
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	conns[0].SetWriteDeadline(time.Time{})
	go io.Copy(io.Discard, below[1].Conn)
	before := below[0].writes.Load()
	if n, again := conns[0].Write([]byte("more")); again == nil {
		t.Errorf("%d bytes were written behind what was cut off", n)
	}
	if n := below[0].writes.Load() - before; n != 0 {
		t.Errorf("%d writes went to the socket", n)
	}
}
