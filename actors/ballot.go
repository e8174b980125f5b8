package actors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/piecelease/fetcher/fleet"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/wire"
)

// A ballot is an office's access to the store of its fleet: the round of the office, and
// the members of the last run. Its methods wait for the store, so they are called from
// tasks.
type ballot struct {
	kv     rounds.KV
	secret fleet.Secret
	self   peers.ID
	within time.Duration // bounds each call
	ttl    time.Duration
	name   string // of the round
	wall   func() time.Time
	log    *slog.Logger

	mu    sync.Mutex // guards the fields below; held while the store is asked
	round *rounds.Round
	guard *rounds.Guard // nil: the office is not ours
	other bool          // the store was another fleet's when it was asked last

	unsaved *members // not yet taken by the store
	saving  sync.Mutex
}

// members are the members of a run, as stored.
type members struct {
	Term    uint64     `json:"term"`
	Members []peers.ID `json:"members"`
}

const maxMembers = 1_000 // stored at most

const maxHolderAddrs = 8

func newBallot(o *office) (*ballot, error) {
	cfg := fleet.OfficeConfig{Heartbeat: o.with.Heartbeat}
	b := &ballot{kv: o.with.KV, secret: o.with.Secret, self: o.s.Self(), ttl: cfg.TTL(), within: rounds.Heartbeat(cfg.TTL()),
		name: fleet.RoundName(o.cmd.Share), wall: o.s.Wall, log: o.s.Log()}
	start := o.s.Now()
	run := fmt.Sprintf("%016x", o.s.Seed(fmt.Sprint("run ", o.number, " of ", b.name)))
	var err error
	b.round, err = rounds.New(b.kv, rounds.Config{Name: b.name, Office: true, Holder: string(b.self), Run: run, MaxTTL: max(b.ttl, 5*time.Minute),
		Clock:  func() rounds.Now { return rounds.Now{Wall: o.s.Wall(), Mono: o.s.Now().Sub(start)} },
		Notice: func(n rounds.Notice) { b.log.Warn(n.String()) }})
	return b, err
}

// call asks the store what the core wants asked.
func (b *ballot) call(ctx context.Context, what fleet.Call, heard []fleet.Report, addrs []string) fleet.Answer {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range heard {
		b.round.Heard(string(r.From), r.Term.Term)
	}
	if err := b.round.SetData(b.data(addrs)); err != nil {
		b.log.Warn("the addresses of this node could not be given to the fleet", "error", err)
	}
	switch what {
	case fleet.TakeOffice:
		return b.take(ctx, addrs)
	case fleet.KeepOffice:
		return b.keep(ctx, addrs)
	}
	return fleet.Answer{}
}

func (b *ballot) data(addrs []string) string {
	return string(b.secret.Seal(b.name, fleet.Holder{Peer: b.self, Addrs: addrs[:min(len(addrs), maxHolderAddrs)], At: b.wall().UTC()}))
}

// take asks for the office. A guard that is still open belongs to an office that was given up
// because of what members said.
func (b *ballot) take(ctx context.Context, addrs []string) fleet.Answer {
	if b.guard != nil {
		giveBack(ctx, b.guard, errors.New("a member showed a later term"))
		b.guard = nil
	}
	if b.other { // it would win the office and give it back, again and again
		if err := b.owned(ctx); err != nil {
			return fleet.Answer{Why: err.Error()}
		}
	}
	g, err := b.round.TryAcquire(ctx, b.ttl)
	var held *rounds.HeldError
	switch {
	case errors.As(err, &held):
		return b.others(fleet.Held, held.Record, held.Again)
	case err != nil:
		return fleet.Answer{Why: err.Error()}
	}
	var last members
	if err = b.owned(ctx); !errors.Is(err, fleet.ErrOther) {
		last, err = b.members(ctx) // without them it would lease out what they already have
	}
	if err != nil {
		giveBack(ctx, g, err)
		return fleet.Answer{Why: err.Error()}
	}
	b.guard = g
	return fleet.Answer{Outcome: fleet.Won, Seat: fleet.Seat{Term: g.Term(), Peer: peers.Addr{ID: b.self, Addrs: addrs}}, Members: last.Members}
}

func (b *ballot) keep(ctx context.Context, addrs []string) fleet.Answer {
	if b.guard == nil { // it was given up because the store was another fleet's, and may be ours again
		return b.take(ctx, addrs)
	}
	err := b.guard.Extend(ctx)
	var lost *rounds.LostError
	switch {
	case errors.As(err, &lost):
		b.guard = nil
		return b.others(fleet.Lost, lost.Record, 0)
	case err != nil:
		return fleet.Answer{Why: err.Error()}
	}
	if err := b.owned(ctx); errors.Is(err, fleet.ErrOther) { // those who know the new secret elect another
		giveBack(ctx, b.guard, err)
		b.guard = nil
		return fleet.Answer{Why: err.Error()}
	}
	b.saveAgain(ctx)
	return fleet.Answer{Outcome: fleet.Kept}
}

// giveBack frees the office, which this node cannot or may not hold.
func giveBack(ctx context.Context, g *rounds.Guard, why error) {
	if err := g.Abandon(ctx, why.Error()); err != nil {
		g.Close()
	}
}

// owned returns fleet.ErrOther if the secret of the fleet was changed, so that the store is no longer this node's.
func (b *ballot) owned(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, b.within)
	defer cancel()
	mark, err := b.kv.Get(ctx, fleet.MarkKey)
	if errors.Is(err, rounds.ErrNotFound) {
		err = nil
	}
	if err == nil {
		err = b.secret.Owns(mark.Value)
		b.other = err != nil
	}
	return err
}

// others returns the holder of the office according to its record.
func (b *ballot) others(what fleet.Outcome, rec rounds.Record, again time.Duration) fleet.Answer {
	a := fleet.Answer{Outcome: what, Seat: fleet.Seat{Term: rec.Term}, Again: again}
	var d fleet.Holder
	switch err := b.secret.Open(b.name, []byte(rec.Data), &d); {
	case rec.Term == 0:
	case err != nil:
		a.Why = fmt.Sprintf("%q coordinates, and its entry in the store was not written with the secret of this fleet", rec.Holder)
	case d.Peer != b.self && len(d.Peer) <= wire.MaxPeerID:
		a.Seat.Peer = peers.Addr{ID: d.Peer, Addrs: d.Addrs}
	}
	return a
}

// leave gives the office back, so that another member can take it at once.
func (b *ballot) leave(ctx context.Context) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.guard == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, b.within)
	defer cancel()
	giveBack(ctx, b.guard, errors.New("it left"))
	b.guard = nil
}

// ---- the members of the last run ----

func (b *ballot) members(ctx context.Context) (members, error) {
	m, _, shut, err := b.readMembers(ctx)
	if shut != nil {
		b.log.Warn("the list of who was a member of the fleet cannot be read", "error", shut)
	}
	return m, err
}

// readMembers reads the members, with their revision; 0: none were ever written. A record
// that cannot be opened counts as no members; shut says why.
func (b *ballot) readMembers(ctx context.Context) (m members, rev uint64, shut, err error) {
	ctx, cancel := context.WithTimeout(ctx, b.within)
	defer cancel()
	key := fleet.MembersKey(b.name)
	e, err := b.kv.Get(ctx, key)
	if errors.Is(err, rounds.ErrNotFound) {
		return members{}, 0, nil, nil
	}
	if err != nil {
		return members{}, 0, nil, err
	}
	if err := b.secret.Open(key, e.Value, &m); err != nil {
		return members{}, e.Rev, err, nil
	}
	m.Members = m.Members[:min(len(m.Members), maxMembers)]
	return m, e.Rev, nil, nil
}

// remember stores the members of a term, now or with a later heartbeat.
func (b *ballot) remember(term uint64, ids []peers.ID) {
	b.saving.Lock()
	defer b.saving.Unlock()
	b.unsaved = &members{term, slices.Clone(ids[:min(len(ids), maxMembers)])}
	b.trySave(context.Background())
}

func (b *ballot) saveAgain(ctx context.Context) {
	b.saving.Lock()
	defer b.saving.Unlock()
	b.trySave(ctx)
}

// trySave writes the unsaved members, unless a later run has written its own.
func (b *ballot) trySave(ctx context.Context) {
	for range 3 {
		if b.unsaved == nil {
			return
		}
		old, rev, _, err := b.readMembers(ctx)
		if err != nil {
			return
		}
		if old.Term > b.unsaved.Term {
			b.unsaved = nil
			return
		}
		if b.write(ctx, rev) == nil {
			b.unsaved = nil
		}
	}
}

func (b *ballot) write(ctx context.Context, rev uint64) error {
	ctx, cancel := context.WithTimeout(ctx, b.within)
	defer cancel()
	key := fleet.MembersKey(b.name)
	value := b.secret.Seal(key, b.unsaved)
	var err error
	if rev == 0 {
		_, err = b.kv.Create(ctx, key, value)
	} else {
		_, err = b.kv.Update(ctx, key, value, rev)
	}
	return err
}
