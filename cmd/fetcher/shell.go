package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/daemon"
	"github.com/piecelease/fetcher/share"
)

// This file is what is printed for a shell to read.

// tellOfNode says, if a node runs with this state directory, how it could do what cmd does permanently: with add, of
// args, and the flags that add has too. It says nothing if cmd has been given a flag that a node cannot do, and of
// those that say how a node reaches others that they are set for the node.
func (a *app) tellOfNode(ctx context.Context, cmd *cobra.Command, args ...string) {
	add, _, _ := cmd.Root().Find([]string{"add"})
	run, _, _ := cmd.Root().Find([]string{"node", "run"})
	line, can, own := []string{a.flags.self(), "add"}, true, ""
	for _, arg := range args {
		line = append(line, quote(arg))
	}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		switch {
		case !f.Changed || f.Name == "out": // it is in args
		case add.Flags().Lookup(f.Name) != nil:
			line = append(line, given(f)...)
		case run.Flags().Lookup(f.Name) == nil:
			can = false
		case own == "":
			own = " (--" + f.Name + " is set for a node as a whole, with node run)"
		}
	})
	dir, err := a.flags.stateDir()
	if err != nil || !can {
		return
	}
	c, err := api.Dial(ctx, daemon.Socket(dir))
	if err != nil {
		return
	}
	defer c.Close()
	if all, err := c.Entries(ctx); err != nil || slices.ContainsFunc(all, func(e api.Entry) bool { return names(e, args[0]) }) {
		return // it does so already
	}
	fmt.Fprintf(a.stderr, "a node is running with this state directory; to have it do the same, across restarts too%s:\n\n%s%s\n\n", own, verbatim, strings.Join(line, " "))
}

// names says whether what, a ticket, ID or path, is of an entry.
func names(e api.Entry, what string) bool {
	if t, err := share.Parse(what); err == nil {
		return e.Share == t.ID.String()
	}
	path, err := filepath.Abs(what)
	return err == nil && slices.Contains(e.Paths, path)
}

// given is a flag with its values, as words for a shell.
func given(f *pflag.Flag) (words []string) {
	values := []string{f.Value.String()}
	if many, ok := f.Value.(pflag.SliceValue); ok {
		values = many.GetSlice()
	}
	for _, v := range values {
		switch {
		case v == f.NoOptDefVal:
			words = append(words, "--"+f.Name)
		case f.NoOptDefVal != "":
			words = append(words, "--"+f.Name+"="+quote(v))
		default:
			words = append(words, "--"+f.Name, quote(v))
		}
	}
	return words
}

// quote is s as one word for a shell.
func quote(s string) string {
	if s != "" && strings.IndexFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+@:", r))
	}) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
