package discovery

import (
	"maps"
	"slices"
	"time"

	"github.com/piecelease/fetcher/peers"
)

// What is remembered of a network, where anybody can announce anything.
const (
	maxHeard = 1024             // announcements
	lasts    = 10 * time.Minute // an announcement that is not heard again
)

// table is what was heard, and what is looked for. It has one owner; the time is an
// argument.
type table struct {
	heard map[string]heard // by the name of the announcement
	finds map[*find]struct{}
}

type heard struct {
	record
	until time.Time
}

// find is a share that this node looks for, and the peers that are said to have it.
type find struct {
	key   key
	peers []peers.ID
	found func(peers.Via, peers.Addr)
}

func newTable() *table { return &table{heard: map[string]heard{}, finds: map[*find]struct{}{}} }

// hear remembers an announcement, and tells the finds that it is about. If there are too
// many, the one that ends first is forgotten.
func (t *table) hear(name string, r record, now time.Time) {
	if _, again := t.heard[name]; !again && len(t.heard) >= maxHeard {
		t.forget(now)
	}
	t.heard[name] = heard{r, now.Add(lasts)}
	for f := range t.finds {
		f.tell(r)
	}
}

func (t *table) forget(now time.Time) {
	var first string
	for name, h := range t.heard {
		if !now.Before(h.until) {
			delete(t.heard, name)
		} else if x, ok := t.heard[first]; !ok || h.until.Before(x.until) {
			first = name
		}
	}
	if len(t.heard) >= maxHeard {
		delete(t.heard, first)
	}
}

// begin tells f of what was heard, and of what will be, until end.
func (t *table) begin(f *find, now time.Time) {
	t.finds[f] = struct{}{}
	for _, h := range t.heard {
		if now.Before(h.until) {
			f.tell(h.record)
		}
	}
}

// neighbours are the nodes that were heard, by their IDs.
func (t *table) neighbours(now time.Time) (out []Neighbour) {
	last := map[peers.ID]heard{}
	keys := map[peers.ID]map[key]bool{} // a node announces itself anew, and what it said before is remembered
	for _, h := range t.heard {
		if !now.Before(h.until) {
			continue
		}
		if keys[h.peer] == nil {
			keys[h.peer] = map[key]bool{}
		}
		for _, k := range h.keys {
			keys[h.peer][k] = true
		}
		if h.until.After(last[h.peer].until) {
			last[h.peer] = h
		}
	}
	for _, id := range slices.Sorted(maps.Keys(last)) {
		out = append(out, Neighbour{id, slices.Clone(last[id].addrs), len(keys[id])})
	}
	return out
}

func (t *table) end(f *find) { delete(t.finds, f) }

// tell passes on a peer that says it has the share, or that is looked for itself.
func (f *find) tell(r record) {
	if slices.Contains(f.peers, r.peer) || slices.Contains(r.keys, f.key) {
		f.found(peers.ViaLAN, peers.Addr{ID: r.peer, Addrs: slices.Clone(r.addrs)})
	}
}
