package main

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher/api"
)

func TestAChildIsDescribed(t *testing.T) {
	at := time.Unix(1e9, 0)
	c := api.Child{Peer: "12D3KooWabcdefgh", Bytes: 3 << 20, Since: at.Add(-90 * time.Second), Set: "passive", Tier: 1, Score: 0.456, Moved: at.Add(-12 * time.Second), Why: "gave-way"}
	if got, want := describeChild(c, at), "abcdefgh, 3.15 MB in 1m30s, passive for 12s (gave-way), tier 1, score 0.46"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	c.Set, c.Why = "outside", ""
	if got, want := describeChild(c, at), "abcdefgh, 3.15 MB in 1m30s, outside"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
