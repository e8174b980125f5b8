package simnet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/actors/system"
)

// Each seed draws different mailboxes and delays. Here no line has jitter, so the order
// of deliveries can differ only by what is drawn.
func TestAnotherSeedIsAnotherInterleaving(t *testing.T) {
	orders, traces := map[string]uint64{}, map[uint64]bool{}
	for seed := range uint64(20) {
		n := New(seed)
		var order []string
		observe := n.World.Observe
		n.World.Observe = func(d system.Delivery) {
			if len(order) < 300 {
				order = append(order, fmt.Sprintf("%s %s %T", d.From(), d.To(), d.Message))
			}
			observe(d)
		}
		s := &Scenario{Name: "three", Set: func(r *Run) {
			c := r.Folder("photos", 16, 64<<10)
			a, b := r.Add(NodeConfig{Name: "a"}).Seed(c), r.Add(NodeConfig{Name: "b"}).Seed(c)
			r.Add(NodeConfig{Name: "node"}).Fetch(c, a, b)
		}}
		r := s.RunOn(n, 0)
		orders[strings.Join(order, "\n")], traces[r.Trace] = seed, true
	}
	if len(orders) < 20 || len(traces) < 20 {
		t.Errorf("20 seeds, %d orders, %d traces", len(orders), len(traces))
	}
}

// The trace sees what a list of messages would not: a draw, an event, a byte.
func TestTheTraceSeesDrawsEventsAndBytes(t *testing.T) {
	trace := func(change func(n *Net)) uint64 {
		n := New(1)
		s := &Scenario{Name: "one", Set: func(r *Run) {
			c := r.File("film", 256<<10)
			a := r.Add(NodeConfig{Name: "a"}).Seed(c)
			r.Add(NodeConfig{Name: "node"}).Fetch(c, a)
			change(r.Net)
		}}
		return s.RunOn(n, 0).Trace
	}
	want := trace(func(*Net) {})
	if trace(func(*Net) {}) != want {
		t.Fatal("the same run, another trace")
	}
	seen := map[uint64]string{want: "nothing"}
	for name, change := range map[string]func(*Net){
		"an event that does nothing":  func(n *Net) { n.After(time.Second, func() {}) },
		"... a nanosecond later":      func(n *Net) { n.After(time.Second+1, func() {}) },
		"a byte that is handed over":  func(n *Net) { n.After(time.Second, func() { n.passed([]byte{1}) }) },
		"another byte":                func(n *Net) { n.After(time.Second, func() { n.passed([]byte{2}) }) },
		"a mailbox that has its turn": func(n *Net) { n.After(time.Second, func() { n.nodes[0].program.Tell(actors.SetUploadRate{}) }) },
	} {
		got := trace(change)
		if other, same := seen[got]; same {
			t.Errorf("%s: the same trace as of %s", name, other)
		}
		seen[got] = name
	}
}
