package main

import (
	"context"
	"fmt"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/discovery"
	"github.com/piecelease/fetcher/internal/words"
)

// nearbyWait is how long the local network is listened to: a node answers within a second.
const nearbyWait = 2 * time.Second

// nearby lists the nodes that announce themselves on the local network, as they are heard.
func nearby(ctx context.Context, a *app) error {
	log, err := a.logger()
	if err != nil {
		return err
	}
	lan := discovery.NewLAN(log)
	lan.Quiet = true
	defer lan.Close()
	lan.Start(fetcher.Local{})
	ctx, cancel := context.WithTimeout(ctx, nearbyWait)
	defer cancel()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	seen := map[string]bool{}
	for done := false; !done; {
		select {
		case <-look.C:
		case <-ctx.Done():
			done = true
		}
		for _, n := range lan.Neighbours() {
			if seen[string(n.ID)] || len(n.Addrs) == 0 {
				continue
			}
			seen[string(n.ID)] = true
			addr := n.Addrs[0] + "/p2p/" + string(n.ID)
			a.out.write("neighbour", map[string]any{"peer": string(n.ID), "addrs": n.Addrs, "shares": n.Shares})
			if a.flags.json {
				continue
			}
			if _, err := fmt.Fprintf(sink{a.stdout}, "%s  %s\n", printable(addr), words.Count(n.Shares, "share")); err != nil {
				return err
			}
		}
	}
	if len(seen) == 0 {
		fmt.Fprintln(a.stderr, "no node was heard on the local network; nodes announce themselves unless they run with --lan=false, and firewalls must let multicast DNS (UDP port 5353) through")
	}
	if context.Cause(ctx) != context.DeadlineExceeded {
		return cause(ctx)
	}
	return nil
}
