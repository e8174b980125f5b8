package fetcher_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	ma "github.com/multiformats/go-multiaddr"
	"github.com/multiformats/go-multihash"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/share"
)

// A ticket's relays lead to each of its sources.
func TestASourceIsAlsoReachedThroughTheRelaysOfItsTicket(t *testing.T) {
	const self, relay = "12D3KooWGRUVh2z7bWbXoYbF7TjJn9r8oPTP6Qo2sKZkHcSBFwZS", "12D3KooWJWEKvSFbben74C7H4YtKjhPMTDxd7gP7rxaQLmS9rZAA"
	through := "/ip4/1.2.3.4/tcp/4001/p2p/" + relay + "/p2p-circuit"
	direct := "/ip4/10.0.0.1/tcp/4001"
	ticket, err := share.NewTicket(share.IDOf(nil), []ma.Multiaddr{ma.StringCast(direct + "/p2p/" + self), ma.StringCast(through + "/p2p/" + self)})
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("[%s %s]", direct, through)
	for text, more := range map[string][]string{
		ticket.String():          nil,
		share.IDOf(nil).String(): {direct + "/p2p/" + self, through + "/p2p/" + self},
	} {
		_, got, err := fetcher.ParseSource(text, more)
		if err != nil || len(got) != 1 || string(got[0].ID) != self || fmt.Sprint(got[0].Addrs) != want {
			t.Error(got, err, "want", want)
		}
	}
	// Nobody listens at port 0: the peer is known, and not where it is.
	nowhere := "/ip4/10.0.0.1/udp/0/quic-v1/p2p/" + self
	ticket, err = share.NewTicket(share.IDOf(nil), []ma.Multiaddr{ma.StringCast(nowhere), ma.StringCast(direct + "/p2p/" + relay)})
	if err != nil {
		t.Fatal(err)
	}
	if _, got, err := fetcher.ParseSource(ticket.String(), nil); err != nil || len(got) != 2 || string(got[0].ID) != self || len(got[0].Addrs) != 0 || len(got[1].Addrs) != 1 {
		t.Error(got, err)
	}
	if _, _, err := fetcher.ParseSource(share.IDOf(nil).String(), []string{nowhere}); err == nil {
		t.Error("a peer at port 0 was given, and is not refused")
	}
	// An ID that holds what it stands for has any length, and no message has room for all of them.
	long, err := multihash.Encode(make([]byte, 100), multihash.IDENTITY)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := fetcher.ParseSource(share.IDOf(nil).String(), []string{direct + "/p2p/" + multihash.Multihash(long).B58String()}); err == nil || !strings.Contains(err.Error(), "longer than any peer's") {
		t.Error("of an ID that is longer than any:", err)
	}
	if _, _, err := fetcher.ParseSource("7 Marble fossil", nil); !errors.Is(err, share.ErrTicket) || err.Error() != "7-marble-fossil is a code, and only fetcher fetch takes one" {
		t.Error("of a code:", err)
	}
}
