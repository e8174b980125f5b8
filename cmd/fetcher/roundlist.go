package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/daemon"
	"github.com/piecelease/fetcher/peers"
)

func roundListCommand(a *app) *cobra.Command {
	var kv string
	c := &cobra.Command{
		Use:   "list",
		Short: "List the rounds of a store, and who holds them",
		Long: `List the rounds of the store that --kv names, or else of the fleet to which the
node that runs here belongs, and who holds each of them.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return roundList(cmd.Context(), a, kv) },
	}
	c.Flags().StringVar(&kv, "kv", "", "the store that all machines reach: a `URL`; see fetcher round --help")
	return c
}

func roundList(ctx context.Context, a *app, url string) error {
	if url == "" {
		err := asker{a}.asking(ctx, func(c *api.Client) error {
			all, err := c.Rounds(ctx)
			if err != nil {
				return err
			}
			return printRounds(a, all)
		})
		if errors.Is(err, api.ErrNoNode) || errors.Is(err, api.ErrNoEntry) {
			err = fmt.Errorf("%w; to list the rounds of a store, name it with --kv", err)
		}
		return err
	}
	kv, err := openExistingKV(ctx, a, url)
	if err != nil {
		return err
	}
	defer kv.Close()
	all, err := daemon.RoundsView(ctx, kv)
	if err != nil {
		return err
	}
	return printRounds(a, all)
}

// maxHolder is the width of a holder in the list of rounds.
const maxHolder = 24

func printRounds(a *app, all []api.Round) error {
	var rows [][]string
	for _, r := range all {
		a.out.write("round", r)
		state := r.State
		term, ends, holder := fmt.Sprint(r.Term), stamp(r.Ends), r.Holder
		switch {
		case state == "corrupt":
			term, ends = "", ""
		case r.Office && state == "running":
			ends = "with its holder"
		case r.Office:
			ends = stamp(r.Ended)
		case state == "running" && !time.Now().Before(r.Ends):
			state = "over"
		}
		if strings.HasPrefix(holder, "12D3Koo") { // a peer ID: that of a fleet's coordinator
			holder = peers.ID(holder).Short()
		}
		rows = append(rows, []string{state, term, ends, clip(printable(holder), maxHolder), printable(r.Round)})
	}
	switch {
	case a.flags.json:
		return nil
	case len(all) == 0:
		fmt.Fprintln(a.stderr, "nobody has held a round in the store yet")
		return nil
	}
	_, err := fmt.Fprint(a.prose(), a.headed(rows, "STATE", "TERM", "ENDS", "HOLDER", "ROUND"))
	return err
}
