package p2p

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/libp2p/go-libp2p/core/protocol"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/share"
)

func protoID(s string) protocol.ID { return protocol.ID(s) }

// spot is where to listen: at an address, or on one port of some IPs, over TCP and QUIC.
type spot struct {
	addr ma.Multiaddr
	ips  []string // as multiaddrs; used if addr is nil
	port int
}

// everywhere is all interfaces.
var everywhere = []string{"/ip4/0.0.0.0", "/ip6/::"}

// spots reads Config.Listen: nil means the default, and empty none.
func spots(cfg Config) ([]spot, error) {
	switch {
	case len(cfg.Listen) == 0:
		return nil, nil
	case len(cfg.Listen) == 1 && cfg.Listen[0] == "none":
		return []spot{}, nil
	}
	var out []spot
	for _, s := range cfg.Listen {
		if port, err := strconv.ParseUint(strings.TrimPrefix(s, ":"), 10, 16); err == nil {
			out = append(out, spot{ips: everywhere, port: int(port)})
			continue
		}
		if ap, err := netip.ParseAddrPort(s); err == nil && ap.Addr().Zone() == "" {
			ip := "/ip6/" + ap.Addr().String()
			if ap.Addr().Is4() {
				ip = "/ip4/" + ap.Addr().String()
			}
			out = append(out, spot{ips: []string{ip}, port: int(ap.Port())})
			continue
		}
		if port := s[strings.LastIndexByte(s, ':')+1:]; !strings.Contains(s, "/") && strings.Trim(port, "0123456789") == "" && port != "" {
			if _, err := strconv.ParseUint(port, 10, 16); err == nil {
				return nil, words.Error(ErrAddress, "%q is not an address to listen on: give a port, or an IP address (not a host name) with a port, such as 192.0.2.1:4001 or [2001:db8::1]:4001", s)
			}
			return nil, words.Error(ErrAddress, "%q is not an address to listen on: a port is at most 65535", s)
		}
		if s == "none" {
			return nil, words.Error(ErrAddress, "\"none\" cannot be combined with addresses to listen on: give either \"none\" or the addresses")
		}
		a, err := share.ParseAddr(s)
		if err != nil {
			return nil, words.Error(ErrAddress, "%q is not an address to listen on: give a port such as 4001, an address such as 192.0.2.1:4001 or /ip4/192.0.2.1/tcp/4001, or none", s)
		}
		if !transported(a) {
			return nil, words.Error(ErrAddress, "%q is not an address to listen on: it must end in /tcp/PORT or /udp/PORT/quic-v1, such as /ip4/192.0.2.1/tcp/4001", s)
		}
		out = append(out, spot{addr: a})
	}
	return out, nil
}

// CheckAddrs says whether addresses are as Config.Listen, Config.Announce and Reach.Relays have them. Errors wrap ErrAddress.
func CheckAddrs(listen, announce, relays []string) error {
	_, bad := spots(Config{Listen: listen})
	_, wrong := announced(Config{Announce: announce})
	_, lost := newPlaces(relays)
	return cmp.Or(bad, wrong, lost)
}

// transported says whether connections to an address are made by one of our transports.
func transported(a ma.Multiaddr) bool {
	var codes []int
	for _, p := range a.Protocols() {
		codes = append(codes, p.Code)
	}
	n := len(codes)
	return n > 1 && codes[n-1] == ma.P_TCP || n > 2 && codes[n-2] == ma.P_UDP && codes[n-1] == ma.P_QUIC_V1
}

// dialable says whether an address, without the ID of its peer, is of a form that can be dialled: a host and one of our
// transports, a name of DNS that stands for such addresses, or a relay at either. libp2p, and what is said of a dial, take that for granted.
func dialable(a ma.Multiaddr) bool {
	if has(a, ma.P_CIRCUIT) {
		_, at, err := relayOf(a)
		return err == nil && dialable(at)
	}
	switch all := a.Protocols(); {
	case len(all) == 0:
		return false
	case all[0].Code == ma.P_DNSADDR:
		return true
	case slices.Contains([]int{ma.P_IP4, ma.P_IP6, ma.P_DNS, ma.P_DNS4, ma.P_DNS6}, all[0].Code):
		return transported(a) && (len(all) == 2 || len(all) == 3 && all[2].Code == ma.P_QUIC_V1)
	}
	return false
}

func (h *Host) listen(at []spot) error {
	if at == nil {
		return h.listenDefault()
	}
	for _, s := range at {
		if s.addr == nil {
			if err := h.listenPort(s.ips, s.port); err != nil {
				return err
			}
		} else if err := h.bind(s.addr); err != nil {
			return unusable(s.addr, err)
		}
	}
	return nil
}

// bind listens at an address that no other process uses. libp2p would share a TCP port with
// other processes, if it dials from it too.
func (h *Host) bind(a ma.Multiaddr) error {
	if slices.ContainsFunc(h.swarm.ListenAddresses(), a.Equal) { // libp2p would panic if it is one of QUIC
		return syscall.EADDRINUSE
	}
	if h.cfg.Reach.Traverse && has(a, ma.P_TCP) {
		l, err := manet.Listen(a)
		if err != nil {
			return err
		}
		l.Close()
	}
	return h.swarm.AddListenAddr(a)
}

// portTries is how many ports are tried for one that is free for all addresses of a spot.
const portTries = 8

// listenDefault listens on all interfaces, over TCP and QUIC, IPv4 and IPv6, on
// one port: the preferred one, or any that is free for all four. A system
// without IPv6 listens on IPv4, and one without IPv4 on IPv6.
func (h *Host) listenDefault() error {
	if h.cfg.Port != 0 && h.listenPort(everywhere, h.cfg.Port) == nil {
		return nil
	}
	return h.listenPort(everywhere, 0)
}

// listenPort listens on port, or with 0 on one that is free for all addresses. Those of
// ips whose family this system lacks are left out; if that is all, it is an error. After an
// error it listens on none of them.
func (h *Host) listenPort(ips []string, port int) error {
	before := h.swarm.ListenAddresses()
	var err error
	for range portTries {
		if err = h.listenAll(ips, port, before); err == nil {
			return nil
		}
		h.swarm.ListenClose(since(before, h.swarm.ListenAddresses())...)
		if port != 0 || !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	return err
}

// listenAll listens on port, or with 0 on whatever port the first address gets; before is
// what was listened on already.
func (h *Host) listenAll(ips []string, port int, before []ma.Multiaddr) error {
	var missing error
	for _, ip := range ips {
		for _, format := range []string{"/tcp/%d", "/udp/%d/quic-v1"} {
			if h.cfg.QUICOnly && format[1] == 't' || !h.cfg.overQUIC() && format[1] == 'u' {
				continue
			}
			a := ma.StringCast(ip + fmt.Sprintf(format, port))
			switch err := h.bind(a); {
			case err == nil:
				port = cmp.Or(port, firstPort(since(before, h.swarm.ListenAddresses())))
			case errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EACCES):
				return unusable(a, err)
			default: // this system lacks the family
				h.log.Debug("not listening", "addr", a, "err", err)
				missing = unusable(a, err)
			}
		}
	}
	if len(since(before, h.swarm.ListenAddresses())) == 0 {
		return missing
	}
	return nil
}

// since returns the addresses of this machine that are listened on now and were not before.
func since(before, now []ma.Multiaddr) []ma.Multiaddr {
	direct, _ := split(now)
	return slices.DeleteFunc(direct, func(a ma.Multiaddr) bool { return slices.ContainsFunc(before, a.Equal) })
}

// firstPort is the port of the first address that has one.
func firstPort(addrs []ma.Multiaddr) int {
	for _, a := range addrs {
		for _, code := range []int{ma.P_TCP, ma.P_UDP} {
			if s, err := a.ValueForProtocol(code); err == nil {
				if port, err := strconv.Atoi(s); err == nil {
					return port
				}
			}
		}
	}
	return 0
}
