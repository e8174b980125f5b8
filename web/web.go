// Package web is the page of a node: files that a browser loads and that ask the
// node's API for all that they show. It promises nothing to outsiders.
//
// There is no build step, and nothing is loaded from elsewhere. The token stands behind
// the # of the address, where a browser keeps it to itself; the page takes it from there
// and forgets it with its tab.
package web

import (
	"cmp"
	"embed"
	"io/fs"
	"net/http"
	"strings"
)

//go:embed static
var static embed.FS

// Page serves the files; nothing answers where there is none, and all that would change them.
func Page(nothing http.HandlerFunc) http.Handler {
	files, err := fs.Sub(static, "static")
	if err != nil {
		panic(err) // it is in the program
	}
	serve := http.FileServerFS(files)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := fs.Stat(files, cmp.Or(strings.Trim(r.URL.Path, "/"), "."))
		if err != nil || r.Method != http.MethodGet && r.Method != http.MethodHead {
			nothing(w, r)
			return
		}
		serve.ServeHTTP(w, r)
	})
}
