package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	ma "github.com/multiformats/go-multiaddr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

func (a *app) coordinateCommand() *cobra.Command {
	var allow, more, listen []string
	var allowFile string
	c := &cobra.Command{
		Use:   "coordinate TICKET|ID --allow PEER... | --allow-file FILE",
		Short: "Lease a share to a fleet, so that each byte enters it once",
		Long: `Lease the pieces of a share to the nodes of a fleet until Ctrl-C, so that each
byte enters the fleet once. The coordinator itself fetches nothing but the list
of files.

The first line on stdout is one of its addresses; stderr has all. Take one that
the members can reach. On each of them:

  fetcher fetch TICKET --lease-from ADDRESS --seed

A member is recognized by the stored identity of its node. A machine that is not
admitted is told its ID; give that ID to --allow, or write it into
--allow-file. A fleet with a store needs neither: see fetcher fleet --help.

When it is restarted, even after kill -9, the coordinator goes on from where it
was: in the state directory it keeps its identity, its port and the list of
those that have joined. Give --allow or --allow-file again.`,
		Args: oneTicket("TICKET or ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.coordinate(cmd, args[0], allowance{allow, allowFile}, more, listen)
		},
	}
	f := c.Flags()
	f.StringArrayVar(&allow, "allow", nil, "admit this `PEER`, an ID, as a member; may be repeated")
	f.StringVar(&allowFile, "allow-file", "", "also admit the peers in this `FILE`, one ID per line; it is read again when it changes")
	f.StringArrayVar(&more, "peer", nil, "ask for the list of files at this `ADDR` too, a multiaddr that ends in /p2p/ID; may be repeated")
	f.StringArrayVar(&listen, "listen", nil, listenHelp+" (default all interfaces, the same port as last time)")
	return c
}

// fleetFlags are the flags of a fleet member.
type fleetFlags struct {
	from  string
	store storeFlags
	alone time.Duration
}

// used says whether a fetch takes part in a fleet.
func (fl *fleetFlags) used() bool { return fl.from != "" || fl.store.url != "" }

func (fl *fleetFlags) add(f *pflag.FlagSet) {
	f.StringVar(&fl.from, "lease-from", "", "the fleet's coordinator is at this `ADDR`, a multiaddr that ends in /p2p/ID: fetch from outside the fleet only what it leases; implies --identity")
	f.StringVar(&fl.store.url, "fleet", "", "fetch as a member of the fleet whose store is at this `URL`; see fetcher fleet --help; implies --identity")
	f.StringVar(&fl.store.secret, "fleet-secret", "", "the fleet's secret is in this `FILE`")
	spanVar(f, &fl.alone, "alone-after", 0, 0, maxWait, "go on without the coordinator once it has been away, or no byte has been verified, for this `TIME` (default never)")
}

// fleet is what the flags ask for; close closes the store.
func (a *app) fleet(ctx context.Context, fl fleetFlags) (f fetcher.Fleet, close func() error, err error) {
	close = func() error { return nil }
	switch {
	case fl.alone > 0 && !fl.used():
		err = usageError{errors.New("--alone-after needs --lease-from or --fleet")}
	case fl.from != "" && fl.store.url != "":
		err = usageError{errors.New("give --lease-from or --fleet, not both: with --fleet, the coordinator is elected")}
	case fl.store.url != "":
		f.Store, close, err = fleetApp{a}.open(ctx, fl.store)
	case fl.store.secret != "":
		err = usageError{errors.New("--fleet-secret needs --fleet")}
	case fl.from != "":
		if _, bad := peerOf(fl.from); bad != nil {
			err = usageError{fmt.Errorf("--lease-from: %w", bad)}
		}
	}
	f.Coordinator, f.Alone = fl.from, fl.alone
	return f, close, err
}

// peerOf is the peer that a multiaddr ends in.
func peerOf(addr string) (peers.ID, error) {
	m, err := share.ParseAddr(addr)
	if err != nil {
		return "", fmt.Errorf("%q is not a multiaddr such as /ip4/192.0.2.1/tcp/4001/p2p/12D3... (%v)", addr, err)
	}
	id, err := m.ValueForProtocol(ma.P_P2P)
	if err != nil {
		return "", fmt.Errorf("%q does not end in /p2p/ID", addr)
	}
	return peers.ID(id), nil
}

// allowed are the IDs of peers, in any of their forms.
func allowed(list []string) ([]peers.ID, error) {
	var out []peers.ID
	for _, s := range list {
		id, err := peerOf("/p2p/" + s)
		if err != nil {
			return nil, usageError{fmt.Errorf("--allow takes the ID of a peer, such as 12D3..., not %q", s)}
		}
		out = append(out, id)
	}
	return out, nil
}

func (a *app) coordinate(cmd *cobra.Command, ticket string, allow allowance, more, listen []string) error {
	ctx := cmd.Context()
	members, err := allow.read()
	if err != nil {
		return err
	}
	if ticket, err = a.ticket(cmd, ticket); err != nil {
		return err
	}
	if _, _, err := fetcher.ParseSource(ticket, more); err != nil {
		return usageError{err}
	}
	log, err := a.logger()
	if err != nil {
		return err
	}
	node, err := open(ctx, fetcher.Config{Dir: a.flags.dir, Listen: listen, Logger: log, Fleet: fetcher.Fleet{Allow: members}})
	if err != nil {
		return err
	}
	defer node.Close()
	c, err := node.Coordinate(ctx, ticket, more)
	if err != nil {
		if ctx.Err() != nil {
			return cause(ctx)
		}
		return err
	}
	addrs := node.Addrs()
	m := c.Manifest()
	a.out.write("coordinate", map[string]any{"share": m.ID().String(), "name": m.Name, "bytes": m.Layout().Bytes(), "pieces": m.Layout().Pieces(),
		"peer": string(node.ID()), "addrs": addrs, "epoch": c.Epoch(), "allowed": members})
	a.out.sum(map[string]any{"share": m.ID().String(), "name": m.Name, "bytes": m.Layout().Bytes()})
	if !a.flags.json && len(addrs) > 0 {
		if _, err := fmt.Fprintln(sink{a.stdout}, addrs[0]); err != nil {
			return err
		}
	}
	e := a.stderr
	fmt.Fprintf(e, "\ncoordinating  %s, %s in %s\n", printable(m.Name), share.Size(m.Layout().Bytes()), words.Count(m.Layout().Pieces(), "piece"))
	fmt.Fprintf(e, "share         %s\n", m.ID())
	for i, addr := range addrs {
		fmt.Fprintf(e, "%-13s %s\n", either(i == 0, "address", ""), addr)
	}
	if len(addrs) == 0 {
		fmt.Fprintln(e, "\nwarning: no member can reach the coordinator: it listens nowhere; name an address or a port with --listen")
	} else {
		fmt.Fprintf(e, "\nruns until Ctrl-C; on each member, run\n\n    fetcher fetch TICKET --lease-from ADDRESS --seed\n\n")
	}
	return a.watchFleet(ctx, node, c, allow)
}

// allowance says which nodes may be members: peers, and a file with more.
type allowance struct {
	list []string
	file string
}

const maxAllowFile = 1 << 20 // bytes

// read reads the file as it is now. In it, everything after a # is a comment.
func (x allowance) read() ([]peers.ID, error) {
	list, err := allowed(x.list)
	if err != nil {
		return nil, err
	}
	if x.file != "" {
		f, err := os.Open(x.file)
		if err != nil {
			return nil, usageError{fmt.Errorf("--allow-file: %w", err)}
		}
		defer f.Close()
		b, err := io.ReadAll(io.LimitReader(f, maxAllowFile+1))
		if err != nil {
			return nil, fmt.Errorf("--allow-file: %w", err)
		}
		if len(b) > maxAllowFile {
			return nil, usageError{fmt.Errorf("--allow-file: %s is longer than 1 MiB", x.file)}
		}
		for i, line := range strings.Split(string(b), "\n") {
			line, _, _ = strings.Cut(line, "#")
			for _, s := range strings.Fields(line) {
				id, err := peerOf("/p2p/" + s)
				if err != nil {
					return nil, usageError{fmt.Errorf("--allow-file: %s, line %d: %q is not a peer ID", x.file, i+1, s)}
				}
				list = append(list, id)
			}
		}
	}
	if len(list) == 0 {
		return nil, usageError{errors.New("name at least one member with --allow or --allow-file")}
	}
	return list, nil
}

// allowEvery is how often the file is checked.
const allowEvery = time.Second

// again reads the file again and says whether it has changed. A file that
// cannot be read, or has a line that is not a peer, changes nothing.
func (x allowance) again(was []peers.ID) (is []peers.ID, changed bool, err error) {
	if x.file == "" {
		return was, false, nil
	}
	is, err = x.read()
	return is, err == nil && !slices.Equal(is, was), err
}

// watchFleet reports which members come and go, until the end.
func (a *app) watchFleet(ctx context.Context, node *fetcher.Node, c *fetcher.Coordination, allow allowance) error {
	look := time.NewTicker(allowEvery)
	defer look.Stop()
	members, _ := allow.read()
	failed := ""
	events := c.Events(ctx)
	for {
		select {
		case <-look.C:
			is, changed, err := allow.again(members)
			if changed {
				members = is
				c.Allow(members)
				fmt.Fprintf(a.stderr, "%s allowed as %s now\n", words.Count(len(members), "peer")+either(len(members) == 1, " is", " are"), either(len(members) == 1, "a member", "members"))
			}
			if err != nil && err.Error() != failed {
				fmt.Fprintf(a.stderr, "%s; the list stays as it was\n", sentence(err))
			}
			failed = fmt.Sprint(err)
		case <-ctx.Done():
			return node.Close()
		case e, ok := <-events:
			if !ok && ctx.Err() != nil {
				return node.Close()
			} else if !ok {
				return c.Err()
			}
			a.out.write("member", map[string]any{"peer": string(e.Peer), "change": e.Change.String(), "members": e.Members})
			fmt.Fprintf(a.stderr, "%s %s; %s now\n", e.Peer, e.Change, words.Count(e.Members, "member"))
		}
	}
}
