package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/share"
)

func (a depots) holdCommand() *cobra.Command {
	var h api.Hold
	var wait bool
	var budget int64
	var keep int
	c := &cobra.Command{
		Use: "hold ENTRY|PATH --on ADDR...", Short: "Have depots keep a share of this node", Args: exactly("ENTRY or PATH"),
		ValidArgsFunction: a.completeEntries,
		Long: `Have the depot at --on keep what an entry of the node serves, or a PATH, which
is added to the node once a depot lets this node in. The depot fetches it from
this node, so both must run until it has all of it; --wait waits for that, and
shows how far it has got. The depot's owner must first let this node in, with
fetcher depot account add, unless the depot lets every node in (--depot-open). A
depot can read what it keeps, and cannot fetch what was added with --secret.

The node renews the lease until fetcher release ends it. For that it must run,
and reach the depot, some time in the last third of --for.

When the files change, the depot fetches what has changed, and keeps the earlier
version until it has all of the new one, which costs as much as a new share.
--keep 3 keeps the three versions before the latest too, and pays for each; when
there would be a fourth, the oldest is released. --pin keeps only this version.
fetcher holds ENTRY shows each version, how long its lease lasts, what went
wrong, and how to fetch it.

With --on given several times, each of the depots keeps a copy, or as many of
them as --copies says: when one of these refuses, or is away until the lease
nearly ends, another takes its place.

A depot may cost passes: see fetcher passes --help. --budget limits what each
depot at --on is paid in 31 days for all that it keeps. If that is too little
for all leases, only those that end first are renewed, and the others lapse;
hold and fetcher node status warn of what lapses, and when.

With --fleet, the depots keep for the fleet a share that the node's fleet has:
one member at a time renews the lease, and pays for it if it has passes.
The depot has to let in all members as keys of one account: fetcher depot
account set --add-key. fetcher release on any member ends the lease for all.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(h.Depots) == 0 {
				h.Depots = []string{""}
			}
			if err := checkHold(cmd, h, keep, budget); err != nil {
				return err
			}
			if cmd.Flags().Changed("keep") {
				h.Keep = &keep
			}
			if cmd.Flags().Changed("budget") {
				h.Budget = &budget
			}
			if err := notEmpty(args[0]); err != nil {
				return err
			}
			return a.asking(cmd.Context(), func(c *api.Client) error { return a.hold(cmd.Context(), c, args[0], h, wait) })
		},
	}
	holdFlags(c.Flags(), &h, &keep, &budget, &wait)
	return c
}

func holdFlags(f *pflag.FlagSet, h *api.Hold, keep *int, budget *int64, wait *bool) {
	f.StringArrayVar(&h.Depots, "on", nil, "a depot's `ADDR`, a multiaddr that ends in /p2p/ID; may be repeated")
	f.StringVar(&h.For, "for", "", "ask for leases of this `TIME`, such as 36h, from 10s to 366d (default 31 days)")
	f.IntVar(&h.Copies, "copies", 0, "have this `NUMBER` of the depots keep it, with the others in reserve (default all)")
	f.IntVar(keep, "keep", 0, "keep this `NUMBER` of earlier versions too (default what it was, or 0 the first time)")
	f.Int64Var(budget, "budget", 0, "pay each depot at --on at most this `NUMBER` of passes in 31 days; 0 is no limit (default what it was, or 0 the first time)")
	f.BoolVar(&h.Pin, "pin", false, "keep this version, and do not follow the files to later ones")
	f.BoolVar(&h.Fleet, "fleet", false, "have the depots keep it for the node's fleet: any member renews it")
	f.BoolVar(wait, "wait", false, "wait until the depots have all of it; fail if one does not take it")
}

// checkHold returns a usage error about what a hold is asked for.
func checkHold(cmd *cobra.Command, h api.Hold, keep int, budget int64) error {
	for _, on := range h.Depots {
		if err := named(cmd, on); err != nil {
			return err
		}
	}
	switch long, err := words.ParseDuration(h.For); {
	case h.For != "" && err != nil:
		return usageError{fmt.Errorf("--for: %w", err)}
	case h.For != "" && (long < fetcher.MinHoldLength || long > fetcher.MaxHoldLength):
		return usageError{fmt.Errorf("--for is from %s to %s, not %s", words.Duration(fetcher.MinHoldLength), words.Duration(fetcher.MaxHoldLength), h.For)}
	case h.Pin && (h.Fleet || cmd.Flags().Changed("keep")), h.Fleet && cmd.Flags().Changed("keep"):
		return usageError{errors.New("--pin and --fleet keep one version; give one of --pin, --fleet and --keep")}
	case keep < 0 || keep > 100:
		return usageError{fmt.Errorf("--keep is from 0 to 100 versions, not %d", keep)}
	case budget < 0:
		return usageError{fmt.Errorf("--budget is a number of passes, or 0 for any number, not %d", budget)}
	case cmd.Flags().Changed("copies") && (h.Copies < 1 || h.Copies > 64):
		return usageError{fmt.Errorf("--copies is from 1 to 64, not %d", h.Copies)}
	}
	return nil
}

func (a depots) hold(ctx context.Context, c *api.Client, what string, ask api.Hold, wait bool) error {
	var added bool
	var err error
	if ask.Entry, added, err = a.held(ctx, c, what, ask); err != nil {
		return err
	}
	all, err := c.Hold(ctx, ask)
	if err != nil && added { // it was added for this alone
		if _, err2 := c.Remove(context.WithoutCancel(ctx), ask.Entry, false); err2 != nil {
			return errors.Join(fmt.Errorf("%w; %s was added to the node for this alone, and is still there, as entry %d", err, printable(what), ask.Entry), err2)
		}
		return fmt.Errorf("%w; %s was added to the node for this alone, and has been removed from it again", err, printable(what))
	}
	for i := range all {
		if on := addrOf(ask, all[i].Depot); err == nil && wait && on != "" {
			all[i], err = a.awaitHeld(ctx, c, all[i], on)
		}
	}
	if err != nil && ctx.Err() != nil && len(all) > 0 {
		fmt.Fprintln(a.stderr, "interrupted; the node goes on asking the depot, and fetcher holds shows how far it has got")
	}
	if err != nil {
		return err
	}
	few, err := tooFew(ctx, c, all, ask)
	if err != nil {
		return err
	}
	if few != nil && !wait {
		fmt.Fprintln(a.stderr, few)
	}
	a.granted(all, ask)
	if err := a.printHeld(ctx, c, all, comingText); err != nil || !wait {
		return err
	}
	return few
}

// tooFew says that fewer depots than were asked for keep a share; nil if they all do. all are those of the request that do.
func tooFew(ctx context.Context, c *api.Client, all []api.Held, ask api.Hold) (few, err error) {
	named := map[string]bool{}
	for _, addr := range ask.Depots {
		named[addr[strings.LastIndex(addr, "/")+1:]] = true // a depot may have several
	}
	have, want := len(all), len(named)
	if ask.Copies > 0 { // depots that were named before count, too
		holds, err := c.Holds(ctx)
		if err != nil {
			return nil, err
		}
		have, want = 0, ask.Copies
		for _, h := range holds {
			if h.ID == all[0].Hold && h.Share == all[0].Share && h.Left > 0 && !h.Ending {
				have++
			}
		}
	}
	if have >= want {
		return nil, nil
	}
	return api.Refuse(share.ErrStalled, "only %d of %d depots %s the share so far; fetcher holds shows why", have, want, either(have == 1, "keeps", "keep")), nil
}

// addrOf is the address by which a depot was named; "": it was not.
func addrOf(ask api.Hold, depot string) string {
	for _, addr := range ask.Depots {
		if strings.HasSuffix(addr, "/p2p/"+depot) {
			return addr
		}
	}
	return ""
}

// held is the entry that a depot is to keep: an existing one, or a new one for a path.
func (a depots) held(ctx context.Context, c *api.Client, what string, ask api.Hold) (id int64, added bool, err error) {
	ids, err := entriesOf(ctx, c, []string{what})
	if err == nil {
		return ids[0], false, nil
	}
	at, err2 := filepath.Abs(what)
	if err2 != nil {
		return 0, false, err
	}
	all, err2 := c.Entries(ctx)
	if err2 != nil {
		return 0, false, err2
	}
	if e, ok := entryAt(all, at); ok {
		_, err := a.await(ctx, c, e, false)
		return e.ID, false, err
	}
	if _, err2 := os.Stat(at); err2 != nil {
		return 0, false, fmt.Errorf("there is no file or folder %q here, and %w", what, err)
	}
	if ask.Copies > len(ask.Depots) {
		return 0, false, usageError{fmt.Errorf("--copies %d needs as many depots, each with an --on of its own", ask.Copies)}
	}
	if err := oneTakes(ctx, c, ask.Depots); err != nil { // before the files are read
		return 0, false, err
	}
	e, err := c.Add(ctx, api.Add{Paths: []string{at}})
	err = restFirst(err, at, "fetcher hold with the number of the entry that fetcher add makes")
	if err == nil {
		e, err = a.await(ctx, c, e, false)
	}
	return e.ID, true, err
}

// entryAt is the entry of a path, if there is one: first the one that was added without a name.
func entryAt(all []api.Entry, at string) (found api.Entry, ok bool) {
	for _, e := range all {
		if here := slices.Equal(e.Paths, []string{at}) || e.Path == at; here && (!ok || found.Named != "" && e.Named == "") {
			found, ok = e, true
		}
	}
	return found, ok
}

// oneTakes returns why none of the depots lets this node in; nil: one does.
func oneTakes(ctx context.Context, c *api.Client, depots []string) error {
	var refused []error
	for _, addr := range depots {
		_, err := c.Holdings(ctx, addr)
		if err == nil {
			return nil
		}
		refused = append(refused, err)
	}
	return errors.Join(refused...)
}

// awaitHeld waits until a depot has all of a share, and reports its progress.
func (a depots) awaitHeld(ctx context.Context, c *api.Client, h api.Held, on string) (api.Held, error) {
	defer a.stderr.clear()
	again := time.NewTicker(time.Second)
	defer again.Stop()
	said := ""
	for h.State != "stable" {
		all, err := c.Holdings(ctx, on)
		i := slices.IndexFunc(all, func(x api.Held) bool { return x.Share == h.Share })
		switch {
		case errors.Is(err, share.ErrNetwork): // it is back soon, or the user ends this
			a.stderr.show(fmt.Sprintf("the depot %s does not answer; it will be asked again", shortly(h.Depot)), nil, said != "away")
			said = "away"
		case err != nil:
			return h, err
		case i < 0:
			return h, fmt.Errorf("the depot %s does not keep the share any more: its lease was ended there", shortly(h.Depot))
		default:
			all[i].Ticket, all[i].Hold = h.Ticket, h.Hold
			if h = all[i]; h.State == "stable" {
				return h, a.agreed(ctx, c, h)
			}
			a.stderr.show(comingText(h), nil, said != h.State+h.Delay)
			said = h.State + h.Delay
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return h, cause(ctx)
		}
	}
	return h, a.agreed(ctx, c, h)
}

// agreeTime bounds how long agreed waits.
const agreeTime = 10 * time.Second

// agreed waits until the node knows, too, that a depot has all of a share: it visits the depot for that.
func (a depots) agreed(ctx context.Context, c *api.Client, h api.Held) error {
	for end := time.Now().Add(agreeTime); time.Now().Before(end); {
		all, err := c.Holds(ctx)
		if err != nil || !slices.ContainsFunc(all, func(x api.StandingHold) bool { return x.Share == h.Share && x.Depot == h.Depot && x.State != h.State }) {
			return err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return cause(ctx)
		}
	}
	return nil
}

// comingText is the progress of a depot with a share.
func comingText(h api.Held) string {
	s := fmt.Sprintf("the depot has %s of %s", share.Size(h.Here), share.Size(h.Bytes))
	if h.Delay != "" {
		s += ": " + printable(h.Delay)
	}
	return s
}

// named checks that a command was given the address of a depot.
func named(cmd *cobra.Command, on string) error {
	switch _, err := share.ParseAddr(on); {
	case on == "":
		return usageError{fmt.Errorf("%s needs --on ADDR, the depot's address; see %s --help", cmd.Name(), cmd.CommandPath())}
	case err != nil:
		return usageError{fmt.Errorf("--on %q is not a multiaddr such as /ip4/192.0.2.1/tcp/4001/p2p/ID (%v)", on, err)}
	}
	return nil
}

// granted says what depots have granted, if that differs from the request, and how others
// get the share from there.
func (a depots) granted(all []api.Held, ask api.Hold) {
	for _, h := range all {
		if on := addrOf(ask, h.Depot); h.Addr != on && h.Addr != "" {
			fmt.Fprintf(a.stderr, "warning: the depot was reached not at %s but at %s, which the ticket names\n", on, h.Addr)
		}
		if asked, err := words.ParseDuration(ask.For); err == nil {
			switch got := h.Expires.Sub(h.At); {
			case got < asked-time.Minute:
				fmt.Fprintf(a.stderr, "the lease at the depot %s lasts only %s: either the depot does not grant longer leases, and the node renews this one more often; or this is an earlier lease, with a shorter time, and after its renewal it will last as long as --for says\n", shortly(h.Depot), words.Duration(got))
			case got > asked+time.Minute:
				fmt.Fprintf(a.stderr, "the lease at the depot %s lasts longer already, and is not shortened\n", shortly(h.Depot))
			}
		}
		if !h.Lapses.IsZero() {
			fmt.Fprintf(a.stderr, "warning: the budget for the depot %s does not pay for the next renewal, of %s, so the lease there lapses on %s; --budget raises the budget\n",
				shortly(h.Depot), words.Count(int(h.Renewal), "pass"), words.Date(h.Lapses))
		}
		if h.State != "stable" {
			fmt.Fprintf(a.stderr, "the depot %s fetches the share from here: keep this node running until the depot has all of it; fetcher holds shows when\n", shortly(h.Depot))
		}
	}
	fmt.Fprintf(a.stderr, "fetch the share from this node or %s with\n\n%sfetcher fetch %s\n\n", either(len(all) == 1, "the depot", "one of the depots"), verbatim, all[0].Ticket)
}

func (a depots) holdingsCommand() *cobra.Command {
	var on string
	c := &cobra.Command{Use: "holdings --on ADDR", Short: "Ask a depot what it keeps for this node", Args: noArgs, Long: `Ask the depot at --on what it keeps for this node, even if this node has
forgotten it. To list what this node renews, at all depots, without asking them,
use fetcher holds.`, RunE: func(cmd *cobra.Command, _ []string) error {
		if err := named(cmd, on); err != nil {
			return err
		}
		return a.asking(cmd.Context(), func(c *api.Client) error {
			all, err := c.Holdings(cmd.Context(), on)
			if err != nil {
				return err
			}
			if len(all) == 0 {
				fmt.Fprintln(a.stderr, "that depot does not keep anything for this node; fetcher hold asks it to")
			}
			return a.printHeld(cmd.Context(), c, all, comingText)
		})
	}}
	c.Flags().StringVar(&on, "on", "", "the depot's `ADDR`, a multiaddr that ends in /p2p/ID")
	return c
}

// shortID is how many characters of an ID tables show: its end, where IDs differ.
const shortID = 8

// shortly is the end of an ID.
func shortly(id string) string { return id[max(0, len(id)-shortID):] }

// printHeld shows leases with the names of the entries that serve the same; why says what the Delay of one means.
func (a depots) printHeld(ctx context.Context, c *api.Client, all []api.Held, why func(api.Held) string) error {
	entries, err := c.Entries(ctx)
	if err != nil {
		return err
	}
	var rows [][]string
	for _, h := range all {
		a.out.write("hold", h)
		until, name := either(h.State == "unknown", "-", "ended"), h.Name
		if left := h.Expires.Sub(h.At); left > 0 {
			until = "in " + words.Duration(left)
		}
		if i := slices.IndexFunc(entries, func(e api.Entry) bool { return e.Share == h.Share }); i >= 0 {
			name = nameOf(entries[i])
		}
		rows = append(rows, []string{shortly(h.Share), shortly(h.Depot), h.State, share.Size(h.Bytes), until, printable(name)})
	}
	var b strings.Builder
	b.WriteString(a.headed(rows, "SHARE", "DEPOT", "STATE", "SIZE", "ENDS", "NAME"))
	for _, h := range all {
		if h.Delay != "" {
			b.WriteString(ofHeld(h.Share, h.Depot, printable(why(h))))
		}
	}
	return a.print(b.String())
}
