package fetcher

import (
	"context"
	"errors"
	"time"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/internal/words"
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
	knows := actors.MoreSources{Sources: sources, Beacons: n.asked(ticketOrID)}
	for {
		if t := n.catalog.running(id); t != nil && t.Manifest() != nil {
			return t.Manifest(), nil
		}
		if m, err := n.state.Manifest(id); err == nil {
			return m, nil
		}
		if knows.None() && n.cfg.Discovery == nil {
			return nil, noSource(ticketOrID)
		}
		mine := newAsking(n.program.Handle(id))
		others := n.catalog.list(id, mine)
		if others == nil {
			return n.askForManifest(ctx, mine, id, knows)
		}
		if n.beside(ctx, others, knows) != nil { // it is known then, or we ask
			return nil, unsent(ctx)
		}
	}
}

// asking is what asks for a share's list of files: a question for it alone, or a transfer.
type asking struct {
	handle actors.Handle
	begun  chan struct{} // closed when it asks
	listed chan struct{} // closed when the list is known, or when this does not ask any more
}

func newAsking(h actors.Handle) *asking {
	return &asking{h, make(chan struct{}), make(chan struct{})}
}

// beside waits until others have asked for a list of files, and helps them with what is known of its sources.
func (n *Node) beside(ctx context.Context, others *asking, knows actors.MoreSources) error {
	begun := others.begun
	for {
		select {
		case <-begun:
			begun = nil
			n.program.Tell(actors.ToTransfer{Transfer: others.handle, Message: knows})
		case <-others.listed:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// list begins a question for a list of files, which the caller must end; unless others ask for that list already.
func (c *catalog) list(id share.ID, mine *asking) (others *asking) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch t, l := c.transfers[id], c.listings[id]; {
	case l != nil:
		return l
	case t != nil:
		return t.asking
	}
	c.listings[id] = mine
	return nil
}

func (c *catalog) endListing(id share.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.listings[id].listed)
	delete(c.listings, id)
}

// begin registers a transfer: one of each share at a time. It waits while somebody asks for the share's list of
// files alone.
func (n *Node) begin(ctx context.Context, t *Transfer, knows actors.MoreSources) error {
	for {
		others, err := n.catalog.begin(t)
		if others == nil {
			return err
		}
		if err := n.beside(ctx, others, knows); err != nil {
			return err
		}
	}
}

// errListed ends a transfer that fetches only the list of files.
var errListed = errors.New("the list of files is here")

// lister is the disk of a transfer that fetches the list of files and nothing else.
type lister struct{ list *share.Manifest }

func (l *lister) Open(_ context.Context, m *share.Manifest, _ []bool) (actors.Target, error) {
	l.list = m
	return nil, errListed
}

// askForManifest fetches the list of files of a share by a transfer.
func (n *Node) askForManifest(ctx context.Context, mine *asking, id share.ID, knows actors.MoreSources) (*share.Manifest, error) {
	defer n.catalog.endListing(id)
	var got lister
	ended := make(chan error, 1)
	var stall time.Duration // the transfer's own error says more than the end of ctx
	if end, ok := ctx.Deadline(); ok {
		left := time.Until(end)
		stall = max(left-2*time.Second, left/2) // it is checked each second
	}
	err := n.program.Fetch(ctx, actors.FetchShare{Handle: mine.handle, Sources: knows.Sources, Beacons: knows.Beacons, Disk: &got, Config: actors.TransferConfig{Stall: stall}, Notify: func(e Event) {
		if e, ok := e.(Ended); ok {
			ended <- e.Err
		}
	}})
	if err != nil {
		return nil, err
	}
	close(mine.begun)
	select {
	case err = <-ended:
	case <-ctx.Done():
		err = outOfTime(ctx, ended, func() { n.program.StopTransfer(mine.handle) })
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
