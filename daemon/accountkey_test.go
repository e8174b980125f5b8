package daemon

import (
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"
)

// Libraries read a CID as a peer's ID, too, but nobody connects by that name.
func TestAKeyIsTheOneTextOfAPeersID(t *testing.T) {
	t.Parallel()
	const key = "12D3KooWJcge8xRZ5k8JqvEmhYiX4BRtBjinpdRf5jNBvhX5ycZN"
	id, err := peer.Decode(key)
	must(t, err)
	must(t, checkKey(key))
	for _, other := range []string{peer.ToCid(id).String(), "nobody", ""} {
		if checkKey(other) == nil {
			t.Errorf("%q was taken", other)
		}
	}
}
