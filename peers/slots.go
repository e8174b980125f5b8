package peers

import "time"

// lesserShare is by how much each active request under way adds to the divisor of the slots
// that are left to children in other sets: with one it is a third of them.
const lesserShare = 2

// room reports whether there is a slot for the child that is next. Requests that are served
// at once share the line, so a child that is not active finds the fewer slots the more
// requests of active children are under way.
func (u *Uploads) room() bool {
	if len(u.ready) == 0 || u.serving >= u.cfg.Slots {
		return false
	}
	return u.ready[0].set == Active || u.active == 0 || u.serving-u.active < max(1, u.cfg.Slots/(1+lesserShare*u.active))
}

// count counts a request that begins or ends to be served.
func (u *Uploads) count(j *job, n int) {
	u.serving += n
	j.child.slots += n
	if j.child.set == Active {
		u.active += n
	}
}

// Moved notes that a child is now in another set, for its requests that wait and those under way.
func (u *Uploads) Moved(id ID, to Set, now time.Time) (next []Job) {
	if c := u.children[id]; c != nil && c.set != to {
		u.moved(c, to)
		u.reheap(c)
	}
	return u.run(now)
}

// moved puts a child into another set. It saved nothing up there.
func (u *Uploads) moved(c *child, to Set) {
	if c.set == Active {
		u.active -= c.slots
	}
	if to == Active {
		u.active += c.slots
	}
	c.set, c.clock = to, max(c.clock, u.clock)
}
