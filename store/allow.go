package store

import (
	"slices"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// allows says whether a peer may have a share; mu is held.
func (o *Offers) allows(id share.ID, to peers.ID) bool {
	list := o.allowed[id]
	if g, ok := o.secrets[id]; ok {
		return g.proven[to] || slices.Contains(list, to)
	}
	if len(list) == 0 {
		list = o.allow
	}
	return len(list) == 0 || slices.Contains(list, to)
}

// guard is the secret of a share, and the peers that have proven to know it.
type guard struct {
	secret share.Secret
	proven map[peers.ID]bool
}

// maxProven bounds the peers that are remembered to know the secret of a share. They prove
// it again whenever they connect.
const maxProven = 1 << 12

// Guard restricts a share that will be offered to peers that prove to know a secret, and to
// those that Add names; nil: to those that Add names.
func (o *Offers) Guard(id share.ID, secret *share.Secret) {
	o.mu.Lock()
	defer o.mu.Unlock()
	old, had := o.secrets[id]
	switch {
	case secret == nil:
		delete(o.secrets, id)
	case !had || old.secret != *secret:
		if o.secrets == nil {
			o.secrets = map[share.ID]guard{}
		}
		o.secrets[id] = guard{*secret, map[peers.ID]bool{}}
	}
}

// Secret is what a peer must know to have a share; nil: nothing.
func (o *Offers) Secret(id share.ID) *share.Secret {
	o.mu.RLock()
	defer o.mu.RUnlock()
	if g, ok := o.secrets[id]; ok {
		return &g.secret
	}
	return nil
}

// Proved says that a peer knows the secret of a share.
func (o *Offers) Proved(id share.ID, peer peers.ID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	g, ok := o.secrets[id]
	if !ok {
		return
	}
	if len(g.proven) >= maxProven {
		for other := range g.proven {
			delete(g.proven, other)
			break
		}
	}
	g.proven[peer] = true
}

// For returns the Offers as one peer may read them.
func (o *Offers) For(peer peers.ID) OffersTo { return OffersTo{o, peer} }

// OffersTo are Offers as one peer sees them: it gets no list of files and no blocks of a
// share that it may not have.
type OffersTo struct {
	*Offers
	to peers.ID
}

func (o OffersTo) refuses(id share.ID) bool {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.sources[id] != nil && !o.allows(id, o.to)
}

// Manifest is like Offers.Manifest.
func (o OffersTo) Manifest(id share.ID) ([]byte, wire.Reply) {
	if o.refuses(id) {
		return nil, notAllowed
	}
	return o.Offers.Manifest(id)
}

// Check is like Offers.Check. It is called before each Proof and ReadRun.
func (o OffersTo) Check(id share.ID, p share.Piece, first share.Block, n int) (bytes int, r wire.Reply) {
	if o.refuses(id) {
		return 0, notAllowed
	}
	return o.Offers.Check(id, p, first, n)
}
