package discovery

import (
	"net"
	"slices"
	"strings"

	manet "github.com/multiformats/go-multiaddr/net"

	"github.com/piecelease/fetcher/share"
)

// reachable are the addresses that another machine on the network can dial by itself, not
// those over a relay, without the peer ID at their end.
func reachable(addrs []string) (out []string) {
	for _, s := range addrs {
		s, last, _ := strings.Cut(s, "/p2p/")
		a, err := share.ParseAddr(s)
		if err == nil && !strings.Contains(last, "/") && share.Reach(a) < share.SameMachine && host(s) != nil && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// host is the IP address of a multiaddr; nil: it has none.
func host(addr string) net.IP {
	a, err := share.ParseAddr(addr)
	if err != nil {
		return nil
	}
	ip, err := manet.ToIP(a)
	if err != nil {
		return nil
	}
	return ip
}

// hosts are the IP addresses of multiaddrs that reachable left, each once.
func hosts(addrs []string) (out []string) {
	for _, a := range addrs {
		if ip := host(a).String(); !slices.Contains(out, ip) {
			out = append(out, ip)
		}
	}
	return out
}

// networks are the addresses of this machine, with the names of what they are at.
func networks() (out []string) {
	all, err := net.Interfaces()
	if err != nil {
		return nil
	}
	for _, i := range all {
		if i.Flags&net.FlagUp == 0 || i.Flags&net.FlagMulticast == 0 {
			continue
		}
		addrs, _ := i.Addrs()
		for _, a := range addrs {
			out = append(out, i.Name+"/"+a.String())
		}
	}
	return out
}
