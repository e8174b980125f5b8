package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagValues completes the flags of which the values are known.
var flagValues = map[string][]string{
	"links":     {"keep", "skip", "refuse"},
	"log-level": {"debug", "info", "warn", "error"},
	"listen":    {"none"},
}

// complete has a shell offer what fits. Files are offered for nothing but a path.
func complete(c *cobra.Command) {
	add := func(f *pflag.Flag) {
		offer := cobra.FixedCompletions(flagValues[f.Name], cobra.ShellCompDirectiveNoFileComp)
		switch f.Name {
		case "dir", "out", "like":
			offer = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs)
		case "report":
			offer = cobra.FixedCompletions([]string{"html"}, cobra.ShellCompDirectiveFilterFileExt)
		}
		c.RegisterFlagCompletionFunc(f.Name, offer) // fails for one that has one: a command is completed once
	}
	c.PersistentFlags().VisitAll(add)
	c.Flags().VisitAll(add)
	if c.ValidArgsFunction == nil && c.Name() != "share" && c.Name() != "ls" {
		c.ValidArgsFunction = cobra.NoFileCompletions
	}
	for _, sub := range c.Commands() {
		complete(sub)
	}
}
