package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/piecelease/fetcher/daemon"
	"github.com/piecelease/fetcher/share"
)

func (a depots) restoreCommand() *cobra.Command {
	var fl nodeFlags
	c := &cobra.Command{Use: "restore", Short: "Get back the leases that the fleet keeps, after a loss", Args: noArgs,
		Long: `Fetch the copy that the fleet keeps of this depot's database of leases, and put
it in place of one that was lost. A depot that belongs to a fleet has the fleet
keep such a copy, made anew each day. Stop the node first. The depot's folder
says which depot it is; leases that were granted or renewed after that copy was
made are entered from the folder when the node runs again, and nothing is
removed before that. If the depot takes passes, the cost of those leases is
deducted from the credit that the accounts have in that copy; what was paid
ahead after it was made is lost.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.restore(cmd.Context(), fl) }}
	f := c.Flags()
	f.StringVar(&fl.depot, "depot", "", "the folder of the depot, `DIR` (default that of node.toml)")
	f.StringArrayVar(&fl.listen, "listen", nil, listenHelp+" (default all interfaces, the same port as last time)")
	fl.fleet.add(f)
	return c
}

func (a depots) restore(ctx context.Context, fl nodeFlags) error {
	s, err := a.settings(fl)
	if err != nil {
		return err
	}
	if s.Depot == "" {
		return usageError{errors.New("give the folder of the depot: --depot DIR")}
	}
	log, err := a.logger()
	if err != nil {
		return err
	}
	r, err := daemon.RestoreLeases(ctx, daemon.Config{Dir: a.flags.dir, Settings: s, Logger: log})
	switch {
	case errors.Is(err, share.ErrHeld):
		return fmt.Errorf("stop the node first: %w", err)
	case errors.Is(err, daemon.ErrMembership):
		return usageError{err}
	case err != nil && ctx.Err() != nil:
		return cause(ctx)
	case errors.Is(err, share.ErrNetwork) && !errors.Is(err, daemon.ErrNoSnapshot):
		return marked{err, errListen}
	case err != nil:
		return err
	}
	a.out.sum(map[string]any{"share": r.Share.String(), "term": r.Term, "aside": r.Aside})
	fmt.Fprintln(a.stderr, "the leases that the fleet kept are in place; run the node again")
	if r.Aside != "" {
		fmt.Fprintf(a.stderr, "the database that was there was moved to %s\n", r.Aside)
	}
	return nil
}
