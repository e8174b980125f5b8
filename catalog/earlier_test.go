package catalog

import (
	"fmt"
	"strings"
	"testing"
)

// What was chosen before is remembered once, and the oldest is forgotten when there is too much of it.
func TestEarlierChoices(t *testing.T) {
	t.Parallel()
	var w Wish
	for i := range 3 * maxEarlier {
		w.chose(Choice{Only: []string{fmt.Sprint(i)}})
		w.chose(Choice{})
	}
	if n := len(w.Earlier); n != maxEarlier || w.Earlier[n-1].Only != nil || w.Earlier[0].Only[0] != fmt.Sprint(2*maxEarlier+1) {
		t.Errorf("%d: %q", n, w.Earlier)
	}
	w.chose(Choice{Skip: []string{strings.Repeat("x", maxWish/8)}})
	if n := len(w.Earlier); n != 2 { // and one of nothing
		t.Error(n)
	}
	w.chose(Choice{Skip: []string{strings.Repeat("x", maxWish/8+1)}})
	if n := len(w.Earlier); n != 0 {
		t.Error(n)
	}
}
