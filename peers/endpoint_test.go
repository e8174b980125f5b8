package peers

import (
	"slices"
	"testing"
)

func TestNamedPlaces(t *testing.T) {
	tcp := Endpoint{Addr: "tcp4", Port: 4001}
	tcp6 := Endpoint{Addr: "tcp6", Port: 4001, IPv6: true}
	quic := Endpoint{Addr: "quic4", Port: 4001, QUIC: true}
	quic6 := Endpoint{Addr: "quic6", Port: 4001, QUIC: true, IPv6: true}
	as := func(p Endpoint, addr string, port, reach int) Endpoint {
		p.Addr, p.Port, p.Reach = addr, port, reach
		return p
	}
	for name, x := range map[string]struct {
		all   []Endpoint
		reach int
		want  []string
	}{
		"none":       {nil, 0, nil},
		"QUIC first": {[]Endpoint{tcp, tcp6, quic, quic6}, 0, []string{"quic4", "quic6", "tcp4", "tcp6"}},
		"one of each kind before a second": {[]Endpoint{quic, as(quic, "b", 4001, 0), as(quic, "c", 4001, 0), as(quic, "d", 4001, 0), tcp}, 0,
			[]string{"quic4", "tcp4", "b", "c"}},
		"once each":           {[]Endpoint{quic, quic, quic, quic, tcp}, 0, []string{"quic4", "tcp4"}},
		"of nearer reach":     {[]Endpoint{as(quic, "lan", 4001, 1), as(quic, "loopback", 4001, 2), quic}, 0, []string{"quic4"}},
		"as near":             {[]Endpoint{as(quic, "lan", 4001, 1), as(quic, "loopback", 4001, 2), quic}, 1, []string{"lan", "quic4"}},
		"on one machine":      {[]Endpoint{as(quic, "loopback", 4001, 2)}, 2, []string{"loopback"}},
		"ports of services":   {[]Endpoint{as(tcp, "ssh", 22, 0), as(tcp, "ldap", 1023, 0), as(tcp, "none", 0, 0), as(tcp, "a", 1024, 0)}, 0, []string{"a"}},
		"ports that pass all": {[]Endpoint{as(tcp, "http", 80, 0), as(quic, "https", 443, 0)}, 0, []string{"https", "http"}},
	} {
		if got := Addrs(Named(x.all, x.reach)); !slices.Equal(got, x.want) {
			t.Errorf("%s: %v, want %v", name, got, x.want)
		}
	}
}
