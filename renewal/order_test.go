package renewal

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
)

// Another Want that turns to an earlier version of a Want does not change the order of the versions of that.
func TestAnotherWantDoesNotReorderVersions(t *testing.T) {
	v := keeping(t, 2, "a")
	for n := 1; n <= 3; n++ {
		v.whole("a", n)
	}
	v.keeps("a", 1, 2, 3)
	other := Want{ID: 2, Share: shareID(50), Bytes: 9, Depots: abc[:1]}
	v.s.Want(other, v.now)
	v.visits()
	other.Share = shareID(1) // another entry is edited to what was version 1 of the first
	v.s.Want(other, v.now)
	v.visits()
	v.s.Unwant(2, v.now)
	v.visits()
	v.whole("a", 4)
	v.keeps("a", 2, 3, 4) // 1 is the oldest
}

// The current version at a depot that it leaves is not dropped before the depot that takes it over has it.
func TestDropVersionSparesTheOnlyWholeCopy(t *testing.T) {
	v := keeping(t, 1, "a", "b")
	v.want.Copies = 1
	v.whole("a", 1)
	v.away["a"] = true
	v.pass(26 * 24 * time.Hour)
	v.away["a"] = false
	if at := v.s.At(1); !slices.Equal(at, []peers.ID{"b"}) {
		t.Fatal("not moved", at)
	}
	v.keeps("a", 1)
	if h := v.has[Key{"b", shareID(1)}]; h.State != Coming {
		t.Fatal(h.State)
	}
	v.s.DropVersion(shareID(1), "", v.now)
	v.visits()
	v.keeps("a", 1)
}

// With any wants that share versions, each depot has what each want is to have there.
func TestTwoWantsWithCommonVersions(t *testing.T) {
	rig.Slow(t)
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 7))
		d := newDesk(t)
		keepN := []int{rng.IntN(3), rng.IntN(3)}
		order := [][]int{nil, nil}
		for step := range 30 {
			i := rng.IntN(2)
			n := rng.IntN(6)
			order[i] = append(slices.DeleteFunc(order[i], func(o int) bool { return o == n }), n)
			d.s.Want(Want{ID: int64(i + 1), Share: shareID(n), Bytes: 9, Depots: abc[:1], Keep: keepN[i]}, d.now)
			d.visits()
			d.arrive("a", shareID(n))
			d.pass(24 * time.Hour)
			if rng.IntN(4) == 0 { // a restart
				b := d.s.Book()
				d.s = New(Config{}, rng.Uint64())
				d.s.Resume(b, d.now)
			}
			// each has its latest and the versions before it that are kept
			for j, o := range order {
				for back, k := 0, len(o)-1; k >= 0 && back <= keepN[j]; k, back = k-1, back+1 {
					if !slices.Contains(d.at(shareID(o[k])), "a") {
						t.Fatalf("seed %d, step %d: keep %v, orders %v: version %d of want %d is gone", seed, step, keepN, order, o[k], j+1)
					}
				}
			}
		}
	}
}

// The versions in a book that does not say their order are in that in which they were entered.
func TestVersionsOfAnOldBookKeepTheirOrder(t *testing.T) {
	v := keeping(t, 2, "a")
	for n := 1; n <= 3; n++ {
		v.whole("a", n)
	}
	b := v.s.Book()
	b.Wants[0].Was = nil
	v.s = New(Config{}, 1)
	v.s.Resume(b, v.now)
	v.whole("a", 4)
	v.keeps("a", 2, 3, 4)
}

// A Want that was dropped before a book with it was written leaves its ID to no other, which would keep what it had.
func TestTheHoldsOfAWantThatWasNeverWrittenAreNoOthers(t *testing.T) {
	v := keeping(t, 0, "a")
	v.whole("a", 0)
	b := v.s.Book()
	b.Wants, b.Last = nil, 0
	v.s = New(v.s.cfg, 1)
	v.s.Resume(b, v.now)
	id := v.s.NextID()
	v.s.Want(Want{ID: id, Share: shareID(7), Bytes: 9, Depots: []peers.ID{"a"}}, v.now)
	if h := v.s.depots["a"].holds[shareID(0)]; v.s.fate(h) != release {
		t.Errorf("%+v is kept for %d", h, id)
	}
}
