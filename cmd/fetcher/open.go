package main

import (
	"context"
	"errors"
	"fmt"

	ma "github.com/multiformats/go-multiaddr"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/share"
)

// errListen says that an address of --listen cannot be had.
var errListen = errors.New("listen")

// open starts a node, and tells a mistake in --listen or --announce from an
// address that cannot be had.
func open(ctx context.Context, cfg fetcher.Config) (*fetcher.Node, error) {
	if err := checkAddrs("--listen", cfg.Listen, "/ip4/0.0.0.0/tcp/4001, or none"); err != nil {
		return nil, err
	}
	if err := checkAddrs("--announce", cfg.Announce, "/dns4/example.org/tcp/4001"); err != nil {
		return nil, err
	}
	node, err := fetcher.Open(ctx, cfg)
	if errors.Is(err, share.ErrNetwork) { // it has not dialled anybody
		err = listenError{err}
	}
	return node, err
}

func checkAddrs(flag string, addrs []string, such string) error {
	for _, s := range addrs {
		if _, err := ma.NewMultiaddr(s); err != nil && !(s == "none" && len(addrs) == 1 && flag == "--listen") {
			return usageError{fmt.Errorf("%s takes a multiaddr such as %s, not %q: %v", flag, such, s, err)}
		}
	}
	return nil
}

// listenError is an error of a node that is starting.
type listenError struct{ error }

func (e listenError) Unwrap() []error { return []error{errListen, e.error} }
