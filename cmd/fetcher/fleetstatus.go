package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/peers"
)

// noMachine is said of a fleet of which nobody has reported yet.
const noMachine = "no machine is listed yet (those whose nodes are running appear within seconds)"

func (a fleetApp) statusCommand() *cobra.Command {
	var fl storeFlags
	c := &cobra.Command{
		Use:   "status",
		Short: "Show how far each machine of the fleet is with each share",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.looking(cmd.Context(), fl, func(d fleetDoor) error {
				f, err := d.Fleet(cmd.Context())
				if err == nil {
					a.showFleet(f, time.Now())
				}
				return err
			})
		},
	}
	fl.add(c.Flags())
	return c
}

func (a fleetApp) showFleet(f api.Fleet, now time.Time) {
	text := func(format string, args ...any) {
		if !a.flags.json {
			fmt.Fprintf(a.prose(), format, args...)
		}
	}
	if f.Away != "" {
		known := either(len(f.Shares) == 0, "the fleet had no shares ", "what follows is from ") + words.Duration(now.Sub(f.At)) + " ago"
		if f.At.IsZero() {
			known = either(len(f.Shares) == 0, "nothing is known of the fleet yet; fetcher list shows what this machine has itself", "nothing is known of the other machines yet; what follows is what this one has")
		}
		fmt.Fprintf(a.stderr, "warning: %s\n%s\n", f.Away, known)
	}
	if len(f.Shares) == 0 && f.Away == "" {
		text("the fleet has no shares; %s\n", either(len(f.Members) == 0, "a machine is listed once its node runs as a member: a node that ran before its machine joined has to be restarted", "it has "+words.Count(len(f.Members), "member")+":"))
		for _, m := range f.Members {
			text("  %-20s %s\n", printable(m.Name), peers.ID(m.Peer).Short())
			a.out.write("machine", map[string]any{"name": m.Name, "peer": m.Peer, "silent": m.Silent})
		}
	}
	for i, x := range f.Shares {
		text("%s%s\n%s\n%s, %s\n", either(i > 0, "\n", ""), either(x.Name != "", printable(x.Name), "(its name is not known)"), x.Share,
			either(len(x.Members) == 0, noMachine, fmt.Sprintf("%d of %d done", x.Done, len(x.Members))), either(f.Away != "" && f.At.IsZero(), "its coordinator is not known", coordinatorOf(x, f.Members, now)))
		a.out.write("rollout", map[string]any{"share": x.Share, "name": x.Name, "done": x.Done, "members": len(x.Members), "coordinator": x.Coordinator, "late": x.Late, "term": x.Term})
		for j, s := range x.Members {
			m := f.Members[j]
			state := standing(s)
			late, heard := x.Late && m.Peer == x.Coordinator, m.At
			if late && x.Heard.After(heard) { // it says more often that it coordinates than how far it is
				heard = x.Heard
			}
			if m.Silent || late { // what it was waiting for then means nothing now
				then := s
				then.Waits = ""
				state = fmt.Sprintf("not heard from for %s, last known: %s", words.Duration(now.Sub(heard)), standing(then))
			}
			text("  %-20s %s  %s\n", printable(m.Name), peers.ID(m.Peer).Short(), printable(state))
			a.out.write("machine", map[string]any{"share": x.Share, "name": m.Name, "peer": m.Peer, "bytes": s.Bytes, "verified": s.Verified, "done": s.Done,
				"waits": s.Waits, "silent": m.Silent})
		}
	}
}

func coordinatorOf(x api.FleetShare, members []api.FleetMember, now time.Time) string {
	done, unneeded := x.Done > 0 && x.Done == len(x.Members), "no machine needs a coordinator now"
	if x.Coordinator == "" {
		return either(done, unneeded, "nobody coordinates it")
	}
	name := peers.ID(x.Coordinator).Short()
	for _, m := range members {
		if m.Peer == x.Coordinator {
			name = fmt.Sprintf("%s (%s)", printable(m.Name), name)
		}
	}
	if x.Late {
		return fmt.Sprintf("coordinated by %s,\nwhich has not been heard from for %s%s", name, words.Duration(now.Sub(x.Heard)), either(done, "; "+unneeded, ""))
	}
	return "coordinated by " + name
}

// standing is the progress of a member with a share.
func standing(s api.FleetProgress) string {
	switch {
	case !s.Begun:
		return "has not begun"
	case s.Done && s.Waits != "":
		return "done, " + s.Waits
	case s.Done:
		return "done"
	case s.Bytes == 0 && s.Waits == "":
		return "is starting"
	case s.Bytes == 0:
		return s.Waits
	case s.Waits == "":
		return fmt.Sprintf("%.0f %%", 100*float64(s.Verified)/float64(s.Bytes))
	}
	return fmt.Sprintf("%.0f %%, %s", 100*float64(s.Verified)/float64(s.Bytes), s.Waits)
}
