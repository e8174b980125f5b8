package actors

import (
	"testing"

	"github.com/piecelease/fetcher/share"
)

// A source outside a fleet that names pieces before it has said all that it has is fetched from under leases of the fleet alone, too.
func TestASourceOfAFleetThatNamesPiecesBeforeItsSetNeedsLeases(t *testing.T) {
	k := newClientLab(t)
	k.from(k.pool, SourceUp{"x"}) // it has another pool, and is connected anew
	k.holds(t)
	k.from(k.pool, SourceHasMore{"x", []share.Piece{3}})
	k.holds(t)
}
