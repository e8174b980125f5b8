package fetchpool

import (
	"testing"
	"time"
)

// When the source has given a piece to others, it comes back with all its requests; the
// rest goes on as if nothing had happened.
func TestPieceGivenToOthersComesBackAlone(t *testing.T) {
	h := ready(t, Config{MaxRequest: 64 << 10, FirstWindow: 8 << 20}, 256<<10, 256<<10)
	reqs := h.grant(0, 1).Requests
	if len(reqs) != 8 {
		t.Fatalf("%d requests", len(reqs))
	}
	h.p.Failed(reqs[0].ID, Elsewhere, 1500*time.Millisecond, h.now)
	todo := h.next()
	if reasons(todo) != "0 given to others" || todo.Return[0].Retry != 1500*time.Millisecond {
		t.Errorf("returns %+v", todo.Return)
	}
	if len(todo.Cancel) != 3 || len(todo.Ended) != 4 {
		t.Errorf("cancels %v, ends %d requests", todo.Cancel, len(todo.Ended))
	}
	if bytes, _ := h.p.InFlight(); bytes != 256<<10 || h.p.Leases() != 1 {
		t.Errorf("%d bytes are in flight on %d leases", bytes, h.p.Leases())
	}
	if todo.Want == 0 {
		t.Error("the source is left alone")
	}
	h.p.Failed(reqs[1].ID, Elsewhere, time.Second, h.now) // refused before our cancel arrived
	if todo := h.next(); len(todo.Return)+len(todo.Ended) > 0 {
		t.Errorf("again: %+v", todo)
	}
}

func TestRequestsSayThatWeArePressed(t *testing.T) {
	h := ready(t, Config{}, 64<<10, 64<<10)
	h.p.Grant([]Work{{Piece: 0, Token: 1, Pressed: true}, {Piece: 1, Token: 2}}, h.now)
	reqs := h.next().Requests
	if len(reqs) != 2 || !reqs[0].Pressed || reqs[1].Pressed {
		t.Errorf("%+v", reqs)
	}
}
