package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/piecelease/fetcher/api"
)

const priceHelp = "the `PRICE` of its leases: free (within the quota) or passes"

// voucherCommand lets the owner of a depot sell passes.
func (a depots) voucherCommand() *cobra.Command {
	var v api.NewVoucher
	c := &cobra.Command{Use: "voucher --passes NUMBER", Short: "Make a voucher for passes, and print its code", Args: noArgs,
		Long: `Make a voucher for passes of this depot, and print its code for whoever is to
redeem it, with fetcher passes redeem. A pass keeps 1 MiB for 31 days, or half
of it for twice as long. Whoever has the code has the passes; it can be redeemed
once, within a year. The depot cannot tell later which voucher a pass came from.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if v.Passes < 1 {
				return usageError{errors.New("depot voucher needs --passes NUMBER, how many the voucher is for, at least 1; see fetcher depot voucher --help")}
			}
			return a.asking(cmd.Context(), func(c *api.Client) error {
				made, err := c.Voucher(cmd.Context(), v)
				if err != nil {
					return err
				}
				a.out.write("voucher", made)
				return a.print(printable(made.Code) + "\n")
			})
		}}
	c.Flags().Int64Var(&v.Passes, "passes", 0, "make it for this `NUMBER` of passes")
	c.Flags().StringVar(&v.For, "for", "", "note in the log that the voucher is for this `ACCOUNT`; no voucher is made if that account does not pay with passes")
	return c
}

// passesCommand is about the passes of this node.
func (a depots) passesCommand() *cobra.Command {
	c := group(&cobra.Command{Use: "passes", Short: "Redeem vouchers for passes, and list the passes",
		Long: `Redeem vouchers for passes, with which depots are paid, and list the passes. A
depot's owner sells vouchers; the passes that the node gets for one cannot be
linked to that voucher. The node pays with them when it holds or renews
something there. What a depot sees all the same is the account, its shares, and
when and how much it pays.`})
	list := &cobra.Command{Use: "list", Short: "List the passes that are left, by depot", Args: noArgs,
		Long: `List the passes that are left, by depot. PENDING are passes in payments and
orders that the depot has not answered yet. The node sends those again when it
next visits the depot, or when the code is entered again; it goes on visiting a
depot as long as the depot keeps something for it. No pass is lost or paid
twice. INVALID are too old, or were refused by the depot. VALID UNTIL is when
the earliest of the passes expire: a pass is good for half a year to a year,
and those that were signed in the same half year expire together. BUDGET is
what is left of fetcher hold --budget in the current period of 31 days.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.asking(cmd.Context(), func(c *api.Client) error {
				all, err := c.Passes(cmd.Context())
				if err != nil {
					return err
				}
				return a.printPasses(all)
			})
		}}
	redeem := &cobra.Command{Use: "redeem CODE", Short: "Get the passes of a voucher", Args: exactly("CODE"),
		Long: `Get the passes of a voucher from its depot, over a connection that does not
tell the depot whose it is. If it is cut short, enter the same code again.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.asking(cmd.Context(), func(c *api.Client) error {
				all, err := c.RedeemPasses(cmd.Context(), api.RedeemPasses{Code: args[0]})
				if err != nil {
					return err
				}
				return a.printPasses(all)
			})
		}}
	c.AddCommand(redeem, list)
	return c
}

func (a depots) printPasses(all []api.Passes) error {
	var rows [][]string
	for _, x := range all {
		a.out.write("passes", x)
		until := ""
		if !x.Until.IsZero() {
			until = x.Until.Local().Format(time.DateOnly)
		}
		budget := either(x.Budget > 0, fmt.Sprintf("%d of %d left", x.Left, x.Budget), "")
		rows = append(rows, []string{shortly(x.Depot), fmt.Sprint(x.Passes), fmt.Sprint(x.Reserved + x.Ordered), fmt.Sprint(x.Bad), until, budget})
	}
	if len(rows) == 0 {
		fmt.Fprintln(a.stderr, "this node has no passes; fetcher passes redeem gets those of a voucher")
	}
	return a.print(a.headed(rows, "DEPOT", "PASSES", "PENDING", "INVALID", "VALID UNTIL", "BUDGET"))
}
