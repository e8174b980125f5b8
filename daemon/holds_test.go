package daemon

import (
	"strings"
	"testing"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/renewal"
)

// What was refused is said with the room that is left, for as long as that is the last word.
func TestAStandingHoldSaysTheRoomThatIsLeft(t *testing.T) {
	r := &fetcher.HoldRefused{Reason: fetcher.HoldOverQuota, Room: 17_000_000}
	h := fetcher.HoldStanding{Hold: renewal.Hold{Key: renewal.Key{Depot: "d"}}, Why: r.Error()}
	l := fetcher.HoldList{Errs: map[renewal.Key]error{h.Key: r}}
	if got := standingWhy(l, h); !strings.Contains(got, "only 17.0 MB left") {
		t.Error(got)
	}
	if h.Why = "it does not answer"; standingWhy(l, h) != h.Why {
		t.Error(standingWhy(l, h))
	}
}
