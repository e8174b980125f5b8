package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/share"
)

func (a depots) depotStatusCommand() *cobra.Command {
	return &cobra.Command{Use: "status", Short: "Show the state of the depot", Args: noArgs,
		Long: `Show the state of the depot. A share is coming while some of it is still to be
fetched, stable once all of it is here and verified, corrupt if some of it has
been lost or damaged since (it is fetched again), and going while it is being
removed.

The crawl visits all shares, again and again. The rows under "crawl" count
those visited in this cycle: examined, all of them; corrupt; failed, where an
error ended the visit; expired, which nobody holds any more, whether their
leases ran out or were released; and removable, those of the expired ones
that may be removed now. The scrub reads all shares, to find damage.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.asking(cmd.Context(), func(c *api.Client) error {
				d, err := c.Depot(cmd.Context())
				if err != nil {
					return err
				}
				return a.printDepot(d)
			})
		}}
}

func crawlText(r api.Crawl) string {
	return fmt.Sprintf("examined  %s, %s\ncorrupt   %s\nfailed    %s\nexpired   %s, %s\nremovable %s, %s\n", words.Count(r.Examined, "share"), share.Size(r.Bytes),
		words.Count(r.Corrupt, "share"), words.Count(r.Failed, "share"), words.Count(r.Expired, "share"), share.Size(r.ExpiredBytes), words.Count(r.Removable, "share"), share.Size(r.RemovableB))
}

// rehearsalText is what a removal would do now: what it would remove, listing the shares if they are few.
func rehearsalText(r api.Crawl) string {
	var b strings.Builder
	b.WriteString(crawlText(r))
	shown := r.RemovableShares[:min(len(r.RemovableShares), 20)]
	for _, x := range shown {
		fmt.Fprintf(&b, "  %s  %s\n", shortly(x.Share), share.Size(x.Bytes))
	}
	if more := r.Removable - len(shown); more > 0 {
		fmt.Fprintf(&b, "  and %d more\n", more)
	}
	if r.Removable < r.Expired {
		fmt.Fprintf(&b, "what has expired, and was not released before, is kept for %s\n", words.Duration(time.Duration(r.Grace)*time.Second))
	}
	return b.String()
}

func (a depots) printDepot(d api.Depot) error {
	a.out.write("depot", d)
	var b strings.Builder
	fmt.Fprintf(&b, "folder    %s\n", d.Dir)
	for _, x := range d.States {
		fmt.Fprintf(&b, "%-9s %s, %s\n", x.State, words.Count(int(x.Shares), "share"), share.Size(x.Bytes))
	}
	if d.Free >= 0 {
		fmt.Fprintf(&b, "free      %s%s\n", share.Size(d.Free), reserveText(d))
	}
	fmt.Fprintf(&b, "gc        %s\n", either(d.GC, "on: what nobody holds is removed, at once if it was released, or else "+words.Duration(time.Duration(d.Grace)*time.Second)+" after it expired", "off: nothing is removed"))
	fmt.Fprintf(&b, "crawl     cycle %d: %s\n", d.Crawl.Cycle, cycleText(d))
	for line := range strings.Lines(crawlText(d.Crawl)) { // it has a row "corrupt" too
		b.WriteString("  " + line)
	}
	fmt.Fprintf(&b, "scrub     cycle %d: %s read\n", d.ScrubCycle, words.Count(d.Scrubbed, "share"))
	if d.Suspect > 0 {
		fmt.Fprintf(&b, "suspect   %s: seen damaged once, to be read again an hour later, and fetched again if still damaged\n", words.Count(int(d.Suspect), "share"))
	}
	b.WriteString(troubleText(d))
	return a.print(b.String())
}

// reserveText says how much of the free space stays free.
func reserveText(d api.Depot) string {
	switch size := share.Size(d.Reserve); {
	case d.Reserve == 0:
		return ""
	case d.Free < d.Reserve:
		return ", less than the " + size + " that is to stay free"
	default:
		return ", of which " + size + " is kept free"
	}
}

// troubleText says what keeps a depot from its work; empty if nothing does.
func troubleText(d api.Depot) string {
	var b strings.Builder
	if !d.Complete {
		fmt.Fprintln(&b, "the first look at the disk is not done: more may be used than is shown, and nothing is removed")
	}
	if d.Frozen {
		fmt.Fprintf(&b, "the clock is not trusted, so nothing expires and nothing is removed: for leases, time stands still at %s. If this machine's clock is right, say so with fetcher depot clock ok\n", words.Date(d.Now))
	}
	if d.PassesTrouble != "" {
		fmt.Fprintf(&b, "the depot takes no passes now: %s\n", printable(d.PassesTrouble))
	}
	if d.Stuck != "" {
		fmt.Fprintf(&b, "the depot cannot look at every share that it keeps: %s\n", printable(d.Stuck))
	}
	if d.Trouble != "" {
		fmt.Fprintf(&b, "the depot waits: %s\n", printable(d.Trouble))
	}
	return b.String()
}

// cycleText is the state of the crawler's cycle.
func cycleText(d api.Depot) string {
	switch {
	case d.Trouble != "":
		return "waits"
	case d.Crawl.Done:
		return "done; the next begins " + either(time.Until(d.Next) > time.Second, "in "+words.Duration(time.Until(d.Next)), "now")
	case d.Left > 0:
		return "under way, about " + words.Duration(time.Duration(d.Left)*time.Second) + " more"
	}
	return "under way"
}
