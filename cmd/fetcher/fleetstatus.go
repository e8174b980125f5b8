package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/internal/words"
)

// unheardAfter is after how long a member is said to be silent. It says something every
// 10 s, and clocks differ.
const unheardAfter = 30 * time.Second

func (a fleetApp) statusCommand() *cobra.Command {
	var fl storeFlags
	c := &cobra.Command{
		Use:   "status",
		Short: "Show how far each machine of the fleet is with each share",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, done, err := a.open(cmd.Context(), fl)
			if err != nil {
				return err
			}
			defer done()
			r, err := s.Rollout(cmd.Context())
			if err != nil {
				return err
			}
			a.showRollout(r, time.Now())
			return nil
		},
	}
	fl.add(c.Flags())
	return c
}

func (a fleetApp) showRollout(r fetcher.Rollout, now time.Time) {
	text := func(format string, args ...any) {
		if !a.flags.json {
			fmt.Fprintf(a.stdout, format, args...)
		}
	}
	if len(r.Shares) == 0 {
		text("nothing was added to the fleet; it has %s\n", words.Count(len(r.Members), "member"))
	}
	for i, x := range r.Shares {
		text("%s%s  %s\n%d of %d done, %s\n", either(i > 0, "\n", ""), either(x.Name != "", printable(x.Name), "not known yet"), x.ID, x.Done, len(r.Members), coordinatorOf(x, r.Members))
		a.out.write("rollout", map[string]any{"share": x.ID.String(), "name": x.Name, "done": x.Done, "members": len(r.Members), "coordinator": string(x.Coordinator), "term": x.Term})
		for _, m := range r.Members {
			s, listed := m.Share(x.ID)
			state := standing(s, listed)
			silent := now.Sub(m.At) > unheardAfter
			if silent {
				state = fmt.Sprintf("not heard of for %v; then: %s", now.Sub(m.At).Round(time.Second), state)
			}
			text("  %-20s %s  %s\n", printable(m.Name), m.Peer.Short(), printable(state))
			a.out.write("machine", map[string]any{"share": x.ID.String(), "name": m.Name, "peer": string(m.Peer), "bytes": s.Bytes, "verified": s.Verified, "done": s.Done,
				"waits": s.Waits, "silent": silent})
		}
	}
}

func coordinatorOf(x fetcher.ShareRollout, members []fetcher.MemberReport) string {
	if x.Coordinator == "" {
		return "nobody coordinates"
	}
	name := x.Coordinator.Short()
	for _, m := range members {
		if m.Peer == x.Coordinator {
			name = printable(m.Name)
		}
	}
	return fmt.Sprintf("coordinated by %s in term %d", name, x.Term)
}

// standing is how far a member is with a share.
func standing(s fetcher.ShareReport, listed bool) string {
	switch {
	case !listed:
		return "has not begun"
	case s.Done:
		return "done"
	case s.Bytes == 0 && s.Waits == "":
		return "begins"
	case s.Bytes == 0:
		return s.Waits
	case s.Waits == "":
		return fmt.Sprintf("%.0f %%", 100*float64(s.Verified)/float64(s.Bytes))
	}
	return fmt.Sprintf("%.0f %%, %s", 100*float64(s.Verified)/float64(s.Bytes), s.Waits)
}
