package store

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// Offers is the list of the shares that a node serves. Its methods answer peers'
// requests, and tell the node what to tell peers.
//
// A share whose file has changed is removed at once: peers that ask for it are told
// that it is gone, and so is the node.
type Offers struct {
	mu      sync.RWMutex // guards the fields below; not held while a source is read
	sources map[share.ID]Source
	leaving map[share.ID]bool // of sources: no longer announced, but still read
	opening map[share.ID]int
	reading int                     // shares that will be offered, whose IDs are not known yet
	gone    map[share.ID]wire.Code  // why
	allowed map[share.ID][]peers.ID // of sources: the only peers that may have them, if not the default
	allow   []peers.ID              // the only peers that may have the others; empty: everybody
	secrets map[share.ID]guard
	onGone  func(share.ID, string)
	more    func(share.ID) bool
	closed  bool
	going   map[share.ID]int // Partials of a share that are off the list, but not released yet
	left    sync.Cond        // one of going less
}

// Times after which a peer may ask again.
const (
	retryOpening = 250 * time.Millisecond // a share that is being opened
	retryReading = time.Second            // a share that may be among those that are being read
	retryTrouble = 5 * time.Second        // a disk that failed just now
)

// maxGone bounds the shares whose end is remembered.
const maxGone = 1024

// NewOffers returns Offers with nothing in it. With allow, only these peers are told of and
// served what is added later, unless Add names others for a share.
func NewOffers(allow ...peers.ID) *Offers {
	o := &Offers{allow: allow, allowed: map[share.ID][]peers.ID{}, sources: map[share.ID]Source{}, leaving: map[share.ID]bool{}, opening: map[share.ID]int{}, gone: map[share.ID]wire.Code{}, going: map[share.ID]int{}}
	o.left.L = &o.mu
	return o
}

// Offered returns how many pieces a share has if a peer may subscribe to it, or else what to
// answer the peer.
func (o *Offers) Offered(id share.ID, to peers.ID) (pieces int, r wire.Reply) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	s := o.sources[id]
	switch {
	case s != nil && !o.leaving[id] && !o.allows(id, to):
		return 0, notAllowed
	case s != nil && !o.leaving[id]:
		return s.Manifest().Layout().Pieces(), wire.Reply{}
	case o.opening[id] > 0:
		return 0, wire.Reply{Status: wire.Busy, Retry: retryOpening}
	case o.reading > 0 && o.gone[id] == 0:
		return 0, stillReading
	case o.more != nil && o.more(id):
		return 0, wire.Reply{Status: wire.Busy, Retry: retryOpening}
	case o.gone[id] != 0:
		return 0, wire.Reply{Status: wire.Gone, Reason: wire.Why(o.gone[id])}
	}
	return 0, wire.Reply{Status: wire.NotFound}
}

// stillReading is the answer about a share that may be offered soon.
var stillReading = wire.Reply{Status: wire.Busy, Retry: retryReading, Reason: wire.Why(wire.CodeReading)}

var notAllowed = wire.Reply{Status: wire.Refused, Reason: wire.Why(wire.CodeNotAllowed)}

// Bits returns the pieces of a share that can be read, as sent to peers; nil if it is not offered.
func (o *Offers) Bits(id share.ID) []byte {
	o.mu.RLock()
	s := o.sources[id]
	if o.leaving[id] {
		s = nil
	}
	o.mu.RUnlock()
	switch s := s.(type) {
	case nil:
		return nil
	case *Partial:
		return s.Verified().Bytes()
	default:
		return share.FullSet(s.Manifest().Layout().Pieces()).Bytes()
	}
}

// Whole says whether a share was here from the start, and was not fetched from others, and
// if so how many bytes it has.
func (o *Offers) Whole(id share.ID) (bytes int64, yes bool) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	s := o.sources[id]
	if _, part := s.(*Partial); s == nil || part {
		return 0, false
	}
	return s.Manifest().Layout().Bytes(), true
}

// OnGone sets a function that is called when a share had to be removed, with the reason. It is
// called once per share, from whatever goroutine found out.
func (o *Offers) OnGone(f func(id share.ID, why string)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.onGone = f
}

// OnMissing sets a function that is asked about a share that is not offered: whether it may be
// here all the same, and is being looked for. It must not block, nor call the Offers.
func (o *Offers) OnMissing(f func(id share.ID) (looking bool)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.more = f
}

// Opening says that the share will be offered soon: peers that ask for it are told to
// come back, and what Guard has set holds for it, also if an earlier offer of it ends meanwhile. It
// lasts until done is called.
func (o *Offers) Opening(id share.ID) (done func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.opening[id]++
	return sync.OnceFunc(func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.opening[id]--; o.opening[id] > 0 {
			return
		}
		delete(o.opening, id)
		if o.sources[id] == nil {
			delete(o.secrets, id)
		}
	})
}

// Reading says that files are being read that will be offered, under an ID that is not known
// until then: peers that ask for a share that is not here, and never was, are told to come
// back. So a restarted node loses no children. It lasts until done is called.
func (o *Offers) Reading() (done func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reading++
	return sync.OnceFunc(func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.reading--
	})
}

// Add offers a share, in place of what was offered under its ID: only to the peers of allow,
// if that is not empty, and else to those of NewOffers. A Tree belongs
// to the Offers from then on and is closed when it is removed. A Partial stays
// its transfer's; once done it can be read until it is removed, even after its
// Close. One that was closed before is not offered.
func (o *Offers) Add(s Source, allow ...peers.ID) {
	if p, ok := s.(*Partial); ok && !p.offer() {
		return
	}
	o.letGo(o.swap(s, allow))
}

// swap puts s in and returns what to let go.
func (o *Offers) swap(s Source, allow []peers.ID) Source {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return o.parting(s)
	}
	id := s.Manifest().ID()
	old := o.sources[id]
	o.sources[id], o.allowed[id] = s, allow
	delete(o.leaving, id)
	delete(o.gone, id)
	if old == s {
		return nil
	}
	return o.parting(old)
}

// parting notes that a source that has left the list, or nil, will be let go; mu is held.
func (o *Offers) parting(s Source) Source {
	if p, ok := s.(*Partial); ok {
		o.going[p.m.ID()]++
	}
	return s
}

// letGo releases what parting has returned; mu is not held.
func (o *Offers) letGo(s Source) {
	switch s := s.(type) {
	case *Tree:
		s.Close()
	case *Partial:
		s.withdraw()
		id := s.m.ID()
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.going[id]--; o.going[id] == 0 {
			delete(o.going, id)
		}
		o.left.Broadcast()
	}
}

// Leave stops announcing a share to peers; what they have requested is still read, until
// it is removed. With only, nothing happens unless that is what is offered.
func (o *Offers) Leave(id share.ID, only *Partial) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s := o.sources[id]; s != nil && (only == nil || s == Source(only)) {
		o.leaving[id] = true
	}
}

// Offers says whether p is what is offered of a share.
func (o *Offers) Offers(id share.ID, p *Partial) bool {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.sources[id] == Source(p) && !o.leaving[id]
}

// Remove removes a share. Peers that still ask are told that it is gone, which does not
// make a liar of this node: they were told that it was here.
func (o *Offers) Remove(id share.ID) { o.remove(id, nil) }

// Drop removes a share, as Remove does, if p is what is offered, and says whether it was.
func (o *Offers) Drop(p Source) bool { return o.remove(p.Manifest().ID(), p) }

// remove removes a share, unless only is not nil and something else is offered.
func (o *Offers) remove(id share.ID, only Source) bool {
	o.mu.Lock()
	s := o.sources[id]
	if only != nil && s != only {
		o.mu.Unlock()
		return false
	}
	o.forget(id)
	if s != nil {
		o.remember(id, wire.CodeEnded)
	}
	o.mu.Unlock()
	o.letGo(s)
	return true
}

// forget takes a share off the list, to be let go; mu is held.
func (o *Offers) forget(id share.ID) {
	o.parting(o.sources[id])
	delete(o.sources, id)
	delete(o.allowed, id)
	delete(o.leaving, id)
	if o.opening[id] == 0 {
		delete(o.secrets, id)
	}
}

// remember notes why a share is not here any more; mu is held.
func (o *Offers) remember(id share.ID, why wire.Code) {
	if len(o.gone) >= maxGone {
		for other := range o.gone {
			delete(o.gone, other)
			break
		}
	}
	o.gone[id] = why
}

// Superseded says of versions of a share that are not here any more that there is a newer one.
func (o *Offers) Superseded(older []share.ID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, id := range older {
		o.remember(id, wire.CodeNewer)
	}
}

// Yield removes a part of a share whose transfer is over and that holds its NAME.partial
// only to be served, so that a new transfer can have it. One that is being removed already is
// waited for: that takes no longer than to answer what was asked of it. The error is that of ctx.
func (o *Offers) Yield(ctx context.Context, id share.ID) error {
	defer context.AfterFunc(ctx, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.left.Broadcast()
	})()
	o.mu.Lock()
	defer o.mu.Unlock()
	if p, ok := o.sources[id].(*Partial); ok && p.lingering() {
		o.forget(id)
		o.mu.Unlock()
		o.letGo(p)
		o.mu.Lock()
	}
	for o.going[id] > 0 && ctx.Err() == nil {
		o.left.Wait()
	}
	return ctx.Err()
}

// Close removes all shares, for good.
func (o *Offers) Close() {
	o.mu.Lock()
	all := o.sources
	o.sources, o.leaving, o.closed = map[share.ID]Source{}, map[share.ID]bool{}, true
	for _, s := range all {
		o.parting(s)
	}
	o.mu.Unlock()
	for _, s := range all {
		o.letGo(s)
	}
}

// find returns the source of a share, or what to answer.
func (o *Offers) find(id share.ID) (Source, wire.Reply) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	if s := o.sources[id]; s != nil {
		return s, wire.Reply{}
	}
	if o.opening[id] > 0 {
		return nil, wire.Reply{Status: wire.Busy, Retry: retryOpening}
	}
	if o.more != nil && o.more(id) {
		return nil, wire.Reply{Status: wire.Busy, Retry: retryOpening}
	}
	if why, ok := o.gone[id]; ok {
		return nil, wire.Reply{Status: wire.Gone, Reason: wire.Why(why)}
	}
	if o.reading > 0 {
		return nil, stillReading
	}
	return nil, wire.Reply{Status: wire.NotFound}
}

// Manifest returns the encoded manifest of a share, which must not be changed, and says whether all of
// the share is here.
func (o *Offers) Manifest(id share.ID) ([]byte, wire.Reply) {
	s, r := o.find(id)
	if s == nil {
		return nil, r
	}
	p, part := s.(*Partial)
	r.Whole = done(s) && (!part || p.Verified().Full())
	return s.Manifest().Bytes(), r
}

// Check says how many bytes the n blocks of p from first on have, without
// reading them.
func (o *Offers) Check(id share.ID, p share.Piece, first share.Block, n int) (bytes int, r wire.Reply) {
	s, r := o.find(id)
	if s == nil {
		return 0, r
	}
	l := s.Manifest().Layout()
	if !l.ValidRun(p, first, n) {
		return 0, o.reply(id, s, invalidRun(p, first, n))
	}
	if part, ok := s.(*Partial); ok && !part.has(p) {
		return 0, o.reply(id, s, ErrNotYet)
	}
	return l.RunSpan(p, first, n).Len, r
}

// Proof returns the hashes of the blocks of p, which must not be changed.
func (o *Offers) Proof(id share.ID, p share.Piece) ([]share.Hash, wire.Reply) {
	s, r := o.find(id)
	if s == nil {
		return nil, r
	}
	values, err := s.Proof(p)
	return values, o.reply(id, s, err)
}

// ReadRun reads the n blocks of p from first on into dst.
func (o *Offers) ReadRun(id share.ID, p share.Piece, first share.Block, n int, dst []byte) (int, wire.Reply) {
	s, r := o.find(id)
	if s == nil {
		return 0, r
	}
	k, err := s.ReadRun(p, first, n, dst)
	return k, o.reply(id, s, err)
}

// Look looks at the next n files and folders of a share, as [Tree.Look] does, or at all that a Partial has in its place, and removes
// the share if one has changed.
func (o *Offers) Look(id share.ID, n int) {
	switch s, _ := o.find(id); s := s.(type) {
	case *Tree:
		o.reply(id, s, s.Look(n))
	case *Partial:
		o.reply(id, s, s.lookAtAll())
	}
}

// reply is what a peer is told of an error of a source.
func (o *Offers) reply(id share.ID, s Source, err error) wire.Reply {
	switch {
	case err == nil:
		return wire.Reply{Status: wire.OK}
	case errors.Is(err, ErrNotYet):
		return wire.Reply{Status: wire.NotFound}
	case errors.Is(err, fs.ErrClosed):
		if now, r := o.find(id); now == nil {
			return r
		}
		return wire.Reply{Status: wire.Busy, Retry: retryOpening} // it is being reopened
	case errors.Is(err, fs.ErrInvalid):
		return wire.Reply{Status: wire.Refused, Reason: wire.Why(wire.CodeNoBlocks)}
	case errors.Is(err, share.ErrChanged):
		if _, fetching := s.(*Partial); fetching && !done(s) {
			return wire.Reply{Status: wire.Gone, Reason: wire.Why(wire.CodeCopyChanged)} // nobody's lie
		}
		o.end(id, s, err.Error())
		return wire.Reply{Status: wire.Gone, Reason: wire.Why(wire.CodeFileChanged)}
	}
	return wire.Reply{Status: wire.Busy, Retry: retryTrouble}
}

func done(s Source) bool {
	p, ok := s.(*Partial)
	if !ok {
		return true
	}
	_, done := p.Done()
	return done
}

// end takes out a share that is no longer what it was.
func (o *Offers) end(id share.ID, s Source, why string) {
	o.mu.Lock()
	if o.sources[id] != s {
		o.mu.Unlock()
		return
	}
	o.forget(id)
	o.remember(id, wire.CodeFileChanged)
	tell := o.onGone
	o.mu.Unlock()
	o.letGo(s)
	if tell != nil {
		tell(id, why)
	}
}
