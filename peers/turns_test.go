package peers

import (
	"slices"
	"testing"
)

func TestTurnsPickFewAsTheyStandAndManyOfAllAges(t *testing.T) {
	pick := func(turns *Turns, n int) (out []int) {
		turns.Pick(n, 4, func(i int) bool { out = append(out, i); return true })
		return out
	}
	for _, x := range []struct {
		n     int
		first []int
		then  []int
	}{{0, nil, nil}, {3, []int{0, 1, 2}, []int{1, 2, 0}}, {6, []int{0, 1, 2, 3}, []int{4, 5, 0, 1}}, {12, []int{0, 3, 6, 9}, []int{1, 4, 7, 10}}} {
		var turns Turns
		if a, b := pick(&turns, x.n), pick(&turns, x.n); !slices.Equal(a, x.first) || !slices.Equal(b, x.then) {
			t.Errorf("of %d: %v, then %v", x.n, a, b)
		}
	}
	var turns Turns
	var out []int
	turns.Pick(12, 4, func(i int) bool {
		if i%3 == 0 {
			return false
		}
		out = append(out, i)
		return true
	})
	if !slices.Equal(out, []int{1, 4, 7, 10}) {
		t.Errorf("in place of those not taken: %v", out)
	}
}
