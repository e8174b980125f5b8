package web

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"
	"testing"
)

func TestThePageIsServedAndNothingElse(t *testing.T) {
	page := Page(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusTeapot) })
	for _, x := range []struct {
		method, path string
		want         int
		kind         string
	}{
		{"GET", "/", 200, "text/html"}, {"HEAD", "/", 200, "text/html"}, {"GET", "/app.js", 200, "text/javascript"}, {"GET", "/style.css", 200, "text/css"},
		{"GET", "/icon.svg", 200, "image/svg"}, {"GET", "/web.go", 418, ""}, {"GET", "/../web.go", 418, ""}, {"POST", "/", 418, ""}, {"POST", "/nope", 418, ""},
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(x.method, "http://node/", nil)
		r.URL.Path = x.path
		page.ServeHTTP(w, r)
		if w.Code != x.want || x.want == 200 && !strings.HasPrefix(w.Header().Get("Content-Type"), x.kind) {
			t.Errorf("%s %s: %d %s", x.method, x.path, w.Code, w.Header().Get("Content-Type"))
		}
	}
}

// What a share is called, and what its files are, comes from strangers: none of it may
// become HTML or script. And nothing may be loaded from elsewhere.
func TestThePageMakesNoHTMLOfTextAndLoadsNothingFromElsewhere(t *testing.T) {
	bad := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|new Function|style="|onclick="|javascript:|https?://`)
	err := fs.WalkDir(static, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := static.ReadFile(p)
		text := strings.ReplaceAll(string(b), "http://www.w3.org/2000/svg", "")
		if found := bad.FindString(text); found != "" {
			t.Errorf("%s has %q", path.Base(p), found)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
