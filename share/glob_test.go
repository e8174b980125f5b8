package share

import (
	"errors"
	"path"
	"strings"
	"testing"
	"time"
)

func TestGlobs(t *testing.T) {
	for _, c := range []struct {
		glob, yes, no string // paths, separated by spaces
	}{
		{"a.txt", "a.txt a.txt/below", "b.txt x/a.txt a.txtx"},
		{"*.txt", "a.txt .txt", "a.md x/a.txt"},
		{"docs", "docs docs/a docs/x/y", "docs2 x/docs"},
		{"docs/", "docs/a", "docs2"},
		{"docs/*", "docs/a docs/x/y", "docs x/docs/a"},
		{"docs/*.md", "docs/a.md", "docs/x/a.md"},
		{"**", "a a/b/c", ""},
		{"**/*.md", "a.md x/a.md x/y/a.md", "a.txt x/a.txt"},
		{"a/**/z", "a/z a/b/z a/b/c/z a/b/z/below", "z a b/a/z a/b"},
		{"a/**/b/**/c", "a/b/c a/x/b/y/z/c a/b/b/c/c", "a/c a/x/c b/c a/b"},
		{"**/a/b", "a/b x/a/b x/a/a/b a/a/b", "a/x/b"},
		{"**/x/**/y", "x/y x/a/y q/x/a/b/y x/x/y/y", "y/x"},
		{"[ab]?/*", "ax/1 by/2", "cx/1 a/1"},
		{`\*`, "*", "a"},
		{"Ü*", "Übung", "übung"},
		{"cd[1]", "cd[1] cd[1]/a cd1", "cd2 cd[1]x"},
	} {
		g, err := parseGlob(c.glob)
		if err != nil {
			t.Error(c.glob, err)
			continue
		}
		for _, p := range strings.Fields(c.yes) {
			if !g.match(p) {
				t.Errorf("%q does not match %q", c.glob, p)
			}
		}
		for _, p := range strings.Fields(c.no) {
			if g.match(p) {
				t.Errorf("%q matches %q", c.glob, p)
			}
		}
	}
	for _, bad := range []string{"", "/", "/a", "a//b", "[", "a/[b", "..", "a/../b", "./a"} {
		if _, err := parseGlob(bad); !errors.Is(err, path.ErrBadPattern) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// No pattern can be made to take long.
func TestGlobsAreQuick(t *testing.T) {
	g, err := parseGlob(strings.Repeat("**/a*a/", 200) + "b")
	if err != nil {
		t.Fatal(err)
	}
	p := strings.Repeat("aaaaaaaa/", 400) + "c"
	began := time.Now()
	if g.match(p) {
		t.Error("matches")
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Error("took", took)
	}
}

func FuzzGlob(f *testing.F) {
	for _, s := range []string{"**/a", "a/*/b", "[a-z]*/**", "x", "**/**"} {
		f.Add(s, "a/b/c")
	}
	f.Fuzz(func(t *testing.T, text, p string) {
		g, err := parseGlob(text)
		if err != nil {
			return
		}
		if !strings.Contains(text, "**") {
			whole, err := path.Match(strings.TrimSuffix(text, "/"), p)
			if err == nil && whole && !g.match(p) {
				t.Errorf("%q does not match %q", text, p)
			}
		}
		if g.match(p) && !g.match(p+"/below") {
			t.Errorf("%q matches %q and not what is in it", text, p)
		}
	})
}

func TestGlobsMayHaveTheNameOfTheShareBefore(t *testing.T) {
	all := []string{"cd1/a", "cd2/b", "movie/cd2/c", "x"}
	var entries []Entry
	for _, p := range all {
		entries = append(entries, Entry{Path: p, Kind: File, Root: EmptyRoot})
	}
	m, err := NewManifest("movie", entries)
	if err != nil {
		t.Fatal(err)
	}
	for glob, want := range map[string]string{
		"movie/cd1": "cd1/a", "movie/cd1/a": "cd1/a", "movie/x/": "x", "movie/*1": "cd1/a", "movie/**/c": "movie/cd2/c",
		"movie/cd2": "movie/cd2/c", // the share has that
		"movie":     "movie/cd2/c",
		"movies/x":  "", "movie/movie/cd2": "movie/cd2/c", "*/x": "",
	} {
		gs, err := ParseGlobs([]string{glob})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range all {
			if gs.In(m).Match(p) {
				got = append(got, p)
			}
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%q matches %q, want %q", glob, s, want)
		}
	}
	m.Name, m.starts = "album", m.starts[:1]
	if gs, _ := ParseGlobs([]string{"album"}); !gs.In(m).Match("cd1/a") {
		t.Error("the name of the share is not all of it")
	}
}
