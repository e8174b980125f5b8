// Command private shares a file or folder with named peers, and nobody else:
//
//	private [-state DIR] id                     says who this node is
//	private [-state DIR] share PATH PEER PEER   serves until Ctrl-C, and prints the ticket
//	private [-state DIR] fetch TICKET DIR       fetches what others share with this node
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

func main() {
	state := flag.String("state", "", "the state directory (default: the user's)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := run(ctx, *state, flag.Args())
	switch {
	case errors.Is(err, share.ErrNotAllowed):
		fmt.Fprintf(os.Stderr, "private: %v; ask whoever shares it to name this node\n", err)
		os.Exit(7)
	case err != nil:
		fmt.Fprintln(os.Stderr, "private:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, state string, args []string) error {
	// The others know this node by its key, so it must be the key in its state.
	node, err := fetcher.Open(ctx, fetcher.Config{Dir: state, Sole: true})
	if err != nil {
		return err
	}
	defer node.Close()
	switch {
	case len(args) == 1 && args[0] == "id":
		fmt.Println(node.ID())
		return nil
	case len(args) == 4 && args[0] == "share":
		return serve(ctx, node, args[1], peers.ID(args[2]), peers.ID(args[3]))
	case len(args) == 3 && args[0] == "fetch":
		return fetch(ctx, node, args[1], args[2])
	}
	return errors.New("usage: private [-state DIR] id | share PATH PEER PEER | fetch TICKET DIR")
}

// serve shares what is at path with two peers until ctx ends, or a file changes.
func serve(ctx context.Context, node *fetcher.Node, path string, friends ...peers.ID) error {
	s, err := node.Share(ctx, path, fetcher.ShareOptions{Allow: friends})
	if err != nil {
		return err
	}
	fmt.Println(s.Ticket())
	select {
	case <-s.Done():
		return s.Err()
	case <-ctx.Done():
		return nil
	}
}

func fetch(ctx context.Context, node *fetcher.Node, ticket, dir string) error {
	// While it is fetched it is served to no peer: none may have it from this node.
	t, err := node.Fetch(ctx, ticket, fetcher.FetchOptions{Dir: dir, Anonymous: true, Allow: []peers.ID{node.ID()}})
	if err != nil {
		return err
	}
	if err := t.Wait(ctx); err != nil {
		return err
	}
	fmt.Println(t.Path())
	return nil
}
