package main

import (
	"bytes"
	"context"
	"io"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

func TestCompletionOffersWhatFits(t *testing.T) {
	for args, want := range map[string]string{
		"sim run fl":         "flash-crowd\t",
		"share --links ":     "keep\nskip\nrefuse\n:4",
		"--log-level ":       "debug\ninfo\nwarn\nerror\n:4",
		"fetch ":             ":4", // no files
		"fetch --only ":      ":4",
		"cat x ":             ":4",
		"fetch -o ":          ":16", // folders
		"ls --dir ":          ":16",
		"sim run --report ":  "html\n:8", // such files
		"share ":             ":0",       // files
		"add ":               ":0",
		"fetch 7-marb":       "7-marble\n:4",
		"fetch 7-marble-fos": "7-marble-fossil\n:4",
		"add --priority ":    "low\nnormal\nhigh\n:4",
		"node run --into ":   ":16",
		"node run --socket ": ":0",
		"ls ":                ":0",
	} {
		var stdout, stderr bytes.Buffer
		words := append([]string{"__complete"}, strings.Split(args, " ")...)
		if code := run(words, strings.NewReader(""), &stdout, &stderr, context.Background()); code != 0 || !strings.Contains("\n"+stdout.String(), "\n"+want) {
			t.Errorf("fetcher %s: %q, want %q", args, &stdout, want)
		}
	}
}

// A command that refuses to run without a flag has it in its usage line.
func TestUsageNamesTheFlagsThatMustBeGiven(t *testing.T) {
	for args, flags := range map[string]string{"hold x": "--on ADDR", "holdings": "--on ADDR", "depot voucher": "--passes NUMBER", "coordinate x": "--allow PEER",
		"round run -- true": "--kv URL --name NAME --every TIME [flags] -- CMD ARG...", "round show x": "--kv URL"} {
		a := &app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: newTerminal(io.Discard)}
		c, _, err := a.root().Find(strings.Fields(args))
		must(t, err)
		if !strings.Contains(c.UseLine(), flags) {
			t.Errorf("%q does not name %s", c.UseLine(), flags)
		}
		if code := run(strings.Fields(args), strings.NewReader(""), io.Discard, io.Discard, t.Context()); code != exitUsage {
			t.Errorf("fetcher %s without it: exit %d", args, code)
		}
	}
}

// Help fits on a terminal of 80 columns, and all defaults in it look the same.
func TestHelpFitsOnATerminal(t *testing.T) {
	a := &app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: newTerminal(io.Discard)}
	var look func(c *cobra.Command)
	look = func(c *cobra.Command) {
		c.InitDefaultHelpFlag()
		if text := c.Long; !strings.HasSuffix(strings.TrimSpace(text[:strings.Index(text+"\n\n", "\n\n")]), ".") && !strings.Contains(text, "\n    ") && !strings.Contains(text, "  fetcher ") {
			t.Errorf("%s --help does not begin with a sentence: %q", c.CommandPath(), text)
		}
		for line := range strings.Lines(c.Short + "\n" + c.Long + "\n" + c.UsageString()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
				t.Errorf("%s --help: %d columns: %s", c.CommandPath(), n, line)
			}
		}
		if s := regexp.MustCompile(`default(:|\s+").*`).FindString(c.Short + c.UsageString()); s != "" {
			t.Errorf("%s --help: %s", c.CommandPath(), s)
		}
		for _, sub := range c.Commands() {
			look(sub)
		}
	}
	look(a.root())
}
