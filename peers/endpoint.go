package peers

import "slices"

// Endpoint is where an address leads, as far as the address itself says.
type Endpoint struct {
	Addr  string // the address, without a peer ID
	Host  string // its IP address
	Reach int    // from how far it can be dialled, as in share.Reach: less is farther
	Net   string // its network: the /24 of IPv4, also that to which an address of IPv6 leads, or else the /48 of IPv6
	// Location is a wider neighbourhood: the /16 of IPv4, the /32 of IPv6.
	Location string
	Port     int
	QUIC     bool
	IPv6     bool
}

// MaxEndpoints bounds the addresses of one peer that are named to others, or believed.
const MaxEndpoints = 4

// ThroughNamer, among the addresses of a peer, says that whoever names the peer is a relay at which it has a place.
const ThroughNamer = "/p2p-circuit"

// Through is the address of a peer that has a place at a relay, for a node that is connected with the relay.
func Through(relay ID) string { return "/p2p/" + string(relay) + ThroughNamer }

// Named returns the endpoints of a peer that are worth naming on a connection of this
// reach, or dialling when somebody names them on it. None is of nearer reach, because
// the peer that names them could otherwise have the other's own network dialled from
// within. None has a port at which other kinds of services listen. There are at most
// MaxEndpoints, one of each family and transport before there is a second, QUIC first.
func Named(all []Endpoint, reach int) []Endpoint {
	type kind struct{ quic, ipv6 bool }
	seen := map[kind]int{}
	rounds := map[string]int{} // by address: how many of its kind come before it
	var out []Endpoint
	for _, p := range all {
		if _, twice := rounds[p.Addr]; twice || p.Reach > reach || p.Port < 1024 && p.Port != 80 && p.Port != 443 {
			continue
		}
		k := kind{p.QUIC, p.IPv6}
		rounds[p.Addr] = seen[k]
		seen[k]++
		out = append(out, p)
	}
	slices.SortStableFunc(out, func(a, b Endpoint) int {
		if d := rounds[a.Addr] - rounds[b.Addr]; d != 0 || a.QUIC == b.QUIC {
			return d
		}
		if a.QUIC {
			return -1
		}
		return 1
	})
	return out[:min(len(out), MaxEndpoints)]
}

// Addrs are the addresses of endpoints.
func Addrs(all []Endpoint) []string {
	out := make([]string, len(all))
	for i, p := range all {
		out[i] = p.Addr
	}
	return out
}
