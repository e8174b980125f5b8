package share

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestNamesAreJudgedBySystem(t *testing.T) {
	a255, wide255 := strings.Repeat("a", 255), strings.Repeat("é", 255)
	for _, c := range []struct {
		entries []string
		want    []string // for any system
	}{
		{[]string{"plain", "with space", ".hidden", "é/漢", "comma,semi;", "con1", "com", "com10", "nulls.txt", "a/b/c", "x.", "d../e"}, []string{
			"d.. ends in a dot or a space, which is dropped on Windows",
			"x. ends in a dot or a space, which is dropped on Windows",
		}},
		{[]string{`a\b`, "a:b", "what?", "a*", "<", ">", `"`, "|"}, []string{
			`" holds '"', which no name may hold on Windows`,
			"< holds '<', which no name may hold on Windows",
			"> holds '>', which no name may hold on Windows",
			"a* holds '*', which no name may hold on Windows",
			"a:b holds ':', which no name may hold on Windows",
			`a\b holds '\\', which no name may hold on Windows`,
			"what? holds '?', which no name may hold on Windows",
			"| holds '|', which no name may hold on Windows",
		}},
		{[]string{"AUX", "aux.c", "nul .tar.gz", "COM1", "lpt².x", "src/con/x", "src/con/y", "conin$"}, []string{
			"AUX is the name of a device on Windows",
			"COM1 is the name of a device on Windows",
			"aux.c is the name of a device on Windows",
			"conin$ is the name of a device on Windows",
			"lpt².x is the name of a device on Windows",
			"nul .tar.gz is the name of a device on Windows",
			"src/con is the name of a device on Windows",
		}},
		{[]string{"trailing ", "dir /f"}, []string{
			"dir  ends in a dot or a space, which is dropped on Windows",
			"trailing  ends in a dot or a space, which is dropped on Windows",
		}},
		{[]string{a255, a255[1:] + "/" + a255}, nil},
		{[]string{a255 + "a"}, []string{
			a255 + "a ends in a name of 256 bytes, and a name may have 255 on Linux",
			a255 + "a ends in a name of 256 characters, and a name may have 255 on macOS and Windows",
		}},
		{[]string{wide255}, []string{wide255 + " ends in a name of 510 bytes, and a name may have 255 on Linux"}},
		{[]string{"README", "readme", "other"}, []string{`readme is the same as "README" on macOS and Windows`}},
		{[]string{"A/x", "a/x", "a/y", "b/A/z", "b/B"}, []string{`a is the same as "A" on macOS and Windows`}},
		{[]string{"A/x", "B/x", "b/y"}, []string{`b is the same as "B" on macOS and Windows`}},
		{[]string{"\u00e9", "e\u0301"}, []string{"\u00e9 is the same as \"e\u0301\" on macOS"}}, // NFC and NFD
		{[]string{"É", "é"}, []string{`é is the same as "É" on macOS and Windows`}},
		{[]string{"strasse", "straße"}, []string{`straße is the same as "strasse" on macOS`}},
		{[]string{"Σ", "ς", "σ"}, []string{`ς is the same as "Σ" on macOS and Windows`, `σ is the same as "Σ" on macOS and Windows`}},
		{[]string{"a/b/l -> ../../c", "l -> a/b/../.."}, nil},
		{[]string{"a/b/c/f", "x -> a/b/c", "l -> x/../../.."}, []string{`l is a link to "x/../../..", which leaves the share on Windows`}},
		{[]string{`l -> a\b`, "m -> c:d"}, []string{
			`l is a link to "a\\b", which holds '\\', and no name may hold that on Windows`,
			`m is a link to "c:d", which holds ':', and no name may hold that on Windows`,
		}},
	} {
		m, err := NewManifest("n", entriesOf(c.entries...))
		if err != nil {
			t.Fatal(err)
		}
		if got := texts(PortabilityProblems(m, "", nil).Problems); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.entries, got, c.want)
		}
		// Each system alone reports its own problems, and nothing else.
		for goos, called := range map[string]string{"linux": "Linux", "freebsd": "Linux", "darwin": "macOS", "windows": "Windows"} {
			var want []string
			for _, s := range c.want {
				if why, who, _ := cutLast(s, " on "); slices.Contains(strings.Split(who, " and "), called) {
					want = append(want, why+" on "+called)
				}
			}
			if got := texts(PortabilityProblems(m, goos, nil).Problems); !slices.Equal(got, want) {
				t.Errorf("%q on %s: %q, want %q", c.entries, goos, got, want)
			}
		}
	}
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// What is not wanted is in nobody's way, nor is a folder in which nothing is wanted.
func TestNamesAreJudgedIfSomethingIsWantedThere(t *testing.T) {
	m, err := NewManifest("n", entriesOf("A/x", "a/x", "a/y", "b.c", "b./x/y", "b./z", "b.0", "nul -> c:d"))
	if err != nil {
		t.Fatal(err)
	}
	for only, want := range map[string][]string{
		"A/x":    nil,
		"a/y":    {`a is the same as "A" on Windows`},
		"b.c":    nil,
		"b./z":   {"b. ends in a dot or a space, which is dropped on Windows"},
		"b./x/y": {"b. ends in a dot or a space, which is dropped on Windows"},
		"nul":    {"nul is the name of a device on Windows", `nul is a link to "c:d", which holds ':', and no name may hold that on Windows`},
	} {
		wanted := make([]bool, m.Len())
		i, _ := m.Find(only)
		wanted[i] = true
		if got := texts(PortabilityProblems(m, "windows", wanted).Problems); !slices.Equal(got, want) {
			t.Errorf("of %s: %q, want %q", only, got, want)
		}
	}
}

// Of names in a folder that fall together all are twins, but nothing below them or beside them.
func TestTwinsAreThePathsThatFallTogether(t *testing.T) {
	for paths, want := range map[string]string{
		"a b c/d":                      "",
		"D/a D/e/x d/E/y other/D":      "D d",
		"D x/d/FILE x/d/File x/d/file": "x/d/FILE x/d/File x/d/file",
	} {
		m, err := NewManifest("n", entriesOf(strings.Fields(paths)...))
		if err != nil {
			t.Fatal(err)
		}
		twin := Twins(m)
		if want == "" && twin != nil {
			t.Errorf("%s: there are some", paths)
		}
		for _, p := range strings.Fields("D D/a D/e D/e/x a b c c/d d d/E d/E/y other other/D x x/d x/d/FILE x/d/File x/d/file") {
			if want := slices.Contains(strings.Fields(want), p); twin != nil && twin(p) != want {
				t.Errorf("%s: %s: %t", paths, p, !want)
			}
		}
	}
}

func TestNameOfTheShareIsJudgedToo(t *testing.T) {
	m, err := NewManifest("nul", []Entry{{Path: "nul", Root: EmptyRoot}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := texts(PortabilityProblems(m, "windows", nil).Problems), []string{"nul is the name of a device on Windows"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func BenchmarkPaths(b *testing.B) {
	entries := manyFiles(300_000)
	for i := range 1000 {
		entries = append(entries, Entry{Path: fmt.Sprintf("some/dir-%05d/link", i), Kind: Symlink, Target: "../dir-00000/file-01.txt"})
	}
	m, err := NewManifest("bench", entries)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("problems", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			m.problems()
		}
	})
	b.Run("portability", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			PortabilityProblems(m, "", nil)
		}
	})
}
