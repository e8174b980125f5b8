package actors

import (
	"context"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
)

// A source knows how much each child takes from it, and which children have all that they wanted.
func TestASourceIsToldOfItsChildren(t *testing.T) {
	rig.Slow(t)
	sw := newSwarm(t, 1)
	m, content := testShare(t, 16<<20+5)
	told := map[string][]ChildEvent{}
	tell := func(source string) func(*Deps) {
		return func(d *Deps) { d.Child = func(e ChildEvent) { told[source] = append(told[source], e) } }
	}
	one := sw.add("one", 4e6, tell("one")).seed(m, content)
	two := sw.add("two", 4e6, tell("two")).seed(m, content)
	whole, stopped, cut := sw.add("whole", 20e6), sw.add("stopped", 20e6, tell("stopped")), sw.add("cut", 20e6, tell("cut"))
	for _, n := range []*simNode{whole, stopped, cut} {
		n.fetch(m.ID(), one, two)
	}
	sw.w.Run(2 * time.Second)
	list, err := one.program.Children(context.Background())
	if err != nil || len(list) != 3 {
		t.Fatalf("%+v, %v", list, err)
	}
	for _, e := range list {
		if e.Bytes == 0 || e.Bytes > 8e6 || e.State != ChildTakes || e.Share != m.ID() || !e.At.After(e.Since) {
			t.Errorf("after two seconds %+v", e)
		}
	}
	stopped.program.StopTransfer(Handle{Share: m.ID()})
	one.program.Lost(cut.id)
	sw.run(time.Minute, whole)
	sw.w.Run(time.Second) // for the last messages

	var took int64
	for source, events := range told {
		ends := map[peers.ID]ChildEvent{}
		for i, e := range events {
			if e.State == ChildTakes {
				if e.Bytes != 0 {
					t.Errorf("%s: began with %+v", source, e)
				}
				continue
			}
			if _, twice := ends[e.Peer]; twice && e.Peer != cut.id {
				t.Errorf("%s: event %d is a second end: %+v", source, i, e)
			} else if !twice {
				ends[e.Peer] = e
			}
		}
		took += ends[whole.id].Bytes
		if source != "one" && source != "two" {
			continue
		}
		if e := ends[whole.id]; e.State != ChildDone || e.Bytes == 0 {
			t.Errorf("%s: of the one that finished %+v", source, e)
		}
		if e := ends[stopped.id]; e.State != ChildLeft || e.Bytes == 0 || e.Bytes > 8e6 {
			t.Errorf("%s: of the one that stopped %+v", source, e)
		}
		if e := ends[cut.id]; source == "one" && (e.State != ChildLeft || e.Bytes == 0) {
			t.Errorf("%s: of the one that was cut off %+v", source, e)
		}
	}
	if p := whole.end.Last; took < int64(len(content)) || took > int64(len(content))+p.Duplicate+4<<20 {
		t.Errorf("its sources sent %d bytes of a share of %d", took, len(content))
	}
}

func TestAccountsAreCompleteWhenTheyAreClosed(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testShare(t, 1<<20)
	n := sw.add("n", 1e6).seed(m, content)
	var told []ChildEvent
	x := newAccounts(n.program.s, n, func(e ChildEvent) { told = append(told, e) })
	x.begin(1, asked{child: "a", share: m.ID(), bytes: 100})
	x.over(m.ID(), "a", true) // although a job has not finished
	x.served(1, 100)
	x.served(1, 100) // of no job
	x.begin(2, asked{child: "b", share: m.ID(), bytes: 100})
	x.begin(3, asked{child: "b", share: m.ID(), bytes: 100})
	x.served(2, 10)
	x.over(m.ID(), "b", true)
	x.begin(4, asked{child: "b", share: m.ID(), bytes: 100}) // back before the last job has finished
	x.served(3, 10)
	x.served(4, 30)
	x.begin(5, asked{child: "c", share: m.ID(), bytes: 100})
	x.served(5, 0)
	x.lost("c") // it took nothing
	x.withdrawn(m.ID())
	want := []ChildEvent{
		{Peer: "a", State: ChildDone}, // it is only reported to have begun when it gets something
		{Peer: "a", Bytes: 100, State: ChildDone},
		{Peer: "b", State: ChildTakes}, {Peer: "b", Bytes: 10, State: ChildDone},
		{Peer: "b", State: ChildTakes}, {Peer: "b", Bytes: 30, State: ChildLeft},
	}
	if len(told) != len(want) {
		t.Fatalf("told %+v", told)
	}
	for i, w := range want {
		if e := told[i]; e.Peer != w.Peer || e.Bytes != w.Bytes || e.State != w.State || e.Share != m.ID() {
			t.Errorf("event %d is %+v, want %+v", i, e, w)
		}
	}
	if len(x.of)+len(x.list()) > 0 {
		t.Errorf("%d accounts are left", len(x.of))
	}
}
