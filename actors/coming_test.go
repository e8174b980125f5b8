package actors

import (
	"fmt"
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/wire"
)

// listFor asks the Seeder of a node for the list of files.
func (n *simNode) listFor(m ListRequest) (r wire.Reply) {
	m.Reply = func(x wire.Reply) { r = x }
	n.program.Tell(m)
	n.sw.w.Settle()
	return r
}

// In a large crowd whoever takes that is named some that have the list of files, and fewer when it subscribes.
func TestALargeCrowdGivesTheListOfFiles(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testShare(t, 1<<20)
	source := sw.add("source", 1e6).seed(m, content)
	ask := func(child peers.ID) wire.Reply {
		return source.listFor(ListRequest{Child: child, Share: m.ID(), Others: true})
	}
	for i := range listCrowd {
		if r := ask("new"); r.Status != wire.OK {
			t.Fatalf("%d others: %+v", i, r)
		}
		sw.puppet(fmt.Sprint("mirror", i), source).subscribes(source, wire.Subscribe{Share: m.ID(), Addrs: []string{"/sim"}, Mirror: true, Whole: i >= listCrowd-listNamed})
	}
	if r := ask("new"); r.Status != wire.Busy || r.Retry != listRetry || len(r.Others) != listNamed {
		t.Errorf("then %+v", r)
	}
	if r := source.listFor(ListRequest{Child: "old", Share: m.ID()}); r.Status != wire.OK {
		t.Errorf("who does not take names: %+v", r)
	}
	for _, x := range []struct {
		name  string
		named int
	}{{"new", maxNamed/2 - listNamed}, {"old", listCrowd + 1}} {
		r := sw.puppet(x.name, source).subscribes(source, wire.Subscribe{Share: m.ID(), Addrs: []string{"/sim"}, Nameable: true})
		if !r.Accepted || !r.Elsewhere || len(r.Children) != x.named {
			t.Errorf("%s: %d are named, want %d: %+v", x.name, len(r.Children), x.named, r)
		}
	}
	if r := ask("new"); r.Status != wire.OK {
		t.Errorf("a child: %+v", r)
	}
}

// When many ask for the list at once, two children are not sent the same piece.
func TestACrowdIsSeenToCome(t *testing.T) {
	for _, x := range []struct {
		come int
		wait time.Duration
		want wire.Status
	}{{flashCrowd - 1, 0, wire.OK}, {flashCrowd, 0, wire.Busy}, {flashCrowd, flashWithin, wire.OK}} {
		sw := newSwarm(t, 1)
		m, content := testShare(t, 1<<20)
		source := sw.add("source", 1e6).seed(m, content)
		got := map[peers.ID]Admission{}
		ask := func(child peers.ID) {
			source.program.Request(AdmitRequest{Child: child, Share: m.ID(), Bytes: 1 << 16, Reply: func(a Admission) { got[child] = a }})
			sw.w.Settle()
		}
		for _, name := range []string{"a", "b"} {
			sw.puppet(name, source).subscribes(source, wire.Subscribe{Share: m.ID(), Addrs: []string{"/sim"}, Nameable: true})
		}
		for i := range 2 * x.come { // each asks twice
			source.listFor(ListRequest{Child: peers.ID(fmt.Sprint("new", i%x.come)), Share: m.ID()})
		}
		ask("a")
		sw.w.Run(x.wait)
		ask("b")
		if r := got["b"].Reply; r.Status != x.want || r.Elsewhere != (x.want == wire.Busy) {
			t.Errorf("%d come, %v later: %+v", x.come, x.wait, r)
		}
	}
}
