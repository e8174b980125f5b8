package fetcher

import (
	"path/filepath"
	"testing"

	"github.com/piecelease/fetcher/share"
)

// A node that has shared something with a secret of its own, and stops while it is about to fetch the same with the secret of another, gives
// what it fetches to those who know the latter: that is in its ticket.
func TestAFetchIsGuardedByTheSecretOfItsTicket(t *testing.T) {
	t.Parallel()
	file, twin := filepath.Join(t.TempDir(), "file"), filepath.Join(t.TempDir(), "file")
	writeRandom(t, file, 1000, 1)
	writeRandom(t, twin, 1000, 1)
	source, n := openNode(t), openNode(t)
	s, err := source.Share(t.Context(), file, ShareOptions{Secret: true})
	must(t, err)
	own, err := n.Share(t.Context(), twin, ShareOptions{Secret: true})
	must(t, err)
	opened := n.catalog.offers.Opening(s.ID()) // as a fetch does that waits for the list of files
	must(t, own.Stop(t.Context()))
	_, err = fetchInto(t, n, s.Ticket(), t.TempDir(), FetchOptions{Keep: true})
	must(t, err)
	opened()
	parsed, err := share.Parse(s.Ticket())
	must(t, err)
	if got := n.catalog.offers.Secret(s.ID()); got == nil || *got != *parsed.Secret {
		t.Error("it is guarded by another secret: whoever has the ticket is refused")
	}
}
