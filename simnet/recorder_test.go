package simnet

import (
	"fmt"
	"testing"

	"github.com/piecelease/fetcher/share"
)

func TestARecorderKeepsToItsBounds(t *testing.T) {
	n := New(1)
	r := newRecorder(n)
	n.Add(NodeConfig{Name: "a"})
	n.Add(NodeConfig{Name: "b"})
	r.meet()
	for i := range maxLeases + 5 {
		k := leaseKey{source: "b", piece: share.Piece(i)}
		r.nodes[0].leases[k] = 0
		r.endLease(r.nodes[0], k, LeaseVerified)
	}
	if len(r.out.Leases) != maxLeases || r.out.LeasesLeftOut != 5 {
		t.Errorf("%d leases, %d left out", len(r.out.Leases), r.out.LeasesLeftOut)
	}
	for i := range maxReasons + 5 {
		if got := r.reason(fmt.Sprint(i)); (got == 0) != (i+1 >= maxReasons) {
			t.Fatalf("reason %d is %d", i, got)
		}
	}
	for i := range maxContents + 2 {
		if c := r.content(share.IDOf([]byte{byte(i)}), 3*maxRows); (c == nil) != (i >= maxContents) || c != nil && len(c.rec.Holders) != maxRows {
			t.Errorf("content %d: %v", i, c)
		}
	}
	first, last := share.IDOf([]byte{0}), share.IDOf([]byte{maxContents + 1})
	r.content(last, 1)
	r.end()
	if r.out.ContentsLeftOut != 2 {
		t.Errorf("%d contents left out", r.out.ContentsLeftOut)
	}
	if got, want := r.out.Contents[0].Name, "share "+first.Short(); got != want { // no node was given it
		t.Errorf("it is called %q, want %q", got, want)
	}
}
