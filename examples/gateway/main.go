// Command gateway serves the files of a share over HTTP before it has any of them:
// what is asked for is fetched, verified and passed on, including ranges, and nothing else.
//
//	gateway [-state DIR] [-cache DIR] [-http ADDR] TICKET
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"mime"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path"
	"strings"
	"time"

	"github.com/piecelease/fetcher"
)

func main() {
	state := flag.String("state", "", "the state directory (default: the user's)")
	cache := flag.String("cache", ".", "the folder in which fetched files are kept")
	addr := flag.String("http", "127.0.0.1:8080", "where to listen")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: gateway [-state DIR] [-cache DIR] [-http ADDR] TICKET")
		os.Exit(2)
	}
	if err := run(ctx, *state, *cache, *addr, flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "gateway:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, state, cache, addr, ticket string) error {
	node, err := fetcher.Open(ctx, fetcher.Config{Dir: state})
	if err != nil {
		return err
	}
	defer node.Close()
	t, err := node.Fetch(ctx, ticket, fetcher.FetchOptions{Dir: cache, OnDemand: true})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Printf("http://%s/\n", l.Addr())
	server := &http.Server{Handler: files{t}, ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// files serves the files of a transfer.
type files struct{ t *fetcher.Transfer }

func (f files) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(path.Clean(r.URL.Path), "/")
	file, err := f.t.Open(r.Context(), name)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrInvalid):
		http.NotFound(w, r)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer file.Close()
	// The content under a share ID never changes, so the ID is a name for caches.
	w.Header().Set("Etag", `"`+f.t.ID().String()+`"`)
	// Without a type, ServeContent would read the beginning of the file to guess one.
	w.Header().Set("Content-Type", cmp.Or(mime.TypeByExtension(path.Ext(name)), "application/octet-stream"))
	http.ServeContent(w, r, name, time.Time{}, file)
}
