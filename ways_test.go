package fetcher_test

import (
	"go/ast"
	"os"
	"path"
	"regexp"
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
