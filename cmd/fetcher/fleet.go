package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/daemon"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/rounds/kvurl"
	"github.com/piecelease/fetcher/share"
)

// fleetApp is an invocation of a fleet command.
type fleetApp struct{ *app }

func (a *app) fleetCommand() *cobra.Command {
	f := fleetApp{a}
	c := group(&cobra.Command{
		Use:   "fleet",
		Short: "Bring shares to every machine of a fleet, each byte once",
		Long: `Bring shares to every machine of a fleet, so that each byte enters the fleet
once. The machines elect who coordinates, through a store that all of them
reach:

` + kvurl.Forms + `

  fetcher fleet invite --fleet nats://HOST/NAME  on one machine: prints a TOKEN
  fetcher fleet join TOKEN                       on every machine
  fetcher node run                               on every machine, as a service
  fetcher fleet add TICKET                       anywhere: all machines fetch it
  fetcher fleet status                           how far each of them has got`,
	})
	c.AddCommand(f.inviteCommand(), f.joinCommand(), f.leaveCommand(), f.runCommand(), f.addCommand(), f.removeCommand(), f.forgetCommand(), f.statusCommand())
	return c
}

// storeFlags name the store of a fleet, and its secret. Without them, the fleet that
// this machine has joined is used.
type storeFlags struct{ url, secret string }

func (fl *storeFlags) add(f *pflag.FlagSet) {
	f.StringVar(&fl.url, "fleet", "", "the store that all machines of the fleet reach: a `URL`; see fetcher fleet --help (default that of the joined fleet)")
	f.StringVar(&fl.secret, "fleet-secret", "", "the fleet's secret is in this `FILE` (default that of the joined fleet)")
}

// membership is that of the flags, or of the fleet that this machine has joined.
func (a fleetApp) membership(fl storeFlags) (m daemon.Membership, err error) {
	if fl.url == "" && fl.secret == "" {
		dir, err := a.flags.stateDir()
		if err != nil {
			return m, err
		}
		m, ok, err := daemon.Joined(dir)
		if err == nil && !ok {
			err = usageError{errors.New("this machine has joined no fleet: join one with fetcher fleet join TOKEN, give --fleet and --fleet-secret, or start one with fetcher fleet invite --fleet URL")}
		}
		return m, err
	}
	if fl.url == "" || fl.secret == "" {
		return m, usageError{fmt.Errorf("give %s too: --fleet and --fleet-secret belong together", either(fl.url == "", "--fleet URL", "--fleet-secret FILE"))}
	}
	if m, err = daemon.MembershipOf(fl.url, fl.secret); errors.Is(err, daemon.ErrMembership) {
		err = usageError{fmt.Errorf("--fleet-secret: %w; give the file that the other members have, or join with fetcher fleet join TOKEN", err)}
	}
	return m, err
}

// open opens the store of a fleet, which must be reachable. The caller closes it.
func (a fleetApp) open(ctx context.Context, fl storeFlags) (s fetcher.FleetStore, close func() error, err error) {
	m, err := a.membership(fl)
	if err != nil {
		return s, nil, err
	}
	return openStore(m, a.now(ctx))
}

// now opens a store that must be reachable, and says so if that takes long.
func (a fleetApp) now(ctx context.Context) func(at string) (kvurl.Store, error) {
	return func(at string) (kvurl.Store, error) {
		defer awaiting(a.stderr, "the store of the fleet").Stop()
		kv, err := kvurl.Open(ctx, at)
		if err != nil && ctx.Err() != nil && !errors.Is(err, kvurl.ErrURL) {
			err = cause(ctx)
		}
		return kv, err
	}
}

// awaiting says that a store has not answered yet, if it is not stopped within a second.
func awaiting(w io.Writer, what string) *time.Timer {
	return time.AfterFunc(time.Second, func() { fmt.Fprintf(w, "%s has not answered yet; waiting for up to half a minute\n", what) })
}

// openLater is open for long-running commands: the store may come later.
func (a fleetApp) openLater(fl storeFlags) (s fetcher.FleetStore, close func() error, err error) {
	m, err := a.membership(fl)
	if err != nil {
		return s, nil, err
	}
	return openStore(m, func(at string) (kvurl.Store, error) { return kvurl.Later(at) })
}

func openStore(m daemon.Membership, open func(at string) (kvurl.Store, error)) (s fetcher.FleetStore, close func() error, err error) {
	kv, err := open(m.URL)
	if errors.Is(err, kvurl.ErrURL) {
		err = usageError{fmt.Errorf("--fleet: %w", err)}
	}
	if err != nil {
		return s, nil, err
	}
	return fetcher.FleetStore{KV: kv, Secret: m.Secret}, kv.Close, nil
}

// fleetDoor is how commands reach the fleet: through the running node that belongs to it, or
// the store itself.
type fleetDoor interface {
	Fleet(ctx context.Context) (api.Fleet, error)
	AddToFleet(ctx context.Context, ticket string) (api.FleetShare, error)
	RemoveFromFleet(ctx context.Context, share string) (api.FleetShare, error)
	ForgetMachine(ctx context.Context, machine string) (api.FleetMember, error)
}

// directly is the store itself as a fleetDoor.
type directly struct{ fetcher.FleetStore }

func (d directly) Fleet(ctx context.Context) (api.Fleet, error) {
	r, err := d.Rollout(ctx)
	return daemon.FleetView(r, time.Now()), err
}

func (d directly) AddToFleet(ctx context.Context, ticket string) (api.FleetShare, error) {
	id, err := d.Add(ctx, ticket)
	return api.FleetShare{Share: id.String()}, err
}

func (d directly) RemoveFromFleet(ctx context.Context, text string) (api.FleetShare, error) {
	id, err := share.ParseID(text)
	if err != nil {
		return api.FleetShare{}, err
	}
	return daemon.RemoveListed(ctx, d.FleetStore, id)
}

func (d directly) ForgetMachine(ctx context.Context, text string) (api.FleetMember, error) {
	return daemon.ForgetMachine(ctx, d.FleetStore, text)
}

// through calls f with the way to the fleet. Flags take precedence over a node.
func (a fleetApp) through(ctx context.Context, fl storeFlags, f func(fleetDoor) error) error {
	if fl == (storeFlags{}) {
		if c, err := asker(a).dial(ctx); err == nil {
			defer c.Close()
			if s, err := c.Status(ctx); err == nil && s.Fleet {
				return f(c)
			}
		}
	}
	s, done, err := a.open(ctx, fl)
	if err != nil {
		return err
	}
	defer done()
	return f(directly{s})
}

// looking is through for commands that create no store.
func (a fleetApp) looking(ctx context.Context, fl storeFlags, f func(fleetDoor) error) error {
	if err := isStore(fl.url, "--fleet", "fetcher fleet invite"); err != nil && fl.secret != "" {
		return err
	}
	return a.through(ctx, fl, f)
}

func (a fleetApp) addCommand() *cobra.Command {
	var fl storeFlags
	c := &cobra.Command{
		Use:   "add TICKET|PATH",
		Short: "Have every machine of the fleet fetch a share",
		Long: `Have every machine of the fleet fetch a share, and serve it. The ticket must
name somebody who has it. A ticket of "-" is read from stdin. A PATH is served
by the node of this machine from then on, as with fetcher add, and fetched by
the others. If its files are edited later, it is another share: remove the
earlier one with fetcher fleet remove ID, add the PATH again, and run fetcher
set ENTRY --repair on each machine that has the earlier one. Depots that keep
the earlier one for the fleet do so until its leases end; fetcher hold --fleet
has them keep the new one.`,
		Args: oneTicket("TICKET or PATH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, missing := os.Lstat(args[0]); args[0] != "-" && missing == nil {
				return a.through(cmd.Context(), fl, func(d fleetDoor) error { return a.addPath(cmd.Context(), d, args[0]) })
			}
			if err := neither(args[0]); err != nil {
				return err
			}
			ticket, err := a.ticket(cmd, args[0])
			if err != nil {
				return err
			}
			return a.through(cmd.Context(), fl, func(d fleetDoor) error { return a.add(cmd.Context(), d, ticket) })
		},
	}
	fl.add(c.Flags())
	return c
}

// add has every machine fetch what a ticket names.
func (a fleetApp) add(ctx context.Context, d fleetDoor, ticket string) error {
	if _, sources, err := fetcher.ParseSource(ticket, nil); err == nil && len(sources) == 0 {
		if _, alone := share.ParseID(ticket); alone != nil {
			return usageError{errors.New("the ticket names no peer to fetch from: give one that does")}
		}
		return usageError{errors.New("an ID alone names no peer to fetch from: give the ticket")}
	}
	s, err := d.AddToFleet(ctx, ticket)
	if errors.Is(err, share.ErrTicket) {
		return usageError{err}
	}
	if err == nil {
		a.out.sum(map[string]any{"share": s.Share})
		fmt.Fprintf(a.stderr, "the fleet fetches %s; see fetcher fleet status\n", s.Share)
	}
	return err
}

// addPath has every other machine fetch a path, which the node serves from then on. If it cannot, the node does not.
func (a fleetApp) addPath(ctx context.Context, d fleetDoor, path string) error {
	at, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	return asker(a).asking(ctx, func(c *api.Client) error {
		e, err := c.Add(ctx, api.Add{Paths: []string{at}})
		err = restFirst(err, at, "fetcher fleet add with the ticket that fetcher add prints")
		added := err == nil
		if errors.Is(err, api.ErrHave) {
			e, err = servedAt(ctx, c, at)
		}
		if err == nil {
			e, err = asker(a).await(ctx, c, e, false)
		}
		if t, bad := share.Parse(e.Ticket); err == nil && bad == nil && len(t.Peers) == 0 {
			err = usageError{errors.New("no other machine could fetch it: the node listens nowhere. Run the node without --listen none, and take \"none\" out of listen in " + daemon.SettingsName)}
		}
		if err == nil {
			err = a.add(ctx, d, e.Ticket)
		}
		if err == nil && len(e.Older) > 0 {
			a.edited(ctx, d, e)
		}
		if err != nil && added {
			undoing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
			defer cancel()
			_, err2 := c.Remove(undoing, e.ID, false)
			err = errors.Join(err, err2)
		}
		return err
	})
}

// edited says what is left to do if the fleet has an earlier version of what was added: nothing replaces that by itself.
func (a fleetApp) edited(ctx context.Context, d fleetDoor, e api.Entry) {
	if f, err := d.Fleet(ctx); err == nil {
		for _, s := range f.Shares {
			if slices.Contains(e.Older, s.Share) {
				fmt.Fprintf(a.stderr, "the fleet still has an earlier version: remove that with fetcher fleet remove %s\n", s.Share)
			}
		}
	}
	fmt.Fprintln(a.stderr, "a machine that has fetched an earlier version keeps that as it is, until the new entry is repaired there with \"fetcher set ENTRY --repair\"")
}

// servedAt returns the entry of a path that the node serves as it was added without a name: with one, it is another share.
func servedAt(ctx context.Context, c *api.Client, path string) (api.Entry, error) {
	all, err := c.Entries(ctx)
	if err != nil {
		return api.Entry{}, err
	}
	i := slices.IndexFunc(all, func(e api.Entry) bool { return e.Named == "" && slices.Equal(e.Paths, []string{path}) })
	if i < 0 {
		return api.Entry{}, fmt.Errorf("the node no longer serves %s: run the same command again", path)
	}
	return all[i], nil
}

func (a fleetApp) removeCommand() *cobra.Command {
	var fl storeFlags
	c := &cobra.Command{
		Use: "remove TICKET|ID|NAME", SuggestFor: []string{"rm", "delete"},
		Short: "Have every machine of the fleet stop fetching a share",
		Long: `Have every machine of the fleet stop fetching a share, and stop serving what
was fetched of it. The share may be given by the name that fetcher fleet status
shows. No file is removed. A machine on which it was added as a PATH serves it
until it is removed there, with fetcher rm. A depot that keeps it for the fleet
does so until the lease ends; no member renews it any more, and fetcher release
on a member ends it at once.`,
		Args: exactly("TICKET, ID or NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			what := args[0]
			if ticket, err := a.ticket(cmd, what); err == nil {
				what = ticket
			} else if what == "-" {
				return err
			}
			return a.looking(cmd.Context(), fl, func(d fleetDoor) error {
				id, err := shareOfFleet(cmd.Context(), d, what)
				var was api.FleetShare
				if err == nil {
					was, err = d.RemoveFromFleet(cmd.Context(), id.String())
				}
				if err == nil {
					a.out.sum(map[string]any{"share": id.String()})
					fmt.Fprintf(a.stderr, "every machine stops fetching %s, and stops serving what it has fetched of it; no file is removed; a machine on which the share was added as a PATH serves it until its entry is removed there\n", id)
				}
				if err == nil && was.Depots > 0 {
					fmt.Fprintf(a.stderr, "for the fleet, %s it until the lease ends, and no member renews that any more: fetcher holds shows when it ends; fetcher release %s ends it at once\n",
						words.Count(was.Depots, "depot")+either(was.Depots == 1, " keeps", " keep"), id)
				}
				return err
			})
		},
	}
	fl.add(c.Flags())
	return c
}

// shareOfFleet is the share that a ticket or an ID names, or that has a name in the fleet's list.
func shareOfFleet(ctx context.Context, d fleetDoor, what string) (id share.ID, err error) {
	id, _, err = fetcher.ParseSource(what, nil)
	switch {
	case err == nil:
		return id, nil
	case errors.Is(err, share.ErrCut):
		return id, usageError{err}
	}
	f, failed := d.Fleet(ctx)
	if failed != nil {
		return id, failed
	}
	named := slices.DeleteFunc(f.Shares, func(s api.FleetShare) bool { return s.Name != what })
	switch {
	case len(named) == 1:
		return share.ParseID(named[0].Share)
	case len(named) > 1:
		return id, usageError{fmt.Errorf("%d shares of the fleet are called %q: give the ID of the one that is meant, which fetcher fleet status shows", len(named), what)}
	case f.Away != "":
		return id, words.Error(rounds.ErrAway, "%s", f.Away)
	}
	return id, usageError{fmt.Errorf("no share of the fleet is called %q, and it is neither a ticket nor an ID: fetcher fleet status shows what there is", what)}
}

func (a fleetApp) forgetCommand() *cobra.Command {
	var fl storeFlags
	c := &cobra.Command{
		Use:   "forget NAME|ID",
		Short: "Forget a machine of the fleet that is gone",
		Long: `Forget a machine of the fleet that is gone: fleet status no longer counts it. A
machine that is still a member comes back when its node runs: run fetcher fleet
leave there first. To keep a lost or stolen one out, change the secret: fetcher
fleet invite --new-secret.`,
		Args: exactly("NAME or ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.looking(cmd.Context(), fl, func(d fleetDoor) error {
				m, err := d.ForgetMachine(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				a.out.sum(map[string]any{"peer": m.Peer, "name": m.Name})
				fmt.Fprintf(a.stderr, "%s (%s) is forgotten\n", printable(m.Name), peers.ID(m.Peer).Short())
				if !m.Silent {
					fmt.Fprintln(a.stderr, "it was heard from a moment ago, and will be listed again while its node runs as a member: run fetcher fleet leave on that machine, and restart the node there")
				}
				return nil
			})
		},
	}
	fl.add(c.Flags())
	return c
}

// fleetRun are the flags of fleet run.
type fleetRun struct {
	store     storeFlags
	out       string
	name      string
	listen    []string
	limitUp   string
	limitDown string
	heartbeat time.Duration
	alone     time.Duration
}

func (a fleetApp) runCommand() *cobra.Command {
	var fl fleetRun
	c := &cobra.Command{
		Use:   "run [-o DIR]",
		Short: "Fetch what the fleet fetches, and serve it, until Ctrl-C",
		Long: `Fetch into DIR every share that was added to the fleet, verified, and serve it,
until Ctrl-C. Restarted, it goes on from where it was. fetcher node run does the
same, besides all else that a node does. This machine takes part in elections:
whoever coordinates a share leases its pieces to the members, so that each byte
enters the fleet once. If that machine is lost, another takes over.

While the store cannot be reached, whatever is running goes on, and nobody is
elected.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.run(cmd.Context(), fl)
		},
	}
	f := c.Flags()
	fl.store.add(f)
	f.StringVarP(&fl.out, "out", "o", ".", "put the shares into this folder, `DIR`")
	f.StringVar(&fl.name, "name", "", "what this machine is called in fleet status: `NAME` (default the host's name)")
	f.StringArrayVar(&fl.listen, "listen", nil, listenHelp+" (default all interfaces, the same port as last time)")
	f.StringVar(&fl.limitUp, "limit-up", "", "send others at most this `RATE` of bytes per second, such as 500K or 10M")
	f.StringVar(&fl.limitDown, "limit-down", "", "ask for at most this `RATE` of bytes per second, such as 500K or 10M")
	spanVar(f, &fl.heartbeat, "heartbeat", 2*time.Second, 50*time.Millisecond, time.Minute, "how often the coordinator shows that it is alive: `TIME` from 50ms to 1m; give the same on all machines")
	spanVar(f, &fl.alone, "alone-after", 0, 0, maxWait, "go on without the coordinator once it has been away, or no byte has been verified, for this `TIME` (default never)")
	return c
}

func (a fleetApp) run(ctx context.Context, fl fleetRun) error {
	up, err := parseRate("--limit-up", fl.limitUp)
	if err != nil {
		return err
	}
	down, err := parseRate("--limit-down", fl.limitDown)
	if err != nil {
		return err
	}
	if fl.name == "" {
		fl.name, _ = os.Hostname()
	}
	log, err := a.logger()
	if err != nil {
		return err
	}
	s, done, err := a.openLater(fl.store)
	if err != nil {
		return err
	}
	defer done()
	node, err := open(ctx, fetcher.Config{Dir: a.flags.dir, Listen: fl.listen, Logger: log, UploadRate: up, DownloadRate: down,
		Fleet: fetcher.Fleet{Store: s, Heartbeat: fl.heartbeat, Alone: fl.alone}})
	switch {
	case errors.Is(err, errInterrupted): // ended before it began
		return nil
	case err != nil:
		return err
	}
	defer node.Close()
	a.out.write("fleet", map[string]any{"peer": string(node.ID()), "addrs": node.Addrs()})
	fmt.Fprintf(a.stderr, "member %s of the fleet, until Ctrl-C\n", node.ID())
	err = node.FollowFleet(ctx, fetcher.FollowOptions{Dir: fl.out, Name: fl.name, Told: a.followed})
	if ctx.Err() != nil {
		return node.Close()
	}
	return err
}

// followed reports what happens to a share of the fleet.
func (a fleetApp) followed(e fetcher.FollowEvent) {
	fields := map[string]any{"share": e.Share.String(), "state": e.What, "name": e.Name}
	line := e.What + " " + e.Share.String()
	if e.Name != "" {
		line += ", " + printable(e.Name)
	}
	if e.Err != nil {
		fields["text"] = e.Err.Error()
		line += ": " + sentence(e.Err)
	}
	a.out.write("fleet", fields)
	fmt.Fprintln(a.stderr, line)
}
