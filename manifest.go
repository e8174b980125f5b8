package fetcher

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
		of := whom(ticketOrID, more, sources, beacons)
		if of == "" && n.cfg.Discovery == nil {
			return nil, noSource(ticketOrID)
		}
		mine, other := n.catalog.ask(id, of)
		if mine != nil {
			m, err := n.askForManifest(ctx, mine, id, sources, beacons)
			if errors.Is(err, errAnswered) {
				continue
			}
			return m, err
		}
		select {
		case <-other.over: // it is known then, or we ask
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

// asking is whoever asks for a share's list of files: a question for it alone, or a transfer.
type asking struct {
	of   string        // as whom has it
	over chan struct{} // closed when the list is here, or this one asks no longer
}

// whom says whom a ticket or ID, and further peers, name; empty: nobody.
func whom(ticketOrID string, more []string, sources []peers.Addr, beacons []actors.Meeting) string {
	if len(sources)+len(beacons) == 0 {
		return ""
	}
	return fmt.Sprintf("%q", append([]string{ticketOrID}, more...))
}

// ask begins a question for a list of files, which the caller must end. It runs beside those that name
// others. But whoever names nobody, or the same as another, would hear no more than that other.
func (c *catalog) ask(id share.ID, of string) (mine, other *asking) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.asking[id] {
		if of == "" || of == a.of {
			return nil, a
		}
	}
	return c.asks(id, of), nil
}

// asks notes that somebody asks for a list of files; mu is held.
func (c *catalog) asks(id share.ID, of string) *asking {
	a := &asking{of, make(chan struct{})}
	c.asking[id] = append(c.asking[id], a)
	return a
}

// unask ends the asking of only, or with nil, as the list is here, that of all.
func (c *catalog) unask(id share.ID, only *asking) {
	c.mu.Lock()
	defer c.mu.Unlock()
	left := slices.DeleteFunc(c.asking[id], func(a *asking) bool {
		if only != nil && a != only {
			return false
		}
		close(a.over)
		return true
	})
	if c.asking[id] = left; len(left) == 0 {
		delete(c.asking, id)
	}
}

// errAnswered ends a question that another has had answered.
var errAnswered = errors.New("another has got the list of files")

// errListed ends a transfer that fetches only the list of files.
var errListed = errors.New("the list of files is here")

// lister is the disk of a transfer that fetches the list of files and nothing else.
type lister struct{ list *share.Manifest }

func (l *lister) Open(_ context.Context, m *share.Manifest, _ []bool) (actors.Target, error) {
	l.list = m
	return nil, errListed
}

// askForManifest fetches the list of files of a share by a transfer.
func (n *Node) askForManifest(ctx context.Context, mine *asking, id share.ID, sources []peers.Addr, beacons []actors.Meeting) (*share.Manifest, error) {
	defer n.catalog.unask(id, mine)
	var got lister
	ended := make(chan error, 1)
	h := n.program.Handle(id)
	var stall time.Duration // the transfer's own error says more than the end of ctx
	if end, ok := ctx.Deadline(); ok {
		left := time.Until(end)
		stall = max(left-2*time.Second, left/2) // it is checked each second
	}
	err := n.program.Fetch(ctx, actors.FetchShare{Handle: h, ListOnly: true, Sources: sources, Beacons: beacons, Disk: &got, Config: actors.TransferConfig{Stall: stall}, Notify: func(e Event) {
		if e, ok := e.(Ended); ok {
			ended <- e.Err
		}
	}})
	if err != nil {
		return nil, err
	}
	select {
	case err = <-ended:
	case <-mine.over:
		n.program.StopTransfer(h)
		if err = <-ended; !errors.Is(err, errListed) {
			err = errAnswered
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
	n.catalog.unask(id, nil)
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
