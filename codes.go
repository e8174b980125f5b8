package fetcher

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/spoken"
)

// Errors of GiveTicket and TakeTicket.
var (
	// ErrNoBeacon says that Config.Beacons names no beacon through which a code could travel.
	ErrNoBeacon = errors.New("a code needs a beacon, the same one on both sides")
	// ErrBadCode says that text is no code.
	ErrBadCode = spoken.ErrCode
	// ErrWrongCode says that the words were not the same on both sides. It wraps share.ErrNotAllowed.
	ErrWrongCode = spoken.ErrWords
	// ErrCodeGone says that a code is not known, not any more, or was used before. It wraps share.ErrNotFound.
	ErrCodeGone = errors.New("the code leads nowhere")
)

// codeErrors maps what ended an exchange to the classes of errors; anything else is share.ErrNetwork.
var codeErrors = []struct {
	err   error
	class []error
}{
	{spoken.ErrWords, []error{share.ErrNotAllowed}},
	{actors.ErrCodeUnknown, []error{ErrCodeGone, share.ErrNotFound}},
	{actors.ErrCodeUsed, []error{ErrCodeGone, share.ErrNotFound}},
	{actors.ErrCodeExpired, []error{ErrCodeGone, share.ErrNotFound}},
}

// classed is an error of some classes, which its text does not name.
type classed struct {
	error
	class []error
}

func (c classed) Unwrap() []error { return append([]error{c.error}, c.class...) }

// GiveTicket makes a code, such as 7-marble-fossil, that a person can say to another, tells it to told, and
// gives the ticket to whoever types it at TakeTicket. It returns when that has happened, when somebody has
// tried other words, or when the code has expired, after life: a code is good for one try. The first
// beacon of Config.Beacons.At passes on what both sides say, and learns neither words nor ticket. told must not block.
func (n *Node) GiveTicket(ctx context.Context, ticket string, told func(code string, life time.Duration)) error {
	if len(ticket) == 0 || len(ticket) > spoken.MaxTicket {
		return share.ErrTicket
	}
	_, err := n.speak(ctx, actors.Speak{Ticket: ticket, Opened: func(c spoken.Code, life time.Duration) { told(c.String(), life) }})
	return err
}

// TakeTicket returns the ticket that GiveTicket gives for a code on another node with the same first beacon. The
// code may be in any case, with spaces or hyphens between its parts. An error wraps ErrBadCode
// if it cannot be a code; then it was not tried.
func (n *Node) TakeTicket(ctx context.Context, code string) (string, error) {
	c, err := spoken.Parse(code)
	if err != nil {
		return "", err
	}
	ticket, err := n.speak(ctx, actors.Speak{Code: c})
	if err == nil {
		_, err = share.ParseTicket(ticket)
	}
	return ticket, err
}

// ParseCode returns a code in its usual form, such as 7-marble-fossil. An error wraps ErrBadCode, and names the
// word that may have been meant.
func ParseCode(text string) (string, error) {
	c, err := spoken.Parse(text)
	if err != nil {
		return "", err
	}
	return c.String(), nil
}

// CompleteCode returns the codes that text may be the beginning of, up to the end of a word.
func CompleteCode(text string) []string { return spoken.Complete(text) }

func (n *Node) speak(ctx context.Context, m actors.Speak) (string, error) {
	at, _ := n.cfg.Beacons.at() // Validate has looked
	if len(at) == 0 {
		return "", ErrNoBeacon
	}
	first, _ := groupPeers(at[:1])
	m.Beacon = first[0]
	rand.Read(m.Chance[:])
	ticket, err := m.Through(ctx, n.program)
	if err == nil || ctx.Err() != nil {
		return ticket, err
	}
	for _, c := range codeErrors {
		if errors.Is(err, c.err) {
			return "", classed{err, c.class}
		}
	}
	return "", classed{err, []error{share.ErrNetwork}}
}
