package fetchpool

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher/share"
)

// A pool asks for an urgent lease next, whether it was granted as urgent or became so;
// the leases that it overtakes come afterwards.
func TestUrgentLeasesAreAskedForFirst(t *testing.T) {
	for how, begin := range map[string]func(*hand){
		"granted": func(h *hand) { h.p.Grant([]Work{{Piece: 3, Token: 7, Urgent: true}}, h.now) },
		"hurried": func(h *hand) {
			h.p.Grant([]Work{{Piece: 3, Token: 7}}, h.now)
			h.p.Hurry(3, 8, h.now) // not its token
			h.p.Hurry(2, 7, h.now) // not held
			h.p.Hurry(3, 7, h.now)
			h.p.Hurry(3, 7, h.now)
		},
	} {
		t.Run(how, func(t *testing.T) {
			h := ready(t, Config{}, 4<<20)
			open := h.grant(0, 1).Requests // as many as the window takes
			begin(h)
			open = append(open, h.next().Requests...)
			before := len(open)
			var asked []share.Piece // asked for after that
			for len(open) > 0 {
				h.serve(open[:1], 1e6)
				more := h.next().Requests
				open = append(open[1:], more...)
				for _, r := range more {
					for range r.Count {
						asked = append(asked, r.Piece)
					}
				}
			}
			for i, p := range asked {
				if (p == 3) != (i < 16) {
					t.Fatalf("after %d requests for piece 0 it asked for %v", before, asked)
				}
			}
			if len(asked)+before < 3*16 {
				t.Errorf("%d blocks were asked for", len(asked)+before)
			}
		})
	}
}

// A block of an urgent lease that comes back is asked for again before others.
func TestAnUrgentLeaseThatCameBackGoesFirstAgain(t *testing.T) {
	h := ready(t, Config{}, 4<<20)
	h.p.Grant([]Work{{Piece: 1, Token: 7, Urgent: true}}, h.now)
	reqs := h.grant(0).Requests
	if len(reqs) == 0 || reqs[0].Piece != 1 {
		t.Fatalf("asked for %+v", reqs)
	}
	for len(reqs) < 16 { // all of piece 1
		h.serve(reqs[:1], 1e6)
		reqs = append(reqs[1:], h.next().Requests...)
		if reqs[len(reqs)-1].Piece == 0 {
			break
		}
	}
	failed := false
	for _, r := range reqs {
		if r.Piece == 1 && !failed {
			failed = true
			h.p.Failed(r.ID, Busy, time.Second, h.now)
			continue
		}
		h.p.Finished(r.ID, h.now)
	}
	if reqs := h.after(time.Second).Requests; len(reqs) == 0 || reqs[0].Piece != 1 {
		t.Errorf("asked for %+v before what came back", reqs)
	}
}
