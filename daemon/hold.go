package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/passes"
	"github.com/piecelease/fetcher/passes/purse"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/renewal"
	"github.com/piecelease/fetcher/share"
)

// Holdings returns what this node's account holds at a depot elsewhere.
func (d *depots) Holdings(ctx context.Context, addr string) (out []api.Held, err error) {
	at, err := d.node.Depot(addr)
	if err != nil {
		return nil, api.Refuse(api.ErrRequest, "%v", err)
	}
	all, err := at.Holdings(ctx)
	if err != nil {
		l, _ := d.node.Holds(ctx) // without it, the advice is that for a stranger
		return nil, lenderError(l, at.ID(), err)
	}
	for _, h := range all {
		v, _ := heldView(at, h, nil)
		out = append(out, v)
	}
	d.hear(ctx, at.ID(), addr, all)
	return out, nil
}

// hear remembers where a depot was reached, and has it visited if it has all of a share that was still coming when it was visited last.
func (d *depots) hear(ctx context.Context, at peers.ID, addr string, all []fetcher.Holding) {
	var there []string
	if !elsewhere(addr, d.node.Dialled(at)) {
		there = append(there, addr)
	}
	l, err := d.node.DepotsAt(ctx, there...)
	if slices.ContainsFunc(l.Holds, func(h fetcher.HoldStanding) bool {
		return h.Depot == at && h.State == renewal.Coming && slices.ContainsFunc(all, func(x fetcher.Holding) bool { return x.Share == h.Share && x.State == depot.Stable })
	}) {
		err = d.node.VisitDepot(ctx, at)
	}
	if err != nil {
		d.log.Debug("a depot cannot be visited now; it will be visited later", "depot", string(at), "error", err)
	}
}

func heldView(at *fetcher.Depot, h fetcher.Holding, err error) (api.Held, error) {
	if err != nil {
		return api.Held{}, heldError(at.ID(), err)
	}
	return api.Held{Share: h.Share.String(), Depot: string(at.ID()), State: h.State.String(), Bytes: h.Bytes, Expires: h.Expires, At: h.At, Here: h.Here, Delay: h.Delay.String()}, nil
}

// heldError says what a depot refused, and what to do. Any other error already names the depot.
func heldError(at peers.ID, err error) error {
	var r *fetcher.HoldRefused
	var missing *purse.MissingError
	var over *renewal.BudgetError
	switch {
	case errors.As(err, &missing):
		return api.Refuse(share.ErrNotAllowed, "the depot %s takes passes, and %v; %s", at.Short(), missing, getPasses)
	case errors.As(err, &over):
		or := ", or wait until then"
		if over.Units > over.Budget {
			or = ""
		}
		return api.Refuse(share.ErrNotAllowed, "the depot %s is not paid: %v; raise the budget with fetcher hold%s", at.Short(), over, or)
	case errors.Is(err, passes.ErrTagged), errors.Is(err, passes.ErrProof):
		return api.Refuse(share.ErrNotAllowed, "the depot %s cannot be trusted with passes: %v", at.Short(), err)
	case errors.As(err, &r):
		x := refusals[r.Reason]
		if x.what == "" {
			x.what = r.Reason.String()
		}
		if strings.Contains(x.what, "%") {
			x.what = fmt.Sprintf(x.what, share.Size(r.Room))
		}
		if r.Retry > 0 {
			x.what += "; ask again in " + words.Duration(r.Retry)
		}
		return api.Refuse(cmp.Or(x.class, share.ErrNotAllowed), "the depot %s refuses: %s", at.Short(), x.what)
	case errors.Is(err, fetcher.ErrNoDepot):
		return api.Refuse(share.ErrNetwork, "%v. Name a node that is a depot", err)
	case errors.Is(err, fetcher.ErrDepotAway):
		return api.Refuse(share.ErrNetwork, "%v. Check its address, and that it is running", err)
	}
	return err
}

// lenderError is heldError of a depot at which this node may have leases: a new account would not have them, so the owner is to
// add the key to the account that has. So it is with what is kept for a fleet, for which another member may have leases.
func lenderError(l fetcher.HoldList, at peers.ID, err error) error {
	var r *fetcher.HoldRefused
	unknown := errors.As(err, &r) && r.Reason == fetcher.HoldUnknownAccount
	switch {
	case unknown && slices.ContainsFunc(l.Wants, func(w fetcher.Hold) bool { return w.Fleet && slices.Contains(w.Depots, at) }):
		return api.Refuse(share.ErrNotAllowed, `the depot %s refuses: it does not know this node; a fleet has one account at a depot: the depot's owner can add the ID that fetcher id prints to the keys of that account with "fetcher depot account set"; if no member has an account there yet, the owner can make one with "fetcher depot account add" instead`, at.Short())
	case unknown && slices.ContainsFunc(l.Holds, func(h fetcher.HoldStanding) bool { return h.Depot == at && h.Left > 0 }):
		return api.Refuse(share.ErrNotAllowed, `the depot %s refuses: it does not know this node any more; its owner can let this node in again with "fetcher depot account set", which adds the ID that fetcher id prints to the keys of the account that has the leases`, at.Short())
	}
	return heldError(at, err)
}

// getPasses is what to do where passes are missing.
const getPasses = "get a code from the depot's owner, and enter it with fetcher passes redeem"

// refusals maps the reasons of a depot to a kind of error and what to say; %s stands for the room
// that is left.
var refusals = map[fetcher.HoldReason]struct {
	class error
	what  string
}{
	fetcher.HoldUnknownAccount:  {share.ErrNotAllowed, `it does not know this node; its owner can let this node in, with "fetcher depot account add" and the ID that fetcher id prints`},
	fetcher.HoldOverQuota:       {share.ErrDiskFull, "the share takes more of the quota than the %s that is left (the size of each file is rounded up to a multiple of 4 KiB, and its hashes count too); release something there, or ask the depot's owner for a larger quota"},
	fetcher.HoldNoSpace:         {share.ErrDiskFull, "the share needs more room than the %s that the depot's disk has left; ask the depot's owner, or use another depot"},
	fetcher.HoldLeaving:         {share.ErrStalled, "the share is being removed there right now"},
	fetcher.HoldWrongBytes:      {api.ErrRequest, "the request gives a wrong size, and the share takes %s"},
	fetcher.HoldNoLease:         {share.ErrNotFound, "this node holds no such share there"},
	fetcher.HoldNameMoved:       {share.ErrHeld, "another machine of this account has put another share in the place of this one; repeat the command"},
	fetcher.HoldTooManyRequests: {share.ErrStalled, "it takes no more requests from this node for now"},
	fetcher.HoldBadTime:         {api.ErrRequest, "by its clock, the lease would have ended already: compare the clocks of both machines"},
	fetcher.HoldBadRequest:      {api.ErrRequest, "the request has no ID, or that of another request"},
	fetcher.HoldUnpaid:          {share.ErrNotAllowed, "its leases cost passes, and this node did not pay; " + getPasses},
	fetcher.HoldBadPasses:       {share.ErrNotAllowed, "it does not know the passes: they are from another issuer, or no longer worth anything; " + getPasses},
	fetcher.HoldSpentPasses:     {share.ErrNotAllowed, "some of these passes had already been spent on something else; the wallet does not offer them again"},
	fetcher.HoldNoVoucher:       {share.ErrNotFound, "there is no such voucher; the code is mistyped, or over a year old"},
	fetcher.HoldUsedVoucher:     {share.ErrNotAllowed, "the voucher was redeemed before"},
	fetcher.HoldWrongSum:        {api.ErrRequest, "the passes do not add up to what is to be paid; if you entered a code, the number of passes in it may be mistyped"},
	fetcher.HoldNoIssuer:        {api.ErrRequest, "it neither takes nor issues passes"},
	fetcher.HoldAway:            {share.ErrStalled, "its disk is not there now, or has not been looked through yet"},
}

// distinct counts the depots of two lists.
func distinct(a, b []peers.ID) int {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return len(slices.Compact(all))
}

// elsewhere reports whether a depot that was named with a host and port was not reached there, but at another address.
func elsewhere(named string, dialled []string) bool {
	spot := func(addr string) string { // such as /ip4/192.0.2.1 and a port, which TCP and QUIC have in common
		parts := append(strings.Split(addr, "/"), make([]string, 5)...)
		return strings.Join([]string{parts[1], parts[2], parts[4]}, "/")
	}
	byIP := strings.HasPrefix(named, "/ip4/") || strings.HasPrefix(named, "/ip6/")
	return byIP && !strings.Contains(named, "/p2p-circuit") && len(dialled) > 0 && !slices.ContainsFunc(dialled, func(a string) bool { return spot(a) == spot(named) })
}

// reachedAt returns the address of a depot for a ticket: the one that it was named with, unless it was reached elsewhere. An address
// of the local network does not replace one that leads there from elsewhere.
func reachedAt(named string, dialled []string) string {
	if !elsewhere(named, dialled) {
		return named
	}
	local := func(addr string) bool {
		ip, err := netip.ParseAddr(append(strings.Split(addr, "/"), "", "", "")[2])
		return err == nil && (ip.IsPrivate() || ip.IsLoopback() || ip.IsLinkLocalUnicast())
	}
	for _, a := range dialled {
		if local(named) || !local(a) {
			return a
		}
	}
	return named
}

// depotIDs returns the peer IDs of depots.
func (d *depots) depotIDs(addrs []string) (ids []peers.ID, err error) {
	for _, addr := range addrs {
		at, err := d.node.Depot(addr)
		if err != nil {
			return nil, api.Refuse(api.ErrRequest, "%v", err)
		}
		ids = append(ids, at.ID())
	}
	return ids, nil
}
