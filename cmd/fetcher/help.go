package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpCommand shows the help of the command that its arguments name.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND...]", Short: "Show the help of a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usageError{fmt.Errorf("there is no command %q; see fetcher --help", strings.Join(args, " "))}
			}
			c.InitDefaultHelpFlag()
			return c.Help()
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) (out []string, _ cobra.ShellCompDirective) {
			if c, rest, err := cmd.Root().Find(args); err == nil && len(rest) == 0 {
				for _, sub := range c.Commands() {
					if sub.IsAvailableCommand() {
						out = append(out, sub.Name()+"\t"+sub.Short)
					}
				}
			}
			return out, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

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
