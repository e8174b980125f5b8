package fetchpool

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher/share"
)

// However many pieces a source did not have when it was asked for them, all of them are believed to be there again in the end:
// the lease manager, which was told that they are not, leases none of them before.
func TestAllAbsentPiecesAreBelievedAgain(t *testing.T) {
	const pieces = maxAbsent + 10
	h := ready(t, Config{}, pieces<<20)
	back := map[share.Piece]bool{}
	believe := func(todo Todo) {
		for _, p := range todo.Believe {
			back[p] = true
		}
	}
	for p := range share.Piece(pieces) {
		todo := h.grant(p)
		believe(todo)
		for _, r := range todo.Requests {
			if h.p.requests[r.ID] != nil {
				h.p.Failed(r.ID, NotFound, 0, h.now)
			}
		}
		h.p.misses = 0 // it has sent something else meanwhile: no rest
	}
	believe(h.after(time.Minute))
	if len(back) != pieces {
		t.Errorf("of %d pieces that were not there, %d are believed to be there in the end", pieces, len(back))
	}
}
