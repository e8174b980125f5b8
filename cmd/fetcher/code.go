package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/share"
)

// errBeacon marks an error in talking through the beacon that codes go through.
var errBeacon = errors.New("beacon")

// errNoBeaconAt says how to name one.
var errNoBeaconAt = usageError{errors.New(`a code travels through a beacon: name one with --beacon-at ADDR or FETCHER_BEACON_AT in the environment, the same on both machines; "fetcher node run --beacon" makes one`)}

// coding is the code of a share, from another goroutine.
type coding struct {
	said chan saidCode // holds one
	end  chan error    // holds one; nil: somebody has the ticket
}

// saidCode is a code that waits for somebody.
type saidCode struct {
	code string
	life time.Duration
}

// giveCode begins to give the share's ticket to whoever knows a code, until ctx ends.
func (s *sharer) giveCode(ctx context.Context, running *sync.WaitGroup) (c coding) {
	if !s.code {
		return c
	}
	c = coding{make(chan saidCode, 1), make(chan error, 1)}
	ticket := s.shares[0].Ticket()
	running.Go(func() {
		c.end <- s.node.GiveTicket(ctx, ticket, func(code string, life time.Duration) { c.said <- saidCode{code, life} })
	})
	return c
}

// tellCode says what is to be typed on the other machine.
func (s *sharer) tellCode(c saidCode) {
	s.stderr.clear()
	s.said = true
	s.out.write("code", map[string]any{"share": s.shares[0].ID().String(), "words": c.code, "seconds": c.life.Seconds()})
	fmt.Fprintf(s.stderr, "\ncode     %s, for one try within %s\n\nsay it to whoever is to have the share; they type\n\n%sfetcher fetch %s --beacon-at %s\n\n", c.code, words.Duration(c.life), verbatim, c.code, s.beaconAt)
}

// codeEnded says what became of the code.
func (s *sharer) codeEnded(err error) {
	s.stderr.clear()
	why := ""
	if err != nil {
		why = codeFailed(err, s.said)
		fmt.Fprintf(s.stderr, "%s\nThe ticket works as before; for %s run the command again.\n", printable(why), either(s.said, "a new code,", "a code, see that --beacon-at names a beacon that runs, and"))
	} else {
		fmt.Fprintln(s.stderr, "the code was used: whoever typed it has the ticket")
	}
	s.out.write("code_end", map[string]any{"share": s.shares[0].ID().String(), "used": err == nil, "why": why})
}

// codeFailed says why nobody got the ticket by the code, which was said or never made.
func codeFailed(err error, said bool) string {
	switch {
	case !said:
		return "No code was made: " + err.Error() + "."
	case errors.Is(err, fetcher.ErrWrongCode):
		return "Somebody tried the code with other words, so it is used up; they learnt nothing."
	case errors.Is(err, fetcher.ErrCodeGone):
		return "Nobody used the code in time: it has expired."
	}
	return "The code has become useless: " + err.Error() + "."
}

// asCode returns the code that the arguments of fetch are meant as; "": they are none.
func asCode(args []string) string {
	text := strings.Join(args, " ")
	if _, err := fetcher.ParseCode(text); err == nil {
		return text
	}
	if _, err := os.Lstat(text); err == nil || text == "" || text[0] < '0' || text[0] > '9' { // the forms of tickets and IDs begin with a letter
		return ""
	}
	return text
}

// ticketFrom returns the ticket or ID that the arguments of fetch are or lead to, which can be fetched.
func (a *app) ticketFrom(cmd *cobra.Command, args []string, fl fetchFlags) (ticket string, err error) {
	if code := asCode(args); code != "" {
		ticket, err = ticketFor(cmd.Context(), a, code, fl)
	} else {
		ticket, err = a.ticket(cmd, args[0])
	}
	if err != nil {
		return "", err
	}
	id, _, err := fetcher.ParseSource(ticket, fl.peers)
	if err != nil {
		return "", usageError{err}
	}
	a.out.sum(map[string]any{"share": id.String()})
	return ticket, nil
}

// ticketFor returns the ticket that another person gives for a code.
func ticketFor(ctx context.Context, a *app, code string, fl fetchFlags) (string, error) {
	code, err := fetcher.ParseCode(code)
	switch {
	case err != nil:
		return "", usageError{err}
	case len(fl.reach.beaconAt) == 0:
		return "", errNoBeaconAt
	}
	log, err := a.logger()
	if err != nil {
		return "", err
	}
	node, err := open(ctx, fetcher.Config{Dir: a.flags.dir, FreshIdentity: true, Listen: []string{"none"}, Reach: fetcher.Reach{Proxy: fl.reach.proxy}, Beacons: fl.reach.beacons(), Logger: log})
	if err != nil {
		return "", err
	}
	defer node.Close()
	fmt.Fprintf(a.stderr, "asking the beacon for the ticket that %s stands for\n", code)
	ticket, err := node.TakeTicket(ctx, code)
	switch {
	case ctx.Err() != nil:
		return "", cause(ctx)
	case errors.Is(err, share.ErrNetwork):
		return "", marked{fmt.Errorf("%s: %w", fl.reach.beaconAt[0], err), errBeacon}
	}
	return ticket, err
}

// completeCode offers the words of a code.
func completeCode(_ *cobra.Command, args []string, text string) (out []string, _ cobra.ShellCompDirective) {
	if len(args) == 0 {
		out = fetcher.CompleteCode(text)
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
