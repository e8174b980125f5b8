package actors

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// ---- requests of accounts ----

// depotAsked is the answer to an account.
type depotAsked struct {
	to      *actor.PID
	answer  any
	share   share.ID // of Hold and Release
	state   depot.State
	granted bool
	ended   bool // a lease has ended
	watch   depot.Account
	err     error // of ledger or disk
}

// ask answers an account by a task. f gets its account. holds says that it asks to hold
// something. Requests that come while the depot starts are answered once it has. What a peer may have under way bounds
// those of its requests that wait for the ledger.
func (d *depotActor) ask(ctx actor.Context, holds bool, refuse func(depot.Refusal) any, f func(context.Context, time.Time, depot.Account) (depotAsked, error)) {
	to, peer, t := ctx.Sender(), senderOf(d.s, ctx), d.time
	if to == nil {
		return
	}
	answer := func(ctx context.Context) any {
		now := t.now()
		account, err := d.account(ctx, now, peer, holds)
		var a depotAsked
		if err == nil {
			a, err = f(ctx, now, account)
		}
		a.to = to
		var r *depot.Refusal
		switch {
		case errors.As(err, &r):
			a.answer = refuse(*r)
		case err != nil:
			a.err, a.answer = err, refuse(depot.Refusal{Reason: depot.Away, Retry: depotRetry})
		}
		return a
	}
	switch {
	case d.loaded:
		d.s.Answer(ctx, answer)
	case d.trouble == nil && len(d.early) < maxEarly:
		d.early = append(d.early, early{to, refuse, answer})
	default:
		ctx.Send(to, refuse(depot.Refusal{Reason: depot.Away, Retry: depotRetry}))
	}
}

// early is a request that came before the depot was ready.
type early struct {
	to     *actor.PID
	refuse func(depot.Refusal) any
	answer func(context.Context) any
}

// maxEarly bounds them.
const maxEarly = 256

// answerEarly answers the requests that came while the depot started.
func (d *depotActor) answerEarly(ctx actor.Context) {
	for _, q := range d.early {
		if d.loaded {
			d.s.Task(ctx, q.answer)
		} else {
			ctx.Send(q.to, q.refuse(depot.Refusal{Reason: depot.Away, Retry: depotRetry}))
		}
	}
	d.early = nil
}

// account returns the account that a peer speaks for. Where strangers are admitted, a peer
// that asks to hold something is given one.
func (d *depotActor) account(ctx context.Context, now time.Time, peer peers.ID, holds bool) (depot.Account, error) {
	if d.cfg.Open == nil {
		a, err := d.cfg.Ledger.AccountOf(ctx, peer)
		if errors.Is(err, depot.ErrNoKey) {
			err = &depot.Refusal{Reason: depot.UnknownAccount}
		}
		return a, err
	}
	room := int64(0)
	if holds {
		room = depot.MaxStrangers
	}
	return d.cfg.Ledger.Admit(ctx, now, peer, *d.cfg.Open, room)
}

// refuseHeld makes refusals of Hold, Renew and Release.
func (d *depotActor) refuseHeld(id share.ID) func(depot.Refusal) any {
	t := d.time
	return func(r depot.Refusal) any {
		return wire.Held{Share: id, At: t.now().Unix(), Refused: uint8(r.Reason), Room: r.Room, Retry: r.Retry, Current: r.Current, Coming: r.Coming}
	}
}

func heldOf(id share.ID, now time.Time, g depot.Granted) depotAsked {
	m := wire.Held{Share: id, At: now.Unix(), State: uint8(g.State), Bytes: g.Bytes, Added: int64(g.Added / time.Second)}
	if !g.Expires.IsZero() {
		m.Expires = g.Expires.Unix()
	}
	return depotAsked{answer: m, share: id, state: g.State, granted: true}
}

func (d *depotActor) hold(ctx actor.Context, m wire.Hold) {
	by := senderOf(d.s, ctx)
	from := d.believe(by, m.Sources)
	here := d.here
	l, keep, reserve := d.cfg.Ledger, d.cfg.Keep, d.cfg.Reserve
	d.ask(ctx, true, d.refuseHeld(m.Share), func(ctx context.Context, now time.Time, account depot.Account) (a depotAsked, err error) {
		if m.Bytes < depot.LeastBytes { // else an account could fill the depot with folders, files and rows
			return a, &depot.Refusal{Reason: depot.WrongBytes, Room: depot.LeastBytes}
		}
		free, err := keep.Free()
		if err != nil {
			return a, err
		}
		ask := depot.Ask{Account: account, Request: m.Request, Share: m.Share, Bytes: m.Bytes, Until: time.Unix(m.Until, 0),
			Space: depot.Space{Free: free, Reserve: reserve, Arrived: here}}
		var g depot.Granted
		if m.Name == "" {
			g, err = l.Hold(ctx, now, ask)
		} else {
			g, err = l.Replace(ctx, now, depot.Replace{Ask: ask, Name: m.Name, Expect: m.Expect, Supersedes: m.Supersedes})
		}
		if err != nil {
			return a, err
		}
		k, err := l.Share(ctx, m.Share) // the answer may be outdated
		if err == nil && (k.State == depot.Coming || k.State == depot.Corrupt) {
			err = keep.SaveSources(m.Share, by, from)
		}
		a = heldOf(m.Share, now, g)
		a.state = k.State
		return a, err
	})
}

// believe returns those addresses named by an account that may be dialled on its word
// alone. The account itself is a source.
func (d *depotActor) believe(by peers.ID, named []peers.Addr) (out []peers.Addr) {
	from, _ := d.net.Where(by)
	for _, a := range append(named, peers.Addr{ID: by}) {
		if !slices.ContainsFunc(out, func(o peers.Addr) bool { return o.ID == a.ID }) && a.ID != d.s.Self() {
			out = append(out, peers.Addr{ID: a.ID, Addrs: peers.Addrs(peers.Named(d.net.Endpoints(a.Addrs), from.Reach)), By: by})
		}
	}
	return out
}

func (d *depotActor) renew(ctx actor.Context, m wire.Renew) {
	l := d.cfg.Ledger
	d.ask(ctx, false, d.refuseHeld(m.Share), func(ctx context.Context, now time.Time, account depot.Account) (depotAsked, error) {
		g, err := l.Renew(ctx, now, depot.Ask{Account: account, Request: m.Request, Share: m.Share, Until: time.Unix(m.Until, 0)})
		return heldOf(m.Share, now, g), err
	})
}

func (d *depotActor) release(ctx actor.Context, m wire.Release) {
	l := d.cfg.Ledger
	d.ask(ctx, false, d.refuseHeld(m.Share), func(ctx context.Context, now time.Time, account depot.Account) (depotAsked, error) {
		g, err := l.Release(ctx, now, depot.Ask{Account: account, Request: m.Request, Share: m.Share})
		a := heldOf(m.Share, now, g)
		a.ended = true
		return a, err
	})
}

func (d *depotActor) holdings(ctx actor.Context, m wire.Holdings) {
	l, t := d.cfg.Ledger, d.time
	refuse := func(r depot.Refusal) any {
		if r.Reason == depot.UnknownAccount && d.cfg.Open != nil {
			r.Reason = 0 // it holds nothing, which is no fault
		}
		return wire.HoldingsPage{At: t.now().Unix(), Refused: uint8(r.Reason)}
	}
	d.ask(ctx, false, refuse, func(ctx context.Context, now time.Time, account depot.Account) (a depotAsked, err error) {
		leases, err := l.Holdings(ctx, now, account, m.After, wire.MaxHoldings+1)
		page := wire.HoldingsPage{At: now.Unix(), More: len(leases) > wire.MaxHoldings}
		for _, x := range leases[:min(len(leases), wire.MaxHoldings)] {
			page.Items = append(page.Items, holdingOf(x))
		}
		return depotAsked{answer: page}, err
	})
}

func holdingOf(l depot.Lease) wire.Holding {
	return wire.Holding{Share: l.Share, State: uint8(l.State), Bytes: l.Bytes, Expires: l.Expires.Unix()}
}

func (d *depotActor) usage(ctx actor.Context, m wire.Usage) {
	l, t := d.cfg.Ledger, d.time
	refuse := func(r depot.Refusal) any { return wire.UsageReport{At: t.now().Unix(), Refused: uint8(r.Reason)} }
	d.ask(ctx, false, refuse, func(ctx context.Context, now time.Time, account depot.Account) (a depotAsked, err error) {
		i, err := l.Info(ctx, now, account)
		a.answer = wire.UsageReport{At: now.Unix(), Used: i.Used, Quota: i.Quota, MaxLease: int64(i.MaxLease / time.Second), Complete: i.Complete}
		if m.Watch {
			a.watch = account
		}
		return a, err
	})
}

// asked sends an answer, and does what follows from it.
func (d *depotActor) asked(ctx actor.Context, m depotAsked) {
	if page, ok := m.answer.(wire.HoldingsPage); ok {
		d.progress(page.Items)
	}
	if m.watch != 0 && !d.watch(ctx, m.watch, m.to) { // those who watch already go on
		m.answer = wire.UsageReport{At: d.time.now().Unix(), Refused: uint8(depot.TooManyRequests)}
	}
	ctx.Send(m.to, m.answer)
	d.failed(ctx, "the depot could not answer", m.err)
	switch {
	case m.ended:
		d.remove(ctx, m.share)
	case m.granted && (m.state == depot.Coming || m.state == depot.Corrupt):
		d.want(m.share, m.state == depot.Corrupt)
	}
}

// progress fills in how far each share that is coming has got, and what delays it.
func (d *depotActor) progress(items []wire.Holding) {
	for i := range items {
		a := d.arrivals[items[i].Share]
		if a == nil {
			continue
		}
		items[i].Here, items[i].Delay = a.verified, uint8(a.delay)
		if !a.running && a.delay == 0 {
			items[i].Delay = uint8(depot.Queued)
		}
	}
}

// ---- watchers ----

// maxWatchers bounds the watchers of one account.
const maxWatchers = 16

// watch adds a watcher of an account, and reports whether it watches now.
func (d *depotActor) watch(ctx actor.Context, a depot.Account, who *actor.PID) bool {
	if slices.ContainsFunc(d.watchers[a], func(w *actor.PID) bool { return w.Equal(who) }) {
		return true
	}
	if len(d.watchers[a]) >= maxWatchers {
		return false
	}
	ctx.Watch(who)
	d.watchers[a] = append(d.watchers[a], who)
	return true
}

func (d *depotActor) unwatch(who *actor.PID) {
	for a, all := range d.watchers {
		all = slices.DeleteFunc(all, func(w *actor.PID) bool { return w.Equal(who) })
		if d.watchers[a] = all; len(all) == 0 {
			delete(d.watchers, a)
		}
	}
}

// told is the leases of a share, for those who watch.
type told struct {
	id     share.ID
	state  depot.State
	leases []depot.Lease
	ended  []depot.Account // whose leases have ended
	err    error
}

// changed tells the watchers that a share has changed its state.
func (d *depotActor) changed(ctx actor.Context, id share.ID, s depot.State, why string) {
	d.s.Log().Info("the state of a kept share changed", "share", id.String(), "state", s.String(), "reason", why)
	if d.cfg.Changed != nil {
		d.cfg.Changed(id, s, why)
	}
	d.tell(ctx, id, s, nil)
}

// tell tells the accounts of a share, and those whose leases have ended.
func (d *depotActor) tell(ctx actor.Context, id share.ID, s depot.State, ended []depot.Account) {
	if len(d.watchers) == 0 {
		return
	}
	l, t := d.cfg.Ledger, d.time
	d.s.Task(ctx, func(ctx context.Context) any {
		leases, err := l.Leases(ctx, t.now(), id)
		return told{id, s, leases, ended, err}
	})
}

func (d *depotActor) tellAll(ctx actor.Context, m told) {
	d.failed(ctx, "the accounts that are to be told of a share cannot be read", m.err)
	at := d.time.now().Unix()
	for _, l := range m.leases {
		h := holdingOf(l)
		h.State = uint8(m.state)
		d.tellAccount(ctx, l.Account, wire.HoldingChanged{At: at, Holding: h})
	}
	for _, a := range m.ended {
		d.tellAccount(ctx, a, wire.HoldingChanged{At: at, Holding: wire.Holding{Share: m.id, State: uint8(m.state)}})
	}
}

func (d *depotActor) tellAccount(ctx actor.Context, a depot.Account, m wire.HoldingChanged) {
	for _, w := range d.watchers[a] {
		ctx.Send(w, m)
	}
}
