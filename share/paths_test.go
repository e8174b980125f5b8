package share

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// entry makes an entry out of a short text: "path" is a file, "path/" an empty
// directory, "path -> target" a symlink.
func entry(s string) Entry {
	if path, target, ok := strings.Cut(s, " -> "); ok {
		return Entry{Path: path, Kind: Symlink, Target: target}
	}
	if path, ok := strings.CutSuffix(s, "//"); ok {
		return Entry{Path: path, Kind: Dir}
	}
	return Entry{Path: s, Root: EmptyRoot}
}

func entriesOf(texts ...string) []Entry {
	var out []Entry
	for _, s := range texts {
		out = append(out, entry(s))
	}
	return out
}

// problemsOf returns what NewManifest says about paths, one "path why" for each problem.
func problemsOf(t testing.TB, name string, entries []Entry) []string {
	t.Helper()
	_, err := NewManifest(name, entries)
	if err == nil {
		return nil
	}
	var paths *PathError
	if !errors.As(err, &paths) || !errors.Is(err, ErrPath) {
		t.Fatalf("not about paths: %v", err)
	}
	return texts(paths.Problems)
}

func texts(problems []PathProblem) []string {
	var out []string
	for _, p := range problems {
		out = append(out, p.Path+" "+p.Why)
	}
	return out
}

func TestHostilePathsAreRefused(t *testing.T) {
	long := strings.Repeat("a", MaxPath+1)
	for _, c := range []struct {
		path, why string // why is "" if the path is good
	}{
		{"a", ""}, {"a/b/c", ""}, {"...", ""}, {"..a/b..", ""}, {".hidden", ""}, {" ", ""}, {`a\b`, ""}, {"é漢", ""}, {"\u202e", ""},
		{long[:MaxPath], ""},
		{"", "is an empty path"},
		{"/", "is absolute"}, {"/a", "is absolute"}, {"//a", "is absolute"},
		{"..", `has a ".." component`}, {"../a", `has a ".." component`}, {"a/..", `has a ".." component`}, {"a/../b", `has a ".." component`},
		{".", `has a "." component`}, {"./a", `has a "." component`}, {"a/.", `has a "." component`}, {"a/./b", `has a "." component`},
		{"a//b", "has an empty component"}, {"a/", "has an empty component"},
		{"a\x00b", "holds a NUL"}, {"a\nb", "holds a control character"}, {"a\x1b[2J", "holds a control character"},
		{"a\x7f", "holds a control character"}, {"a\u0085", "holds a control character"},
		{"a\xff", "is not UTF-8"}, {"\xed\xa0\x80", "is not UTF-8"}, {"\xc0\xae\xc0\xae/a", "is not UTF-8"},
		{long, "is longer than 4096 bytes"},
	} {
		var want []string
		if c.why != "" {
			want = []string{c.path + " " + c.why}
		}
		if got := problemsOf(t, "n", []Entry{{Path: c.path, Root: EmptyRoot}}); !slices.Equal(got, want) {
			t.Errorf("%.20q: %q, want %q", c.path, got, want)
		}
	}
}

func TestNameOfAShareIsOneComponent(t *testing.T) {
	for _, c := range []struct{ name, why string }{
		{"a", ""}, {"a b", ""}, {"a/", ""},
		{"", " is an empty path"},
		{"/", " is an empty path"},
		{"..", ".. cannot be the name of a share"}, {".", ". cannot be the name of a share"},
		{"a/b", "a/b holds a / and cannot be the name of a share"},
		{"/a", "/a holds a / and cannot be the name of a share"},
		{"a//", "a/ holds a / and cannot be the name of a share"},
		{"a\x00", "a\x00 holds a NUL"},
	} {
		var want []string
		if c.why != "" {
			want = []string{c.why}
		}
		if got := problemsOf(t, c.name, nil); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", c.name, got, want)
		}
	}
}

func TestEntriesThatExcludeEachOtherAreRefused(t *testing.T) {
	for _, c := range []struct{ entries, want []string }{
		{[]string{"a", "ab", "a.b", "b/a", "b/ab//"}, nil},
		{[]string{"a", "a"}, []string{"a is listed twice"}},
		{[]string{"a", "a//"}, []string{"a is listed twice"}},
		{[]string{"a", "a/b"}, []string{`a/b is below "a", which is not a folder`}},
		{[]string{"a", "a.b", "a.c/d", "a/b/c"}, []string{`a/b/c is below "a", which is not a folder`}},
		{[]string{"l -> d", "l/x", "d/y"}, []string{`l/x is below "l", which is not a folder`}},
		{[]string{"d//", "d/x"}, []string{`d is listed as an empty folder and holds "d/x"`}},
		{[]string{"a/b", "a/b/c", "a/b/d/e", "a/b.c"}, []string{
			`a/b/c is below "a/b", which is not a folder`, `a/b/d/e is below "a/b", which is not a folder`,
		}},
	} {
		if got := problemsOf(t, "n", entriesOf(c.entries...)); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.entries, got, c.want)
		}
	}
}

func TestAllProblemsAreListedTogether(t *testing.T) {
	var entries []Entry
	for i := range 250 {
		entries = append(entries, Entry{Path: fmt.Sprintf("%03d/../x", i)})
	}
	entries = append(entries, entry("good"), entry("l -> /etc"))
	_, err := NewManifest("n", entries)
	var paths *PathError
	if !errors.As(err, &paths) || len(paths.Problems) != 100 || paths.Count != 251 {
		t.Fatalf("%v", err)
	}
	text := err.Error()
	for _, s := range []string{"cannot exist on this system:\n", `"000/../x" has a ".." component`, `"099/../x"`, "\n  and 151 more, 251 in all"} {
		if !strings.Contains(text, s) {
			t.Errorf("%q is not in %s", s, text)
		}
	}
	if strings.Contains(text, "100/") || strings.Count(text, "\n") != 101 {
		t.Errorf("more than 100 are listed: %s", text)
	}
	if got, want := problemsOf(t, "n", entries[249:]), []string{`249/../x has a ".." component`, `l is a link to "/etc", which is absolute`}; !slices.Equal(got, want) {
		t.Errorf("of the last, %q, want %q", got, want)
	}
}

// unchecked returns entries as a manifest that has been checked neither for where its entries
// lie nor for conflicts between them.
func unchecked(t interface{ Fatal(...any) }, entries []Entry) *Manifest {
	b, err := checkedAndEncoded("n", false, len(entries), sorted(entries))
	if err != nil {
		t.Fatal(err)
	}
	m, err := index(b)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
