package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/share"
)

// holdsCommand lists what is renewed.
func (a depots) holdsCommand() *cobra.Command {
	return &cobra.Command{Use: "holds [ENTRY|SHARE]", Short: "List what depots keep for this node, and until when", Args: func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return exactly("ENTRY or SHARE")(cmd, args)
	},
		ValidArgsFunction: a.completeHolds,
		Long: `List what depots keep for this node. With an ENTRY or a SHARE, list that alone,
and the commands that fetch it. LEFT is how long the lease lasts if nothing
renews it: by then this node must have reached the depot. COST is the number
of passes paid for it so far. Below the table is what went wrong at the last
visit.

A share is unknown until the depot has been asked about it, stable when the
depot has all of it, and coming while the depot is still fetching it. It is
corrupt when the depot has lost some of it, and missing when it has none of it:
then the depot is asked to fetch it again. It is lapsed when its lease has
ended, and the depot has not said since what it still has. It is ending when it
is no longer wanted: it is released at the next visit; or, if it was taken off
the list of the fleet for which it was kept, it is not renewed, and stays until
its lease ends. A version before the latest is marked "earlier", and kept until
the depot has the latest; hold --keep NUMBER keeps that many of them after that,
too.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.asking(cmd.Context(), func(c *api.Client) error {
				all, err := c.Holds(cmd.Context())
				if err != nil {
					return err
				}
				entries, err := c.Entries(cmd.Context())
				if err != nil {
					return err
				}
				if len(args) == 0 {
					return a.printHolds(all, entries, time.Now())
				}
				if all = holdsCalled(all, entries, args[0]); len(all) == 0 {
					return usageError{fmt.Errorf("no depot keeps %q for this node; fetcher holds lists what they keep", args[0])}
				}
				if err := a.printHolds(all, entries, time.Now()); err != nil {
					return err
				}
				return a.print(fetchText(all))
			})
		}}
}

// holdsCalled are the holds of an entry, by its number or name, which is no number, also if it is removed by now, or of a share, by its ID or the end of that.
func holdsCalled(all []api.StandingHold, entries []api.Entry, what string) []api.StandingHold {
	isName := func(name string) bool { return name == what && !isNumber(what) }
	return slices.DeleteFunc(slices.Clone(all), func(h api.StandingHold) bool {
		ofEntry := func(e api.Entry) bool {
			return (isName(nameOf(e)) || fmt.Sprint(e.ID) == what) && (e.ID == h.Entry || e.Share == h.Share)
		}
		return !isName(h.Name) && h.Share != what && (len(what) < shortID || !strings.HasSuffix(h.Share, what)) && !slices.ContainsFunc(entries, ofEntry)
	})
}

// mayHave reports whether a depot has all of a version, or may have it: nobody knows once its lease has ended.
func mayHave(h api.StandingHold) bool { return h.State == "stable" || h.State == "lapsed" }

// fetchText is how to fetch each version that a depot has.
func fetchText(all []api.StandingHold) string {
	var b strings.Builder
	for _, h := range all {
		if mayHave(h) {
			fmt.Fprintf(&b, "\nfetch %s%s with\n\n%sfetcher fetch %s --peer %s\n", shortly(h.Share), either(h.Earlier, ", the version of "+words.Date(h.Since)+",", ""),
				verbatim, h.Share, h.Addr)
		}
	}
	return b.String()
}

func (a depots) printHolds(all []api.StandingHold, entries []api.Entry, now time.Time) error {
	if len(all) == 0 {
		fmt.Fprintln(a.stderr, "no depot keeps anything for this node; fetcher hold asks one to")
		return nil
	}
	var rows [][]string
	for _, h := range all {
		a.out.write("standing_hold", h)
		state := h.State + either(h.Ending, ", ending", either(h.Earlier, ", earlier", ""))
		next := either(h.Next.After(now), "in "+words.Duration(h.Next.Sub(now)), "now")
		left := either(h.Expires.IsZero(), "-", words.Duration(time.Duration(h.Left)*time.Second))
		rows = append(rows, []string{shortly(h.Share), shortly(h.Depot), state, left, fmt.Sprint(h.Cost), next, printable(heldName(h, entries))})
	}
	var b strings.Builder
	b.WriteString(a.headed(rows, "SHARE", "DEPOT", "STATE", "LEFT", "COST", "NEXT VISIT", "NAME"))
	for _, h := range all {
		why := cmp.Or(printable(h.Why), anewText(h, all))
		if h.State == "lapsed" {
			why = fmt.Sprintf("its lease ended on %s, so the depot may remove the share%s%s", words.Date(h.Expires), either(why != "", "; what went wrong last: ", ""), why)
		}
		if why != "" {
			b.WriteString(ofHeld(h.Share, h.Depot, why))
		}
	}
	return a.print(b.String())
}

// heldName is the name of the entry that a hold follows or followed.
func heldName(h api.StandingHold, entries []api.Entry) string {
	if i := slices.IndexFunc(entries, func(e api.Entry) bool { return e.ID == h.Entry || h.Entry == 0 && e.Share == h.Share }); i >= 0 {
		return nameOf(entries[i])
	}
	switch {
	case h.Entry == 0:
		return h.Name
	case h.Name == "":
		return "entry removed"
	}
	return h.Name + " (entry removed)"
}

// anewText says, of a version that a depot is still to fetch, what that means; "" of any other.
func anewText(h api.StandingHold, all []api.StandingHold) string {
	i := slices.IndexFunc(all, func(o api.StandingHold) bool { return o.ID == h.ID && o.Depot == h.Depot && o.Share != h.Share })
	if i < 0 || h.Earlier || mayHave(h) || all[i].State != "stable" {
		return ""
	}
	s := "the files have changed, and the depot fetches what it lacks of the new version (" + share.Size(h.Bytes) + " in all)"
	if all[i].Cost > 0 {
		s += ", which costs as much as a new share"
	}
	return s + "; it keeps the earlier version" + either(h.Keep > 0, " too", " until it has the new one")
}

func (a depots) releaseCommand() *cobra.Command {
	var on string
	c := &cobra.Command{Use: "release ENTRY|SHARE", Short: "End leases of this node at depots", Args: exactly("ENTRY or SHARE"),
		ValidArgsFunction: a.completeHolds,
		Long: `End this node's leases of a share, at all depots or only at the one at --on. An
ENTRY of the node is given by its number, or by its name, even after it was
removed, and released with all its versions; digits are always a number. A
SHARE is given by its ID, or by the end of that, as fetcher holds shows it; if
it is an earlier version, only that version is released. The depots may remove
the share then. A depot that is away is told when it is back; meanwhile nothing
is renewed there, and it keeps a share for a while after its lease has expired:
a day, unless its owner chose another time. If a depot keeps the share for a
fleet and does not let this node in, the lease ends once a member that the
depot lets in is running.

A depot has one lease of a share for each account, so a release on one machine
ends the lease of all machines that speak for that account, whichever of them
asked for it. Another machine that still wants the share makes the depot fetch
it again, but only when that machine visits the depot next, which may be days
away; until then it shows the lease as it was. If the fleet releases a share
that one of its members holds for itself too, that member asks the depot again
within seconds. To be independent, machines need an account each.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if on != "" {
				if err := named(cmd, on); err != nil {
					return err
				}
			}
			return a.asking(cmd.Context(), func(c *api.Client) error {
				id, err := a.heldShare(cmd.Context(), c, args[0], on)
				if err != nil {
					return err
				}
				all, err := c.Release(cmd.Context(), api.Release{Share: id, Depot: on})
				if errors.Is(err, api.ErrNoEntry) && on == "" {
					return fmt.Errorf("%w with --on ADDR", err)
				}
				if err != nil {
					return err
				}
				told := map[string]bool{}
				for _, h := range all {
					if h.Expires.IsZero() && h.Delay == "" && !told[h.Depot] {
						told[h.Depot] = true // which may have kept several versions
						fmt.Fprintf(a.stderr, "released: the depot %s may remove the share now, unless another account holds it there\n", shortly(h.Depot))
					}
				}
				return a.printHeld(cmd.Context(), c, all, func(h api.Held) string { return h.Delay })
			})
		}}
	c.Flags().StringVar(&on, "on", "", "at this depot alone: its `ADDR`, a multiaddr that ends in /p2p/ID")
	return c
}

// heldShare is the share that a command names: by its ID or the end of it, or by its entry, also if that is removed by now.
func (a depots) heldShare(ctx context.Context, c *api.Client, what, on string) (string, error) {
	if _, err := share.ParseID(what); err == nil {
		return what, nil
	}
	holds, err := c.Holds(ctx)
	if err != nil {
		return "", err
	}
	entries, err := c.Entries(ctx)
	if err != nil {
		return "", err
	}
	called := holdsCalled(holds, entries, what)
	if latest := slices.DeleteFunc(slices.Clone(called), func(h api.StandingHold) bool { return h.Earlier || h.Ending }); len(latest) > 0 {
		called = latest
	}
	var ids []string
	for _, h := range called {
		ids = append(ids, h.Share)
	}
	if found, err := entriesOf(ctx, c, []string{what}); err == nil {
		i := slices.IndexFunc(entries, func(e api.Entry) bool { return e.ID == found[0] })
		if x := entries[i].Share; len(ids) == 0 || slices.Contains(ids, x) {
			return x, nil
		}
	}
	if on != "" && len(ids) == 0 {
		all, err := c.Holdings(ctx, on)
		if err != nil {
			return "", err
		}
		for _, h := range all {
			if len(what) >= shortID && strings.HasSuffix(h.Share, what) {
				ids = append(ids, h.Share)
			}
		}
	}
	slices.Sort(ids)
	switch ids = slices.Compact(ids); len(ids) {
	case 0:
		return "", usageError{fmt.Errorf("%q is neither an entry of the node nor a share that depots keep for it; fetcher holds lists those", what)}
	case 1:
		return ids[0], nil
	}
	return "", usageError{fmt.Errorf("depots keep %d shares called %q; name one as fetcher holds shows it", len(ids), what)}
}

// tellHeld says what depots still keep of an entry that is removed, unless another entry has the same share.
func (a asker) tellHeld(ctx context.Context, c *api.Client, e api.Entry) error {
	all, err := c.Holds(ctx)
	if err != nil {
		return err
	}
	left, err := c.Entries(ctx)
	if err != nil {
		return err
	}
	told := map[string]bool{}
	for _, l := range left {
		told[l.Share] = true
	}
	for _, h := range all {
		if (h.Entry == e.ID || h.Name != "" && h.Name == nameOf(e) || h.Share == e.Share) && !h.Ending && !h.Earlier && !told[h.Share] {
			told[h.Share] = true
			fmt.Fprintf(a.stderr, "depots still keep %s, and the node renews their leases; fetcher release %s ends that\n", printable(nameOf(e)), shortly(h.Share))
		}
	}
	return nil
}

// ofHeld is a line about a share at a depot, which is named once.
func ofHeld(id, depot, text string) string {
	at := either(strings.HasPrefix(text, "the depot "+shortly(depot)+" "), "", " at "+shortly(depot))
	return fmt.Sprintf("%s%s: %s\n", shortly(id), at, text)
}
