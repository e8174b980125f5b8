package daemon

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/piecelease/fetcher/api"
)

// Whoever goes on with a file of an earlier version is sent the new one from its beginning, though its file is as long and as
// old: what would be saved otherwise is neither of the two.
func TestADownloadOfAnEarlierVersionIsNotContinuedWithTheNext(t *testing.T) {
	t.Parallel()
	d, src, was := begun(t, t.TempDir()), file(t, "0123456789", t.TempDir(), "f"), time.Unix(1e9, 0)
	must(t, os.Chtimes(src, was, was))
	e := added(t, d, api.Add{Paths: []string{src}})
	at := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", at)
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- api.NewServer(d, slog.New(slog.DiscardHandler), nil, nil).Serve(ctx, l, api.Access{}) }()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", at) }}}
	get := func(header ...string) (body string, res *http.Response) {
		req, err := http.NewRequest("GET", "http://node/v1/entries/1/files/f", nil)
		must(t, err)
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		res, err = client.Do(req)
		must(t, err)
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		must(t, err)
		return string(b), res
	}
	have, first := get("Range", "bytes=0-4")
	must(t, os.WriteFile(src, []byte("abcdefghij"), 0o600))
	must(t, os.Chtimes(src, was, was)) // as rsync and archives leave it
	set(t, d, e.ID, api.Set{Rescan: true})
	until(t, d, e.ID, "the new version", func(x api.Entry) bool { return x.State == api.Served && x.Share != e.Share })
	if tag := first.Header.Get("ETag"); tag == "" || first.Header.Get("Last-Modified") != "" {
		t.Errorf("by the time of a file its versions are told apart: %v", first.Header)
	} else if more, res := get("Range", "bytes=5-", "If-Range", tag); res.StatusCode != http.StatusOK || more != "abcdefghij" {
		t.Errorf("%q of the first version is continued with %q", have, more)
	}
	cancel()
	must(t, <-ended)
}
