package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/peers"
)

// Status is the state of a fleet.
type Status struct {
	Epoch   Epoch
	Members []MemberStatus // by their IDs
	// Wanted is the number of pieces that no member has or leases, Verified of those that
	// a member has.
	Wanted, Leased, Verified int
	Refused                  int64    // messages of peers that are not allowed
	Absent                   int      // members of the last run that are waited for, before anything is leased
	Waiting                  string   // why nothing is leased at all; empty otherwise
	Why                      []string // one line per missing piece or run of pieces
}

// MemberStatus is the state of one member.
type MemberStatus struct {
	Peer    peers.ID
	Pieces  int  // that it says it has
	Sources int  // outside the fleet, that it fetches from
	Gone    bool // it left or was lost; what it has is counted a little longer
	Doubted bool // another member could not get from it what it says it has
}

// Event says that a member joined or left.
type Event struct {
	Peer    peers.ID
	Change  Change
	Members int // how many there are now
}

// Change is what happened to a member.
type Change uint8

const (
	MemberJoined      Change = iota
	MemberLeft               // it said so
	MemberLost               // its leases have returned
	NotAllowed               // it is not on the list; told once for each peer
	CoordinatorFailed        // a bug has ended the coordinator itself
	MemberDoubted            // another member could not get from it what it says it has; told once
	MemberBroken             // removed: it spoke of pieces that the share does not have; its leases have returned
	MemberDisallowed         // removed: it is no longer on the list; its leases have returned
)

func (c Change) String() string {
	return [...]string{"joined", "left", "was lost", "is not allowed", "failed", "says it has pieces that another member could not get",
		"was removed: its list of pieces does not fit the share", "was removed: it is no longer allowed"}[c]
}

// Status returns the state of the fleet, with at most lines lines on the missing pieces.
func (c *Coordinator) Status(lines int, now time.Time) Status {
	c.now = now
	st := Status{Epoch: c.cfg.Epoch, Refused: c.refused}
	st.Wanted, st.Leased, st.Verified = c.m.Counts()
	for _, mb := range c.order {
		st.Members = append(st.Members, MemberStatus{mb.peer, mb.have.Count(), len(mb.outlets), mb.gone(), mb.doubted})
	}
	slices.SortFunc(st.Members, func(a, b MemberStatus) int { return cmp.Compare(a.Peer, b.Peer) })
	if st.Absent = len(c.absent); st.Absent > 0 {
		st.Waiting = fmt.Sprintf("the coordinator has just begun, and waits up to %s for %s to return", words.Duration(c.settle.Sub(now)), words.Count(st.Absent, "member"))
	}
	for _, e := range c.m.Missing(lines, now) {
		st.Why = append(st.Why, inMembers(e))
	}
	return st
}

// inMembers is an explanation in terms of members.
func inMembers(e leasemgr.Explanation) string {
	for i, id := range e.Sources {
		e.Sources[i] = brief(id)
	}
	for i := range e.Holders {
		e.Holders[i].Source = brief(e.Holders[i].Source)
	}
	return e.String()
}

// brief is an outlet in 8 characters, as explanations print them: the ends of its
// member and of its source.
func brief(id peers.ID) peers.ID {
	member, source, _ := strings.Cut(string(id), "/")
	return peers.ID(fmt.Sprintf("%.4s:%s", member[max(0, len(member)-4):], source[max(0, len(source)-3):]))
}
