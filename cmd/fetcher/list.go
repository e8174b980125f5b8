package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/share"
)

func (a asker) listCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list [ENTRY...]", Short: "List what the node serves and fetches",
		Long: `List what the node serves and fetches. With an ENTRY (its number, its name or
its share ID; digits are always a number), show all of it: its ticket, where it
is, why it waits, and the peers that fetch it from here. For each peer, show its
set (active, passive or tracked) and why it is in that set, its tier (0 is the
nearest, 4 the farthest), and its score, from 0 to 1. Active peers hear of new
pieces and are served first, then passive ones, then those that are only
tracked.`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: a.completeEntries,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.asking(cmd.Context(), func(c *api.Client) error {
				if len(args) > 0 {
					return a.listSome(cmd.Context(), c, args)
				}
				all, err := c.Entries(cmd.Context())
				if err != nil {
					return err
				}
				return a.printList(all)
			})
		},
	}
}

// listSome shows entries in full.
func (a asker) listSome(ctx context.Context, c *api.Client, args []string) error {
	ids, err := entriesOf(ctx, c, args)
	if err != nil {
		return err
	}
	for i, id := range ids {
		e, err := c.Entry(ctx, id)
		if err != nil {
			return err
		}
		why, err := c.Why(ctx, id)
		if err != nil {
			return err
		}
		children, err := c.Children(ctx, id)
		if err != nil {
			return err
		}
		if a.flags.json {
			a.out.write("entry", e)
			for _, c := range children {
				a.out.write("child", c, map[string]any{"share": e.Share, "name": e.Name})
			}
			continue
		}
		if i > 0 {
			fmt.Fprintln(sink{a.stdout})
		}
		if err := a.printEntry(e, why, children); err != nil {
			return err
		}
	}
	return nil
}

// printEntry prints everything about an entry that people ask for.
func (a asker) printEntry(e api.Entry, why []string, children []api.Child) error {
	var b strings.Builder
	row := func(what, text string) {
		if text != "" {
			fmt.Fprintf(&b, "%-9s %s\n", what, printable(text))
		}
	}
	row("entry", fmt.Sprintf("%d, %s", e.ID, nameOf(e)))
	row("state", describeEntry(e))
	if e.State == api.Fetching {
		for _, s := range shortened(why) {
			row("why", s)
		}
	}
	row("share", e.Share)
	row("ticket", e.Ticket)
	if e.State == api.Paused && e.Ticket == "" && e.Name != "" {
		row("ticket", fmt.Sprintf("none while the entry is paused; fetcher set %d --resume brings the ticket back", e.ID))
	}
	for _, p := range append(append([]string{}, e.Paths...), e.Path) {
		row("path", p)
	}
	if e.Path == "" {
		row("into", e.Dir)
	}
	if e.Name == "" {
		row("size", "not known until its "+either(e.Kind == "fetch", "list of files is here", "files are read"))
	} else {
		row("size", fmt.Sprintf("%s, %s", share.Size(e.Bytes), words.Count(e.Files, "file")))
	}
	row("sent", share.Size(e.Sent))
	row("visible", e.Visible)
	row("priority", e.Priority)
	row("limits", limitsText(api.Limits{Up: e.LimitUp, Down: e.LimitDown}))
	row("only", strings.Join(e.Only, " "))
	row("skip", strings.Join(e.Skip, " "))
	row("first", strings.Join(e.First, " "))
	for _, id := range e.Older {
		row("before", id)
	}
	for _, w := range e.Warnings {
		row("warning", w)
	}
	for _, c := range children[:min(len(children), maxChildren)] {
		row("peer", describeChild(c, time.Now()))
	}
	if more := len(children) - maxChildren; more > 0 {
		row("peer", fmt.Sprintf("and %d more", more))
	}
	_, err := fmt.Fprint(a.prose(), b.String())
	return err
}

// maxWhy is the largest number of sources, and of runs of pieces, that are said of a fetch to a person.
const maxWhy = 5

// shortened leaves of what is said of a fetch its first line, and the first of its sources and of its missing pieces.
func shortened(why []string) (out []string) {
	var some [2][]string // pieces, sources
	for i, s := range why {
		switch {
		case i == 0:
			out = append(out, s)
		case strings.HasPrefix(s, "source "):
			some[1] = append(some[1], s)
		default:
			some[0] = append(some[0], s)
		}
	}
	for i, about := range [][2]string{{"line", " about pieces"}, {"source", ""}} {
		out = append(out, some[i][:min(len(some[i]), maxWhy)]...)
		if more := len(some[i]) - maxWhy; more > 0 {
			out = append(out, "and "+words.Count(more, "more "+about[0])+about[1])
		}
	}
	return out
}

// maxChildren is the largest number of an entry's children that is shown to a person.
const maxChildren = 20

func (a asker) printList(all []api.Entry) error {
	if a.flags.json {
		for _, e := range all {
			a.out.write("entry", e)
		}
		return nil
	}
	if len(all) == 0 {
		fmt.Fprintln(a.stderr, "the node has no entries; fetcher add TICKET or PATH makes one")
		return nil
	}
	var rows [][]string
	for _, e := range all {
		done, size, rate := "", "", ""
		if e.Name != "" {
			size = share.Size(e.Bytes)
		}
		if e.Bytes > 0 && e.Kind == "fetch" {
			done = fmt.Sprintf("%d %%", e.Verified*100/e.Bytes)
		}
		if e.Rate > 0 {
			rate = share.Size(e.Rate) + "/s"
		}
		rows = append(rows, []string{fmt.Sprint(e.ID), e.State, done, size, rate, fmt.Sprint(e.Sources + e.Children), share.Size(e.Sent), printable(nameOf(e))})
	}
	if _, err := fmt.Fprint(sink{a.stdout}, a.headed(rows, "ENTRY", "STATE", "DONE", "SIZE", "RATE", "PEERS", "SENT", "NAME")); err != nil {
		return err
	}
	for _, e := range all {
		if e.Reason != "" {
			fmt.Fprintf(a.prose(), "%d: %s\n", e.ID, oneLine(e.Reason))
		}
	}
	fmt.Fprintln(a.stderr, "fetcher list ENTRY shows one of them in full: its ticket, where it is, and why it waits")
	return nil
}
