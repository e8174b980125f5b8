package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/piecelease/fetcher/api"
)

// flagValues completes the flags whose values are known.
var flagValues = map[string][]string{
	"depot-price": {"free", "passes"},
	"dht":         {"own", "public"},
	"links":       {"keep", "skip", "refuse"},
	"listen":      {"none"},
	"log-level":   {"debug", "info", "warn", "error"},
	"price":       {"free", "passes"},
	"priority":    {"low", "normal", "high"},
	"visible":     {"private", "lan", "public"},
}

// complete makes a shell offer what fits. Files are offered only for paths.
func complete(c *cobra.Command) {
	add := func(f *pflag.Flag) {
		offer := cobra.FixedCompletions(flagValues[f.Name], cobra.ShellCompDirectiveNoFileComp)
		switch f.Name {
		case "dir", "out", "like", "into":
			offer = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs)
		case "report":
			offer = cobra.FixedCompletions([]string{"html"}, cobra.ShellCompDirectiveFilterFileExt)
		case "allow-file", "fleet-secret", "http-cert", "http-key", "socket":
			offer = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault)
		}
		c.RegisterFlagCompletionFunc(f.Name, offer) // fails for a flag that has one: a command is completed once
	}
	c.PersistentFlags().VisitAll(add)
	c.Flags().VisitAll(add)
	if c.ValidArgsFunction == nil && c.Name() != "share" && c.Name() != "ls" && c.Name() != "add" {
		c.ValidArgsFunction = cobra.NoFileCompletions
	}
	for _, sub := range c.Commands() {
		complete(sub)
	}
}

// pages gives each command without a description its summary, as a sentence.
func pages(c *cobra.Command) {
	if c.Long == "" {
		c.Long = c.Short + "."
	}
	for _, sub := range c.Commands() {
		pages(sub)
	}
}

// sourced is how each shell reads its script.
var sourced = map[string]string{"bash": "source <(fetcher completion bash)", "zsh": "source <(fetcher completion zsh)", "fish": "fetcher completion fish | source",
	"powershell": "fetcher completion powershell | Out-String | Invoke-Expression"}

// kept is the file that each shell reads when it starts, and what the line needs there.
var kept = map[string]string{"bash": "~/.bashrc; it needs the package bash-completion", "zsh": "~/.zshrc, after the line that calls compinit",
	"fish": "~/.config/fish/config.fish", "powershell": "the file that $PROFILE names"}

// completions is the command that prints what makes a shell offer these; cobra has it below the root.
func completions(root *cobra.Command) {
	root.InitDefaultCompletionCmd("completion")
	for _, c := range root.Commands() {
		if c.Name() != "completion" {
			continue
		}
		c.Short, c.Long = "Print a script that completes commands in a shell", ""
		c.ValidArgsFunction = nil // its own commands
		group(c)
		for _, shell := range c.Commands() {
			shell.Args = noArgs
			script := shell.RunE
			shell.RunE = func(cmd *cobra.Command, args []string) error {
				if json, _ := cmd.Flags().GetBool("json"); json {
					return usageError{errors.New("completion writes a script to stdout, and takes no --json")}
				}
				return script(cmd, args)
			}
			shell.DisableFlagsInUseLine = false // as for all others
			shell.Short = "Print the script for " + shell.Name()
			shell.Long = shell.Short + ". To use it in the current shell:\n\n    " + sourced[shell.Name()] + "\n\nTo have it in every new shell, put that line into\n" + kept[shell.Name()] + "."
		}
	}
}

// unquoted takes the quotes off the names of values, which a shell would show with what a flag does.
func unquoted(c *cobra.Command) {
	plain := func(f *pflag.Flag) { f.Usage = strings.ReplaceAll(f.Usage, "`", "") }
	c.PersistentFlags().VisitAll(plain)
	c.Flags().VisitAll(plain)
	for _, sub := range c.Commands() {
		unquoted(sub)
	}
}

// offered is what the node has to offer, if it answers within a second.
func (a asker) offered(cmd *cobra.Command, list func(context.Context, *api.Client) ([]string, error)) (out []string, _ cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), time.Second)
	defer cancel()
	a.asking(ctx, func(c *api.Client) (err error) {
		out, err = list(ctx, c)
		return err
	})
	return out, cobra.ShellCompDirectiveNoFileComp
}

// completeEntries offers the entries of the node.
func (a asker) completeEntries(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.offered(cmd, func(ctx context.Context, c *api.Client) (out []string, err error) {
		all, err := c.Entries(ctx)
		for _, e := range all {
			out = append(out, fmt.Sprintf("%d\t%s, %s", e.ID, printable(nameOf(e)), e.State))
		}
		return out, err
	})
}

// completeHolds offers what depots keep: an entry by its number, what was removed by the share as fetcher holds shows it.
func (a asker) completeHolds(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.offered(cmd, func(ctx context.Context, c *api.Client) (out []string, err error) {
		all, err := c.Holds(ctx)
		if err != nil {
			return nil, err
		}
		entries, err := c.Entries(ctx)
		for _, h := range all {
			what := shortly(h.Share)
			if slices.ContainsFunc(entries, func(e api.Entry) bool { return e.ID == h.Entry }) {
				what = fmt.Sprint(h.Entry)
			}
			out = append(out, what+"\t"+printable(heldName(h, entries)))
		}
		slices.Sort(out)
		return slices.Compact(out), err
	})
}

// completeAccounts offers the accounts of the node's depot, each once.
func (a asker) completeAccounts(cmd *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.offered(cmd, func(ctx context.Context, c *api.Client) (out []string, err error) {
		all, err := c.Accounts(ctx)
		for _, acc := range all {
			if !slices.Contains(given, acc.Name) {
				out = append(out, acc.Name)
			}
		}
		return out, err
	})
}

// completeAccount is completeAccounts for a command that takes one.
func (a asker) completeAccount(cmd *cobra.Command, given []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(given) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completeAccounts(cmd, nil, typed)
}
