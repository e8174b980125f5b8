package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// answer is how an attempt went to have a peer fetch from here.
type answer struct {
	peer peers.ID
	err  error
}

// call has the share that the ticket of --to is for told to whoever made that.
func (s *sharer) call() (err error) {
	if s.to == "" {
		return nil
	}
	t, err := share.Parse(s.to)
	if err == nil && !slices.ContainsFunc(s.shares, func(x served) bool { return x.ID() == t.ID }) {
		these := "none of the PATHs is that share"
		if len(s.shares) == 1 {
			these = fmt.Sprintf("%s is share %s", printable(s.shares[0].Manifest().Name), s.shares[0].ID().Short())
		}
		return usageError{fmt.Errorf("the ticket of --to is for share %[1]s, and %[2]s: give the files of share %[1]s", t.ID.Short(), these)}
	}
	for _, one := range s.shares {
		if err = one.Call(s.to, s.heard); err == nil {
			fmt.Fprintf(s.stderr, "connecting to whoever made the ticket given with --to, to offer them %s; whenever the connection is lost, it is made again\n", printable(one.Manifest().Name))
			return nil
		}
	}
	return usageError{fmt.Errorf("--to takes the ticket that fetch --listen-for-source prints on the other machine: %w", err)}
}

// heard takes an answer to a call; what is one too many is said at the next.
func (s *sharer) heard(peer peers.ID, err error) {
	select {
	case s.calls <- answer{peer, err}:
	default:
	}
}

// tellCall says what came of a call, once.
func (s *sharer) tellCall(x answer) {
	text := ""
	switch {
	case errors.Is(x.err, fetcher.ErrUnwanted):
		text = fmt.Sprintf("%v. With --to, give the ticket that fetch --listen-for-source prints there; that fetch must still be running", x.err)
	case x.err != nil:
		text = fmt.Sprintf("%v. This node keeps trying; --to takes the ticket that fetch --listen-for-source prints, and that fetch must still be running", words.Plain(x.err))
	}
	if was := s.answered[x.peer]; text != "" && text != was {
		fmt.Fprintf(s.stderr, "%s, to which the ticket of --to leads, does not fetch from here: %s\n", x.peer.Short(), printable(text))
	}
	s.answered[x.peer] = text
}
