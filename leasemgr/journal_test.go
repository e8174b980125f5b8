package leasemgr

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher/share"
	"pgregory.net/rapid"
)

// Every granted lease is reported once, and its end once, with what the
// statistics count.
func TestEventsTellEveryGrantAndEveryEnd(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		x := newMachine(t, 0)
		x.m.Watch(true)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			x.step()
		}
		live, count := map[share.Token]LeaseEvent{}, map[End]uint64{}
		for _, e := range x.m.Events() {
			count[e.End]++
			grant, known := live[e.Token]
			switch {
			case e.End == Granted && known, e.End != Granted && !known:
				t.Fatalf("%+v: known before %t", e, known)
			case e.End == Granted:
				live[e.Token] = e
				continue
			}
			if e.Piece != grant.Piece || e.Source != grant.Source || e.Held < 0 || e.Bytes < 0 {
				t.Fatalf("%+v ends %+v", e, grant)
			}
			delete(live, e.Token)
		}
		st := x.m.Stats()
		if count[Granted] != st.Granted || count[Finished] != st.Finished || count[Failed] != st.Failed || count[Expired] != st.Expired || count[Revoked] != st.Revoked {
			t.Fatalf("told %v, counted %+v", count, st)
		}
		held := 0
		for _, s := range x.m.sources {
			if s != nil {
				held += s.count
			}
		}
		if len(live) != held || x.m.Events() != nil {
			t.Fatalf("%d leases are live by what was told, %d are held", len(live), held)
		}
	})
}

func TestNothingIsNotedUnlessWatched(t *testing.T) {
	r := newRig(t, 4, Config{})
	r.add("a").full("a")
	r.one("a")
	if r.m.Events() != nil {
		t.Error("noted, and nobody takes it")
	}
}

// Without all, only what went wrong is recorded, and a failure with its reason.
func TestOnlyWhatWentWrongIsNoted(t *testing.T) {
	r := newRig(t, 4, Config{})
	r.m.Watch(false)
	r.add("a").full("a")
	l, late, good := r.one("a"), r.one("a"), r.one("a")
	r.m.Fail("a", l.Piece, l.Token, NotFound, r.now)
	r.m.Verified(good.Piece, r.now, good.Token)
	r.pass(time.Hour)
	r.m.Expire(r.now)
	got := r.m.Events()
	if len(got) != 2 || got[0].Token != l.Token || got[0].End != Failed || got[0].Why != NotFound || got[1].Token != late.Token || got[1].End != Expired {
		t.Errorf("%+v", got)
	}
}
