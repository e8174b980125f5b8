package leasemgr

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
)

func TestPieceThatAllFailedWithIsAskedForAgain(t *testing.T) {
	r := newRig(t, 1, Config{})
	r.add("a", "b", "c").full("a", "b", "c")
	for _, id := range []peers.ID{"a", "b", "c"} {
		l := r.one(id)
		r.m.Fail(l.Source, l.Piece, l.Token, Missed, r.now)
	}
	if got := r.get("c", 1); len(got) > 0 {
		t.Error("the peer that failed last was asked again at once, although others could be")
	}
	l := r.one("b")
	r.m.Fail(l.Source, l.Piece, l.Token, Missed, r.now)
	l = r.one("a")
	todo := r.m.Fail(l.Source, l.Piece, l.Token, Missed, r.now)
	if len(todo.Wake) == 0 {
		t.Error("nobody was woken for a piece that all had failed with")
	}
}

func TestLossOfTheLastOtherSourceEndsAShun(t *testing.T) {
	for name, lose := range map[string]func(r *rig){
		"removed":      func(r *rig) { r.m.RemoveSource("b", r.now) },
		"banned":       func(r *rig) { r.m.Rank("b", 0, true, r.now) },
		"disconnected": func(r *rig) { r.m.SetHave("b", nil, r.now) },
		"without it": func(r *rig) {
			l := r.one("b")
			r.m.Fail("b", l.Piece, l.Token, NotFound, r.now)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1, Config{})
			r.add("a", "b").full("a", "b")
			l := r.one("a")
			r.pass(time.Second)
			r.m.Fail("a", l.Piece, l.Token, BadData, r.now)
			if got := r.get("a", 1); len(got) > 0 {
				t.Fatal("asked again at once")
			}
			lose(r)
			r.one("a")
		})
	}
}
