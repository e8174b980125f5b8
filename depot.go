package fetcher

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	ma "github.com/multiformats/go-multiaddr"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// Depot is a node elsewhere that keeps shares for accounts under storage leases. The
// connection proves which account asks: the one to which this node's key belongs
// there. Its methods are safe for concurrent use.
//
// Errors wrap ErrNoDepot, ErrDepotAway or ErrClosed, or are a *HoldRefused.
type Depot struct {
	node *Node
	at   peers.Addr
}

var (
	// ErrNoDepot says that a peer keeps no shares for others.
	ErrNoDepot = actors.ErrNoDepot
	// ErrDepotAway says that a depot cannot be reached or does not answer.
	ErrDepotAway = actors.ErrDepotAway
)

// HoldRefused says why a depot does not grant a request.
//
//	Reason           HoldReason
//	Room             int64          bytes left, of quota or disk; or the bytes the share takes
//	Retry            time.Duration  ask again after; 0: when something has changed
//	Current, Coming  share.ID       what the name stands for, and what is to come under it
type HoldRefused = depot.Refusal

// HoldReason is why a depot refuses; String returns it in words.
type HoldReason = depot.Reason

// Why a depot refuses.
const (
	HoldUnknownAccount  = depot.UnknownAccount
	HoldOverQuota       = depot.OverQuota
	HoldNoSpace         = depot.NoSpace
	HoldLeaving         = depot.Leaving
	HoldWrongBytes      = depot.WrongBytes
	HoldNoLease         = depot.NoLease
	HoldNameMoved       = depot.NameMoved
	HoldTooManyRequests = depot.TooManyRequests
	HoldBadTime         = depot.BadTime
	HoldBadRequest      = depot.BadRequest
	HoldAway            = depot.Away
	HoldUnpaid          = depot.Unpaid
	HoldBadPasses       = depot.BadPasses
	HoldSpentPasses     = depot.SpentPasses
	HoldNoVoucher       = depot.NoVoucher
	HoldUsedVoucher     = depot.UsedVoucher
	HoldWrongSum        = depot.WrongSum
	HoldNoIssuer        = depot.NoIssuer
)

// HoldState is the state of a share at a depot; String returns its name.
type HoldState = depot.State

// The states of a share at a depot.
const (
	HoldNone    = depot.None
	HoldComing  = depot.Coming
	HoldStable  = depot.Stable
	HoldCorrupt = depot.Corrupt
	HoldGoing   = depot.Going
)

// HoldDelay is why a depot makes no progress with a share; String returns it in words.
type HoldDelay = depot.Delay

// Why a depot makes no progress with a share. 0: nothing holds it up.
const (
	HoldQueued      = depot.Queued
	HoldUnreachable = depot.Unreachable
	HoldNowhere     = depot.Nowhere
	HoldNotAllowed  = depot.NotAllowed
	HoldDiskFull    = depot.DiskFull
	HoldUseless     = depot.Useless
	HoldFailing     = depot.Failing
)

// HoldBytes is how many bytes a lease of a share counts, which a depot must be told.
func HoldBytes(m *share.Manifest) int64 { return depot.Bytes(m) }

// HoldRequest asks a depot to keep a share.
type HoldRequest struct {
	Share share.ID
	Bytes int64     // HoldBytes of its manifest
	Until time.Time // by the depot's clock; cut to the longest lease of the account
	// Request identifies this request, in at most 32 bytes: if it is sent again, it is still
	// done only once. Default a random one.
	Request string
	// Sources are multiaddrs to fetch the share from, of at most 8 peers, besides this node.
	Sources []string
	// Name, if not empty, is to stand for Share as soon as that is stable; the lease of the
	// share it stood for before ends then. Expect is the share it stands for now, Supersedes
	// the one that was to come under it and no longer is.
	Name               string
	Expect, Supersedes share.ID
}

// Holding is a lease at a depot.
type Holding struct {
	Share   share.ID
	State   HoldState
	Bytes   int64
	Expires time.Time // zero: the lease has ended
	At      time.Time // the depot's clock when it answered
	// From Holdings only, while the share is being fetched or repaired: how many bytes of its
	// files the depot has, and why it makes no progress.
	Here  int64
	Delay HoldDelay
}

// Held is a Holding that was granted or renewed.
type Held struct {
	Holding
	Added time.Duration // how much longer the share is leased than it was
}

// DepotUsage is what an account uses of a depot.
type DepotUsage struct {
	Used, Quota int64         // bytes
	MaxLease    time.Duration // the longest lease
	Complete    bool          // false: the depot is still counting what it has, and there may be more
	At          time.Time     // the depot's clock
}

// PeerAddr reads a multiaddr that ends in /p2p/ID. Errors wrap ErrAddress.
func PeerAddr(addr string) (peers.Addr, error) {
	who, err := depotsAt([]string{addr})
	if err != nil {
		return peers.Addr{}, err
	}
	return who[0], nil
}

// Depot returns the depot at some addresses, multiaddrs that end in the same /p2p/ID. It does not
// contact it. Errors wrap ErrAddress.
func (n *Node) Depot(addrs ...string) (*Depot, error) {
	who, err := depotsAt(addrs)
	if err == nil && len(who) != 1 {
		err = words.Error(ErrAddress, "the addresses belong to %d depots, and must all belong to one", len(who))
	}
	if err == nil && who[0].ID == n.ID() {
		err = words.Error(ErrAddress, "that is the address of this node, and a node cannot be its own depot")
	}
	if err != nil {
		return nil, err
	}
	return &Depot{n, who[0]}, nil
}

// depotsAt are the depots at some multiaddrs.
func depotsAt(addrs []string) ([]peers.Addr, error) {
	var all []ma.Multiaddr
	for _, s := range addrs {
		a, err := share.ParseAddr(s)
		if err != nil {
			return nil, words.Error(ErrAddress, "depot %q is not a multiaddr such as /ip4/192.0.2.1/tcp/4001/p2p/12D3... (%v)", s, err)
		}
		all = append(all, a)
	}
	who, err := groupPeers(all)
	if err != nil {
		return nil, words.Error(ErrAddress, "depot: %v", err)
	}
	return who, nil
}

// ID is the depot's peer ID.
func (d *Depot) ID() peers.ID { return d.at.ID }

func (d *Depot) ask(ctx context.Context, question any) (any, error) {
	answer, _, err := d.node.program.AskDepot(ctx, actors.AskDepot{Depot: d.at, Question: question})
	if err != nil {
		return nil, fmt.Errorf("depot %s: %w", d.at.ID.Short(), err)
	}
	return answer, nil
}

// AskIssuer sends a question of package wire to the depot's issuer of passes, and returns the answer.
// Package passes/purse knows which question has which.
func (d *Depot) AskIssuer(ctx context.Context, question any) (any, error) {
	return d.ask(ctx, question)
}

var (
	// errAnswer says that a depot's answer does not fit the question.
	errAnswer  = fmt.Errorf("%w: the answer of the depot does not fit the question", peers.ErrProtocol)
	errEndless = fmt.Errorf("%w: the depot says after %d pages of leases that there are more", peers.ErrProtocol, wire.MaxHoldingPages)
)

func newRequest(r string) string {
	if r == "" {
		return rand.Text()
	}
	return r
}

// Hold asks the depot to keep a share: the depot fetches it from this node, which must serve it,
// and from r.Sources. Hold returns as soon as the lease is granted.
func (d *Depot) Hold(ctx context.Context, r HoldRequest) (Held, error) {
	sources, err := d.sources(r.Sources)
	if err != nil {
		return Held{}, err
	}
	return d.held(ctx, r.Share, wire.Hold{Share: r.Share, Request: newRequest(r.Request), Bytes: min(max(r.Bytes, 0), wire.MaxHeldBytes), Until: seconds(r.Until),
		Sources: sources, Name: r.Name, Expect: r.Expect, Supersedes: r.Supersedes}, r.Request, r.Name)
}

// sources are peers to fetch from: this node, and those of multiaddrs.
func (d *Depot) sources(more []string) ([]peers.Addr, error) {
	var addrs []ma.Multiaddr
	for _, s := range more {
		a, err := share.ParseAddr(s)
		if err != nil {
			return nil, words.Error(ErrAddress, "source %q is not a multiaddr (%v)", s, err)
		}
		addrs = append(addrs, a)
	}
	others, err := groupPeers(addrs)
	if err != nil {
		return nil, words.Error(ErrAddress, "%v", err)
	}
	own := network{d.node.host}
	return append([]peers.Addr{{ID: own.Self(), Addrs: own.Addrs()}}, others...), nil
}

// seconds is a time as it is sent.
func seconds(t time.Time) int64 { return min(max(t.Unix(), 0), 1<<40) }

// Renew moves the end of a lease.
func (d *Depot) Renew(ctx context.Context, id share.ID, until time.Time, request string) (Held, error) {
	return d.held(ctx, id, wire.Renew{Share: id, Request: newRequest(request), Until: seconds(until)}, request, "")
}

// Release ends a lease.
func (d *Depot) Release(ctx context.Context, id share.ID, request string) (Held, error) {
	return d.held(ctx, id, wire.Release{Share: id, Request: newRequest(request)}, request, "")
}

// held asks a question that is answered with wire.Held.
func (d *Depot) held(ctx context.Context, id share.ID, question any, request, name string) (h Held, err error) {
	if id.IsZero() || !wire.IsText(request, wire.MaxRequestID) || !wire.IsText(name, wire.MaxHoldName) {
		return h, &HoldRefused{Reason: HoldBadRequest}
	}
	answer, err := d.ask(ctx, question)
	if err != nil {
		return h, err
	}
	m, ok := answer.(wire.Held)
	if !ok || m.Share != id {
		return h, errAnswer
	}
	if m.Refused != 0 {
		return h, &HoldRefused{Reason: HoldReason(m.Refused), Room: m.Room, Retry: m.Retry, Current: m.Current, Coming: m.Coming}
	}
	return Held{Holding: holding(m.At, wire.Holding{Share: m.Share, State: m.State, Bytes: m.Bytes, Expires: m.Expires}), Added: lasting(m.Added)}, nil
}

// A depot may say any time, and it is to be shown all the same: moment is one that JSON has in any zone, and lasting a duration of 272 years
// at most.
func moment(seconds int64) time.Time      { return time.Unix(min(seconds, 1<<37), 0) }
func lasting(seconds int64) time.Duration { return time.Duration(min(seconds, 1<<33)) * time.Second }

func holding(at int64, h wire.Holding) Holding {
	out := Holding{Share: h.Share, State: HoldState(h.State), Bytes: h.Bytes, At: moment(at), Here: h.Here, Delay: HoldDelay(h.Delay)}
	if h.Expires != 0 {
		out.Expires = moment(h.Expires)
	}
	return out
}

// Holdings are the live leases of the account, by share ID.
func (d *Depot) Holdings(ctx context.Context) (out []Holding, err error) {
	after := share.ID{}
	for range wire.MaxHoldingPages {
		answer, err := d.ask(ctx, wire.Holdings{After: after})
		if err != nil {
			return nil, err
		}
		page, ok := answer.(wire.HoldingsPage)
		if !ok {
			return nil, errAnswer
		}
		if page.Refused != 0 {
			return nil, &HoldRefused{Reason: HoldReason(page.Refused)}
		}
		for _, h := range page.Items {
			if !after.IsZero() && h.Share.Compare(after) <= 0 {
				return nil, errAnswer // the loop would never end
			}
			after = h.Share
			out = append(out, holding(page.At, h))
		}
		if !page.More || len(page.Items) == 0 {
			return out, nil
		}
	}
	return nil, errEndless
}

// Usage is what the account uses.
func (d *Depot) Usage(ctx context.Context) (DepotUsage, error) {
	answer, err := d.ask(ctx, wire.Usage{})
	if err != nil {
		return DepotUsage{}, err
	}
	return usageOf(answer)
}

func usageOf(answer any) (DepotUsage, error) {
	m, ok := answer.(wire.UsageReport)
	switch {
	case !ok:
		return DepotUsage{}, errAnswer
	case m.Refused != 0:
		return DepotUsage{}, &HoldRefused{Reason: HoldReason(m.Refused)}
	}
	return DepotUsage{m.Used, m.Quota, lasting(m.MaxLease), m.Complete, moment(m.At)}, nil
}

// Watch calls changed for each change of a share of the account, and for each lease that
// ends unasked, one call at a time, until ctx ends or the depot is lost. Changes that happen
// while it is lost are not reported: look at Holdings then.
func (d *Depot) Watch(ctx context.Context, changed func(Holding)) error {
	var mu sync.Mutex
	over := false
	lost := make(chan error, 1)
	answer, stop, err := d.node.program.AskDepot(context.WithoutCancel(ctx), actors.AskDepot{Depot: d.at, Question: wire.Usage{Watch: true},
		Changed: func(m wire.HoldingChanged, err error) {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				lost <- err
			case !over:
				changed(holding(m.At, m.Holding))
			}
		}})
	if err == nil {
		_, err = usageOf(answer)
		defer stop()
	}
	if err != nil {
		return err
	}
	defer func() {
		mu.Lock()
		defer mu.Unlock()
		over = true
	}()
	select {
	case err := <-lost:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-d.node.closing:
		return errors.Join(ErrClosed, ErrDepotAway)
	}
}
