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

func (a asker) nodeStatusCommand() *cobra.Command {
	var watch bool
	c := &cobra.Command{
		Use: "status", Short: "Show what the node is doing", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.asking(cmd.Context(), func(c *api.Client) error { return a.status(cmd.Context(), c, watch) })
		},
	}
	c.Flags().BoolVar(&watch, "watch", false, "show it again each second, until Ctrl-C")
	return c
}

func (a asker) status(ctx context.Context, c *api.Client, watch bool) error {
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for {
		s, err := c.Status(ctx)
		if err != nil {
			return err
		}
		all, err := c.Entries(ctx)
		if err != nil {
			return err
		}
		if err := a.printStatus(s, all); err != nil || !watch {
			return err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// holdsText says what depots elsewhere keep for a node, and what they were asked to keep besides.
func holdsText(s api.Status, now time.Time) string {
	text := words.Count(s.Holds, "lease") + " at depots, renewed from here"
	if s.Holds > 0 {
		text += "; the first ends in " + words.Duration(s.HoldEnds.Sub(now))
	}
	if s.Unheld > 0 {
		text += fmt.Sprintf("; %d ended or not granted yet: see fetcher holds", s.Unheld)
	}
	return text
}

func (a asker) printStatus(s api.Status, all []api.Entry) error {
	if a.flags.json {
		a.out.write("node", s)
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "node      %s\n", s.Peer)
	fmt.Fprintf(&b, "version   %s, running for %s\n", s.Version, words.Duration(time.Since(s.Since)))
	fmt.Fprintf(&b, "state     %s\n", s.Dir)
	fmt.Fprintf(&b, "entries   %d: %d being fetched%s, %d waiting, %d missing or failed\n", s.Entries, s.Fetching, either(s.Fetching > 0, " at "+share.Size(s.Rate)+"/s", ""), s.Waiting, s.Troubled)
	fmt.Fprintf(&b, "peers     %s from here\n", either(s.Children == 1, "1 fetches", fmt.Sprintf("%d fetch", s.Children)))
	fmt.Fprintf(&b, "traffic   %s in, %s out%s\n", share.Size(s.InBytes), share.Size(s.OutBytes), either(s.Carried > 0, "; "+share.Size(s.Carried)+" carried between others", ""))
	fmt.Fprintf(&b, "limits    %s\n", limitsText(s.Limits))
	if s.Holds+s.Unheld > 0 {
		fmt.Fprintf(&b, "holds     %s\n", holdsText(s, time.Now()))
	}
	if s.FreeBytes >= 0 {
		fmt.Fprintf(&b, "free      %s\n", share.Size(s.FreeBytes))
	}
	if s.Beacon != nil {
		fmt.Fprintf(&b, "beacon    knows %s with %s\n", words.Count(s.Beacon.Peers, "peer"), words.Count(s.Beacon.Shares, "share"))
	}
	for _, w := range s.Warnings {
		fmt.Fprintf(&b, "warning: %s\n", printable(w))
	}
	for _, p := range placesOf(&s) {
		if leads(p, s.Addrs) {
			fmt.Fprintf(&b, "relay     %s\n", relayText(p))
		}
	}
	for _, w := range reachWarnings(s.Addrs, placesOf(&s), false, false) {
		fmt.Fprintf(&b, "warning: %s\n", w)
	}
	for _, e := range all {
		if e.State == api.Missing || e.State == api.Failed {
			fmt.Fprintln(&b, troubleOf(e, oneLine(e.Reason)))
		}
	}
	_, err := fmt.Fprint(a.prose(), b.String())
	return err
}

func limitsText(l api.Limits) string {
	rate := func(n int64) string {
		if n == 0 {
			return "no limit"
		}
		return share.Size(n) + "/s"
	}
	s := rate(l.Up) + " up, " + rate(l.Down) + " down"
	if l.Schedule {
		s += ", by the schedule"
	}
	if !l.Until.IsZero() {
		s += ", until " + l.Until.Local().Format("15:04")
	}
	return s
}
