package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/discovery"
	"github.com/piecelease/fetcher/discovery/dht"
	"github.com/piecelease/fetcher/share"
)

// listenHelp describes --listen.
const listenHelp = "listen on this `ADDR`: a port, on all interfaces; IP:PORT; a multiaddr such as /ip4/192.0.2.1/udp/4001/quic-v1; or none; may be repeated"

// lanHelp describes --lan of a node that serves, lookHelp of one that does not.
const (
	lanHelp  = "find peers on the local network, and be found there"
	lookHelp = "find peers on the local network"
)

// discoveries finds peers on the local network, if lan is set, and in a distributed hash table, if
// one is named, which entry may lead into; with quiet, without announcing itself.
func discoveries(lan bool, table, entry []string, quiet bool, log *slog.Logger) (all fetcher.Discoveries) {
	if lan {
		l := discovery.NewLAN(log)
		l.Quiet = quiet
		all = append(all, l)
	}
	if len(table) > 0 {
		cfg, _ := dht.Parse(table) // checkDHT has looked
		cfg.Entry, cfg.Quiet, cfg.Logger = append(cfg.Entry, entry...), quiet, log
		if d, err := dht.New(cfg); err == nil {
			all = append(all, d)
		}
	}
	return all
}

// orNone is nil if there are none.
func orNone(all fetcher.Discoveries) fetcher.Discovery {
	if all == nil {
		return nil
	}
	return all
}

// noWayIn says why the hash table among them cannot be reached yet; empty if it can, or there is none.
func noWayIn(all fetcher.Discoveries) (why string) {
	for _, d := range all {
		if t, ok := d.(*dht.DHT); ok {
			why = t.Away()
		}
	}
	return why
}

// errListen says that an address of --listen is not available, errHTTP that of --http.
var (
	errListen = errors.New("listen")
	errHTTP   = errors.New("http")
)

// open starts a node, and distinguishes an unavailable address of --listen from a
// peer that cannot be reached, and the end of ctx from a fault.
func open(ctx context.Context, cfg fetcher.Config) (*fetcher.Node, error) {
	if _, err := (globals{dir: cfg.Dir}).stateDir(); err != nil {
		return nil, err
	}
	node, err := fetcher.Open(ctx, cfg)
	switch {
	case err != nil && ctx.Err() != nil:
		err = cause(ctx)
	case errors.Is(err, share.ErrNetwork): // it has not dialled any peer yet
		err = marked{err, errListen}
	}
	return node, err
}

// marked is an error that has advice of its own: that of mark.
type marked struct {
	error
	mark error
}

func (e marked) Unwrap() []error { return []error{e.mark, e.error} }
