package transfer

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/share"
)

// Data is verified after it came: a connection that was lost meanwhile is not why a liar was given up.
func TestALiarWhoseConnectionWasLostIsCalledALiar(t *testing.T) {
	w := newWorld(t, Config{}, Fetch{Share: theManifest.ID(), Manifest: theManifest})
	w.opens(nil, nil)
	w.find("a")
	w.status(SourceStatus{Source: "a", State: Resting, Why: "refused; trying again in 4 s", LastLoss: "refused", Dials: 1, Connected: true})
	w.happens(func() { w.x.SourceLied(SourceLied{Source: "a", Kind: BadProof}, w.now) })
	w.ban("a", time.Hour)
	if end := w.isOver(); !errors.Is(end.Err, share.ErrLied) || !strings.Contains(end.Err.Error(), "(a: banned for 60 min: it sent a wrong proof)") {
		t.Errorf("ended with %v", end.Err)
	}
}
