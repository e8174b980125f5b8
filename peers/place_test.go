package peers

import (
	"slices"
	"testing"
)

func TestNamedPlaces(t *testing.T) {
	tcp := Place{Addr: "tcp4", Port: 4001}
	tcp6 := Place{Addr: "tcp6", Port: 4001, IPv6: true}
	quic := Place{Addr: "quic4", Port: 4001, QUIC: true}
	quic6 := Place{Addr: "quic6", Port: 4001, QUIC: true, IPv6: true}
	as := func(p Place, addr string, port, reach int) Place {
		p.Addr, p.Port, p.Reach = addr, port, reach
		return p
	}
	for name, x := range map[string]struct {
		all   []Place
		reach int
		want  []string
	}{
		"none":       {nil, 0, nil},
		"QUIC first": {[]Place{tcp, tcp6, quic, quic6}, 0, []string{"quic4", "quic6", "tcp4", "tcp6"}},
		"one of each kind before a second": {[]Place{quic, as(quic, "b", 4001, 0), as(quic, "c", 4001, 0), as(quic, "d", 4001, 0), tcp}, 0,
			[]string{"quic4", "tcp4", "b", "c"}},
		"once each":           {[]Place{quic, quic, quic, quic, tcp}, 0, []string{"quic4", "tcp4"}},
		"of nearer reach":     {[]Place{as(quic, "lan", 4001, 1), as(quic, "loopback", 4001, 2), quic}, 0, []string{"quic4"}},
		"as near":             {[]Place{as(quic, "lan", 4001, 1), as(quic, "loopback", 4001, 2), quic}, 1, []string{"lan", "quic4"}},
		"on one machine":      {[]Place{as(quic, "loopback", 4001, 2)}, 2, []string{"loopback"}},
		"ports of services":   {[]Place{as(tcp, "ssh", 22, 0), as(tcp, "ldap", 1023, 0), as(tcp, "none", 0, 0), as(tcp, "a", 1024, 0)}, 0, []string{"a"}},
		"ports that pass all": {[]Place{as(tcp, "http", 80, 0), as(quic, "https", 443, 0)}, 0, []string{"https", "http"}},
	} {
		if got := Addrs(Named(x.all, x.reach)); !slices.Equal(got, x.want) {
			t.Errorf("%s: %v, want %v", name, got, x.want)
		}
	}
}
