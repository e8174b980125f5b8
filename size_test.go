package fetcher_test

import (
	"fmt"
	"go/ast"
	"maps"
	"slices"
	"testing"
)

// Bounds of what is written by hand, except tests: whatever exceeds one is hard to read
// as a whole.
const (
	maxFile    = 500 // lines
	maxFunc    = 60  // lines
	maxMethods = 45  // of one type
)

// larger are the exceptions, each with its reason. One that is no longer needed fails.
var larger = map[string]string{
	"actors/transfer.go Receive": "one call for each message",
	"actors.depotActor":          "one method for each thing that an account, a transfer or a task may say",
	"fetchpool.Pool":             "one method for each thing that can happen to a source, and each decision behind it",
	"leasedb.DB":                 "one method for each transaction",
	"leasedb.tx":                 "one method for each step of these",
	"..Node":                     "the API to embed: one method for each thing that a node does",
	"leasemgr.Manager":           "one method for each thing that can happen to a lease, and each decision behind it",
	"renewal.Service":            "one method for each thing that can happen to a hold, and each decision behind it",
	"simnet.Node":                "what a story may do to a node, and what a node is to the program",
	"store.Partial":              "one state on disk; its parts are files of the package",
}

func TestNothingGrowsTooLargeToRead(t *testing.T) {
	found := map[string]string{}
	methods := map[string]int{}
	for _, s := range sources(t) {
		if ast.IsGenerated(s.File) {
			continue
		}
		if n := fset.File(s.Pos()).LineCount(); n > maxFile {
			found[s.file] = fmt.Sprintf("%d lines, at most %d", n, maxFile)
		}
		for _, d := range s.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if n := fset.Position(f.End()).Line - fset.Position(f.Pos()).Line + 1; n > maxFunc {
				found[s.file+" "+f.Name.Name] = fmt.Sprintf("%d lines, at most %d", n, maxFunc)
			}
			if f.Recv != nil {
				methods[s.pkg+"."+receiver(f.Recv.List[0].Type)]++
			}
		}
	}
	for of, n := range methods {
		if n > maxMethods {
			found[of] = fmt.Sprintf("%d methods, at most %d", n, maxMethods)
		}
	}
	for _, what := range slices.Sorted(maps.Keys(found)) {
		if larger[what] == "" {
			t.Errorf("%s has %s", what, found[what])
		}
	}
	for what := range larger {
		if found[what] == "" {
			t.Errorf("%s is no longer too large: take it off the list", what)
		}
	}
}

// receiver returns the name of the type that a method belongs to.
func receiver(of ast.Expr) string {
	switch x := of.(type) {
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.IndexListExpr:
		return receiver(x.X)
	}
	return of.(*ast.Ident).Name
}
