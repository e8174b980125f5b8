// Package keep is a depot's disk as its actors see it, and what is served from it: a share
// while it arrives, and later once somebody asks for it.
package keep

import (
	"context"
	"errors"
	"maps"
	"sync"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/depot/disk"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
)

const (
	maxLooking = 4    // shares looked for at once
	maxAbsent  = 4096 // shares remembered as not kept
)

// Config is the parts of a Keep. They belong to whoever made them.
type Config struct {
	Root   *disk.Root
	Ledger actors.Ledger
	Offers *store.Offers
	// Elsewhere reports whether the node serves a share from another place; may be nil.
	Elsewhere func(share.ID) bool
	// Later runs f soon, but only after Later has returned. It is not called after Stop.
	Later func(f func())
	// Program delivers messages to the actors. It is not used before the first call of Later.
	Program func() *actors.Program
}

// Keep is an actors.Keep. It is safe for concurrent use.
type Keep struct {
	*disk.Root
	cfg Config

	mu      sync.Mutex // guards the fields below
	ours    map[share.ID]store.Source
	looking map[share.ID]bool
	absent  map[share.ID]bool // looked for in vain; true: the ledger does not keep it
	closed  bool
}

// New returns a Keep that looks for shares that its Offers lack.
func New(cfg Config) *Keep {
	k := &Keep{Root: cfg.Root, cfg: cfg, ours: map[share.ID]store.Source{}, absent: map[share.ID]bool{}, looking: map[share.ID]bool{}}
	cfg.Offers.OnMissing(k.look)
	return k
}

// Stop ends the search for shares: Later is not called any more.
func (k *Keep) Stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
}

// Ready is Root.Ready with the actors' ledger. What could not be opened before is looked for again.
func (k *Keep) Ready(ctx context.Context, l actors.Ledger) error {
	if err := k.Root.Ready(ctx, l); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.absent, func(_ share.ID, unkept bool) bool { return !unkept })
	return nil
}

// Forget makes Ready check folder and database again: the database is a new one. What could not be closed is useless by then.
func (k *Keep) Forget() { k.Root.Close() }

// Manifest returns a share's manifest; nil if it is not here.
func (k *Keep) Manifest(id share.ID) *share.Manifest {
	m, err := k.Root.Manifest(id)
	if err != nil {
		return nil
	}
	return m
}

// Open opens the folder of a share, and serves from it at once.
func (k *Keep) Open(ctx context.Context, m *share.Manifest, wanted []bool, like []share.ID) (actors.Target, error) {
	if err := k.cfg.Offers.Yield(ctx, m.ID()); err != nil {
		return nil, err
	}
	p, err := k.Root.Open(ctx, m, wanted)
	if err != nil {
		return nil, err
	}
	if _, done := p.Done(); !done && wanted == nil {
		for _, id := range like {
			err := k.Root.Reuse(ctx, p, id)
			if ctx.Err() != nil {
				return nil, errors.Join(ctx.Err(), p.Close())
			}
			if err != nil {
				break // the rest is fetched
			}
		}
	}
	k.serve(m.ID(), p)
	return p, nil
}

// serve offers what the depot has of a share, unless another place of the node serves it.
func (k *Keep) serve(id share.ID, s store.Source) bool {
	if k.cfg.Elsewhere != nil && k.cfg.Elsewhere(id) {
		return false
	}
	k.mu.Lock()
	k.ours[id] = s
	delete(k.absent, id)
	k.mu.Unlock()
	k.cfg.Offers.Add(s)
	return true
}

// Withdraw stops serving a share, and reports whether the depot served it.
func (k *Keep) Withdraw(id share.ID) bool {
	s := k.unserve(id)
	return s != nil && k.cfg.Offers.Drop(s)
}

func (k *Keep) unserve(id share.ID) store.Source {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.ours[id]
	delete(k.ours, id)
	return s
}

// Changed forgets that a share is not here, since its state has changed.
func (k *Keep) Changed(id share.ID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.absent, id)
}

// look starts to look for a share that a peer asks for, and reports whether it is being looked for.
func (k *Keep) look(id share.ID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.looking[id] || len(k.looking) >= maxLooking:
		return true
	case k.closed:
		return false
	}
	if _, absent := k.absent[id]; absent {
		return false
	}
	k.looking[id] = true
	k.cfg.Later(func() { k.find(id) })
	return true
}

// find opens a share that is kept.
func (k *Keep) find(id share.ID) {
	found, unkept := k.open(id)
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.looking, id)
	if !found {
		if len(k.absent) >= maxAbsent {
			clear(k.absent)
		}
		k.absent[id] = unkept
	}
}

// open opens a share and serves it; unkept says that nobody need try that again before its state changes.
func (k *Keep) open(id share.ID) (found, unkept bool) {
	s, err := k.cfg.Ledger.Share(context.Background(), id)
	if err != nil || s.State != depot.Stable && s.State != depot.Corrupt {
		return false, err == nil
	}
	t, err := k.Root.Tree(id)
	if err != nil {
		return false, false
	}
	if !k.serve(id, t) {
		t.Close()
		return false, true
	}
	k.cfg.Program().Offer(id)
	return true, true
}

// Damaged handles data of a share that was read and found wrong, and that is no longer
// offered.
func (k *Keep) Damaged(id share.ID) {
	if k.unserve(id) == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.closed {
		k.cfg.Later(func() { k.cfg.Program().Tell(actors.LookAt{Share: id}) })
	}
}
