package fetcher

import (
	"context"
	"errors"
	"time"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// Manifest returns the list of files of a share: the one that this node knows, or that of
// the first peer that sends it, within a minute. Nothing else is fetched. more are
// further peers, as in FetchOptions.Peers. Errors are those of Fetch and of Wait.
func (n *Node) Manifest(ctx context.Context, ticketOrID string, more []string) (*share.Manifest, error) {
	id, sources, err := ParseSource(ticketOrID, more)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	defer n.know(id, ticketSecret(ticketOrID), func() {})()
	for {
		if t := n.catalog.running(id); t != nil && t.Manifest() != nil {
			return t.Manifest(), nil
		}
		if m, err := n.state.Manifest(id); err == nil {
			return m, nil
		}
		beacons := n.asked(ticketOrID)
		names := len(sources)+len(beacons) > 0
		if !names && n.cfg.Discovery == nil {
			return nil, noSource(ticketOrID)
		}
		mine, others := n.catalog.list(id, names)
		if mine != nil {
			m, err := n.askForManifest(ctx, mine, id, sources, beacons)
			if errors.Is(err, errTaken) {
				continue
			}
			return m, err
		}
		select {
		case <-others: // it is known then, or we ask
		case <-ctx.Done():
			return nil, unsent(ctx)
		}
	}
}

// noSource is ErrNoSource for a ticket or an ID that names no peer.
func noSource(ticketOrID string) error {
	if _, err := share.ParseID(ticketOrID); err != nil {
		return words.Error(ErrNoSource, "no peer to fetch from: the ticket names none")
	}
	return ErrNoSource
}

// listing is a question for a list of files.
type listing struct {
	names bool            // somebody to ask; if not, it gives way to whoever does, and to a transfer
	taken chan struct{}   // closed when another takes its place
	over  chan struct{}   // closed when it has been answered, or has ended
	after <-chan struct{} // nil, or of the one whose place it takes
}

// list begins a question for a list of files, which the caller must end. If there is one already,
// or a transfer that asks for the same list, others is closed when that is over.
func (c *catalog) list(id share.ID, names bool) (mine *listing, others <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.listings[id]
	switch t := c.transfers[id]; {
	case t != nil:
		return nil, t.listed
	case l != nil && (l.names || !names):
		return nil, l.over
	}
	return c.take(id, names), nil
}

// take puts a question in the place of the one that gives way, if there is one; mu is held.
func (c *catalog) take(id share.ID, names bool) (mine *listing) {
	mine = &listing{names: names, taken: make(chan struct{}), over: make(chan struct{})}
	if l := c.listings[id]; l != nil {
		close(l.taken)
		mine.after = l.over
	}
	c.listings[id] = mine
	return mine
}

func (c *catalog) endListing(id share.ID, l *listing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.listings[id] == l {
		delete(c.listings, id)
	}
	close(l.over)
}

// errTaken ends a question whose place another has taken.
var errTaken = errors.New("another asks for the list of files")

// errListed ends a transfer that fetches only the list of files.
var errListed = errors.New("the list of files is here")

// lister is the disk of a transfer that fetches the list of files and nothing else.
type lister struct{ list *share.Manifest }

func (l *lister) Open(_ context.Context, m *share.Manifest, _ []bool) (actors.Target, error) {
	l.list = m
	return nil, errListed
}

// askForManifest fetches the list of files of a share by a transfer.
func (n *Node) askForManifest(ctx context.Context, l *listing, id share.ID, sources []peers.Addr, beacons []actors.Meeting) (*share.Manifest, error) {
	defer n.catalog.endListing(id, l)
	if l.after != nil {
		<-l.after
		if m, err := n.state.Manifest(id); err == nil {
			return m, nil
		}
		if ctx.Err() != nil {
			return nil, unsent(ctx)
		}
	}
	var got lister
	ended := make(chan error, 1)
	h := n.program.Handle(id)
	var stall time.Duration // the transfer's own error says more than the end of ctx
	if end, ok := ctx.Deadline(); ok {
		left := time.Until(end)
		stall = max(left-2*time.Second, left/2) // it is checked each second
	}
	err := n.program.Fetch(ctx, actors.FetchShare{Handle: h, Sources: sources, Beacons: beacons, Disk: &got, Config: actors.TransferConfig{Stall: stall}, Notify: func(e Event) {
		if e, ok := e.(Ended); ok {
			ended <- e.Err
		}
	}})
	if err != nil {
		return nil, err
	}
	select {
	case err = <-ended:
	case <-l.taken:
		n.program.StopTransfer(h)
		if err = <-ended; errors.Is(err, ErrStopped) {
			err = errTaken
		}
	case <-ctx.Done():
		err = outOfTime(ctx, ended, func() { n.program.StopTransfer(h) })
	}
	if !errors.Is(err, errListed) {
		return nil, err
	}
	if err := n.state.SaveManifest(got.list); err != nil {
		n.log.Warn("the list of files was not kept", "error", err)
	}
	return got.list, nil
}

// outOfTime ends a question after the end of ctx. On a busy machine the transfer checks its own
// limit late, and its error says more than a deadline: outOfTime waits for it, 2 s.
func outOfTime(ctx context.Context, ended <-chan error, stop func()) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		select {
		case err := <-ended:
			return err
		case <-time.After(2 * time.Second):
		}
	}
	stop()
	err := <-ended
	if errors.Is(err, ErrStopped) {
		err = unsent(ctx)
	}
	return err
}

// unsent is the error of a question for a list of files that ctx ended.
func unsent(ctx context.Context) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ctx.Err()
	}
	return words.Error(errors.Join(share.ErrStalled, ctx.Err()), "%v: nobody has sent the list of files in time", share.ErrStalled)
}
