package peers

// childHeap has on top the child whose clock is farthest behind, of those in the best set.
type childHeap []*child

func (h childHeap) Len() int { return len(h) }
func (h childHeap) Less(i, j int) bool {
	a, b := h[i], h[j]
	if a.set != b.set {
		return a.set < b.set
	}
	return a.clock < b.clock || a.clock == b.clock && a.seq < b.seq
}
func (h childHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i]; h[i].at, h[j].at = i, j }
func (h *childHeap) Push(x any)   { c := x.(*child); c.at = len(*h); *h = append(*h, c) }
func (h *childHeap) Pop() any {
	old := *h
	c := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return c
}

// jobHeap has on top the request whose piece was sent least, the oldest of equals.
type jobHeap []*job

func (h jobHeap) Len() int { return len(h) }
func (h jobHeap) Less(i, j int) bool {
	a, b := h[i], h[j]
	return a.sent < b.sent || a.sent == b.sent && a.seq < b.seq
}
func (h jobHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i]; h[i].at, h[j].at = i, j }
func (h *jobHeap) Push(x any)   { j := x.(*job); j.at = len(*h); *h = append(*h, j) }
func (h *jobHeap) Pop() any {
	old := *h
	j := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return j
}
