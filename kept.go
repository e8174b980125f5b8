package fetcher

import (
	"sync"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// ending is the end of something that is served, and why it has come.
type ending struct {
	once sync.Once
	done chan struct{} // closed then
	why  error         // good once done is closed
}

func (x *ending) end(why error) {
	x.once.Do(func() {
		x.why = why
		close(x.done)
	})
}

// reason is why it has come; nil before.
func (x *ending) reason() error {
	select {
	case <-x.done:
		return x.why
	default:
		return nil
	}
}

// Unserved is closed when the share is not served any more by what was fetched: with the end of the transfer or,
// with FetchOptions.Keep, later. UnservedErr then says why.
func (t *Transfer) Unserved() <-chan struct{} { return t.kept.done }

// UnservedErr is why what was fetched is not served any more: an error that wraps share.ErrChanged if a file of it has
// changed since, and nil if the transfer has kept nothing, or the serving was stopped.
func (t *Transfer) UnservedErr() error { return t.kept.reason() }

// Look looks whether the files of what is served are still what they were, by their sizes and times, and ends that if one is not: without
// it, that is noticed when a peer asks for one.
func (t *Transfer) Look() { t.node.catalog.offers.Look(t.id, t.Manifest().Len()) }

// ended handles the last event: what was opened for the transfer is released, or kept and served.
func (t *Transfer) ended(e Ended) {
	t.mu.Lock()
	t.last, t.err = e.Last, e.Err
	t.mu.Unlock()
	t.opened()
	t.node.catalog.forget(t)
	t.node.catalog.unask(t.id, t.asking)
	if e.Err != nil || !t.opt.Keep || !t.node.catalog.keeps(t) {
		t.forget()
		t.kept.end(nil)
		t.node.leave(t)
	}
	t.node.settle(t, e.Err, func() { t.over(e) })
}

// keeps notes that the node serves what a transfer has fetched, in place of what another has. It goes on proving that it knows the
// secret of the share: to its source too, which may have begun anew. It returns false if it is not served: it was withdrawn meanwhile.
func (c *catalog) keeps(t *Transfer) bool {
	c.mu.Lock()
	if c.shares[t.id] == nil && !c.offers.Offers(t.id, t.place()) && c.changedBy(t.id) == nil { // settle handles the last
		c.mu.Unlock()
		return false
	}
	before := c.served[t.id]
	c.served[t.id] = t
	c.mu.Unlock()
	before.unserved(nil)
	return true
}

// serves says whether what a transfer has kept is served.
func (c *catalog) serves(t *Transfer) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.served[t.id] == t
}

// unkeeps notes that what a transfer has fetched of a share, if any, is not served any more. Its entry, if it is to be served, is to be
// opened again.
func (c *catalog) unkeeps(id share.ID, why error) {
	c.unkeepsIf(id, why, func(*Transfer) bool { return true })
}

// unkeepsLost is unkeeps if another transfer has taken the place on disk, or has had it given up, and has ended.
func (c *catalog) unkeepsLost(id share.ID) {
	c.unkeepsIf(id, nil, func(t *Transfer) bool {
		return c.shares[id] == nil && !c.offers.Offers(id, t.place()) && c.changedBy(id) == nil // gone handles the last
	})
}

// unkeepsIf is unkeeps if that is so; lost is called with mu held.
func (c *catalog) unkeepsIf(id share.ID, why error, lost func(*Transfer) bool) {
	c.mu.Lock()
	t := c.served[id]
	if t != nil && !lost(t) {
		t = nil
	} else {
		delete(c.served, id)
	}
	c.mu.Unlock()
	if t != nil {
		c.reopen(t.Entry(), id)
	}
	t.unserved(why)
}

// unserved ends what a transfer has kept; it may be nil.
func (t *Transfer) unserved(why error) {
	if t != nil {
		t.forget()
		t.kept.end(why)
	}
}

// changedBy is the error of a share that is not offered any more because a file of it has changed; nil: it has not.
func (c *catalog) changedBy(id share.ID) error {
	if _, r := c.offers.Manifest(id); r.Status == wire.Gone && r.Reason.Code == wire.CodeFileChanged {
		return share.ErrChanged
	}
	return nil
}

// unkeepAll ends all that transfers have kept.
func (c *catalog) unkeepAll(why error) {
	c.mu.Lock()
	var ids []share.ID
	for id := range c.served {
		ids = append(ids, id)
	}
	c.mu.Unlock()
	for _, id := range ids {
		c.unkeeps(id, why)
	}
}
