package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/share"
)

// helpCommand shows the help of the command that its arguments name.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND...]", Short: "Show the help of a command", Long: "Show the help of a command.",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return noCommand(c, strings.Join(rest, " "))
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

// group makes c a command that only has commands below it.
func group(c *cobra.Command) *cobra.Command {
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return noCommand(cmd, args[0])
		}
		return cmd.Help()
	}
	return c
}

// noCommand says that c has no command of that name, and which there are of a similar one: below c, or one step further.
func noCommand(c *cobra.Command, name string) error {
	var like []string
	for _, sub := range c.Commands() { // a word for what another does
		if slices.Contains(sub.SuggestFor, name) {
			like = append(like, sub.CommandPath())
		}
	}
	meant := len(like) > 0
	for _, in := range append([]*cobra.Command{c}, c.Commands()...) {
		if name == "" || meant {
			break // all begin with nothing
		}
		in.SuggestionsMinimumDistance = min(2, len(name)/2) // letters that differ
		for _, s := range in.SuggestionsFor(name) {
			like = append(like, in.CommandPath()+" "+s)
		}
	}
	if len(like) == 0 && !c.HasParent() {
		if s := withoutCommand(name); s != "" {
			return usageError{errors.New(s)}
		}
	}
	if len(like) == 0 {
		return usageError{fmt.Errorf("there is no command %q; see %s --help", name, c.CommandPath())}
	}
	return usageError{fmt.Errorf("there is no command %q; did you mean %s?", name, strings.Join(like[:min(len(like), 3)], ", or "))}
}

// withoutCommand says what to do with a ticket or a path that was given in place of a command; "" if it is neither.
func withoutCommand(what string) string {
	if _, err := share.Parse(what); err == nil {
		return "a command is missing; did you mean fetcher fetch TICKET?"
	}
	if _, err := fetcher.ParseCode(what); err == nil {
		return "a command is missing; did you mean fetcher fetch CODE?"
	}
	if _, err := os.Lstat(what); err == nil {
		return fmt.Sprintf("there is no command %q; did you mean fetcher share %s?", what, quote(what))
	}
	return ""
}

// optional is a flag whose value may be left out, as pflag shows it, with what stands for none.
var optional = regexp.MustCompile(` \w+\[="\w+"\]`)

// quoted is a default that is a text, as pflag shows it.
var quoted = regexp.MustCompile(`(\(default\s+)"(.*)"\)`)

// optionally shows that the value of a flag may be left out, in as many columns.
func optionally(shown string) string {
	value, _, _ := strings.Cut(shown[1:], "[")
	return fmt.Sprintf("%-*s", len(shown), "[="+value+"]")
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
			fmt.Fprintf(w, "\n%s:\n%s\n", group.title, strings.TrimRight(quoted.ReplaceAllString(optional.ReplaceAllStringFunc(group.flags.FlagUsagesWrapped(80), optionally), "$1$2)"), " \n"))
		}
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(w, "\nUse \"%s [command] --help\" for more about a command.\n", c.CommandPath())
	}
	return nil
}
