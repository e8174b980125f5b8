package discovery

import (
	"encoding/base64"
	"slices"
	"strings"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// What one announcement says at most. It is sent as the TXT record of a DNS-SD service
// (RFC 6763), in one packet: some strings of up to 255 bytes, and 1,300 bytes in all.
const (
	maxAddrs     = 6 // ours has peers.MaxEndpoints, as nobody dials more of what he is told at once
	keySize      = 6 // bytes
	keyText      = keySize * 4 / 3
	keysInString = 30
	keysInRecord = 3 * keysInString
	maxString    = 255
	maxRecords   = 12 // of one node
	maxPlaces    = 3  // ... with the same shares and other addresses: fewer than a transfer remembers of one source
)

// MaxShares is how many shares of a node are announced, the last of its list.
const MaxShares = maxRecords * keysInRecord

// key stands for a share where its ID must stay secret.
type key [keySize]byte

func keyOf(id share.ID) key {
	sum := id.Blinded("fetcher lan 1")
	return key(sum[:keySize])
}

// record is what one announcement says.
type record struct {
	peer  peers.ID
	addrs []string // multiaddrs without /p2p
	keys  []key
}

// records returns the announcements of a node: at least one, as it can be found without a share. Those of many
// shares leave less room for those of many addresses, of which the first are announced.
func records(self peers.ID, addrs []string, shares []share.ID) (out []record) {
	addrs = slices.DeleteFunc(slices.Clone(addrs), func(a string) bool { return len(a) > maxString-2 })
	places := slices.Collect(slices.Chunk(addrs, peers.MaxEndpoints))
	var keys []key
	for _, id := range shares[max(0, len(shares)-MaxShares):] {
		keys = append(keys, keyOf(id))
	}
	sets := slices.Collect(slices.Chunk(keys, keysInRecord))
	if len(sets) == 0 {
		sets = [][]key{nil}
	}
	if len(places) == 0 {
		places = [][]string{nil}
	}
	for _, at := range places[:min(len(places), maxPlaces, maxRecords/len(sets))] {
		for _, some := range sets {
			out = append(out, record{self, at, some})
		}
	}
	return out
}

// text is the strings of a record.
func (r record) text() []string {
	out := []string{"id=" + string(r.peer)}
	for _, a := range r.addrs {
		out = append(out, "a="+a)
	}
	for some := range slices.Chunk(r.keys, keysInString) {
		b := []byte("k=")
		for _, k := range some {
			b = base64.RawURLEncoding.AppendEncode(b, k[:])
		}
		out = append(out, string(b))
	}
	return out
}

// parse reads the strings of a record. It skips what it does not know, and what is more than ours have; not ok: the record
// is not one of ours.
func parse(text []string) (r record, ok bool) {
	for _, s := range text {
		name, value, _ := strings.Cut(s, "=")
		switch {
		case len(s) > maxString:
			return r, false
		case name == "id" && r.peer == "":
			r.peer = peers.ID(value)
		case name == "a" && len(r.addrs) < maxAddrs:
			r.addrs = append(r.addrs, value)
		case name == "k" && len(r.keys) < keysInRecord:
			for some := range slices.Chunk([]byte(value), keyText) {
				var k key
				if n, err := base64.RawURLEncoding.Decode(k[:], some); err != nil || n != keySize {
					return r, false
				}
				r.keys = append(r.keys, k)
			}
		}
	}
	return r, r.peer != "" && len(r.peer) <= 128
}
