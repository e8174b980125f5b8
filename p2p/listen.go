package p2p

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/libp2p/go-libp2p/core/protocol"
	ma "github.com/multiformats/go-multiaddr"

	"github.com/piecelease/fetcher/share"
)

func protoID(s string) protocol.ID { return protocol.ID(s) }

// listenAddrs reads Config.Listen: nil means the default, and empty none.
func listenAddrs(cfg Config) ([]ma.Multiaddr, error) {
	switch {
	case len(cfg.Listen) == 0:
		return nil, nil
	case len(cfg.Listen) == 1 && cfg.Listen[0] == "none":
		return []ma.Multiaddr{}, nil
	}
	addrs, err := parse("listen", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, share.ErrNetwork)
	}
	return addrs, nil
}

func (h *Host) listen(addrs []ma.Multiaddr) error {
	if addrs == nil {
		return h.listenDefault()
	}
	for _, a := range addrs {
		if err := h.swarm.AddListenAddr(a); err != nil {
			return unusable(a, err)
		}
	}
	return nil
}

// portTries is how many ports are tried for one that is free for all of the
// default addresses.
const portTries = 8

// listenDefault listens on all interfaces, over TCP and QUIC, IPv4 and IPv6, on
// one port: the preferred one, or any that is free for all four. A system
// without IPv6 listens on IPv4, and one without IPv4 on IPv6.
func (h *Host) listenDefault() error {
	var err error
	for try := range portTries {
		port := 0
		if try == 0 {
			port = h.cfg.Port
		}
		if err = h.listenPort(port); err == nil {
			return nil
		}
		h.swarm.ListenClose(h.swarm.ListenAddresses()...)
	}
	return err
}

// listenPort listens on port, or with 0 on whatever port the first address gets.
func (h *Host) listenPort(port int) error {
	var missing error
	bound := 0
	for _, ip := range []string{"/ip4/0.0.0.0", "/ip6/::"} {
		for _, format := range []string{"/tcp/%d", "/udp/%d/quic-v1"} {
			if h.cfg.QUICOnly && format[1] == 't' {
				continue
			}
			a := ma.StringCast(ip + fmt.Sprintf(format, port))
			switch err := h.swarm.AddListenAddr(a); {
			case err == nil:
				bound++
				port = h.port(port)
			case errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EACCES):
				return unusable(a, err)
			default: // this system lacks the family
				h.log.Debug("not listening", "addr", a, "err", err)
				missing = unusable(a, err)
			}
		}
	}
	if bound == 0 {
		return missing
	}
	return nil
}

// port is the port of the first address listened on, if port is still open.
func (h *Host) port(port int) int {
	if port != 0 {
		return port
	}
	for _, a := range h.swarm.ListenAddresses() {
		for _, code := range []int{ma.P_TCP, ma.P_UDP} {
			var p int
			if s, err := a.ValueForProtocol(code); err == nil {
				if _, err := fmt.Sscan(s, &p); err == nil {
					return p
				}
			}
		}
	}
	return 0
}
