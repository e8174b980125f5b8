package peers

import (
	"cmp"
	"container/heap"
)

// branch is a part of the tree in which Tiers shares out places: all peers, those of one
// tier and location (a cell), or those of one network in it.
type branch struct {
	up       *branch
	tier     Tier
	location string
	net      string
	seq      uint64 // order of arrival
	target   [sets]int
	n        [sets]int

	members [sets]ranked         // of a network
	below   map[string]*branch   // of a cell, by network
	best    [sets]order[*branch] // those below that have any there: by their best
	worst   [sets]order[*branch] // ... by their worst
	over    [sets]order[*branch] // ... by how far over their targets they are, the farthest first
	claims  [sets]order[*branch] // ... and have fewer in the set before than their target there: by their best
	unfair  [sets]order[*branch] // cells in which a network has a claim on another's place
}

// ranked is the peers of one network in one set.
type ranked struct{ best, worst order[*member] }

func (r *ranked) set(m *member, in bool) {
	r.best.set(m, in)
	r.worst.set(m, in)
}

func (r *ranked) has(m *member) bool { return r.best.has(m) }

func newBranch(up *branch, seq uint64, target [sets]int) *branch {
	b := &branch{up: up, seq: seq, target: target, below: map[string]*branch{}}
	for s := range Set(sets) {
		b.members[s].best.before = func(a, b *member) bool { return byScore(a, b) < 0 }
		b.members[s].worst.before = func(a, b *member) bool { return byScore(a, b) > 0 }
		byBest := func(a, b *branch) bool { return byScore(a.bestOf(s), b.bestOf(s)) < 0 }
		b.best[s].before, b.claims[s].before = byBest, byBest
		b.worst[s].before = func(a, b *branch) bool { return byScore(a.worstOf(s), b.worstOf(s)) > 0 }
		b.over[s].before = func(a, b *branch) bool {
			return cmp.Or(cmp.Compare(b.n[s]-b.target[s], a.n[s]-a.target[s]), -byScore(a.worstOf(s), b.worstOf(s))) < 0
		}
		b.unfair[s].before = func(a, b *branch) bool { return a.seq < b.seq }
	}
	return b
}

// branchOf is the network of a cell, made if there is none.
func (t *Tiers) branchOf(tier Tier, location, net string) *branch {
	at := string(rune('0'+tier)) + location
	cell := t.all.below[at]
	if cell == nil {
		t.seq++
		target := tierTargets[tier]
		if t.cfg.Explore > 0 && location == "" {
			target = [sets]int{}
		}
		cell = newBranch(t.all, t.seq, target)
		cell.tier, cell.location = tier, location
		t.all.below[at] = cell
		t.cells.before = func(a, b *branch) bool { return a.seq < b.seq }
		t.cells.set(cell, true)
	}
	b := cell.below[net]
	if b == nil {
		t.seq++
		half := cell.target
		for s := range half {
			half[s] = (half[s] + 1) / 2
		}
		b = newBranch(cell, t.seq, half)
		b.net = net
		cell.below[net] = b
	}
	return b
}

// prune forgets a network without peers, and its cell if that has none left.
func (t *Tiers) prune(b *branch) {
	if b.n != [sets]int{} {
		return
	}
	cell := b.up
	delete(cell.below, b.net)
	if cell.n == [sets]int{} {
		delete(t.all.below, string(rune('0'+cell.tier))+cell.location)
		t.cells.set(cell, false)
	}
}

// ordered moves one of those below to its place in each order after a change.
func (b *branch) ordered(kid *branch) {
	for s := range Set(sets) {
		here := kid.n[s] > 0
		b.best[s].set(kid, here)
		b.worst[s].set(kid, here)
		b.over[s].set(kid, here)
		if s > Active {
			b.claims[s].set(kid, here && kid.n[s-1] < kid.target[s-1])
		}
		if s < Tracked && b.up == nil {
			up, _ := kid.claimBelow(s)
			b.unfair[s].set(kid, up != nil)
		}
	}
}

// bestOf returns the member of a set that goes up first: one with a claim, if there is any. nil: nobody.
func (b *branch) bestOf(s Set) *member {
	if m := b.members[s].best.top(); m != nil {
		return m
	}
	if m := b.claimant(s); m != nil {
		return m
	}
	if kid := b.best[s].top(); kid != nil {
		return kid.bestOf(s)
	}
	return nil
}

// claimant returns the member of a set with a claim to a place in the set before. nil: nobody.
func (b *branch) claimant(s Set) *member {
	if kid := b.claims[s].top(); kid != nil {
		return kid.bestOf(s)
	}
	return nil
}

// worstOf returns the member of a set with the lowest score. nil: nobody.
func (b *branch) worstOf(s Set) *member {
	if m := b.members[s].worst.top(); m != nil {
		return m
	}
	if kid := b.worst[s].top(); kid != nil {
		return kid.worstOf(s)
	}
	return nil
}

// victim returns the member of a set that gives way first: the worst of the network farthest
// over its target, in the cell farthest over its own. There always is one.
func (b *branch) victim(s Set) *member {
	for b.over[s].top() != nil {
		b = b.over[s].top()
	}
	return b.worstOf(s)
}

// claim returns the member up that has a claim to a place in a set, and the member down that
// holds it beyond the share of its cell, or of its network within a cell. nil: nobody.
func (b *branch) claim(s Set) (up, down *member) {
	if up, down = b.claimBelow(s); up != nil {
		return up, down
	}
	if cell := b.unfair[s].top(); cell != nil {
		return cell.claimBelow(s)
	}
	return nil, nil
}

// claimBelow is claim for the branches right below.
func (b *branch) claimBelow(s Set) (up, down *member) {
	if o := b.over[s].top(); o == nil || o.n[s] <= o.target[s] {
		return nil, nil
	}
	if up = b.claimant(s + 1); up == nil {
		return nil, nil
	}
	return up, b.victim(s)
}

// swap returns the member up of a cell's next set that could take the place of down in s.
// No network loses a place that it has a claim to, to a network that has its share.
func (b *branch) swap(s Set) (up, down *member) {
	if down = b.worstOf(s); down == nil || b.n[s+1] == 0 {
		return nil, nil
	}
	if from := down.net; from.n[s] <= from.target[s] {
		up = from.bestOf(s + 1)
		if m := b.claimant(s + 1); up == nil || m != nil && byScore(m, up) < 0 {
			up = m
		}
		return up, down
	}
	return b.best[s+1].top().bestOf(s + 1), down
}

// order keeps the first element on top. After each change to what is compared, set must
// be called.
type order[T comparable] struct {
	before func(a, b T) bool
	items  []T
	at     map[T]int
}

func (o *order[T]) has(x T) bool { _, yes := o.at[x]; return yes }

// top is the first element, the zero T if there is none.
func (o *order[T]) top() (x T) {
	if len(o.items) > 0 {
		x = o.items[0]
	}
	return x
}

// set puts x in, moves it to its place, or takes it out.
func (o *order[T]) set(x T, in bool) {
	i, has := o.at[x]
	switch {
	case in && has:
		heap.Fix((*orderHeap[T])(o), i)
	case in:
		heap.Push((*orderHeap[T])(o), x)
	case has:
		heap.Remove((*orderHeap[T])(o), i)
	}
}

// orderHeap is an order as container/heap sees it.
type orderHeap[T comparable] order[T]

func (h *orderHeap[T]) Len() int           { return len(h.items) }
func (h *orderHeap[T]) Less(i, j int) bool { return h.before(h.items[i], h.items[j]) }
func (h *orderHeap[T]) Swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	h.at[h.items[i]], h.at[h.items[j]] = i, j
}
func (h *orderHeap[T]) Push(x any) {
	if h.at == nil {
		h.at = map[T]int{}
	}
	h.at[x.(T)] = len(h.items)
	h.items = append(h.items, x.(T))
}
func (h *orderHeap[T]) Pop() any {
	last := len(h.items) - 1
	x := h.items[last]
	var none T
	h.items[last] = none
	h.items = h.items[:last]
	delete(h.at, x)
	return x
}
