package fetcher

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// Types that other packages declare are documented here in full: go doc does not show their fields.
func TestTheDocumentationNamesEachField(t *testing.T) {
	docs := map[string]string{}
	files, err := os.ReadDir(".")
	must(t, err)
	for _, file := range files {
		if !strings.HasSuffix(file.Name(), ".go") || strings.HasSuffix(file.Name(), "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file.Name(), nil, parser.ParseComments)
		must(t, err)
		for _, d := range f.Decls {
			if d, ok := d.(*ast.GenDecl); ok && d.Tok == token.TYPE && !d.Lparen.IsValid() {
				docs[d.Specs[0].(*ast.TypeSpec).Name.Name] = d.Doc.Text()
			}
		}
	}
	for name, v := range map[string]any{"Planned": Planned{}, "Progress": Progress{}, "Source": Source{}, "SourceChanged": SourceChanged{}, "LeaseEvent": LeaseEvent{},
		"Leases": Leases{}, "Stalled": Stalled{}, "Ended": Ended{}, "Child": Child{}, "FleetStatus": FleetStatus{}, "FleetMember": FleetMember{}, "FleetEvent": FleetEvent{}} {
		for f := range reflect.TypeOf(v).Fields() {
			if !regexp.MustCompile(`\b` + f.Name + `\b`).MatchString(docs[name]) {
				t.Errorf("the documentation of %s does not name %s", name, f.Name)
			}
		}
	}
}
