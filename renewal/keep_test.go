package renewal

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// versions has a Want of a desk change to versions of its share.
type versions struct {
	*desk
	want Want
}

func keeping(t *testing.T, keep int, depots ...peers.ID) *versions {
	return &versions{newDesk(t), Want{ID: 1, Bytes: 9, Depots: depots, Keep: keep}}
}

func (v *versions) edit(n int) {
	v.Helper()
	v.want.Share = shareID(n)
	v.s.Want(v.want, v.now)
	v.visits()
}

// whole has a depot have all of a version, and know it.
func (v *versions) whole(id peers.ID, n int) {
	v.Helper()
	v.edit(n)
	v.arrive(id, shareID(n))
	v.pass(12 * time.Hour)
}

// keeps expects a depot to have these versions and no other.
func (v *versions) keeps(id peers.ID, numbers ...int) {
	v.Helper()
	var got []int
	for n := range 100 {
		if slices.Contains(v.at(shareID(n)), id) {
			got = append(got, n)
		}
	}
	if !slices.Equal(got, numbers) {
		v.Fatalf("%s keeps the versions %v, not %v", id, got, numbers)
	}
}

// As many earlier versions as the Want says are renewed beside the latest; what never was whole does not count.
func TestEarlierVersionsAreKept(t *testing.T) {
	v := keeping(t, 2, "a")
	for n := 1; n <= 4; n++ {
		v.whole("a", n)
	}
	v.keeps("a", 2, 3, 4)
	v.edit(5) // never arrives
	v.pass(100 * 24 * time.Hour)
	v.keeps("a", 2, 3, 4, 5)
	v.edit(6)
	v.pass(12 * time.Hour)
	v.keeps("a", 2, 3, 4, 6)
	v.arrive("a", shareID(6))
	v.pass(100 * 24 * time.Hour)
	v.keeps("a", 3, 4, 6)
	v.edit(3) // as it was before
	v.pass(12 * time.Hour)
	v.keeps("a", 3, 4, 6)
	v.whole("a", 7)
	v.keeps("a", 3, 6, 7)
	v.want.Keep = 0
	v.edit(7)
	v.keeps("a", 7)
	v.s.Unwant(1, v.now)
	v.visits()
	v.keeps("a")
	if !v.s.Wake().IsZero() || len(v.s.Accounts()) != 0 {
		t.Error("something is left", v.s.Accounts(), v.s.Holds(v.now))
	}
}

// Whatever happens, a depot has the latest version that is whole and those before it that are kept, and no other once it was visited.
func TestAnyHistoryKeepsTheVersionsBefore(t *testing.T) {
	rig.Slow(t)
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		v := keeping(t, rng.IntN(4), "a")
		var order []int // in which they were the latest
		for range 40 {
			switch rng.IntN(6) {
			case 0, 1:
				n := rng.IntN(12)
				order = append(slices.DeleteFunc(order, func(o int) bool { return o == n }), n)
				v.edit(n)
			case 2: // what is still coming arrives
				if h, ok := v.has[Key{"a", v.want.Share}]; ok && h.State == Coming {
					v.arrive("a", v.want.Share)
				}
			case 3:
				b := v.s.Book()
				v.s = New(Config{}, rng.Uint64())
				v.s.Resume(b, v.now)
			case 4:
				v.away["a"] = true
			case 5: // the clock is set
				v.now = v.now.Add(time.Duration(rng.IntN(800)-400) * time.Hour)
				v.visits()
			}
			before := v.keptOf(order)
			v.pass(time.Duration(rng.IntN(7*24)) * time.Hour)
			if len(order) == 0 {
				continue
			}
			v.away["a"] = false
			v.pass(24 * time.Hour)
			for _, n := range before {
				if !slices.Contains(v.at(shareID(n)), "a") {
					t.Fatalf("seed %d: version %d of %v is not kept any more", seed, n, order)
				}
			}
			for _, n := range order {
				if wants := slices.Contains(v.keptOf(order), n) || shareID(n) == v.want.Share; slices.Contains(v.at(shareID(n)), "a") != wants {
					t.Fatalf("seed %d: of %v version %d is kept: %v", seed, order, n, !wants)
				}
			}
		}
	}
}

// keptOf are the versions that are to be kept, of those that were the latest in this order.
func (v *versions) keptOf(order []int) (kept []int) {
	for _, n := range slices.Backward(order) {
		if h, ok := v.has[Key{"a", shareID(n)}]; ok && h.State == Stable && len(kept) <= v.want.Keep {
			kept = append(kept, n)
		}
	}
	return kept
}

// Earlier versions cannot be moved: they stay at a depot that the latest has left, until as many newer ones are whole elsewhere.
func TestEarlierVersionsStayWhereTheyAre(t *testing.T) {
	v := keeping(t, 1, "a", "b")
	v.want.Copies = 1
	v.whole("a", 1)
	v.whole("a", 2)
	v.away["a"] = true
	v.pass(26 * 24 * time.Hour)
	v.arrive("b", shareID(2))
	v.pass(24 * time.Hour)
	v.away["a"] = false
	v.pass(100 * 24 * time.Hour)
	v.keeps("a", 1)
	v.keeps("b", 2)
	v.want.At = v.s.At(1)
	v.whole("b", 3)
	v.pass(3 * 24 * time.Hour) // a visit
	v.keeps("a")
	v.keeps("b", 2, 3)
	v.want.Depots, v.want.At = []peers.ID{"a"}, nil // what a depot keeps that is not wanted ends there
	v.whole("a", 4)
	v.pass(3 * 24 * time.Hour)
	v.keeps("a", 4)
	v.keeps("b")
}

// A version whose release is under way when more are to be kept is released, and not taken for one that the depot has lost.
func TestMoreAreKeptWhileOneIsReleased(t *testing.T) {
	v := keeping(t, 1, "a")
	v.whole("a", 1)
	v.whole("a", 2)
	v.want.Keep = 0
	v.s.Want(v.want, v.now)
	all := []Heard{v.has[Key{"a", shareID(1)}], v.has[Key{"a", shareID(2)}]}
	v.s.Due(v.now)
	if tasks := v.s.Visited("a", all, v.now); len(tasks) != 1 || tasks[0].Verb != Release {
		t.Fatal(tasks)
	}
	v.want.Keep = 1
	v.s.Want(v.want, v.now)
	delete(v.has, Key{"a", shareID(1)})
	v.s.Released(Key{"a", shareID(1)}, v.now)
	v.pass(12 * time.Hour)
	if all := v.s.Holds(v.now); len(all) != 1 || all[0].Share != shareID(2) || all[0].State != Stable {
		t.Errorf("%+v", all)
	}
	v.edit(3)
	v.whole("a", 4)
	v.keeps("a", 2, 4)
}

// One earlier version can be dropped, but not the only one that is whole, and not the latest.
func TestAnEarlierVersionIsDropped(t *testing.T) {
	v := keeping(t, 3, "a", "b")
	for n := 1; n <= 3; n++ {
		v.edit(n)
		v.arrive("b", shareID(n))
		v.whole("a", n)
	}
	v.s.DropVersion(shareID(3), "", v.now)
	if h := v.s.depots["a"].holds[shareID(3)]; h.Want != v.want.ID {
		t.Error("the latest is of no Want any more")
	}
	v.edit(4)
	for n := range 5 {
		v.s.DropVersion(shareID(n), "", v.now)
		if n == 1 {
			v.s.DropVersion(shareID(2), "a", v.now)
			v.visits()
			v.keeps("b", 2, 3, 4)
		}
	}
	v.pass(12 * time.Hour)
	v.keeps("a", 3, 4)
	v.keeps("b", 3, 4)
}

// A version that another Want made counts as one of each Want that had it, until that is dropped.
func TestAVersionThatAnotherMadeCounts(t *testing.T) {
	v := keeping(t, 1, "a")
	v.s.Want(Want{ID: 2, Share: shareID(2), Bytes: 9, Depots: abc[:1]}, v.now)
	for n := 1; n <= 3; n++ {
		v.whole("a", n)
	}
	v.keeps("a", 2, 3)
	v.s.Unwant(1, v.now)
	v.visits()
	v.keeps("a", 2)
	if left := v.s.depots["a"].versions; len(left) != 1 {
		t.Error("versions of a Want that was dropped are left", left)
	}
}

// What is paid for a version does not depend on whether it is the latest, and a budget counts it.
func TestEarlierVersionsArePaid(t *testing.T) {
	v := keeping(t, 1, "a")
	v.want.Bytes = 8 << 20
	v.s.Know(Account{Depot: "a", Paid: true}, v.now)
	v.s.SetBudget("a", 20, v.now)
	v.whole("a", 1)
	v.whole("a", 2)
	var due int64 // two thirds of the length are added
	for _, d := range v.s.Dues(v.now.Add(31*24*time.Hour), v.now) {
		due += d.Units
	}
	if lapse := v.s.Lapses(v.now); due != 11 || len(lapse) != 0 {
		t.Errorf("%d are due for two versions of 8, and these lapse: %v", due, lapse)
	}
	v.s.SetBudget("a", 8, v.now)
	v.pass(12 * time.Hour)
	if lapse := v.s.Lapses(v.now); len(lapse) != 1 || lapse[0].Share != shareID(2) {
		t.Errorf("these lapse of two versions, one of which is paid: %v", lapse)
	}
	if all := v.s.Holds(v.now); len(all) != 2 || !all[0].Kept || !all[1].Kept {
		t.Error(all)
	}
}

// The work for 1,000 holds with three versions each is that for as many holds.
func BenchmarkEarlierVersions(b *testing.B) {
	const n = 10_000
	s := New(Config{}, 1)
	said := map[share.ID]Heard{}
	for version := range 4 {
		for i := range n / 4 {
			x := shareID(version*n + i)
			s.Want(Want{ID: int64(i + 1), Share: x, Bytes: 9, Depots: abc[:1], Keep: 3}, epoch)
			said[x] = Heard{Share: x, State: Stable, Bytes: 9, Left: 31 * 24 * time.Hour}
		}
		visitAll(s, said)
	}
	b.ResetTimer()
	for range b.N {
		s.Hurry("a", epoch)
		visitAll(s, said)
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/n, "µs/hold")
}

func visitAll(s *Service, said map[share.ID]Heard) {
	var all []Heard
	for _, h := range said {
		all = append(all, h)
	}
	for _, id := range s.Due(epoch) {
		for _, t := range s.Visited(id, all, epoch) {
			s.Renewed(id, Heard{Share: t.Share, State: Stable, Bytes: 9, Left: t.Length}, epoch)
		}
	}
}
