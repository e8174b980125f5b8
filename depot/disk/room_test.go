package disk

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// What is written can be read: otherwise one share would never be examined or removed again.
func TestLeasesAreWrittenOnlyIfTheyCanBeRead(t *testing.T) {
	rig.Slow(t)
	r, _ := ready(t)
	id := share.IDOf([]byte("x"))
	many := make([]depot.Promise, 70_000)
	for i := range many {
		many[i] = depot.Promise{Account: fmt.Sprint(i, strings.Repeat("n", 240)), Expires: time.Unix(1e9, 0)}
	}
	if err := writeWhole(r, id, many); err != nil {
		return
	}
	if _, err := r.Promises(id); err != nil {
		t.Error(err)
	}
}

// A share that was removed does not come back as an empty folder, which the crawler would
// enter and have fetched.
func TestSourcesMakeNoShare(t *testing.T) {
	r, _ := ready(t)
	id := share.IDOf([]byte("x"))
	if err := r.SaveSources(id, "by", []peers.Addr{{ID: "p"}}); err != nil {
		t.Log(err)
	}
	if next, err := r.After(share.ID{}); err != nil || len(next) > 0 {
		t.Errorf("%v, %v", next, err)
	}
}
