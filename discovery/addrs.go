package discovery

import (
	"net"
	"slices"
	"strings"

	manet "github.com/multiformats/go-multiaddr/net"

	"github.com/piecelease/fetcher/share"
)

// reachable returns the addresses that another machine on the network can dial directly, without
// a relay; the peer ID at their end is removed. One of each host comes before a second of any, and private ones first.
func reachable(addrs []string) (out []string) {
	for _, s := range addrs {
		s, last, _ := strings.Cut(s, "/p2p/")
		a, err := share.ParseAddr(s)
		if err == nil && !strings.Contains(last, "/") && share.Reach(a) < share.SameMachine && host(s) != nil && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	of := map[string]int{} // addresses of a host
	rank := map[string]int{}
	for _, s := range out {
		ip := host(s).String()
		rank[s] = 2*of[ip] - share.Farthest([]string{s}, false)
		of[ip]++
	}
	slices.SortStableFunc(out, func(a, b string) int { return rank[a] - rank[b] })
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

// hosts returns the IP addresses of multiaddrs from reachable, each once.
func hosts(addrs []string) (out []string) {
	for _, a := range addrs {
		if ip := host(a).String(); !slices.Contains(out, ip) {
			out = append(out, ip)
		}
	}
	return out
}

// networks returns the addresses of this machine, with the names of their interfaces.
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
