package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// lineWritten is a call that writes a line of --json, with its type; what follows has the fields that are named there.
var lineWritten = regexp.MustCompile(`\bout\.(?:write|throttled)\("(\w+)"(.*(?:,\n.*)*)`)

// docs/json.md has each type that a command writes, with the fields that are named where it does.
func TestEveryLineIsDescribed(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "json.md"))
	must(t, err)
	rows := map[string]string{}
	for l := range strings.Lines(string(doc)) {
		if name, rest, ok := strings.Cut(strings.TrimPrefix(l, "| `"), "` | "); ok {
			rows[name] += rest // those of one type that several commands write are described together
		}
	}
	sources, err := filepath.Glob("*.go")
	must(t, err)
	sources = slices.DeleteFunc(sources, func(p string) bool { return strings.HasSuffix(p, "_test.go") })
	found := 0
	for _, p := range sources {
		text, err := os.ReadFile(p)
		must(t, err)
		for _, x := range lineWritten.FindAllStringSubmatch(string(text), -1) {
			found++
			if rows[x[1]] == "" {
				t.Errorf("%s: no row describes the type %s", p, x[1])
			}
			for _, field := range regexp.MustCompile(`"(\w+)":`).FindAllStringSubmatch(x[2], -1) {
				if !strings.Contains(rows[x[1]], "`"+field[1]+"`") {
					t.Errorf("%s: the row of %s lacks %s", p, x[1], field[1])
				}
			}
		}
	}
	if found < 40 {
		t.Errorf("only %d lines were found", found)
	}
}

// Every way to say --json, or not to, holds for all of the output: the last one that was given, before FETCHER_JSON.
func TestEachFormOfJSONIsHeard(t *testing.T) {
	src, dir := filepath.Join(t.TempDir(), "f"), t.TempDir()
	must(t, os.WriteFile(src, []byte("some text\n"), 0o600))
	for _, c := range []struct {
		env, flags string
		json       bool
	}{
		{"", "--json", true}, {"", "--json=t", true}, {"", "--json=TRUE", true}, {"", "--json --json=false", false}, {"1", "--json=false", false}, {"1", "", true},
	} {
		t.Setenv("FETCHER_JSON", c.env)
		out, errs, code := inside(append([]string{"ls", src, "--dir", dir}, strings.Fields(c.flags)...)...)
		if is := strings.HasPrefix(out, "{"); code != 0 || out == "" || is != c.json || is == strings.Contains(out, "  f\n") {
			t.Errorf("FETCHER_JSON=%s %s: exit %d, %q %s", c.env, c.flags, code, out, errs)
		}
	}
}
