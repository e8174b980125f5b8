//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/depot/archive"
	"github.com/piecelease/fetcher/internal/rig"
)

// A node that is killed while it sends the last bytes of an export has cut it short, too.
func TestAnExportThatIsCutInItsEndIsCutShort(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	w, err := archive.NewWriter(&b, "d", time.Now(), nil)
	must(t, err)
	must(t, w.Close(0))
	cut := io.MultiReader(bytes.NewReader(b.Bytes()[:b.Len()-1000]), broken{})
	if err := (depots{asker{&app{}}}).export(cut, filepath.Join(t.TempDir(), "a.tar")); err == nil || err.Error() != "the export was cut short" {
		t.Errorf("%v", err)
	}
}

// broken is the body of an answer whose connection has ended.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// What --seed-until says that it takes at most is all that it takes.
func TestSeedUntilTakesAtMostWhatItSays(t *testing.T) {
	t.Parallel()
	for _, v := range []string{"36601d", "878401h", "1000001"} {
		if _, _, err := seedUntil([]string{v}); err == nil || !strings.Contains(err.Error(), "36600d") {
			t.Errorf("%s: %v", v, err)
		}
	}
}

// A path that is served under another name too is another share.
func TestAPathThatIsServedUnderTwoNames(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "photos")
	rig.WriteRandom(t, filepath.Join(path, "a"), 1000, 1)
	n := startNode(t, t.TempDir())
	n.sure("add", path, "--name", "other")
	n.sure("add", path)
	e, err := servedAt(t.Context(), n.client, path)
	must(t, err)
	if all, err := n.client.Entries(t.Context()); err != nil || len(all) != 2 || e.ID != all[1].ID {
		t.Errorf("entry %d %q of %d, %v", e.ID, e.Name, len(all), err)
	}
}

// What a refused hold has added, and cannot be removed, is not said to be removed.
func TestAHoldThatCannotBeUndoneDoesNotSayThatItIs(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "b")
	must(t, err)
	defer os.RemoveAll(dir)
	path, socket := filepath.Join(dir, "photos"), filepath.Join(dir, "s")
	must(t, os.Mkdir(path, 0o700))
	ln, err := net.Listen("unix", socket)
	must(t, err)
	answer := func(status int, v any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(v)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/entries", answer(200, api.List[api.Entry]{}))
	mux.HandleFunc("GET /v1/holdings", answer(200, api.List[api.Held]{}))
	mux.HandleFunc("POST /v1/entries", answer(200, api.Entry{ID: 1, Kind: "serve", State: api.Served}))
	mux.HandleFunc("POST /v1/holds", answer(500, api.Problem{Detail: "no room"}))
	mux.HandleFunc("DELETE /v1/entries/1", answer(500, api.Problem{Detail: "the catalog is locked"}))
	s := &http.Server{Handler: mux}
	go func() { _ = s.Serve(ln) }()
	defer s.Close()
	c, err := api.Dial(t.Context(), socket)
	must(t, err)
	a := depots{asker{&app{stdout: os.Stdout, stderr: newTerminal(io.Discard)}}}
	if err := a.hold(t.Context(), c, path, api.Hold{Depots: []string{"/ip4/192.0.2.1/tcp/1/p2p/x"}}, false); err == nil || !strings.Contains(err.Error(), "the catalog is locked") || strings.Contains(err.Error(), "is removed") {
		t.Errorf("it says: %v", err)
	}
}
