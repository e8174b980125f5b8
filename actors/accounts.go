package actors

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// ChildEvent is what a child has taken of a share here, and the state it is in.
type ChildEvent struct {
	Share share.ID
	Peer  peers.ID
	Addr  string // where its connection comes from; empty if that is not known
	Bytes int64  // of content sent to it
	Since time.Time
	At    time.Time // of this event
	State ChildState
	// Standing is its standing among all children, in an answer to ChildrenQuery.
	Standing peers.Standing
}

// MarshalJSON returns the child line that docs/json.md describes, without the share's name.
func (c ChildEvent) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Type    string   `json:"type"`
		Share   share.ID `json:"share"`
		Peer    peers.ID `json:"peer"`
		Addr    string   `json:"addr"`
		State   string   `json:"state"`
		Bytes   int64    `json:"bytes"`
		Seconds float64  `json:"seconds"`
	}{"child", c.Share, c.Peer, c.Addr, c.State.String(), c.Bytes, c.At.Sub(c.Since).Seconds()})
}

// ChildState is the state of a child.
type ChildState uint8

const (
	ChildTakes ChildState = iota // it has received its first bytes
	ChildDone                    // it has all that it wanted, from here or elsewhere
	ChildLeft                    // it, or the share, went away before that
)

func (s ChildState) String() string { return [...]string{"takes", "done", "left"}[s] }

// accounts records what each child takes of each share, from its first byte until it
// unsubscribes or its connection ends. It belongs to the Seeder.
type accounts struct {
	s    *system.System
	net  Network
	tell func(ChildEvent)
	of   map[accountOf]*account
	jobs map[peers.Job]serving
	seq  int
}

type accountOf struct {
	share share.ID
	peer  peers.ID
}

// serving is a job that is being served.
type serving struct {
	*account
	bytes int
	since time.Time
}

type account struct {
	ChildEvent
	seq  int // order of arrival
	jobs int // being served
	owed int // bytes of these

	measured time.Time // when its round trip was
	over     bool
	closed   bool // its end was reported
}

func newAccounts(s *system.System, net Network, tell func(ChildEvent)) *accounts {
	return &accounts{s: s, net: net, tell: tell, of: map[accountOf]*account{}, jobs: map[peers.Job]serving{}}
}

// begin records that a job is served from now on.
func (x *accounts) begin(j peers.Job, r asked) {
	a := x.of[accountOf{r.share, r.child}]
	if a != nil && a.over { // it has come back
		x.close(a)
		a = nil
	}
	if a == nil {
		x.seq++
		a = &account{ChildEvent: ChildEvent{Share: r.share, Peer: r.child, Since: x.s.Now()}, seq: x.seq}
		x.of[accountOf{r.share, r.child}] = a
	}
	a.jobs++
	a.owed += r.bytes
	x.jobs[j] = serving{a, r.bytes, x.s.Now()}
}

// bytes is what a child was sent of a share, with what is being sent.
func (x *accounts) bytes(id share.ID, peer peers.ID) int64 {
	a := x.of[accountOf{id, peer}]
	if a == nil {
		return 0
	}
	return a.Bytes + int64(a.owed)
}

// served records that a job has ended after sending the child so many bytes. It
// returns how long that took; of is nil if the job was not being served.
func (x *accounts) served(j peers.Job, sent int) (of *account, took time.Duration) {
	at := x.jobs[j]
	a := at.account
	if a == nil {
		return nil, 0
	}
	delete(x.jobs, j)
	a.jobs--
	a.owed -= at.bytes
	if a.Bytes == 0 && sent > 0 && x.tell != nil {
		if at, ok := x.net.Where(a.Peer); ok {
			a.Addr = at.Addr
		}
		x.say(a)
	}
	a.Bytes += int64(sent)
	x.closeIfOver(a)
	return a, x.s.Now().Sub(at.since)
}

// over records that a child has ended its subscription.
func (x *accounts) over(id share.ID, peer peers.ID, done bool) {
	if a := x.of[accountOf{id, peer}]; a != nil && !a.over {
		a.over, a.State = true, ChildLeft
		if done {
			a.State = ChildDone
		}
		x.closeIfOver(a)
	}
}

// lost records that the connection of a peer has ended.
func (x *accounts) lost(peer peers.ID) {
	x.endAll(func(a *account) bool { return a.Peer == peer })
}

// withdrawn records that a share is no longer offered.
func (x *accounts) withdrawn(id share.ID) {
	x.endAll(func(a *account) bool { return a.Share == id })
}

// endAll ends the matching accounts now, even if a job is still being served.
func (x *accounts) endAll(which func(*account) bool) {
	for _, a := range x.sorted() {
		if which(a) {
			x.over(a.Share, a.Peer, false)
			x.close(a)
		}
	}
}

// closeIfOver ends an account, once what it counts is complete.
func (x *accounts) closeIfOver(a *account) {
	if a.over && a.jobs == 0 {
		x.close(a)
	}
}

func (x *accounts) close(a *account) {
	if a.closed {
		return
	}
	a.closed = true
	delete(x.of, accountOf{a.Share, a.Peer})
	if a.Bytes > 0 {
		x.say(a)
	}
}

func (x *accounts) say(a *account) {
	if x.tell != nil {
		e := a.ChildEvent
		e.At = x.s.Now()
		x.tell(e)
	}
}

func (x *accounts) sorted() []*account {
	out := make([]*account, 0, len(x.of))
	for _, a := range x.of {
		out = append(out, a)
	}
	slices.SortFunc(out, func(a, b *account) int { return cmp.Compare(a.seq, b.seq) })
	return out
}

// list returns the children that take something at present.
func (x *accounts) list() (out ChildList) {
	for _, a := range x.sorted() {
		if a.Bytes > 0 {
			e := a.ChildEvent
			e.At = x.s.Now()
			out = append(out, e)
		}
	}
	return out
}
