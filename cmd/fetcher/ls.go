package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
)

func (a *app) lsCommand() *cobra.Command {
	var fl fetchFlags
	var links string
	var near bool
	c := &cobra.Command{
		Use:   "ls TICKET|ID|PATH | --nearby",
		Short: "List the files of a share: size, BLAKE3, path",
		Long: `List the files of a share with their sizes and their BLAKE3 hashes, as b3sum
prints them; a terminal has no room for the hashes, so there they are left out.
No content is downloaded; a PATH is read and hashed here.

With --nearby, listen on the local network for 2 s, and list the nodes that
announce themselves there: the address of each, and how many shares it
announces. Which shares those are is seen only by those who know their IDs.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if near {
				if len(args) > 0 {
					return usageError{errors.New("ls --nearby takes no TICKET, ID or PATH")}
				}
				return nil
			}
			return oneTicket("TICKET, ID or PATH")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if near {
				if !fl.reach.lan {
					return usageError{errors.New("--nearby looks at the local network: leave out --lan=false, or unset FETCHER_LAN")}
				}
				return nearby(cmd.Context(), a)
			}
			mode, err := linkMode(links)
			if err != nil {
				return err
			}
			m, err := a.list(cmd, args[0], fl, mode)
			if err != nil {
				return err
			}
			return a.print(m)
		},
	}
	c.Flags().StringArrayVar(&fl.peers, "peer", nil, "ask at this `ADDR` too, a multiaddr that ends in /p2p/ID; may be repeated")
	fl.reach.outbound(c.Flags(), lookHelp)
	c.Flags().StringArrayVar(&fl.listen, "listen", []string{"none"}, listenHelp)
	c.Flags().Lookup("listen").DefValue = "none" // the library writes [none]
	c.Flags().BoolVar(&fl.identity, "identity", false, identityHelp)
	c.Flags().BoolVar(&near, "nearby", false, "list the nodes of the local network")
	c.Flags().StringVar(&links, "links", "keep", "for a PATH, what to do with symbolic links: `MODE` keep, skip or refuse")
	return c
}

// list finds the manifest: a path that exists is imported, anything else is a ticket or an ID.
func (a *app) list(cmd *cobra.Command, what string, fl fetchFlags, links store.LinkMode) (*share.Manifest, error) {
	ctx := cmd.Context()
	if _, err := os.Lstat(what); err == nil {
		return a.listPath(cmd, what, links)
	}
	if err := neither(what); err != nil {
		return nil, err
	}
	what, err := a.ticket(cmd, what)
	if err != nil {
		return nil, err
	}
	if _, _, err := fetcher.ParseSource(what, fl.peers); err != nil {
		return nil, usageError{err}
	}
	if err := fl.reach.check(); err != nil {
		return nil, err
	}
	log, err := a.logger()
	if err != nil {
		return nil, err
	}
	reach := fl.reach.to(what, fl.peers)
	if reach.Traverse && !cmd.Flags().Changed("listen") {
		fl.listen = nil // hole punching needs a listening node
	}
	node, err := open(ctx, fetcher.Config{Dir: a.flags.dir, FreshIdentity: !fl.identity, Listen: fl.listen, Reach: reach, Beacons: fetcher.Beacons{Use: true}, Discovery: fl.finding(what, log), Logger: log})
	if err != nil {
		return nil, err
	}
	defer node.Close()
	m, err := a.manifest(ctx, node, what, fl, fl.alone(cmd, what))
	if err != nil && ctx.Err() != nil {
		err = cause(ctx)
	}
	return m, err
}

// manifest asks for the list of files of a share, and says so if that takes long.
func (a *app) manifest(ctx context.Context, node *fetcher.Node, what string, fl fetchFlags, id loneID) (*share.Manifest, error) {
	most := cmp.Or(fl.stall, time.Minute) // ls has no --stall
	slow := time.AfterFunc(slowAfter, func() {
		fmt.Fprintln(a.stderr, either(id.is, id.says(), "nobody has sent the list of files yet; waiting for up to "+words.Duration(most)))
	})
	defer slow.Stop()
	if id.look > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, id.look)
		defer stop()
	}
	m, err := node.Manifest(ctx, what, fl.peers)
	return m, id.unfound(err)
}

func (a *app) listPath(cmd *cobra.Command, path string, links store.LinkMode) (*share.Manifest, error) {
	dir, err := a.flags.stateDir()
	if err != nil {
		return nil, err
	}
	if err := present([]string{path}); err != nil {
		return nil, err
	}
	state, err := store.OpenState(dir)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", fetcher.ErrStateDir, err)
	}
	defer state.Close()
	imp, err := store.Import(cmd.Context(), path, store.ImportOptions{Links: links, State: state})
	if err != nil {
		if c := cmd.Context(); c.Err() != nil {
			err = cause(c)
		}
		var names *share.PathError
		switch {
		case errors.As(err, &names) && ofLinks(names):
			err = marked{err, errLinks}
		case names != nil, errors.As(err, new(*store.ProblemsError)):
			err = marked{err, errWhole}
		}
		return nil, err
	}
	defer imp.Tree.Close()
	return imp.Manifest, nil
}

func (a *app) print(m *share.Manifest) error {
	a.out.sum(map[string]any{"share": m.ID().String(), "name": m.Name, "bytes": m.Layout().Bytes()})
	out := bufio.NewWriter(sink{a.stdout})
	hashes := newTerminal(a.stdout).columns() == 0
	for i := range m.Entries() {
		e := m.Entry(i)
		path := e.Path
		if !m.Single() {
			path = m.Name + "/" + path
		}
		if a.flags.json {
			a.out.write("file", map[string]any{"kind": e.Kind.String(), "path": path, "size": e.Size, "root": e.Root.String(), "exec": e.Exec, "target": e.Target})
			continue
		}
		size, hash, tail := "-", e.Kind.String(), ""
		switch e.Kind {
		case share.File:
			size, hash = fmt.Sprint(e.Size), e.Root.String()
		case share.Dir:
			hash, tail = "folder", "/"
		case share.Symlink:
			hash, tail = "link", " -> "+printable(e.Target)
		}
		line := fmt.Sprintf("%12s  %s%s", size, printable(path), tail)
		if hashes {
			line = fmt.Sprintf("%12s  %-64s  %s%s", size, hash, printable(path), tail)
		}
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	return out.Flush()
}
