package fetcher_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"

	"github.com/piecelease/fetcher/internal/rig"
)

// TestOtherSystems checks the types of all packages, and of their tests, for the other
// systems. It compiles nothing: go vet would compile everything that they import.
func TestOtherSystems(t *testing.T) {
	rig.OnlyLong(t)
	for _, system := range []string{"darwin", "windows"} {
		t.Run(system, func(t *testing.T) {
			all, err := packages.Load(&packages.Config{
				Mode:      packages.LoadAllSyntax,
				Env:       append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0"),
				Tests:     true,
				ParseFile: parseOurs,
			}, "./...")
			if err != nil {
				t.Fatal(err)
			}
			if len(all) < 100 {
				t.Errorf("only %d packages", len(all))
			}
			for _, p := range all {
				if strings.HasSuffix(p.ID, ".test") {
					continue // made by the go command, and not parsed whole here
				}
				for _, e := range p.Errors {
					t.Error(e)
				}
			}
		})
	}
}

// parseOurs leaves out the bodies of functions of other modules, which nothing looks at.
func parseOurs(fset *token.FileSet, name string, src []byte) (*ast.File, error) {
	f, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
	if f != nil && !strings.HasPrefix(name, root) {
		for _, d := range f.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				f.Body = nil
			}
		}
	}
	return f, err
}

var root, _ = os.Getwd()
