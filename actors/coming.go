package actors

import (
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// This file has what the Seeder knows of peers before they subscribe. Whoever asks for a list of
// files will soon be a child. So when many ask at once a crowd is coming, and what one of them was
// given need not be sent to the others (peers.Ask.Flash). And in a large crowd the source of a share
// does not even send the list: it names a few that have it.
const (
	comingFor   = 2 * time.Second // after that a peer that asked for the list is not expected any more
	maxComing   = 64
	flashCrowd  = 6 // that ask for the list within flashWithin
	flashWithin = 200 * time.Millisecond
	listCrowd   = 16          // others that a share has, from which on they give the list
	listNamed   = 4           // of them, named in its place; so many must have the whole share
	listRetry   = time.Second // after which the list may be asked for here again
)

// comer is a peer that asked for the list of files a short time ago.
type comer struct {
	peer  peers.ID
	at    time.Time
	named int // that it was sent to, and that its subscription need not name
}

// audience returns the subscribers of a share, and makes the place for them.
func (d *seeder) audience(id share.ID) *audience {
	o := d.audiences[id]
	if o == nil {
		o = &audience{byPeer: map[peers.ID]*child{}, words: map[peers.ID]*actor.PID{}}
		d.audiences[id] = o
	}
	return o
}

// list answers whether a peer is sent the list of files.
func (d *seeder) list(m ListRequest) {
	if _, whole := d.catalog.Whole(m.Share); !whole {
		m.Reply(wire.Reply{})
		return
	}
	from, _ := d.net.Where(m.Child)
	o := d.audience(m.Share)
	others := o.instead(m.Child, from.Reach, m.Others)
	o.comes(comer{m.Child, d.s.Now(), len(others)})
	if len(others) == 0 {
		m.Reply(wire.Reply{})
		return
	}
	m.Reply(wire.Reply{Status: wire.Busy, Retry: listRetry, Others: others})
}

// instead returns those that a peer is sent to in place of being sent the list; none if it is sent.
func (o *audience) instead(peer peers.ID, reach int, takes bool) []peers.Addr {
	if !takes || o.byPeer[peer] != nil || !o.large() {
		return nil
	}
	return o.pick(peer, reach, listNamed, listNamed, o.children)
}

// comes takes note of a peer that asked for the list of files.
func (o *audience) comes(c comer) {
	o.coming = slices.DeleteFunc(o.coming, func(x comer) bool { return x.peer == c.peer || c.at.Sub(x.at) >= comingFor })
	o.coming = append(o.coming[max(0, len(o.coming)+1-maxComing):], c)
}

// arrives takes note that a peer subscribes, and returns how many it was sent to for the list.
func (o *audience) arrives(peer peers.ID) (named int) {
	if i := slices.IndexFunc(o.coming, func(x comer) bool { return x.peer == peer }); i >= 0 {
		named, o.coming[i].named = o.coming[i].named, 0
	}
	return named
}

// flash says whether so many ask for the list that a crowd is coming.
func (o *audience) flash(now time.Time) bool {
	n := len(o.coming) - flashCrowd
	return n >= 0 && now.Sub(o.coming[n].at) < flashWithin
}

// large says whether so many are here, some with the whole share, that not everybody need be given
// something by this node.
func (o *audience) large() bool {
	return o.nameable+o.mirrors.Len() >= listCrowd && o.mirrors.Whole() >= listNamed
}
