package leasemgr

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

func TestWhySaysWhatToDo(t *testing.T) {
	for _, c := range []struct {
		name  string
		stage func(*rig)
		want  string
	}{
		{"all sources are gone", func(r *rig) {
			r.add("a").full("a")
			r.m.RemoveSource("a", r.now)
		}, "piece 7: wanted; no source is connected that has any piece; waits for one"},
		{"all sources lack it", func(r *rig) {
			r.add("a", "b").has("a", 1).has("b", 2)
		}, "piece 7: wanted; 2 sources are connected and none has it; waits for one that does"},
		{"the one source lacks it", func(r *rig) {
			r.add("a").has("a", 1)
		}, "piece 7: wanted; 1 source is connected and does not have it; waits for one that does"},
		{"disk full", func(r *rig) {
			r.add("a").full("a")
			r.m.Pause("disk full: need 3 GiB, have 1 GiB")
		}, "piece 7: wanted; available from a; disk full: need 3 GiB, have 1 GiB; goes on when that is over"},
		{"the only source is banned", func(r *rig) {
			r.add("a").full("a")
			r.m.Rank("a", 0, true, r.now)
		}, "piece 7: wanted; available from a; every source that has it is banned for sending wrong data; waits for another source"},
		{"it is free", func(r *rig) {
			r.add("a", "b", "c").full("a", "b")
		}, "piece 7: wanted; available from a, b; one of 2 sources that have room will be asked for it"},
		{"its sources are full", func(r *rig) {
			r.add("a").has("a", 1, 2, 3, 4)
			r.get("a", 4)
			r.m.Have("a", []share.Piece{7}, r.now)
		}, "piece 7: wanted; available from a; 1 source that could send it holds as many leases as allowed; the first to finish one will be asked for it"},
		{"one of its sources failed with it", func(r *rig) {
			r.add("a", "b").has("a", 7).has("b", 7)
			l := r.one("a")
			r.m.Fail("a", 7, l.Token, BadData, r.now)
			r.pass(10 * time.Second)
		}, "piece 7: wanted; available from a, b; the one source that has room will be asked for it; of those that failed to deliver it, the first is asked again in 20 s"},
		{"all but one are gone, and that one failed with it before its ban ended", func(r *rig) {
			r.add("a", "b").has("a", 7).has("b", 7)
			l := r.one("a")
			r.m.Fail("a", 7, l.Token, BadData, r.now)
			r.m.Rank("a", 0, true, r.now)
			r.m.RemoveSource("b", r.now)
			r.m.Rank("a", 0, false, r.now)
			r.pass(10 * time.Second)
		}, "piece 7: wanted; available from a; the one source that has room will be asked for it"},
		{"one that failed with it has it again, and no other has", func(r *rig) {
			r.add("a", "b").has("a", 7).has("b", 7)
			l := r.one("a")
			r.m.Fail("a", 7, l.Token, BadData, r.now)
			r.m.SetHave("a", nil, r.now)
			r.m.RemoveSource("b", r.now)
			r.m.Have("a", []share.Piece{7}, r.now)
			r.pass(10 * time.Second)
		}, "piece 7: wanted; available from a; the one source that has room will be asked for it"},
		{"it is leased", func(r *rig) {
			r.add("a", "b").has("a", 7).has("b", 7)
			l := r.one("a")
			r.pass(500 * time.Millisecond)
			r.m.Progress("a", 7, l.Token, 300, r.now)
			r.pass(500 * time.Millisecond)
		}, "piece 7: leased; held by a for 1 s so far, and for another 4 s; 300 B of 1.05 MB has come; available from a, b; if nothing more comes within 4 s: another source that has it will be asked for it"},
		{"it is leased to the only source", func(r *rig) {
			r.add("a").has("a", 7)
			r.one("a")
		}, "piece 7: leased; held by a for 0 s so far, and for another 5 s; 0 B of 1.05 MB has come; available from a; if nothing more comes within 5 s: the same source is asked again, as no other has it"},
		{"all others failed with it", func(r *rig) {
			r.add("a", "b", "c").has("a", 7).has("b", 7).has("c", 7)
			r.m.Fail("c", 7, r.one("c").Token, BadData, r.now)
			r.m.Rank("c", 0, true, r.now)
			r.m.Fail("a", 7, r.one("a").Token, Missed, r.now)
			r.one("b")
		}, "piece 7: leased; held by b for 0 s so far, and for another 5 s; 0 B of 1.05 MB has come; available from a, b, c; if nothing more comes within 5 s: it is wanted again; of those that failed to deliver it, the first is asked again in 30 s"},
		{"all others are banned", func(r *rig) {
			r.add("a", "b").has("a", 7).has("b", 7)
			r.m.Rank("a", 0, true, r.now)
			r.one("b")
		}, "piece 7: leased; held by b for 0 s so far, and for another 5 s; 0 B of 1.05 MB has come; available from a, b; if nothing more comes within 5 s: the same source is asked again, as every other that has it is banned"},
		{"its holder is overdue", func(r *rig) {
			r.add("a", "b").has("a", 7).has("b", 7)
			r.one("a")
			r.pass(2 * time.Second)
		}, "piece 7: leased; held by a for 2 s so far, and for another 3 s; 0 B of 1.05 MB has come; available from a, b; its holder is overdue: the next idle source is asked for it too"},
		{"it is hedged", func(r *rig) {
			r.add("a", "b").has("a", 7).has("b", 7)
			r.one("a")
			r.pass(2 * time.Second)
			r.one("b")
		}, "piece 7: leased; held by a for 2 s so far, and for another 3 s; 0 B of 1.05 MB has come; held by b for 0 s so far, and for another 5 s; 0 B of 1.05 MB has come; available from a, b; whichever of its holders finishes first completes it"},
		{"it is verified", func(r *rig) {
			r.m.Verified(7, r.now)
		}, "piece 7: verified; nothing: this node has it"},
		{"it is not selected", func(r *rig) {
			r.m.SetPriority(7, 1, Skip, r.now)
		}, "piece 7: skipped; nothing: it is not selected"},
		{"many have it", func(r *rig) {
			for _, id := range "abcdefghij" {
				r.add(peers.ID(id)).full(peers.ID(id))
			}
		}, "piece 7: wanted; available from a, b, c, d, e, f, g, h, and 2 more; one of 10 sources that have room will be asked for it"},
	} {
		r := newRig(t, 10, Config{})
		c.stage(r)
		if got := r.m.Why(7, r.now).String(); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

func TestMissingPiecesAreExplainedInRuns(t *testing.T) {
	r := newRig(t, 200, Config{MaxLeasesPerPeer: 3})
	r.add("a", "b", "c").full("c")
	var odd []share.Piece
	for p := share.Piece(60); p < 70; p++ {
		odd = append(odd, p)
	}
	r.has("a", odd...)
	r.m.RemoveSource("c", r.now)
	r.add("c").has("c", 150, 151, 152)
	r.get("c", 3)
	r.m.Verified(100, r.now)
	r.m.SetPriority(0, 10, Skip, r.now)
	var got []string
	for _, e := range r.m.Missing(100, r.now) {
		got = append(got, fmt.Sprintf("%d-%d %s %d/%d", e.First, e.Last, e.State, e.Has, len(e.Holders)))
	}
	equal(t, "runs", strings.Join(got, ", "),
		"10-59 wanted 0/0, 60-69 wanted 1/0, 70-99 wanted 0/0, 101-149 wanted 0/0, 150-152 leased 1/1, 153-199 wanted 0/0")
	e := r.m.Missing(100, r.now)[4]
	equal(t, "size of a run", e.Holders[0].Size, 3*mib)
	equal(t, "line", strings.HasPrefix(e.String(), "pieces 150-152: leased; held by c"), true)
	equal(t, "what comes next, of each", strings.Contains(e.String(), "; each: if nothing more comes within 5 s"), true)
	r.m.RemoveSource("a", r.now)
	r.m.RemoveSource("b", r.now)
	r.m.RemoveSource("c", r.now)
	equal(t, "of the whole", r.m.Missing(100, r.now)[0].String(), "pieces 10-99: wanted; no source is connected that has any piece; waits for one")
	r.m.Pause("disk full")
	r.add("c")
	equal(t, "of the whole", r.m.Missing(100, r.now)[0].String(), "pieces 10-99: wanted; disk full; goes on when that is over")
	equal(t, "limit", len(r.m.Missing(2, r.now)), 2)
	equal(t, "none", len(r.m.Missing(0, r.now)), 0)
}

// A run is uniform: Why says the same of each of its pieces.
func TestRunsHideNothing(t *testing.T) {
	r := newRig(t, 300, Config{})
	rates := []float64{1e5, 1e7, 0, 1e6}
	for i, id := range []peers.ID{"a", "b", "c", "d"} {
		r.add(id)
		have := share.NewSet(300)
		for p := range 300 {
			if p/(7*(i+1))%2 == 0 {
				have.Add(share.Piece(p))
			}
		}
		r.m.SetHave(id, have, r.now)
		r.rate(id, rates[i], 0)
		for _, l := range r.get(id, 50)[:2] {
			r.m.Fail(id, l.Piece, l.Token, BadData, r.now)
		}
	}
	next := share.Piece(0)
	for _, e := range r.m.Missing(1000, r.now) {
		equal(t, "first", e.First, next)
		next = e.Last + 1
		for p := e.First; p <= e.Last; p++ {
			w := r.m.Why(p, r.now)
			if w.State != e.State || fmt.Sprint(w.Sources) != fmt.Sprint(e.Sources) || len(w.Holders) != len(e.Holders) {
				t.Fatalf("piece %d: %s\nin the run %s", p, w, e)
			}
		}
	}
	equal(t, "last", next, 300)
}

func TestDescribeIsTheSameForTheSameState(t *testing.T) {
	describe := func() string {
		r := newRig(t, 10, Config{})
		r.add("b", "a", "c").full("a", "b").rate("a", 1e6, time.Millisecond)
		r.one("a")
		r.not("c", NoneHere)
		r.m.Rank("b", 1, true, r.now)
		r.m.SetReader(3, 4, 5, r.now)
		r.m.Pause("disk full")
		return r.m.Describe()
	}
	want := `pieces 10: wanted 9, leased 1, verified 0
leases: granted 1 (hedges 0, taken over 0), finished 0, failed 0, expired 0, revoked 0; fetched twice at most 0 bytes
paused: disk full
reader 3: at piece 4, up to 9
source a: has 10, holds 1 leases, 1048576 bytes to come, 1000000 B/s, 1 ms away, score 1.00
source b: has 10, holds 0 leases, 0 bytes to come, not measured, score 1.00, banned
source c: has 0, holds 0 leases, 0 bytes to come, not measured, score 1.00, waits: it has none of the pieces this node lacks
`
	equal(t, "text", describe(), want)
	equal(t, "again", describe(), describe())
}

// Describe prints the whole manager for people: the counts, each source, each
// reader. Equal states print the same.
func (m *Manager) Describe() string {
	var b strings.Builder
	wanted, leased, verified := m.Counts()
	fmt.Fprintf(&b, "pieces %d: wanted %d, leased %d, verified %d\n", m.total, wanted, leased, verified)
	st := m.stats
	fmt.Fprintf(&b, "leases: granted %d (hedges %d, taken over %d), finished %d, failed %d, expired %d, revoked %d; fetched twice at most %d bytes\n",
		st.Granted, st.Hedged, st.Taken, st.Finished, st.Failed, st.Expired, st.Revoked, st.Duplicate)
	if m.paused != "" {
		fmt.Fprintf(&b, "paused: %s\n", m.paused)
	}
	for _, r := range m.readers {
		fmt.Fprintf(&b, "reader %d: at piece %d, up to %d\n", r.id, r.at, r.to)
	}
	ss := slices.DeleteFunc(slices.Clone(m.sources), func(s *source) bool { return s == nil })
	slices.SortFunc(ss, func(a, b *source) int { return cmp.Compare(a.id, b.id) })
	for _, s := range ss {
		fmt.Fprintf(&b, "source %s: has %d, holds %d leases, %d bytes to come, %s, score %.2f",
			s.id.Short(), s.have.n, s.count, s.pending, s.pace(), s.score)
		if s.banned {
			b.WriteString(", banned")
		}
		if s.waiting != 0 {
			fmt.Fprintf(&b, ", waits: %s", s.waiting)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func (s *source) pace() string {
	if !s.measured {
		return "not measured"
	}
	return fmt.Sprintf("%.0f B/s, %s away", s.rate, words.Duration(s.trip))
}
