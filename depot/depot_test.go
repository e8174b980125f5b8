package depot

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/piecelease/fetcher/share"
)

// Invariant 37, which the founding design has with STABLE -> COMING and STABLE ->
// NONE, is overridden: shares are immutable, and one that disappeared is CORRUPT
// with all pieces missing, so that its leases stand.
func TestInvariant37OverriddenOnlyTheseEdges(t *testing.T) {
	want := map[[2]State]bool{{None, Coming}: true, {None, Stable}: true, {Coming, Stable}: true, {Coming, Going}: true, {Stable, Corrupt}: true,
		{Stable, Going}: true, {Corrupt, Stable}: true, {Corrupt, Going}: true, {Going, None}: true}
	got := map[[2]State]bool{}
	for from := None; from <= Going+1; from++ {
		for why := Cause(0); why <= Outdated+1; why++ {
			to, err := Next(from, why)
			var e *EdgeError
			switch {
			case err == nil:
				got[[2]State{from, to}] = true
			case !errors.As(err, &e) || e.From != from || e.Why != why || to != from:
				t.Errorf("%v, %v: %v, %v", from, why, to, err)
			}
		}
	}
	for e := range want {
		if !got[e] {
			t.Errorf("no edge %v", e)
		}
	}
	if len(got) != len(want) {
		t.Errorf("edges %v, want %v", got, want)
	}
}

func TestStatesCausesAndReasonsHaveNames(t *testing.T) {
	for s := None; s <= Going+1; s++ {
		if last := strings.HasPrefix(s.String(), "state "); last != (s > Going) {
			t.Error(s)
		}
	}
	for c := Held; c <= Outdated+1; c++ {
		if last := strings.HasPrefix(c.String(), "cause "); last != (c > Outdated) {
			t.Error(c)
		}
	}
	for r := UnknownAccount; r <= NoIssuer+1; r++ {
		if last := strings.HasPrefix(r.String(), "reason "); last != (r > NoIssuer) {
			t.Error(r)
		}
	}
}

func reason(err error) Reason {
	if r, ok := errors.AsType[*Refusal](err); ok {
		return r.Reason
	}
	return 0
}

func TestAdmission(t *testing.T) {
	disk := Space{Free: 100, Reserve: 20, Arrived: 10}
	for _, c := range []struct {
		name                              string
		bytes, used, quota, fresh, coming int64
		space                             Space
		want                              Reason
		room                              int64
	}{
		{"nothing", 0, 0, 0, 0, 0, Space{}, WrongBytes, MaxBytes},
		{"to the last byte of the quota", 30, 70, 100, 0, 0, Space{}, 0, 0},
		{"a byte over the quota", 31, 70, 100, 0, 0, Space{}, OverQuota, 30},
		{"a quota that was lowered", 1, 70, 50, 0, 0, Space{}, OverQuota, 0},
		{"to the last byte of the disk", 50, 0, 100, 50, 40, disk, 0, 0},
		{"a byte over the disk", 51, 0, 100, 51, 40, disk, NoSpace, 50},
		{"what is here needs no disk", 51, 0, 100, 0, 1000, disk, 0, 0},
		{"what has arrived frees nothing else", 81, 0, 100, 81, 5, disk, NoSpace, 80},
		{"the largest", MaxBytes, 0, MaxBytes, 0, 0, disk, 0, 0},
		{"larger than that", MaxBytes + 1, 0, MaxBytes + 1, 0, 0, disk, WrongBytes, MaxBytes},
		{"negative", -1, 0, 100, 0, 0, disk, WrongBytes, MaxBytes},
		{"absurd", math.MaxInt64, 0, MaxBytes, math.MaxInt64, MaxBytes, disk, WrongBytes, MaxBytes},
	} {
		err := Admit(c.bytes, c.used, c.quota, c.fresh, c.coming, c.space)
		var r *Refusal
		if reason(err) != c.want || errors.As(err, &r) && r.Room != c.room {
			t.Errorf("%s: %v %+v", c.name, err, r)
		}
	}
}

func TestUntil(t *testing.T) {
	now := time.Unix(1000, 5e8)
	for _, c := range []struct {
		name       string
		until, had int64
		want       int64
		why        Reason
	}{
		{"as asked", 1010, 0, 1010, 0},
		{"shortened, not refused", 5000, 0, 1100, 0},
		{"absurd", math.MaxInt64 - 1<<36, 0, 1100, 0},
		{"never earlier than it was", 1010, 1050, 1050, 0},
		{"nor when the longest was lowered", 5000, 9000, 9000, 0},
		{"now", 1000, 0, 0, BadTime},
		{"the past", -5, 0, 0, BadTime},
	} {
		had := time.Time{}
		if c.had != 0 {
			had = time.Unix(c.had, 0)
		}
		got, err := Until(now, time.Unix(c.until, 3e8), had, 100*time.Second)
		if reason(err) != c.why || err == nil && !got.Equal(time.Unix(c.want, 0)) {
			t.Errorf("%s: %v, %v", c.name, got, err)
		}
	}
	if end := time.Unix(1010, 0); !Live(end.Add(-1), end) || Live(end, end) {
		t.Error("a lease ends at its second")
	}
}

func TestBytesOfAShare(t *testing.T) {
	h := share.Hash{1}
	m, err := share.NewManifest("x/", []share.Entry{
		{Path: "a", Size: 1, Root: h}, {Path: "b", Size: 4096, Root: h}, {Path: "c", Size: 4097, Root: h},
		{Path: "d", Kind: share.Dir}, {Path: "e", Kind: share.Symlink, Target: "a"}})
	if err != nil {
		t.Fatal(err)
	}
	// a: 1 page, b: 1, c: 2; the manifest 1; the hashes: a head of a page, and three hashes
	if got := Bytes(m); got != (4+1+2)*4096 {
		t.Errorf("%d bytes", got)
	}
	m, err = share.NewManifest("x", []share.Entry{{Path: "a/b/c", Root: share.FileRoot(nil)}, {Path: "a/b/d", Kind: share.Dir}, {Path: "a/e", Kind: share.Symlink, Target: "b"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := Bytes(m); got != 6*4096 { // x, a, b, c, d and e
		t.Errorf("%d bytes", got)
	}
}

func TestDamageIsBelievedTheSecondTimeAnHourLater(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Strike
		now := time.Unix(1000, 0)
		for range rapid.IntRange(1, 12).Draw(t, "looks") {
			now = now.Add(time.Duration(rapid.SampledFrom([]int{1, 1799, 1800, 3600, 90000}).Draw(t, "s")) * time.Second)
			bad := share.NewSet(4)
			for p := range 4 {
				if rapid.Bool().Draw(t, "bad") {
					bad.Add(share.Piece(p))
				}
			}
			var lost *share.Set
			before := s
			s, lost = s.Struck(now, bad)
			if bad.Count() == 0 && s.Bad != nil {
				t.Fatal("a good look does not end the strike")
			}
			if lost == nil {
				if both := before.Bad != nil && bad.Minus(before.Bad).Count() < bad.Count(); both && now.Sub(before.At) >= StrikeGap {
					t.Fatal("damage seen twice is not believed")
				}
				continue
			}
			for p := range lost.All() {
				if !bad.Has(p) || !before.Bad.Has(p) || now.Sub(before.At) < time.Hour {
					t.Fatalf("piece %d is lost, seen once", p)
				}
			}
		}
	})
}
