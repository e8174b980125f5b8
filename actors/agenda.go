package actors

import (
	"cmp"
	"container/heap"
	"time"

	"github.com/piecelease/fetcher/share"
)

// agenda orders shares by when they are due, the earliest first; ties go to the smallest
// ID. The zero value is empty.
type agenda struct {
	of   map[share.ID]*item
	list items
}

type item struct {
	id share.ID
	at time.Time
	i  int // in list
}

// set makes a share due at a time, replacing any earlier one.
func (a *agenda) set(id share.ID, at time.Time) {
	if x := a.of[id]; x != nil {
		x.at = at
		heap.Fix(&a.list, x.i)
		return
	}
	if a.of == nil {
		a.of = map[share.ID]*item{}
	}
	x := &item{id: id, at: at}
	a.of[id] = x
	heap.Push(&a.list, x)
}

// drop removes a share.
func (a *agenda) drop(id share.ID) {
	if x := a.of[id]; x != nil {
		delete(a.of, id)
		heap.Remove(&a.list, x.i)
	}
}

// first returns the share that is due first, and when; ok is false if there is none.
func (a *agenda) first() (id share.ID, at time.Time, ok bool) {
	if len(a.list) == 0 {
		return id, at, false
	}
	return a.list[0].id, a.list[0].at, true
}

// items is a heap.
type items []*item

func (l items) Len() int { return len(l) }
func (l items) Less(i, j int) bool {
	return cmp.Or(l[i].at.Compare(l[j].at), l[i].id.Compare(l[j].id)) < 0
}
func (l items) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	l[i].i, l[j].i = i, j
}
func (l *items) Push(x any) {
	x.(*item).i = len(*l)
	*l = append(*l, x.(*item))
}
func (l *items) Pop() any {
	last := len(*l) - 1
	x := (*l)[last]
	(*l)[last] = nil
	*l = (*l)[:last]
	return x
}
