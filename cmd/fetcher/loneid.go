package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/share"
)

// lookTime is how long a share of which only the ID is known is looked for on the local network,
// unless --stall says otherwise: whoever announces it there is found within 2 s.
const lookTime = 10 * time.Second

// slowAfter is how long a person waits for the first sign of a source without being told for what.
const slowAfter = time.Second

// loneID says whether a share was named by its ID alone, so that nobody is known who has it.
type loneID struct {
	is    bool
	bare  bool          // it is no ticket
	lan   bool          // the local network is asked
	table bool          // a distributed hash table is asked
	look  time.Duration // how long; 0: no bound but that of --stall, or a minute
	found fetcher.Discoveries
}

// alone says whether a ticket or ID is an ID without anybody to ask.
func (fl fetchFlags) alone(cmd *cobra.Command, what string) (id loneID) {
	t, _ := share.Parse(what)
	_, err := share.ParseID(what)
	id.bare = err == nil
	id.is = len(t.Peers)+len(t.Beacons)+len(fl.peers) == 0 && !fl.called && !fl.fleet.used() // a fleet names sources
	id.lan, id.table, id.found = fl.reach.lan, len(fl.reach.dht) > 0, fl.found
	switch {
	case !id.is || id.table:
	case !id.lan:
		id.look = slowAfter / 2 // nobody can be found; what is already here is
	case !cmd.Flags().Changed("stall"):
		id.look = lookTime
	}
	return id
}

// alarms are when to say what is waited for, and when to give up.
func (id loneID) alarms() (slow, lost <-chan time.Time) {
	if id.is {
		slow = time.After(slowAfter)
	}
	if id.look > 0 {
		lost = time.After(id.look)
	}
	return slow, lost
}

// looks says whether a transfer waits for a source, and knows of none.
func looks(t *fetcher.Transfer) bool {
	p := t.Progress()
	return len(p.Sources) == 0 && (p.State == fetcher.Finding || p.State == fetcher.Fetching)
}

// where is where it is looked for.
func (id loneID) where() string {
	switch {
	case !id.table:
		return "on this network"
	case !id.lan:
		return "in the hash table"
	}
	return "on this network or in the hash table"
}

// says what is waited for.
func (id loneID) says() string {
	s := either(id.bare, "only an ID was given, and ", "the ticket names no peer, and ")
	switch {
	case noWayIn(id.found) == "":
		s += "nobody " + id.where() + " announces that share yet; "
	case id.lan:
		s += "nobody on this network announces that share yet, and the hash table cannot be reached yet; "
	default:
		s += "the hash table, where that share is looked for, cannot be reached yet; "
	}
	if id.look > 0 {
		return s + "still looking, for up to " + words.Duration(id.look)
	}
	return s + either(noWayIn(id.found) == "", "still looking", "still trying")
}

// unfound returns the error of a command that was given an ID alone, if nobody was found: that the table could not be asked, or
// errUnfound or errNobody.
func (id loneID) unfound(err error) error {
	if !id.is || !errors.Is(err, fetcher.ErrUnfound) {
		return err
	}
	if why := noWayIn(id.found); why != "" {
		return words.Error(errNoTable, "found nobody who has the share: the hash table could not be reached: %s", why)
	}
	if id.bare {
		return errUnfound
	}
	return errNobody
}
