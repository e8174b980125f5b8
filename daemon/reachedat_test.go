package daemon

import "testing"

// A ticket names a depot where it was reached, and not at a port that was mistyped.
func TestATicketNamesADepotWhereItWasReached(t *testing.T) {
	t.Parallel()
	const id = "/p2p/12D3KooWGRUVh2z7bWbXoYbF7TjJn9r8oPTP6Qo2sKZkHcSBFwZS"
	quic, other := "/ip4/192.0.2.1/udp/4001/quic-v1"+id, "/ip6/2001:db8::1/tcp/4002"+id
	lan, quic10 := "/ip4/192.168.1.7/tcp/4001"+id, "/ip4/192.0.2.10/udp/4001/quic-v1"+id
	for name, c := range map[string]struct {
		named   string
		dialled []string
		want    string
	}{
		"as named":              {quic, []string{other, quic}, quic},
		"over TCP":              {"/ip4/192.0.2.1/tcp/4001" + id, []string{quic}, "/ip4/192.0.2.1/tcp/4001" + id},
		"a wrong port":          {"/ip4/192.0.2.1/tcp/4010" + id, []string{quic, other}, quic},
		"a wrong host":          {"/ip4/192.0.2.7/tcp/4001" + id, []string{other}, other},
		"in this network":       {quic10, []string{lan, other}, other},
		"only in this network":  {quic10, []string{lan}, quic10},
		"named in this network": {"/ip4/192.168.1.9/tcp/1" + id, []string{lan}, lan},
		"not dialled":           {"/ip4/192.0.2.1/tcp/4010" + id, nil, "/ip4/192.0.2.1/tcp/4010" + id},
		"a name":                {"/dns4/depot.example/tcp/4001" + id, []string{quic}, "/dns4/depot.example/tcp/4001" + id},
		"through a relay":       {"/ip4/192.0.2.9/tcp/1" + id + "/p2p-circuit" + id, []string{quic}, "/ip4/192.0.2.9/tcp/1" + id + "/p2p-circuit" + id},
		"nowhere":               {id, []string{quic}, id},
	} {
		if got := reachedAt(c.named, c.dialled); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
