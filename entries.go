package fetcher

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	ma "github.com/multiformats/go-multiaddr"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// Entries returns the entries of the node's catalog, by ID.
func (n *Node) Entries() []Entry { return n.catalog.all() }

// Entry returns the entry with an ID; false if there is none.
func (n *Node) Entry(id EntryID) (Entry, bool) { return n.catalog.entry(id) }

// Shares returns the shares that are served from their own paths, by share ID.
func (n *Node) Shares() []*Share {
	shares, _ := n.catalog.lists()
	return shares
}

// Transfers returns the transfers that have not ended, by share ID.
func (n *Node) Transfers() []*Transfer {
	_, transfers := n.catalog.lists()
	return transfers
}

// Add enters an entry, with a Path or a Ticket, and starts nothing: Resume does that.
// Paths become absolute. Errors wrap share.ErrTicket if Ticket is not a ticket.
func (n *Node) Add(e Entry) (EntryID, error) {
	if (e.Path == "") == (e.Ticket == "") {
		return 0, errors.New("an entry needs either a path to serve or a ticket to fetch")
	}
	if e.Ticket != "" {
		id, _, err := ParseSource(e.Ticket, e.Fetching.Peers)
		if err != nil {
			return 0, err
		}
		e.Share = id
	}
	for _, p := range []*string{&e.Path, &e.Fetching.Dir} {
		if *p == "" || n.cfg.Simulation.FS != nil {
			continue
		}
		abs, err := filepath.Abs(*p)
		if err != nil {
			return 0, err
		}
		*p = abs
	}
	e.ID, e.Added = 0, n.cfg.Wall()
	return n.catalog.put(e, nil)
}

// Resume starts what an entry asks for. A path that is served is imported again, and
// offered as it is now: under the same entry, with another share ID if it has
// changed. A transfer that was begun goes on, and a share that was kept is served. Errors are
// ErrNoEntry, those of Share and Fetch, and ErrStopped if the entry is paused before it has begun; a path that cannot be shared is EntryMissing from then on.
func (n *Node) Resume(ctx context.Context, id EntryID) error {
	e, ok := n.catalog.entry(id)
	switch {
	case !ok:
		return fmt.Errorf("%w: %d", ErrNoEntry, id)
	case e.Path == "" && (e.State == EntryServed || n.catalog.running(e.Share) != nil):
		return nil
	}
	err := n.begin(ctx, e)
	if err != nil && e.State == EntryPaused {
		n.catalog.repause(id)
	}
	return err
}

// begin begins to serve or to fetch what an entry asks for.
func (n *Node) begin(ctx context.Context, e Entry) (err error) {
	if e.Path != "" {
		opt := e.Serving
		opt.Entry = e.ID
		_, err = n.Share(ctx, e.Path, opt)
	} else {
		opt := e.Fetching
		opt.Entry = e.ID
		_, err = n.Fetch(ctx, e.Ticket, opt)
	}
	return err
}

// Pause ends what an entry asks for, fetching as well as serving, until Resume. What is
// verified is kept.
func (n *Node) Pause(ctx context.Context, id EntryID) error {
	var was Entry
	err := n.catalog.change(id, func(e *Entry) {
		was = *e
		e.State, e.Why = EntryPaused, ""
	})
	if err != nil {
		return err
	}
	return n.halt(ctx, was, 0)
}

// Remove ends what an entry asks for, and forgets the entry. No file is touched.
func (n *Node) Remove(ctx context.Context, id EntryID) error {
	e, ok := n.catalog.entry(id)
	if !ok {
		return fmt.Errorf("%w: %d", ErrNoEntry, id)
	}
	if err := n.catalog.remove(id); err != nil {
		return err
	}
	return n.halt(ctx, e, 0)
}

// halt ends what an entry asked for; the entry is paused or gone, or it has a newer version. Children are told why.
func (n *Node) halt(ctx context.Context, e Entry, why wire.Code) error {
	if t := n.catalog.running(e.Share); t != nil && t.Entry() == e.ID {
		return t.halt(ctx)
	}
	s := n.catalog.shared(e.Share)
	switch {
	case s != nil && s.entry == e.ID:
		n.catalog.drop(e.Share, s)
		defer s.over(nil)
	case s != nil || e.Path != "" || e.State != EntryServed:
		n.catalog.unkeepsIf(e.Share, nil, func(t *Transfer) bool { return t.Entry() == e.ID }) // a Share stands for it
		return nil
	}
	_, err := n.withdraw(ctx, e.Share, why)
	return err
}

// endShare ends what an entry served before.
func (n *Node) endShare(old Entry, why wire.Code) {
	ctx, cancel := context.WithTimeout(context.Background(), partingTime)
	defer cancel()
	if err := n.halt(ctx, old, why); err != nil {
		n.log.Debug("the old version of a share could not be ended", "share", old.Share.String(), "error", err)
	}
}

// unshared notes that the path of an entry cannot be shared; what was shared of it before
// ends. If only ctx has ended, that says nothing about the path.
func (n *Node) unshared(ctx context.Context, id EntryID, why error) {
	if old, ok := n.catalog.entry(id); ok && ctx.Err() == nil {
		n.catalog.set(id, EntryMissing, why)
		n.endShare(old, 0)
	}
}

// settle notes in the catalog how a transfer has ended, and goes on with then. It may be
// called by an actor, which must not wait for a disk.
func (n *Node) settle(t *Transfer, err error, then func()) {
	note := func() {
		switch {
		case errors.Is(err, actors.ErrStopped): // whoever stopped it has done so
		case t.opt.Keep && err == nil:
			if !n.catalog.set(t.Entry(), EntryServed, nil) {
				n.catalog.unkeeps(t.id, nil)
				n.leave(t)
			} else if err := n.catalog.changedBy(t.id); err != nil { // before it was known as served
				n.catalog.set(t.Entry(), EntryMissing, err)
				n.catalog.unkeeps(t.id, err)
			} else if !n.catalog.serves(t) {
				n.catalog.reopen(t.Entry(), t.id)
			}
		case t.opt.Keep:
			n.catalog.set(t.Entry(), EntryFailed, err)
		default:
			if err := n.catalog.remove(t.Entry()); err != nil && !errors.Is(err, ErrClosed) {
				n.log.Warn("an entry has ended, and could not be forgotten", "entry", t.Entry(), "error", err)
			}
		}
		then()
	}
	n.mu.Lock()
	durable := n.cfg.Catalog != nil && !n.closed
	if durable {
		n.leaving.Go(note)
	}
	n.mu.Unlock()
	if !durable {
		note()
	}
}

// peerIDs returns an error that names the first of these that is not a peer ID.
func peerIDs(ids []peers.ID) error {
	for _, id := range ids {
		m, err := ma.NewMultiaddr("/p2p/" + string(id))
		if err == nil {
			var text string
			if text, err = m.ValueForProtocol(ma.P_P2P); err == nil && text == string(id) {
				continue
			}
		}
		return fmt.Errorf("%q is not the ID of a peer (such as 12D3...)", id)
	}
	return nil
}

// enter enters a transfer in the catalog, before it starts.
func (n *Node) enter(t *Transfer, ticketOrID string, known *share.Manifest) (err error) {
	e := Entry{ID: t.opt.Entry, Share: t.id, State: EntryFetching, Ticket: ticketOrID, Fetching: t.opt, Added: n.cfg.Wall()}
	if known != nil {
		e.Name = known.Name
	}
	if n.cfg.Simulation.FS == nil {
		if e.Fetching.Dir, err = filepath.Abs(t.opt.Dir); err != nil {
			return err
		}
	}
	_, err = n.catalog.put(e, t)
	return err
}
