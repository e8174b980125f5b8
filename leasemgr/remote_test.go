package leasemgr

import (
	"slices"
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

func TestWhatASourceNoLongerHasIsTakenFromIt(t *testing.T) {
	r := newRig(t, 3, Config{}).add("a", "b").full("a").has("b", 0, 2)
	r.rate("a", 1e6, 100*time.Millisecond)
	leases := r.get("a", 2)
	if len(leases) != 2 {
		t.Fatalf("a was granted %v", leases)
	}
	gone := leases[0]
	todo := r.m.HaveNot("a", []share.Piece{gone.Piece, 99}, r.now)
	if len(todo.Revoked) != 1 || todo.Revoked[0].Token != gone.Token {
		t.Errorf("revoked %v, want the lease of piece %d", todo.Revoked, gone.Piece)
	}
	for _, l := range r.get("a", 3) {
		if l.Piece == gone.Piece {
			t.Errorf("a was granted piece %d again", l.Piece)
		}
	}
	if st := r.m.Stats(); st.Failed+st.Expired != 0 {
		t.Errorf("somebody was blamed: %+v", st)
	}
	if todo := r.m.HaveNot("nobody", []share.Piece{0}, r.now); len(todo.Revoked) != 0 {
		t.Errorf("a stranger lost %v", todo.Revoked)
	}
	// It is woken for a piece that it has again.
	r.m.HaveNot("a", []share.Piece{0, 1, 2}, r.now)
	if got := r.get("a", 1); len(got) != 0 {
		t.Errorf("granted %v to a source that has nothing", got)
	}
	if todo := r.m.Have("a", []share.Piece{1}, r.now); len(todo.Wake) != 1 {
		t.Errorf("woken: %v", todo.Wake)
	}
}

func TestANewHaveMapTakesBackWhatIsNotInIt(t *testing.T) {
	r := newRig(t, 3, Config{}).add("a", "b").full("a").has("b", 0, 1, 2)
	r.rate("a", 1e6, 100*time.Millisecond)
	leases := r.get("a", 2)
	if len(leases) != 2 {
		t.Fatalf("a was granted %v", leases)
	}
	kept, gone := leases[0], leases[1]
	todo := r.m.SetHave("a", setOf(3, kept.Piece), r.now)
	if len(todo.Revoked) != 1 || todo.Revoked[0].Token != gone.Token {
		t.Errorf("revoked %v, want the lease of piece %d", todo.Revoked, gone.Piece)
	}
	if got := r.get("b", 3); !slices.Contains(piecesOf(got), gone.Piece) {
		t.Errorf("b was granted %v, and not what a does not have any more", got)
	}
	if st := r.m.Stats(); st.Failed+st.Expired != 0 {
		t.Errorf("somebody was blamed: %+v", st)
	}
}

func TestWhatIsInFlightIsLeasedAgainWhateverTheRoom(t *testing.T) {
	r := newRig(t, 8, Config{MaxLeasesPerPeer: 1}).add("a", "b").full("a").has("b", 0, 1)
	for p := range share.Piece(4) {
		l, ok := r.m.Restore("a", p, r.now)
		if !ok || l.Piece != p || l.Source != "a" || !l.Expires.After(r.now) {
			t.Errorf("piece %d: %+v, %v", p, l, ok)
		}
	}
	r.m.Verified(5, r.now)
	for name, try := range map[string]struct {
		id peers.ID
		p  share.Piece
	}{"held": {"b", 0}, "its own": {"a", 0}, "verified": {"a", 5}, "not had": {"b", 6}, "no piece": {"a", 8}, "nobody": {"c", 6}} {
		if l, ok := r.m.Restore(try.id, try.p, r.now); ok {
			t.Errorf("%s: leased %+v", name, l)
		}
	}
	if got := r.get("a", 1); len(got) != 0 {
		t.Errorf("granted %v beyond the cap", got)
	}
	r.m.Rank("a", 1, true, r.now)
	if l, ok := r.m.Restore("a", 6, r.now); ok {
		t.Errorf("banned: leased %+v", l)
	}
}
