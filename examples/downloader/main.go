// Command downloader fetches a share into a folder and shows a progress bar:
//
//	downloader [-state DIR] TICKET DIR
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/piecelease/fetcher"
)

func main() {
	state := flag.String("state", "", "the state directory (default: the user's)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if flag.NArg() != 2 {
		fmt.Fprintln(os.Stderr, "usage: downloader [-state DIR] TICKET DIR")
		os.Exit(2)
	}
	path, err := download(ctx, *state, flag.Arg(0), flag.Arg(1), os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "downloader:", err)
		os.Exit(1)
	}
	fmt.Println(path)
}

// download fetches a share and returns where it is.
func download(ctx context.Context, state, ticket, dir string, bar io.Writer) (path string, err error) {
	node, err := fetcher.Open(ctx, fetcher.Config{Dir: state})
	if err != nil {
		return "", err
	}
	defer node.Close()
	t, err := node.Fetch(ctx, ticket, fetcher.FetchOptions{Dir: dir})
	if err != nil {
		return "", err
	}
	for e := range t.Events(ctx) {
		switch e := e.(type) {
		case fetcher.Progress:
			fmt.Fprint(bar, "\r", picture(e, 30))
		case fetcher.Stalled:
			fmt.Fprintf(bar, "\nwaiting: %s\n", e.Reason)
		}
	}
	if err := t.Wait(ctx); err != nil {
		return "", err // what is verified is kept: the next run continues from there
	}
	fmt.Fprintln(bar, "\r"+picture(t.Progress(), 30))
	return t.Path(), nil
}

// picture is a bar of this many characters, and its meaning in words.
func picture(p fetcher.Progress, width int) string {
	done := 1.0
	if p.Bytes > 0 {
		done = float64(p.Verified) / float64(p.Bytes)
	}
	full := int(done * float64(width))
	return fmt.Sprintf("[%s%s] %3.0f %%  %6.1f MB/s  sources: %d", strings.Repeat("#", full), strings.Repeat(".", width-full),
		100*done, p.Rate/1e6, len(p.Sources))
}
