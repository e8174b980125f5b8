package peers

// Turns picks a few of many in the order in which they came, such as the children that a
// source names: each in its turn, and of all ages, because those that came long ago and
// are still here are slow, or gone without notice. The zero value is ready.
type Turns struct{ next int }

// Pick offers places below n to take until it has taken most of them; take says
// whether it takes one. The next call begins elsewhere.
func (t *Turns) Pick(n, most int, take func(i int) bool) {
	step, taken := max(1, n/max(1, most)), 0
	for from := range step {
		for i := from; i < n && taken < most; i += step {
			if take((t.next + i) % n) {
				taken++
			}
		}
	}
	turn := most
	if step > 1 {
		turn = 1 // the others of each age
	}
	t.next = (t.next + turn) % max(1, n)
}
