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

// ChildEvent is what a child has taken of a share here, and how it stands.
type ChildEvent struct {
	Share share.ID
	Peer  peers.ID
	Addr  string // where its connection comes from; empty if that is not known
	Bytes int64  // of content that it was sent
	Since time.Time
	At    time.Time // of this
	State ChildState
	// Standing is how it stands among all children, in an answer to ChildrenQuery.
	Standing peers.Standing
}

// MarshalJSON has what docs/json.md says of the line of a child, but the share's name.
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

// ChildState is how a child stands.
type ChildState uint8

const (
	ChildTakes ChildState = iota // it has begun to take
	ChildDone                    // it has all that it wanted, from here or elsewhere
	ChildLeft                    // it has gone, or the share has, before that
)

func (s ChildState) String() string { return [...]string{"takes", "done", "left"}[s] }

// accounts are what children take, each of a share: from their first byte until they
// unsubscribe, or their connection ends. They belong to the Seeder.
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
	since time.Time
}

type account struct {
	ChildEvent
	seq  int // order of arrival
	jobs int // being served

	measured time.Time // its round trip
	over     bool
	closed   bool // it was said
}

func newAccounts(s *system.System, net Network, tell func(ChildEvent)) *accounts {
	return &accounts{s: s, net: net, tell: tell, of: map[accountOf]*account{}, jobs: map[peers.Job]serving{}}
}

// begin says that a job is served from now on.
func (x *accounts) begin(j peers.Job, id share.ID, peer peers.ID) {
	a := x.of[accountOf{id, peer}]
	if a != nil && a.over { // it has come back
		x.close(a)
		a = nil
	}
	if a == nil {
		x.seq++
		a = &account{ChildEvent: ChildEvent{Share: id, Peer: peer, Since: x.s.Now()}, seq: x.seq}
		x.of[accountOf{id, peer}] = a
	}
	a.jobs++
	x.jobs[j] = serving{a, x.s.Now()}
}

// served says that a job has ended, of which the child was sent so many bytes. It
// says how long that took; of is nil if it was not being served.
func (x *accounts) served(j peers.Job, sent int) (of *account, took time.Duration) {
	at := x.jobs[j]
	a := at.account
	if a == nil {
		return nil, 0
	}
	delete(x.jobs, j)
	a.jobs--
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

// over says that a child has ended its subscription.
func (x *accounts) over(id share.ID, peer peers.ID, done bool) {
	if a := x.of[accountOf{id, peer}]; a != nil && !a.over {
		a.over, a.State = true, ChildLeft
		if done {
			a.State = ChildDone
		}
		x.closeIfOver(a)
	}
}

// lost says that the connection of a peer has ended.
func (x *accounts) lost(peer peers.ID) {
	x.endAll(func(a *account) bool { return a.Peer == peer })
}

// withdrawn says that a share is not offered any more.
func (x *accounts) withdrawn(id share.ID) {
	x.endAll(func(a *account) bool { return a.Share == id })
}

// endAll ends accounts now, whatever is being served.
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

// list is those who take something at present.
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
