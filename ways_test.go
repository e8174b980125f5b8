package fetcher_test

import (
	"go/ast"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The functions that the architecture names are there, and each pure package says whose
// actor it decides for.
func TestTheArchitectureNamesWhatIsThere(t *testing.T) {
	declared, packages := map[string]bool{}, map[string]bool{}
	for _, s := range sources(t) {
		pkg := path.Base(s.pkg)
		if s.pkg == "." {
			pkg = "fetcher"
		}
		packages[pkg] = true
		for _, d := range s.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				name := d.Name.Name
				if d.Recv != nil {
					name = receiver(d.Recv.List[0].Type) + "." + name
				}
				declared[pkg+"."+name] = true
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if x, ok := spec.(*ast.TypeSpec); ok {
						declared[pkg+"."+x.Name.Name] = true
					}
				}
			}
		}
	}
	text, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, m := range regexp.MustCompile("`([a-z0-9]+)((?:\\.[A-Za-z]+)+)`").FindAllStringSubmatch(string(text), -1) {
		name := m[1] + m[2]
		switch {
		case !packages[m[1]] || strings.HasSuffix(name, ".go"):
			continue
		case !declared[name]:
			t.Errorf("docs/architecture.md names %s, which is not there", name)
		}
		named++
	}
	if named < 50 {
		t.Errorf("only %d names were looked at", named)
	}
}

// What the pages for developers link to is there, and so are the files, makefile targets and
// tests that they name.
func TestThePagesNameWhatIsThere(t *testing.T) {
	tests := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)`)
	err := fs.WalkDir(os.DirFS("."), ".", func(file string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, "_test.go") && !strings.HasPrefix(file, "rounds/kvtest/") {
			return err
		}
		text, err := os.ReadFile(file)
		for _, m := range declared.FindAllSubmatch(text, -1) {
			tests[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, page := range []string{"README.md", "CONTRIBUTING.md", "docs/architecture.md", "docs/lineage.md", "docs/simnet.md", "docs/decisions/README.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		there := func(what, file string) {
			named++
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: %s: %v", page, what, err)
			}
		}
		for _, m := range regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`).FindAllStringSubmatch(string(text), -1) {
			there("the link "+m[1], path.Join(path.Dir(page), m[1]))
		}
		for _, m := range regexp.MustCompile("`((?:[a-z]+/)*[a-z_]+\\.go)`").FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1], "/") || m[1] != "doc.go" {
				there("the file "+m[1], m[1])
			}
		}
		for _, m := range regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z][A-Za-z0-9_]+)`").FindAllStringSubmatch(string(text), -1) {
			if named++; !tests[m[1]] {
				t.Errorf("%s names the test %s, which is not there", page, m[1])
			}
		}
		for _, m := range regexp.MustCompile("`make ([a-z-]+)`").FindAllStringSubmatch(string(text), -1) {
			if named++; !strings.Contains(string(makefile), "\n"+m[1]+":") {
				t.Errorf("%s names make %s, which is not there", page, m[1])
			}
		}
	}
	if named < 120 {
		t.Errorf("only %d names were looked at", named)
	}
}

// The table of packages says what each may import, as layers does.
func TestTheArchitectureHasEveryPackage(t *testing.T) {
	text, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z0-9/]+)` \\| .* \\| ?(.*) \\|$").FindAllStringSubmatch(string(text), -1) {
		told[m[1]] = m[2]
	}
	for pkg, imports := range layers {
		if pkg == "." || pkg == "actors" || strings.HasPrefix(pkg, "internal/") || strings.HasPrefix(pkg, "deploy/") || strings.HasPrefix(pkg, "examples/") || pkg == "wire/wirepb" {
			continue // said in other words, or not part of the program
		}
		var want []string
		for _, p := range strings.Fields(imports) {
			if p == "." {
				p = "fetcher"
			}
			if p == "internal/sqlitedb" || !strings.HasPrefix(p, "internal/") {
				want = append(want, p)
			}
		}
		got := strings.FieldsFunc(told[pkg], func(c rune) bool { return c == ',' || c == ' ' })
		slices.Sort(got)
		slices.Sort(want)
		if _, ok := told[pkg]; !ok || !slices.Equal(got, want) {
			t.Errorf("docs/architecture.md says that %s may import %v, layers says %v", pkg, got, want)
		}
	}
}

// An actor of each core is where the core's package says.
func TestEachCoreNamesItsActor(t *testing.T) {
	for _, pkg := range []string{"leasemgr", "fetchpool", "verifier", "fleet", "transfer", "peers", "rounds"} {
		doc, err := os.ReadFile(pkg + "/doc.go")
		if err != nil {
			t.Fatal(err)
		}
		_, after, ok := strings.Cut(string(doc), "// Its actor")
		if !ok {
			t.Errorf("%s/doc.go does not say which actor is its", pkg)
		}
		for _, file := range regexp.MustCompile(`actors/[a-z]+\.go`).FindAllString(after, -1) {
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: %v", pkg, err)
			}
		}
	}
}
