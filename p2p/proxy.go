package p2p

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
	socks "golang.org/x/net/proxy"

	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/peers"
)

// proxy is a SOCKS5 server (RFC 1928) that makes the TCP connections of a host.
type proxy struct {
	at   string // host and port
	auth *socks.Auth
}

// CheckProxy says whether a text is as Reach.Proxy has it. Errors wrap ErrAddress, and do not
// repeat the text, which may hold a password.
func CheckProxy(url string) error {
	_, err := parseProxy(url)
	return err
}

// parseProxy reads what CheckProxy checks.
func parseProxy(s string) (p proxy, err error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "socks5" || u.Hostname() == "" || u.Port() == "" || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
		return p, words.Error(ErrAddress, "a proxy is written socks5://HOST:PORT or socks5://USER:PASSWORD@HOST:PORT")
	}
	if n, err := strconv.ParseUint(u.Port(), 10, 16); err != nil || n == 0 {
		return p, words.Error(ErrAddress, "the port of a proxy is from 1 to 65535")
	}
	if u.User != nil {
		p.auth = &socks.Auth{User: u.User.Username()}
		p.auth.Password, _ = u.User.Password()
		if n := len(p.auth.User); n < 1 || n > 255 || len(p.auth.Password) > 255 {
			return p, words.Error(ErrAddress, "the user name for a proxy has from 1 to 255 bytes, and the password at most 255")
		}
	}
	p.at = u.Host
	return p, nil
}

// dialer implements tcp.DialerForAddr.
func (p proxy) dialer(to ma.Multiaddr) (tcp.ContextDialer, error) {
	at, err := manet.ToNetAddr(to)
	return proxyDialer{p, at}, err
}

// proxyDialer dials one address through a proxy.
type proxyDialer struct {
	proxy
	to net.Addr
}

// handshaker is an interface that the dialers of package socks implement too.
type handshaker interface {
	DialWithConn(ctx context.Context, c net.Conn, network, address string) (net.Addr, error)
}

// DialContext implements tcp.ContextDialer.
func (d proxyDialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	through, err := socks.SOCKS5("tcp", d.at, d.auth, nil)
	if err != nil {
		return nil, err
	}
	c, err := new(net.Dialer).DialContext(ctx, "tcp", d.at)
	if err != nil {
		return nil, said{"the proxy " + d.at + " cannot be reached: " + whyDial(err), peers.ErrNoProxy, err}
	}
	if _, err := through.(handshaker).DialWithConn(ctx, c, network, address); err != nil {
		c.Close()
		if late(err) || ctx.Err() != nil {
			return nil, said{"the proxy " + d.at + " takes the connection and does not answer", peers.ErrNoProxy, err}
		}
		if op, ok := errors.AsType[*net.OpError](err); ok {
			err = op.Err
		}
		for _, x := range []struct {
			part, says string
			is         error
		}{
			{"protocol version", d.at + " is not a SOCKS5 proxy", peers.ErrNoProxy},
			{"no acceptable authentication", "the proxy " + d.at + " wants a user and a password", peers.ErrProxyUser},
			{"password authentication failed", "the proxy " + d.at + " refuses this user or password", peers.ErrProxyUser},
			{io.EOF.Error(), "the proxy " + d.at + " takes the connection and closes it without an answer", peers.ErrNoProxy},
			{notAllowed, "the proxy " + d.at + " answers: " + notAllowed, peers.ErrProxyRule},
		} {
			if strings.Contains(err.Error(), x.part) {
				return nil, said{x.says, x.is, err}
			}
		}
		return nil, said{"the proxy " + d.at + " answers: " + oneLine(strings.TrimPrefix(err.Error(), "unknown error ")), peers.ErrProxy, err}
	}
	return proxied{c.(*net.TCPConn), d.to}, nil
}

// notAllowed is what package socks says of a proxy whose rules forbid a connection.
const notAllowed = "connection not allowed by ruleset"

// proxied is a connection that a proxy made. Its remote address is the peer's, not the
// proxy's: what may be dialled for a peer depends on where the peer is.
type proxied struct {
	*net.TCPConn
	to net.Addr
}

func (c proxied) RemoteAddr() net.Addr { return c.to }

// overQUIC says whether a host uses QUIC. With a proxy, which carries only TCP, it does so
// only if an address to listen on names it.
func (c Config) overQUIC() bool {
	return c.Reach.Proxy == "" || slices.ContainsFunc(c.Listen, func(s string) bool { return strings.Contains(s, "/quic") })
}
