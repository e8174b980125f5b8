package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/daemon"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/share"
)

// depots is the commands about depots: this node's own, and those that keep shares for it.
type depots struct{ asker }

// commands are fetcher depot, hold, holds, holdings, release and passes.
func (a depots) commands() []*cobra.Command {
	return []*cobra.Command{a.depotCommand(), a.holdCommand(), a.holdsCommand(), a.holdingsCommand(), a.releaseCommand(), a.passesCommand()}
}

// depotCommand is what the owner of a depot asks of the node that is one.
func (a depots) depotCommand() *cobra.Command {
	c := group(&cobra.Command{
		Use: "depot", Short: "Look after the shares that this node keeps for others",
		Long: `Look after the shares that the node keeps for accounts, under storage leases. A
node is a depot if it is run with --depot DIR. A depot can read what it keeps:
whoever minds should encrypt it first.`,
	})
	c.AddCommand(a.depotStatusCommand(), a.accountCommand(), a.leasesCommand(), a.usageCommand(), a.crawlCommand(), a.gcCommand(),
		a.doCommand("scrub", "scrub", "Read all shares now and compare them with their hashes"), a.clockCommand(), a.restoreCommand(), a.exportCommand(), a.importCommand(), a.voucherCommand())
	return c
}

// depotFlags are the flags of node run that make a node a depot.
func (fl *nodeFlags) depotFlags(f *pflag.FlagSet) {
	f.StringVar(&fl.depot, "depot", "", "keep shares for accounts in this folder, `DIR`, empty the first time")
	f.StringVar(&fl.reserve, "depot-reserve", "", "leave this `SIZE` of the disk of --depot free, such as 10G")
	f.StringVar(&fl.open, "depot-open", "", "let every node hold up to this `SIZE` at the depot, such as 1G (default only nodes with an account)")
	f.StringVar(&fl.price, "depot-price", "", "the `PRICE` of new accounts' leases: free (within their quota) or passes (default free)")
	f.StringVar(&fl.grace, "depot-grace", "", "keep a share for this `TIME` after its last lease expired, such as 7d (default 24h)")
}

// depotSettings copies them into the settings.
func (fl nodeFlags) depotSettings(s *daemon.Settings) (err error) {
	if fl.depot != "" {
		if s.Depot, err = filepath.Abs(fl.depot); err != nil {
			return err
		}
	}
	for _, x := range []struct {
		flag, text string
		to         *int64
	}{{"--depot-reserve", fl.reserve, &s.Reserve}, {"--depot-open", fl.open, &s.DepotOpen}} {
		if x.text == "" {
			continue
		}
		if *x.to, err = daemon.ParseSize(x.text); err != nil {
			return usageError{fmt.Errorf("%s: %w", x.flag, err)}
		}
	}
	if fl.price != "" {
		if s.DepotPaid, err = daemon.ParsePrice(fl.price); err != nil {
			return usageError{fmt.Errorf("--depot-price: %w", err)}
		}
	}
	if fl.grace != "" {
		if s.DepotGrace, err = daemon.ParseTime(fl.grace); err != nil {
			return usageError{fmt.Errorf("--depot-grace: %w", err)}
		}
	}
	return nil
}

// doCommand has the depot do something, and says so.
func (a depots) doCommand(use, what, short string) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: noArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		return a.asking(cmd.Context(), func(c *api.Client) error {
			d, err := c.DepotDo(cmd.Context(), what)
			if err != nil {
				return err
			}
			if what == "gc" && d.GC {
				return a.collected(cmd.Context(), c, d)
			}
			return a.begun(what, d)
		})
	}}
}

// begun says what the depot does from now on, and what keeps it from that.
func (a depots) begun(what string, d api.Depot) error {
	a.out.write("depot", d)
	fmt.Fprintln(a.stderr, begunText(what, d))
	return a.print(troubleText(d))
}

// collected waits until the depot has removed what may go, and says what that was.
func (a depots) collected(ctx context.Context, c *api.Client, before api.Depot) error {
	fmt.Fprintln(a.stderr, "the depot is removing what may be removed; Ctrl-C ends only this command, and the depot goes on")
	d := before
	for d.Collecting {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
		var err error
		if d, err = c.Depot(ctx); err != nil {
			return err
		}
	}
	a.out.write("depot", d)
	fmt.Fprintf(a.stderr, "done: %s removed\n", words.Count(int(d.Removed-before.Removed), "share"))
	return a.print(troubleText(d))
}

// begunText says what the depot does from now on.
func begunText(what string, d api.Depot) string {
	switch {
	case what == "gc" && !d.GC:
		return "gc is off, so nothing is removed; fetcher depot gc on turns it on"
	case what == "gc-off":
		return "the depot removes nothing from now on"
	case what == "gc-on" && (d.Trouble != "" || d.Frozen || !d.Complete):
		return "the depot removes what nobody holds, as soon as it can"
	case what == "clock-ok":
		return "the clock is trusted: leases can end again"
	}
	return map[string]string{
		"crawl": "the depot looks at all its shares, beginning now",
		"scrub": "the depot reads all its shares, beginning now",
		"gc-on": "the depot removes what nobody holds, beginning now",
	}[what] + "; fetcher depot status shows how far it has got"
}

func (a depots) gcCommand() *cobra.Command {
	c := group(&cobra.Command{Use: "gc", Short: "Remove what nobody holds: on, off, or once now",
		Long: `Remove shares that no account holds any more: at once when the last lease was
released; when it expired, only after the time that node run --depot-grace
says, 24 hours by default. Removing is off in a new depot.`})
	c.AddCommand(a.doCommand("on", "gc-on", "Remove what nobody holds, from now on"), a.doCommand("off", "gc-off", "Remove nothing from now on"),
		a.doCommand("run", "gc", "Remove now what nobody holds, if removing is on"))
	return c
}

func (a depots) clockCommand() *cobra.Command {
	c := group(&cobra.Command{Use: "clock", Short: "Confirm that the clock is right"})
	c.AddCommand(a.doCommand("ok", "clock-ok", "Confirm that the clock is right, so that leases can end again"))
	return c
}

func (a depots) crawlCommand() *cobra.Command {
	var dry bool
	c := &cobra.Command{Use: "crawl", Short: "Look at all shares now, or show what that would find", Args: noArgs, Long: `Begin a crawl now: check that each share is all there, by the names and sizes of
its files, and whether anybody holds it. To read the data, use fetcher depot
scrub. The rows that --dry-run prints are explained at fetcher depot status
--help.`, RunE: func(cmd *cobra.Command, _ []string) error {
		return a.asking(cmd.Context(), func(c *api.Client) error {
			if !dry {
				d, err := c.DepotDo(cmd.Context(), "crawl")
				if err != nil {
					return err
				}
				return a.begun("crawl", d)
			}
			r, err := c.Rehearse(cmd.Context())
			if err != nil {
				return err
			}
			a.out.write("crawl", r)
			return a.print(rehearsalText(r))
		})
	}}
	c.Flags().BoolVar(&dry, "dry-run", false, "change nothing, and show what would be found and removed")
	return c
}

// print writes text for people.
func (a depots) print(s string) error {
	if a.flags.json {
		return nil
	}
	_, err := fmt.Fprint(a.prose(), s)
	return err
}

// ---- accounts and leases ----

// accountFlags are the terms of an account.
type accountFlags struct{ name, quota, maxLease, price, addKey, removeKey string }

func (a depots) accountCommand() *cobra.Command {
	c := group(&cobra.Command{Use: "account", Short: "Manage who may have shares kept here, and how much",
		Long: `Manage who may have shares kept here, and how much. The account "starter" is the
depot's own: it holds what is found on the disk and is not known to be held by
anybody.`})
	c.AddCommand(a.accountAddCommand(), a.accountListCommand(), a.accountSetCommand(), a.accountRmCommand())
	return c
}

func (a depots) accountAddCommand() *cobra.Command {
	var fl accountFlags
	c := &cobra.Command{Use: "add PEER", Short: "Let a node hold shares here, up to a quota", Args: exactly("PEER"), RunE: func(cmd *cobra.Command, args []string) error {
		return a.asking(cmd.Context(), func(c *api.Client) error {
			quota, err := daemon.ParseSize(fl.quota)
			if err != nil {
				return usageError{fmt.Errorf("--quota: %w", err)}
			}
			if _, err := daemon.ParsePrice(fl.price); err != nil {
				return usageError{fmt.Errorf("--price: %w", err)}
			}
			if err := daemon.CheckAccount(fl.name); err != nil { // in JSON, it would be valid UTF-8
				return err
			}
			acc, err := c.AddAccount(cmd.Context(), api.AddAccount{Name: fl.name, Key: args[0], Quota: quota, MaxLease: fl.maxLease, Price: fl.price})
			if err != nil {
				return err
			}
			fmt.Fprintf(a.stderr, "the account %s is added: its node can hold shares here\n", printable(acc.Name))
			return a.printAccounts([]api.Account{acc})
		})
	}}
	c.Flags().StringVar(&fl.quota, "quota", "10G", "let it hold this many bytes, `SIZE`, such as 500M or 50G")
	c.Flags().StringVar(&fl.price, "price", "", priceHelp+" (default that of node run --depot-price)")
	c.Flags().StringVar(&fl.name, "name", "", "call the account `NAME` (default the peer ID)")
	c.Flags().StringVar(&fl.maxLease, "max-lease", "", "grant leases for this `TIME` at most, such as 31d (default 31 days)")
	return c
}

func (a depots) accountSetCommand() *cobra.Command {
	var fl accountFlags
	c := &cobra.Command{Use: "set NAME", Short: "Change the terms or the keys of an account", Args: anAccount, ValidArgsFunction: a.completeAccount,
		Long: `Change what an account may have; its leases stand. With --add-key and
--remove-key together, one key takes the place of another, such as a lost one.
All machines whose keys an account has share its quota and its leases: each of
them can release what another holds.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			s := api.SetAccount{AddKey: fl.addKey, RemoveKey: fl.removeKey, Price: fl.price}
			if fl.quota != "" {
				quota, err := daemon.ParseSize(fl.quota)
				if err != nil {
					return usageError{fmt.Errorf("--quota: %w", err)}
				}
				s.Quota = &quota
			}
			if fl.maxLease != "" {
				s.MaxLease = &fl.maxLease
			}
			if _, err := daemon.ParsePrice(fl.price); err != nil {
				return usageError{fmt.Errorf("--price: %w", err)}
			}
			if s == (api.SetAccount{}) {
				return usageError{fmt.Errorf("depot account set needs a flag that says what to change; see %s --help", cmd.CommandPath())}
			}
			return a.asking(cmd.Context(), func(c *api.Client) error {
				acc, err := c.SetAccount(cmd.Context(), args[0], s)
				if err != nil {
					return err
				}
				return a.printAccounts([]api.Account{acc})
			})
		}}
	c.Flags().StringVar(&fl.quota, "quota", "", "let it hold this many bytes, `SIZE`, such as 500M or 50G")
	c.Flags().StringVar(&fl.maxLease, "max-lease", "", "grant leases for this `TIME` at most, such as 31d")
	c.Flags().StringVar(&fl.price, "price", "", priceHelp)
	c.Flags().StringVar(&fl.addKey, "add-key", "", "let this `PEER` speak for the account too")
	c.Flags().StringVar(&fl.removeKey, "remove-key", "", "no longer let this `PEER` speak for the account")
	return c
}

func (a depots) accountListCommand() *cobra.Command {
	return &cobra.Command{Use: "list", Short: "List the accounts", Args: noArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		return a.asking(cmd.Context(), func(c *api.Client) error {
			all, err := c.Accounts(cmd.Context())
			if err != nil {
				return err
			}
			return a.printAccounts(all)
		})
	}}
}

func (a depots) accountRmCommand() *cobra.Command {
	var credit bool
	c := &cobra.Command{Use: "rm NAME", Short: "Remove an account that holds nothing", Args: anAccount, ValidArgsFunction: a.completeAccount, RunE: func(cmd *cobra.Command, args []string) error {
		return a.asking(cmd.Context(), func(c *api.Client) error {
			acc, err := c.RemoveAccount(cmd.Context(), args[0], credit)
			if err != nil {
				return err
			}
			a.out.write("account", acc)
			fmt.Fprintf(a.stderr, "the account %s is removed: its nodes can hold nothing here, unless the depot lets every node in (--depot-open)%s\n", printable(acc.Name), creditGone(acc))
			return nil
		})
	}}
	c.Flags().BoolVar(&credit, "credit", false, "also remove what it has paid and not used up")
	return c
}

// creditGone says what an account that was removed had paid for nothing.
func creditGone(acc api.Account) string {
	if n := daemon.Passes(acc.Credit); n > 0 {
		return fmt.Sprintf(". What it had paid and not used up, %s, is gone", words.Count(n, "pass"))
	}
	return ""
}

func (a depots) usageCommand() *cobra.Command {
	return &cobra.Command{Use: "usage", Short: "Show what each account uses", Args: noArgs, RunE: a.accountListCommand().RunE}
}

func (a depots) printAccounts(all []api.Account) error {
	var rows [][]string
	for _, x := range all {
		a.out.write("account", x)
		var keys []string
		for _, k := range x.Keys {
			keys = append(keys, either(k == x.Name, "same as name", shortly(k)))
		}
		rows = append(rows, []string{accountName(x.Name), share.Size(x.Used) + either(x.Complete, "", "+"), either(x.MaxLease == 0, "-", share.Size(x.Quota)),
			either(x.MaxLease == 0, "-", words.Duration(time.Duration(x.MaxLease)*time.Second)), x.Price, printable(strings.Join(keys, " "))})
	}
	if slices.ContainsFunc(all, func(x api.Account) bool { return !x.Complete }) {
		fmt.Fprintln(a.stderr, "+: the first look at the disk is not done, and there may be more")
	}
	return a.print(a.headed(rows, "ACCOUNT", "USED", "QUOTA", "MAX LEASE", "PRICE", "KEYS"))
}

// accountName is the name of an account in a table: for a peer ID or another long name
// it is the end, which commands accept too.
func accountName(name string) string {
	if len(name) > 24 {
		name = shortly(name)
	}
	return printable(name)
}

func (a depots) leasesCommand() *cobra.Command {
	return &cobra.Command{Use: "leases [ACCOUNT...]", Short: "List the live leases", ValidArgsFunction: a.completeAccounts, Long: `List the live leases, of all accounts or of those that are named; on a terminal
only the 100 that end first. The column SHARE has the end of the ID of the
share; --json has the whole ID.`, RunE: func(cmd *cobra.Command, args []string) error {
		return a.asking(cmd.Context(), func(c *api.Client) error {
			names := args
			if len(args) == 0 {
				accounts, err := c.Accounts(cmd.Context())
				if err != nil {
					return err
				}
				for _, x := range accounts {
					names = append(names, x.Name)
				}
			}
			var leases []api.Lease
			for _, name := range names {
				of, err := c.Leases(cmd.Context(), name)
				if err != nil {
					return err
				}
				leases = append(leases, of...)
			}
			return a.printLeases(leases, args)
		})
	}}
}

// printLeases lists the leases of the accounts that are named, or of all if none is.
func (a depots) printLeases(leases []api.Lease, named []string) error {
	sum := int64(0)
	for _, l := range leases {
		sum += l.Bytes
		a.out.write("storage_lease", l)
	}
	if len(leases) == 0 {
		none := "no account holds anything here; " + a.flags.self() + " depot account add lets a node hold shares"
		if len(named) > 0 {
			none = either(len(named) == 1, "this account holds", "these accounts hold") + " nothing here"
		}
		fmt.Fprintln(a.stderr, none)
	}
	if len(leases) > 1 {
		defer fmt.Fprintf(a.stderr, "%s, %s\n", words.Count(len(leases), "lease"), share.Size(sum))
	}
	of := ""
	for _, name := range named {
		of += " " + quote(name)
	}
	shown := leasesShown(leases, newTerminal(a.stdout).columns())
	if len(shown) < len(leases) {
		defer fmt.Fprintf(a.stderr, "only the %d that end first are shown; for all of them: fetcher depot leases%s | less\n", len(shown), of)
	}
	var rows [][]string
	for _, l := range shown {
		rows = append(rows, []string{shortly(l.Share), l.State, share.Size(l.Bytes), "in " + words.Duration(time.Until(l.Expires)), accountName(l.Account)})
	}
	return a.print(a.headed(rows, "SHARE", "STATE", "SIZE", "ENDS", "ACCOUNT"))
}

// mostLeases are shown on a terminal.
const mostLeases = 100

// leasesShown returns the leases to show on a terminal of some columns: if they are many, those that end first. 0
// columns are no terminal, and get all.
func leasesShown(leases []api.Lease, columns int) []api.Lease {
	if columns == 0 || len(leases) <= mostLeases {
		return leases
	}
	first := slices.SortedStableFunc(slices.Values(leases), func(a, b api.Lease) int { return a.Expires.Compare(b.Expires) })
	return first[:mostLeases]
}
