package main

import (
	"errors"
	"fmt"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/peers"
)

// answer is how an attempt went to have a peer fetch from here.
type answer struct {
	peer peers.ID
	err  error
}

// call has the share that a ticket is for told to whoever made that.
func (s *sharer) call(to string) (err error) {
	if to == "" {
		return nil
	}
	for _, one := range s.shares {
		if err = one.Call(to, s.heard); err == nil {
			fmt.Fprintf(s.stderr, "connecting to whoever made the ticket of --to, to offer %s, and again whenever the connection is lost\n", printable(one.Manifest().Name))
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
		text = fmt.Sprintf("%v. Give --to the ticket that fetch --listen-for-source prints there, while that runs", x.err)
	case x.err != nil:
		text = fmt.Sprintf("%v. It is tried again; --to takes the ticket that fetch --listen-for-source prints, while that runs", words.Plain(x.err))
	}
	if was := s.answered[x.peer]; text != "" && text != was {
		fmt.Fprintf(s.stderr, "%s, to which the ticket of --to leads, does not fetch from here: %s\n", x.peer.Short(), printable(text))
	}
	s.answered[x.peer] = text
}
