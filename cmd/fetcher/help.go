package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// usage is the text below the description in the help of a command, for a terminal
// of 80 columns. A template would make the program a sixth larger: see the page type in
// simnet/report.
func usage(c *cobra.Command) error {
	w := c.OutOrStderr()
	fmt.Fprintf(w, "Usage:\n")
	if c.Runnable() {
		fmt.Fprintf(w, "  %s\n", c.UseLine())
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(w, "  %s [command]\n\nAvailable Commands:\n", c.CommandPath())
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() || sub.Name() == "help" {
				fmt.Fprintf(w, "  %-*s %s\n", sub.NamePadding(), sub.Name(), sub.Short)
			}
		}
	}
	for _, group := range []struct {
		title string
		flags *pflag.FlagSet
	}{{"Flags", c.LocalFlags()}, {"Global Flags", c.InheritedFlags()}} {
		if group.flags.HasAvailableFlags() {
			fmt.Fprintf(w, "\n%s:\n%s\n", group.title, strings.TrimRight(group.flags.FlagUsagesWrapped(80), " \n"))
		}
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(w, "\nUse \"%s [command] --help\" for more about a command.\n", c.CommandPath())
	}
	return nil
}
