package p2p

import (
	"context"
	"net"
	"sync"
	"sync/atomic"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/core/sec"
	tptu "github.com/libp2p/go-libp2p/p2p/net/upgrader"
	libp2ptls "github.com/libp2p/go-libp2p/p2p/security/tls"
)

// corkedTLS is libp2p's TLS over a cork: alone, TLS makes a system call for
// each record of 16 KiB that it writes, and nearly as many to read.
type corkedTLS struct{ *libp2ptls.Transport }

func newTLS(id protocol.ID, key crypto.PrivKey, muxers []tptu.StreamMuxer) (*corkedTLS, error) {
	t, err := libp2ptls.New(id, key, muxers)
	return &corkedTLS{t}, err
}

func (t *corkedTLS) SecureInbound(ctx context.Context, insecure net.Conn, p peer.ID) (sec.SecureConn, error) {
	return overCork(ctx, insecure, p, t.Transport.SecureInbound)
}

func (t *corkedTLS) SecureOutbound(ctx context.Context, insecure net.Conn, p peer.ID) (sec.SecureConn, error) {
	return overCork(ctx, insecure, p, t.Transport.SecureOutbound)
}

func overCork(ctx context.Context, insecure net.Conn, p peer.ID, secure func(context.Context, net.Conn, peer.ID) (sec.SecureConn, error)) (sec.SecureConn, error) {
	k := &cork{Conn: insecure}
	c, err := secure(ctx, k, p)
	if err != nil {
		return nil, err
	}
	return &corkedConn{c, k}, nil
}

// corkedConn is a secure connection whose Write is one write to the socket.
type corkedConn struct {
	sec.SecureConn
	below *cork
}

func (c *corkedConn) Write(b []byte) (int, error) {
	c.below.hold()
	n, err := c.SecureConn.Write(b)
	if e := c.below.flush(); e != nil && err == nil {
		return 0, e
	}
	return n, err
}

// Close does not wait for a Write, just as the Close of TLS does not.
func (c *corkedConn) Close() error {
	if c.below.held.Load() > 0 {
		return c.below.Conn.Close()
	}
	return c.SecureConn.Close()
}

// readAhead is how many bytes are read from the socket at once while more arrive than
// TLS asks for.
const readAhead = 64 << 10

// cork is a connection that gathers what is written while it is held, and reads
// ahead. One goroutine at a time may read.
type cork struct {
	net.Conn
	held atomic.Int32 // calls of hold without flush

	mu  sync.Mutex // guards what follows, and the order of the bytes
	buf []byte     // written, but not yet to the socket
	err error      // of a write to the socket: no byte may follow

	ahead []byte // nil until a read left nothing of its buffer free
	rest  []byte // of ahead, not yet read
}

func (k *cork) hold() { k.held.Add(1) }

// flush writes what was gathered, and undoes one hold.
func (k *cork) flush() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.held.Add(-1)
	if k.err == nil && len(k.buf) > 0 {
		_, k.err = k.Conn.Write(k.buf)
		k.buf = k.buf[:0]
	}
	return k.err
}

func (k *cork) Write(b []byte) (n int, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err == nil && k.held.Load() > 0 {
		k.buf = append(k.buf, b...)
		return len(b), nil
	}
	if k.err == nil {
		n, k.err = k.Conn.Write(b)
	}
	return n, k.err
}

func (k *cork) Read(p []byte) (int, error) {
	if len(k.rest) == 0 && k.ahead == nil {
		n, err := k.Conn.Read(p)
		if n == len(p) && n >= readAhead/8 {
			k.ahead = make([]byte, readAhead)
		}
		return n, err
	}
	if len(k.rest) == 0 {
		n, err := k.Conn.Read(k.ahead)
		if n == 0 {
			return 0, err
		}
		k.rest = k.ahead[:n] // an error that came with bytes comes again
	}
	n := copy(p, k.rest)
	k.rest = k.rest[n:]
	return n, nil
}
