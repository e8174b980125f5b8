package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Every command has a page, which names all its flags and the related pages.
func TestEveryCommandHasAManualPage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	var out, errs bytes.Buffer
	if code := run([]string{"man", dir}, strings.NewReader(""), &out, &errs, context.Background()); code != 0 {
		t.Fatalf("exit %d: %s", code, &errs)
	}
	a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: newTerminal(&errs)}
	pages := 0
	var look func(c *cobra.Command)
	look = func(c *cobra.Command) {
		pages++
		b, err := os.ReadFile(filepath.Join(dir, manName(c)+".1"))
		must(t, err)
		page := string(b)
		wants := []string{".SH NAME\n", roff.Replace(c.Short), roff.Replace(c.UseLine())}
		c.Flags().VisitAll(func(f *pflag.Flag) { wants = append(wants, `\fB\-\-`+roff.Replace(f.Name)+`\fR`) })
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				wants = append(wants, `\fB`+roff.Replace(manName(sub))+`\fR(1)`)
				look(sub)
			}
		}
		for _, want := range wants {
			if !strings.Contains(page, want) {
				t.Errorf("%s: no %q", c.CommandPath(), want)
			}
		}
	}
	look(a.root())
	if all, err := os.ReadDir(dir); err != nil || len(all) < pages || pages < 25 {
		t.Errorf("%d pages of %d commands: %v", len(all), pages, err)
	}
}

// No line of help may be taken for a request of roff, and examples stay as they are.
func TestHelpIsEscapedForRoff(t *testing.T) {
	const help = "First, so\n.that 'tis \\read.\n\n  fetcher share -o x\n\n'And on."
	const want = "\\&First, so\n\\&.that \\(aqtis \\eread.\n.PP\n.nf\n\\&  fetcher share \\-o x\n\n.fi\n\\&\\(aqAnd on."
	if got := manText(help); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
