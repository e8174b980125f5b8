package etcdkv

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"

	"google.golang.org/grpc/credentials"

	"github.com/piecelease/fetcher/internal/trust"
)

// A witness sees why TLS with a server, or doing without, fails: gRPC keeps that to itself, and tries on.
type witness struct {
	servers int         // of the cluster
	give    func(error) // is called once that has failed with each of them

	mu      sync.Mutex
	refused map[string]error // by the address of the server
}

// saw notes how it went with a server.
func (w *witness) saw(conn net.Conn, err error) {
	server, why := conn.RemoteAddr().String(), trust.Refusal(err)
	if errors.Is(err, trust.ErrTLS) {
		why = err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err == nil:
		delete(w.refused, server)
	case why != nil:
		if w.refused[server] = why; len(w.refused) >= w.servers {
			w.give(why)
		}
	}
}

// why is why TLS fails now with a server; nil if it fails with none.
func (w *witness) why() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, why := range w.refused {
		return why
	}
	return nil
}

// watched has a witness see the connections.
type watched struct {
	credentials.TransportCredentials
	by *witness
}

func (c watched) Clone() credentials.TransportCredentials {
	return watched{c.TransportCredentials.Clone(), c.by}
}

func (c watched) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		c.by.saw(raw, err)
		return conn, info, err
	}
	return &reading{Conn: conn, by: c.by, plain: c.Info().SecurityProtocol != "tls"}, info, nil
}

// reading is a connection that was made: whether the server trusts us, or wants TLS, only the first bytes from it say.
type reading struct {
	net.Conn
	by    *witness
	plain bool // and nothing was read
}

func (r *reading) Read(b []byte) (int, error) {
	n, err := r.Conn.Read(b)
	if n == 0 && r.plain && wantsTLS(r.RemoteAddr().String()) {
		err = trust.ErrTLS
	}
	r.plain = false
	r.by.saw(r.Conn, err)
	return n, err
}

// wantsTLS finds out whether a server speaks TLS; to whoever speaks something else such a server hangs up without a word.
func wantsTLS(addr string) bool {
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: retryMost}, "tcp", addr, &tls.Config{InsecureSkipVerify: true}) // nothing is said to it
	if err == nil {
		conn.Close()
	}
	why := trust.Refusal(err)
	return err == nil || why != nil && why != trust.ErrPlain
}
