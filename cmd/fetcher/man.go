package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/piecelease/fetcher"
)

// manCommand writes the manual pages that packages contain. They are made from the help of
// the commands, so the two always agree.
func manCommand() *cobra.Command {
	return &cobra.Command{
		Use: "man DIR", Short: "Write the manual pages of all commands into a folder", Args: exactly("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := canBeFolder(args[0]); err != nil {
				return err
			}
			if err := os.MkdirAll(args[0], 0o777); err != nil {
				return err
			}
			return manPages(cmd.Root(), args[0])
		},
	}
}

// manPages writes the page of a command, and those of the commands below it.
func manPages(c *cobra.Command, dir string) error {
	if err := os.WriteFile(filepath.Join(dir, manName(c)+".1"), []byte(manPage(c)), 0o666); err != nil {
		return err
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			if err := manPages(sub, dir); err != nil {
				return err
			}
		}
	}
	return nil
}

func manName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// roff escapes text for any position on a line.
var roff = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", "\\(ga", "^", `\(ha`, "~", `\(ti`)

// manPage is the page of a command in man's macros of roff.
func manPage(c *cobra.Command) string {
	c.InitDefaultHelpFlag()
	var b strings.Builder
	put := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	put(`.TH %s 1 "" "fetcher %s" "fetcher"`, strings.ToUpper(roff.Replace(manName(c))), roff.Replace(fetcher.Version()))
	put(".SH NAME\n%s \\- %s", roff.Replace(manName(c)), roff.Replace(c.Short))
	put(".SH SYNOPSIS\n.nf")
	if c.Runnable() {
		put("%s", roff.Replace(c.UseLine()))
	}
	if c.HasAvailableSubCommands() {
		put("%s COMMAND", roff.Replace(c.CommandPath()))
	}
	put(".fi")
	if c.Long != "" {
		put(".SH DESCRIPTION\n%s", manText(c.Long))
	}
	manFlags(put, "OPTIONS", c, c.LocalFlags())
	manFlags(put, "GLOBAL OPTIONS", c, c.InheritedFlags())
	put(".SH SEE ALSO\n%s", strings.Join(manRelated(c), ",\n"))
	return b.String()
}

// manText is help as roff: lines that begin with a space stay as they are, others are
// filled.
func manText(help string) string {
	var b strings.Builder
	asIs := false
	for line := range strings.Lines(help) {
		line = strings.TrimRight(line, "\n")
		switch indented := strings.HasPrefix(line, " "); {
		case line == "":
			line = ".PP"
			if asIs {
				line = ""
			}
		case indented != asIs:
			asIs = indented
			b.WriteString(map[bool]string{true: ".nf\n", false: ".fi\n"}[asIs])
		}
		if line != "" && line != ".PP" {
			line = `\&` + roff.Replace(line)
		}
		b.WriteString(line + "\n")
	}
	if asIs {
		b.WriteString(".fi\n")
	}
	return strings.TrimRight(b.String(), "\n")
}

// manFlags lists flags, each with the variable of the environment that sets it too.
func manFlags(put func(string, ...any), title string, c *cobra.Command, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	put(".SH %s", title)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, text := pflag.UnquoteUsage(f)
		name := `\fB\-\-` + roff.Replace(f.Name) + `\fR`
		if f.Shorthand != "" {
			name = `\fB\-` + f.Shorthand + `\fR, ` + name
		}
		value = ` \fI` + roff.Replace(value) + `\fR`
		if f.Value.Type() == "string" && f.NoOptDefVal != "" { // it may be left out
			value = "[=" + value[1:] + "]"
		}
		put(".TP\n%s%s\n\\&%s", name, value, roff.Replace(text))
		switch f.DefValue {
		case "", "0", "false", "[]", "0s":
		default:
			put("(default %s)", roff.Replace(f.DefValue))
		}
		if f.Name != "help" {
			put(".br\nEnvironment: %s", roff.Replace(envName(c, f.Name)))
		}
	})
}

// manRelated lists the pages of the command above and of those below.
func manRelated(c *cobra.Command) (out []string) {
	if c.HasParent() {
		out = append(out, fmt.Sprintf(`\fB%s\fR(1)`, roff.Replace(manName(c.Parent()))))
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			out = append(out, fmt.Sprintf(`\fB%s\fR(1)`, roff.Replace(manName(sub))))
		}
	}
	return out
}
