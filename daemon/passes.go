package daemon

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/passes"
	"github.com/piecelease/fetcher/passes/issuer"
	"github.com/piecelease/fetcher/passes/purse"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// The prices of storage leases: none within the quota, or passes.
const (
	priceFree   = "free"
	pricePasses = "passes"
)

// ParsePrice parses a price; empty is free. paid is true if the price is passes.
func ParsePrice(s string) (paid bool, err error) {
	switch s {
	case "", priceFree:
		return false, nil
	case pricePasses:
		return true, nil
	}
	return false, fmt.Errorf("a price is %q or %q, not %q", priceFree, pricePasses, s)
}

func priceOf(paid bool) string {
	if paid {
		return pricePasses
	}
	return priceFree
}

// openPurse returns the purse that pays the depots that take passes.
func openPurse(d *Daemon) *purse.Purse {
	t := till{d}
	return purse.New(purse.Config{Store: t, Self: func() peers.ID { return d.node.ID() }, Now: time.Now, Chance: rand.Reader,
		Known: func(ctx context.Context, at peers.Addr, question any) (any, error) {
			return t.ask(ctx, d.node, at, question)
		},
		Fresh: t.askFresh})
}

// till gives a purse what it needs from a node: the wallet in the catalog, which opens later, and
// connections to issuers.
type till struct{ d *Daemon }

func (w till) Wallet(ctx context.Context) (*passes.Wallet, error) {
	select {
	case <-w.d.holds.ready:
		return w.d.db.Wallet(ctx)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (w till) WriteWallet(ctx context.Context, c passes.Change) error {
	return w.d.db.WriteWallet(ctx, c)
}

func (w till) ask(ctx context.Context, n *fetcher.Node, at peers.Addr, question any) (any, error) {
	depot, err := n.Depot(multiaddrs(at)...)
	if err != nil {
		return nil, err
	}
	return depot.AskIssuer(ctx, question)
}

// askFresh asks an issuer as a node that nobody has seen before, and that ends with the answer. Whatever this node is set to, a
// stranger says the same of itself: it has no addresses, keeps no place at a relay, and is of no version.
func (w till) askFresh(ctx context.Context, at peers.Addr, question any) (answer any, err error) {
	cfg := fetcher.Config{Dir: w.d.dir, FreshIdentity: true, Listen: []string{"none"}, Reach: fetcher.Reach{Traverse: true, Proxy: w.d.setting().Proxy}}
	cfg.P2P.Version = "stranger"
	n, err := fetcher.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	return w.ask(ctx, n, at, question)
}

// multiaddrs returns the multiaddrs of a peer.
func multiaddrs(at peers.Addr) (out []string) {
	for _, a := range at.Addrs {
		out = append(out, a+"/p2p/"+string(at.ID))
	}
	if len(out) == 0 {
		out = append(out, "/p2p/"+string(at.ID))
	}
	return out
}

// maxCode bounds a voucher's code, in bytes.
const maxCode = 1024

// code returns a voucher as its buyer gets it: with its value, and where to redeem it.
func code(v passes.Voucher, units int64, at string) string {
	return fmt.Sprintf("%s.%d%s", v, units, at)
}

// codeIs begins what is said of text that is no code.
const codeIs = `this is not a voucher's code; copy the whole line that "fetcher depot voucher" prints`

// parseCode parses what code returned.
func parseCode(s string) (v passes.Voucher, units int64, at string, err error) {
	s = strings.Join(strings.FieldsFunc(s, func(c rune) bool { return unicode.IsSpace(c) || c == '>' }), "")
	text, rest, ok := strings.Cut(s, ".")
	i := strings.Index(rest, "/")
	if !ok || i < 0 || len(s) > maxCode {
		return v, 0, "", api.Refuse(api.ErrRequest, "%s: five groups, a number and an address", codeIs)
	}
	if v, err = passes.ParseVoucher(text); err != nil {
		return v, 0, "", api.Refuse(api.ErrRequest, "%s (%v)", codeIs, err)
	}
	if units, err = strconv.ParseInt(rest[:i], 10, 64); err != nil || units < 1 || units > issuer.MaxUnits {
		return v, 0, "", api.Refuse(api.ErrRequest, "a code is for 1 to %d passes, not %q", issuer.MaxUnits, rest[:i])
	}
	return v, units, rest[i:], nil
}

// Voucher makes a voucher for passes of this depot.
func (d *depots) Voucher(ctx context.Context, v api.NewVoucher) (api.Voucher, error) {
	l, now, err := d.depotNow(ctx)
	if err != nil {
		return api.Voucher{}, err
	}
	if v.Passes < 1 || v.Passes > issuer.MaxUnits {
		return api.Voucher{}, api.Refuse(api.ErrRequest, "a voucher is for 1 to %d passes, not %d", issuer.MaxUnits, v.Passes)
	}
	if v.For != "" {
		id, err := l.named(ctx, now, v.For)
		if err != nil {
			return api.Voucher{}, depotError(err, v.For)
		}
		a, err := l.db.Info(ctx, now, id)
		if err != nil {
			return api.Voucher{}, err
		}
		if !a.Paid {
			return api.Voucher{}, api.Refuse(api.ErrRequest, "the account %q pays no passes; fetcher depot account set changes its price", v.For)
		}
	}
	addrs := d.node.Addrs()
	if len(addrs) == 0 {
		return api.Voucher{}, api.Refuse(share.ErrNetwork, "a voucher names an address of the node, which has none; set listen or announce, in node.toml or as a flag")
	}
	made, err := l.issuer.Sell(v.Passes, now)
	if err != nil {
		return api.Voucher{}, err
	}
	d.log.Info("a voucher was made", "passes", v.Passes, "account", v.For)
	return api.Voucher{Code: code(made, v.Passes, addrs[0]), Passes: v.Passes, For: v.For}, nil
}

// RedeemPasses gets the passes of a voucher's code.
func (d *depots) RedeemPasses(ctx context.Context, r api.RedeemPasses) ([]api.Passes, error) {
	v, units, at, err := parseCode(r.Code)
	if err != nil {
		return nil, err
	}
	who, err := fetcher.PeerAddr(at)
	if err != nil {
		return nil, api.Refuse(api.ErrRequest, "%s (a code ends in the address of a depot, and this one in %.40q)", codeIs, at)
	}
	if who.ID == d.node.ID() {
		return nil, api.Refuse(api.ErrRequest, "this code is for this node's own depot; redeem it on a node whose shares this depot keeps")
	}
	if err := d.purse.Redeem(ctx, who, v, units); err != nil {
		return nil, heldError(who.ID, err)
	}
	d.log.Info("a voucher was redeemed", "depot", string(who.ID), "passes", units)
	d.payWaiting(ctx, who.ID)
	return d.Passes(ctx)
}

// payWaiting has a depot visited if something there lacked passes. Else it is not: whoever issues them would see by the time who redeemed
// a voucher.
func (d *depots) payWaiting(ctx context.Context, depot peers.ID) {
	l, err := d.node.Holds(ctx)
	if slices.ContainsFunc(l.Holds, func(h fetcher.HoldStanding) bool { return h.Depot == depot && purse.IsMissing(h.Hold.Why) }) {
		err = d.node.VisitDepot(ctx, depot)
	}
	if err != nil {
		d.log.Warn("the depot cannot be visited now; it will be visited later", "depot", string(depot), "error", err)
	}
}

// Passes returns what the wallet has for each depot.
func (d *depots) Passes(ctx context.Context) (out []api.Passes, err error) {
	all, err := d.purse.Stock(ctx)
	if err != nil {
		return nil, err
	}
	l, err := d.node.Holds(ctx)
	for _, s := range all {
		b := l.Budgets[s.Depot]
		delete(l.Budgets, s.Depot)
		out = append(out, api.Passes{Depot: string(s.Depot), Passes: s.Units, Reserved: s.Reserved, Ordered: s.Ordered, Bad: s.Bad, Until: s.Until, Budget: b.Units, Left: b.Left})
	}
	for _, id := range slices.Sorted(maps.Keys(l.Budgets)) { // without passes
		out = append(out, api.Passes{Depot: string(id), Budget: l.Budgets[id].Units, Left: l.Budgets[id].Left})
	}
	return out, err
}
