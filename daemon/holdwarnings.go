package daemon

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/passes/purse"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/renewal"
)

// holdStatus adds the holds to the status, and returns warnings about leases that end soon.
func (d *depots) holdStatus(ctx context.Context, s *api.Status) []string {
	l, err := d.node.Holds(ctx)
	if err != nil {
		return []string{fmt.Sprintf("what depots keep for this node is not known: %v", err)}
	}
	countHolds(l, s)
	return slices.Concat(d.holdWarnings(l), d.shortWarnings(ctx, l), d.budgetWarnings(l))
}

// countHolds counts the leases that last, and those that there should be.
func countHolds(l fetcher.HoldList, s *api.Status) {
	for _, h := range l.Holds {
		switch {
		case h.Kept && h.Left > 0:
			s.Holds++
			if s.HoldEnds.IsZero() {
				s.HoldEnds = h.Expires
			}
		case h.Kept && !unseen(l, h):
			s.Unheld++
		}
	}
}

// budgetWarnings says, days before leases lapse, which do so as the budget of their depot does not pay for their renewal, and when.
func (d *depots) budgetWarnings(l fetcher.HoldList) (out []string) {
	for _, depot := range slices.Sorted(maps.Keys(l.Budgets)) {
		var lapse []string
		for _, due := range l.Lapses {
			if due.Depot == depot {
				lapse = append(lapse, fmt.Sprintf("%s on %s (its renewal costs %s)", d.heldName(l, due.Key), words.Date(due.Expires), words.Count(int(due.Units), "pass")))
			}
		}
		if len(lapse) > 0 {
			out = append(out, fmt.Sprintf("the budget of %s in 31 days for the depot %s does not pay for all that the depot keeps; unless the budget is raised with fetcher hold, these lapse: %s", words.Count(int(l.Budgets[depot].Units), "pass"), depot.Short(), strings.Join(lapse, ", ")))
		}
	}
	return out
}

// comesWithin is how long a depot may take to have all of a share, over a slow line, before its owner is warned.
const comesWithin = 3 * 24 * time.Hour

// holdWarnings returns which leases end soon, and why they were not renewed, and which depots have a lease and for long not the share.
func (d *depots) holdWarnings(l fetcher.HoldList) (out []string) {
	for _, h := range l.Holds {
		others := unseen(l, h)
		h.Why = standingWhy(l, h)
		switch {
		case h.Late:
			out = append(out, lateText(h, earlierOf(l, h), d.heldName(l, h.Key), others))
		case h.Kept && (h.State == renewal.Coming || h.State == renewal.Corrupt) && h.Lacking > comesWithin:
			out = append(out, lackingText(h, d.heldName(l, h.Key), depotAddrs(l, []peers.ID{h.Depot})[0]))
		}
	}
	return out
}

// lackingText warns of the depot at addr, which has a lease and not all of the share.
func lackingText(h fetcher.HoldStanding, name, addr string) string {
	what := "it does not have all of the share yet"
	if h.State == renewal.Corrupt {
		what = "some of the share was lost there, and has not been fetched again"
	}
	if h.Why != "" {
		what += " (" + h.Why + ")"
	}
	return fmt.Sprintf("the lease of %s at the depot %s is renewed, but the depot has lacked some of the share for %s: %s. Use fetcher holdings to ask the depot at %s what keeps the rest from coming",
		name, h.Depot.Short(), words.Duration(h.Lacking.Round(time.Second)), what, addr)
}

// lateText warns of a lease that should have been renewed; left is how long the depot keeps the version before, others says that
// it may be that of others, of which this node does not know.
func lateText(h fetcher.HoldStanding, left time.Duration, name string, others bool) (what string) {
	why := ", and was not renewed: "
	switch depot := h.Depot.Short(); {
	case h.Left > 0:
		what = fmt.Sprintf("the lease of %s at the depot %s ends in %s", name, depot, words.Duration(h.Left.Round(time.Second)))
	case left > 0:
		what, why = fmt.Sprintf("the depot %s keeps only the earlier version of %s, for %s more, and lacks the present one", depot, name, words.Duration(left.Round(time.Second))), ": "
	case others:
		what, why = fmt.Sprintf("it is not known here whether the depot %s keeps %s", depot, name), ": "
	case h.Expires.IsZero():
		what, why = fmt.Sprintf("the depot %s does not keep %s yet", depot, name), ": "
	case h.State == renewal.Missing: // the depot has said so
		what, why = fmt.Sprintf("the depot %s does not keep %s any more", depot, name), ", and the lease was not renewed: "
	default:
		what = fmt.Sprintf("the lease of %s at the depot %s, which may remove the share, ended on %s", name, depot, words.Date(h.Expires))
	}
	if h.Why != "" {
		h.Why = strings.Replace(h.Why, "the depot "+h.Depot.Short()+" ", "the depot ", 1) // named before
		if rest, is := strings.CutPrefix(h.Why, "it "); is {                              // else the lease or the share
			h.Why = "the depot " + rest
		}
		what += why + h.Why
	}
	return what
}

// earlierOf is how long a depot keeps an earlier version of what it is to keep; 0: it has none.
func earlierOf(l fetcher.HoldList, h fetcher.HoldStanding) (left time.Duration) {
	for _, o := range l.Holds {
		if o.Depot == h.Depot && o.Share != h.Share && o.Of(h.Want) && o.Kept && o.Since.Before(h.Since) {
			left = max(left, o.Left)
		}
	}
	return left
}

// heldName is what people call a share that a depot keeps.
func (d *depots) heldName(l fetcher.HoldList, key renewal.Key) string {
	for _, h := range l.Holds {
		for _, w := range l.Wants {
			if h.Key != key || w.ID != h.Want {
				continue
			}
			switch name := d.nameOf(w); {
			case name == "":
			case w.Share != h.Share:
				return fmt.Sprintf("%s as of %s", name, words.Date(h.Since))
			default:
				return name
			}
		}
	}
	return key.Share.Short()
}

// nameOf is what the owner calls what depots are to keep; empty if that is not known.
func (d *depots) nameOf(w fetcher.Hold) string {
	if k, err := d.keeper(w.Entry); err == nil {
		return k.view().Name
	}
	if all := d.all(); w.Fleet { // none of its members' entries is followed
		if i := slices.IndexFunc(all, func(k *keeper) bool { return k.entry().Share == w.Share }); i >= 0 {
			return all[i].view().Name
		}
	}
	return w.Name
}

// lacking returns the renewals for which the wallet has too few passes that are good until then, with how many are missing
// for each, in addition to those before.
func lacking(dues []renewal.Due, stock []purse.Stock) (out []renewal.Due) {
	soon, later, until := map[peers.ID]int64{}, map[peers.ID]int64{}, map[peers.ID]time.Time{}
	for _, s := range stock {
		soon[s.Depot], later[s.Depot], until[s.Depot] = s.Units-s.Later, s.Later+s.Reserved+s.Ordered, s.Until
	}
	for _, due := range dues {
		take := func(from map[peers.ID]int64) {
			n := min(from[due.Depot], due.Units)
			from[due.Depot] -= n
			due.Units -= n
		}
		if !due.At.After(until[due.Depot]) {
			take(soon)
		}
		if take(later); due.Units > 0 {
			out = append(out, due)
		}
	}
	return out
}

// payable returns the renewals that this node is to pay: not the fleet's at a depot for which it has no passes, as
// another member may have some.
func payable(l fetcher.HoldList, stock []purse.Stock) []renewal.Due {
	return slices.DeleteFunc(slices.Clone(l.Dues), func(due renewal.Due) bool {
		return due.Fleet && !slices.ContainsFunc(stock, func(s purse.Stock) bool { return s.Depot == due.Depot && s.Units+s.Reserved+s.Ordered > 0 })
	})
}

// shortWarnings says, days before a lease lapses, for what passes are missing.
func (d *depots) shortWarnings(ctx context.Context, l fetcher.HoldList) (out []string) {
	stock, err := d.purse.Stock(ctx)
	if err != nil {
		return []string{err.Error()}
	}
	for _, due := range lacking(payable(l, stock), stock) {
		out = append(out, fmt.Sprintf("%v for the lease of %s at the depot %s; it lapses on %s. Get a code from the depot's owner, and enter it with fetcher passes redeem", &purse.MissingError{Missing: due.Units},
			d.heldName(l, due.Key), due.Depot.Short(), words.Date(due.Expires)))
	}
	return out
}
