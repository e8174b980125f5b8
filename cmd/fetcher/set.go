package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/share"
)

// setFlags are the flags of set.
type setFlags struct {
	pause, resume, all bool
	rescan, repair     bool
	priority, visible  string
	limitUp, limitDown string
	only, skip, first  []string
	seedUntil          []string
}

func (a asker) setCommand() *cobra.Command {
	var fl setFlags
	c := &cobra.Command{
		Use: "set [ENTRY...]", Short: "Change entries of the node, or its limits",
		ValidArgsFunction: a.completeEntries,
		Long: `Change entries of the node. An ENTRY is given by its number in fetcher list, its
name, or its share ID; digits are always a number. Its limits hold within those
of the node. Without an ENTRY, --limit-up and --limit-down change the limits of
the node, across restarts too, until they are changed in node.toml or by a flag
of node run.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, limits, err := fl.check(args)
			if err != nil {
				return err
			}
			return a.asking(cmd.Context(), func(c *api.Client) error { return a.set(cmd.Context(), c, args, fl, s, limits) })
		},
	}
	f := c.Flags()
	f.BoolVar(&fl.pause, "pause", false, "neither fetch nor serve it until it is resumed")
	f.BoolVar(&fl.resume, "resume", false, "resume it after --pause")
	f.BoolVar(&fl.rescan, "rescan", false, "look for changes in its files now, or retry it now")
	f.BoolVar(&fl.repair, "repair", false, "fetch what is missing or wrong in it, and replace that")
	f.StringVar(&fl.priority, "priority", "", "fetch it before or after other shares: `LEVEL` low, normal or high")
	f.StringArrayVar(&fl.only, "only", nil, "fetch only what matches this `PATTERN`; may be repeated")
	f.StringArrayVar(&fl.skip, "skip", nil, "do not fetch what matches this `PATTERN`; may be repeated")
	f.StringArrayVar(&fl.first, "first", nil, firstHelp+"; \"\" clears them")
	f.BoolVar(&fl.all, "all", false, "fetch all of it, whatever --only and --skip said before")
	f.StringArrayVar(&fl.seedUntil, "seed-until", nil, seedHelp+"; \"never\" means without end; may be repeated")
	f.StringVar(&fl.visible, "visible", "", visibleHelp+"node run --dht)")
	f.StringVar(&fl.limitUp, "limit-up", "", "send others at most this `RATE` of bytes per second, for the ENTRY or, without one, for the node; 0 is no limit")
	f.StringVar(&fl.limitDown, "limit-down", "", "ask for at most this `RATE` of bytes per second, for the ENTRY or, without one, for the node; 0 is no limit")
	return c
}

// said is the value of a flag; nil: not given.
func said(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// words checks the flags that take one of a few words.
func (fl setFlags) words() error {
	if err := new(fetcher.Visibility).UnmarshalText([]byte(fl.visible)); fl.visible != "" && err != nil {
		return usageError{fmt.Errorf("--visible: %w", err)}
	}
	return isPriority(fl.priority)
}

// limits interprets the flags of limits.
func (fl setFlags) limits() (l api.SetLimits, err error) {
	for _, x := range []struct {
		flag, text string
		to         **int64
	}{{"--limit-up", fl.limitUp, &l.Up}, {"--limit-down", fl.limitDown, &l.Down}} {
		if x.text == "" {
			continue
		}
		rate, err := parseRate(x.flag, x.text)
		if err != nil {
			return l, err
		}
		*x.to = &rate
	}
	return l, nil
}

// check interprets the flags.
func (fl setFlags) check(entries []string) (s api.Set, l api.SetLimits, err error) {
	if err := fl.words(); err != nil {
		return s, l, err
	}
	yes, no, none := true, false, []string{}
	switch {
	case fl.pause && fl.resume:
		return s, l, usageError{errors.New("give --pause or --resume, not both")}
	case fl.all && len(fl.only)+len(fl.skip) > 0:
		return s, l, usageError{errors.New("--all cannot be given with --only or --skip")}
	case fl.pause:
		s.Paused = &yes
	case fl.resume:
		s.Paused = &no
	}
	s.Rescan, s.Repair = fl.rescan || fl.resume, fl.repair
	s.Priority, s.Visible = said(fl.priority), said(fl.visible)
	if fl.all {
		s.Only, s.Skip = &none, &none
	}
	if len(fl.only) > 0 {
		s.Only = &fl.only
	}
	if len(fl.skip) > 0 {
		s.Skip = &fl.skip
	}
	if len(fl.first) > 0 {
		first := slices.DeleteFunc(fl.first, func(p string) bool { return p == "" })
		s.First = &first
	}
	if len(fl.seedUntil) > 0 {
		ratio, long, err := seedUntil(fl.seedUntil)
		if err != nil {
			return s, l, err
		}
		s.SeedRatio, s.SeedTime = &ratio, &long
	}
	if l, err = fl.limits(); err != nil {
		return s, l, err
	}
	if len(entries) > 0 {
		s.LimitUp, s.LimitDown = l.Up, l.Down
	}
	nothing := s == api.Set{}
	switch {
	case len(entries) == 0 && (!nothing || l == api.SetLimits{}):
		return s, l, usageError{errors.New("set needs an ENTRY; without one, it takes only --limit-up and --limit-down; see fetcher set --help")}
	case len(entries) > 0 && nothing:
		return s, l, usageError{errors.New("set needs a flag that says what to change; see fetcher set --help")}
	}
	return s, l, nil
}

// setText says which limits hold once some were set.
func setText(l api.Limits) string {
	return limitsText(l) + either(l.Schedule, "; what was set applies outside the schedule", "")
}

func (a asker) set(ctx context.Context, c *api.Client, args []string, fl setFlags, s api.Set, limits api.SetLimits) error {
	if len(args) == 0 {
		l, err := c.SetLimits(ctx, limits)
		if err != nil {
			return err
		}
		a.out.write("limits", l)
		fmt.Fprintln(a.stderr, setText(l))
		return nil
	}
	ids, err := entriesOf(ctx, c, args)
	if err != nil {
		return fmt.Errorf("%w; nothing was changed", err)
	}
	if flag := fl.forFetches(); flag != "" {
		if err := fetched(ctx, c, ids, flag+" is for what is fetched; nothing was changed"); err != nil {
			return err
		}
	}
	for _, id := range ids {
		was, err := c.Entry(ctx, id)
		if err != nil {
			return err
		}
		e, err := c.Set(ctx, id, s)
		if err != nil {
			return err
		}
		a.out.write("entry", e)
		fmt.Fprintf(a.stderr, "entry %d: %s, %s\n", e.ID, printable(nameOf(e)), describeEntry(e))
		if s.Priority != nil || s.Visible != nil || s.LimitUp != nil || s.LimitDown != nil {
			fmt.Fprintf(a.stderr, "visibility %s, priority %s, %s\n", e.Visible, e.Priority, limitsText(api.Limits{Up: e.LimitUp, Down: e.LimitDown}))
		}
		t, err := share.Parse(e.Ticket)
		secret := err == nil && t.Secret != nil
		if secret && s.Visible != nil && e.Visible != fetcher.Private.String() {
			fmt.Fprintln(a.stderr, seenByOthers(false))
		}
		if was.Visible == fetcher.Public.String() && e.Visible != was.Visible {
			fmt.Fprintln(a.stderr, "it stays in the hash table for up to an hour, in that of IPFS for two days; until then, whoever "+either(secret, "has the ticket finds it there too", "finds it there is served"))
		}
		switch {
		case fl.rescan && e.State == api.Paused:
			fmt.Fprintln(a.stderr, "it is looked at when it is resumed")
		case fl.rescan && e.Kind == "serve" && e.State != api.Missing:
			fmt.Fprintf(a.stderr, "its files are looked at again; if they have changed, fetcher list %d then shows their new ticket\n", e.ID)
		}
	}
	return nil
}

// forFetches is the first flag that is for fetched entries alone; "" if none was given.
func (fl setFlags) forFetches() string {
	for _, x := range []struct {
		flag  string
		given bool
	}{{"--repair", fl.repair}, {"--all", fl.all}, {"--only", len(fl.only) > 0}, {"--skip", len(fl.skip) > 0}, {"--first", len(fl.first) > 0}, {"--seed-until", len(fl.seedUntil) > 0}, {"--limit-down", fl.limitDown != ""}} {
		if x.given {
			return x.flag
		}
	}
	return ""
}
