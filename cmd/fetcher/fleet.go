package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/rounds/kvurl"
	"github.com/piecelease/fetcher/share"
)

// fleetApp is an invocation of a command of fleets.
type fleetApp struct{ *app }

func (a *app) fleetCommand() *cobra.Command {
	f := fleetApp{a}
	c := &cobra.Command{
		Use:   "fleet",
		Short: "Bring shares to every machine of a fleet, each byte once",
		Long: `Bring shares to every machine of a fleet, so that each byte enters the fleet
once. The machines elect who coordinates, by a store that all of them reach:

` + kvurl.Forms + `

  fetcher fleet invite --fleet nats://HOST/NAME  on one machine: prints a TOKEN
  fetcher fleet join TOKEN                       on every machine
  fetcher fleet run -o DIR                       on every machine, as a service
  fetcher fleet add TICKET                       anywhere: all machines fetch it
  fetcher fleet status                           how far each of them is`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("there is no command %q; see %s --help", args[0], cmd.CommandPath())}
			}
			return cmd.Help()
		},
	}
	c.AddCommand(f.inviteCommand(), f.joinCommand(), f.runCommand(), f.addCommand(), f.removeCommand(), f.statusCommand())
	return c
}

// storeFlags name the store of a fleet, and its secret. Without them the fleet counts
// that this machine has joined.
type storeFlags struct{ url, secret string }

func (fl *storeFlags) add(f *pflag.FlagSet) {
	f.StringVar(&fl.url, "fleet", "", "the store that all machines of the fleet reach: a `URL`; see fetcher fleet --help (default: that of the joined fleet)")
	f.StringVar(&fl.secret, "fleet-secret", "", "the fleet's secret is in this `FILE` (default: that of the joined fleet)")
}

// membership is what a machine knows of its fleet: what a token says.
type membership struct {
	URL    string `json:"url"`
	Secret string `json:"secret"`
}

// membershipFile is where a state directory keeps it.
const membershipFile = "fleet.json"

const tokenMark = "fleet1."

const maxSecretFile = 4 << 10 // bytes

func (a fleetApp) stateDir() (string, error) {
	if a.flags.dir != "" {
		return a.flags.dir, nil
	}
	return fetcher.DefaultDir()
}

// membership is that of the flags, or of the fleet that was joined.
func (a fleetApp) membership(fl storeFlags) (m membership, err error) {
	if fl.url == "" && fl.secret == "" {
		dir, err := a.stateDir()
		if err != nil {
			return m, err
		}
		b, err := os.ReadFile(filepath.Join(dir, membershipFile))
		if errors.Is(err, fs.ErrNotExist) {
			return m, usageError{errors.New("this machine has joined no fleet: give --fleet and --fleet-secret, or join one with fetcher fleet join TOKEN")}
		}
		if err == nil {
			err = json.Unmarshal(b, &m)
		}
		return m, err
	}
	if fl.url == "" || fl.secret == "" {
		return m, usageError{errors.New("--fleet and --fleet-secret belong together")}
	}
	if m.URL, err = kvurl.Absolute(fl.url); err != nil {
		return m, err
	}
	m.Secret, err = readSecret(fl.secret)
	return m, err
}

func readSecret(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", usageError{fmt.Errorf("--fleet-secret: %w; fetcher fleet invite makes one", err)}
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSecretFile))
	if err != nil {
		return "", err
	}
	s := strings.TrimSpace(string(b))
	if len(s) < 16 || len(s) > 1024 {
		return "", usageError{fmt.Errorf("--fleet-secret: %s has %d bytes, and a secret has 16 to 1024", file, len(s))}
	}
	return s, nil
}

// open opens the store of a fleet. Close it.
func (a fleetApp) open(ctx context.Context, fl storeFlags) (s fetcher.FleetStore, close func() error, err error) {
	m, err := a.membership(fl)
	if err != nil {
		return s, nil, err
	}
	return m.open(ctx)
}

func (m membership) open(ctx context.Context) (s fetcher.FleetStore, close func() error, err error) {
	kv, err := kvurl.Open(ctx, m.URL)
	switch {
	case errors.Is(err, kvurl.ErrURL):
		return s, nil, usageError{fmt.Errorf("--fleet: %w", err)}
	case err != nil && ctx.Err() != nil:
		return s, nil, cause(ctx)
	case err != nil:
		return s, nil, err
	}
	return fetcher.FleetStore{KV: kv, Secret: m.Secret}, kv.Close, nil
}

// retryStore is how often a store that cannot be reached is tried.
const retryStore = 2 * time.Second

// openSoon is open for what runs for long: a store that cannot be reached is tried
// again, until it can be or ctx ends.
func (a fleetApp) openSoon(ctx context.Context, fl storeFlags) (s fetcher.FleetStore, close func() error, err error) {
	for said := ""; ; {
		s, close, err = a.open(ctx, fl)
		if err == nil || errors.As(err, &usageError{}) || ctx.Err() != nil {
			return s, close, err
		}
		if text := sentence(err); text != said {
			said = text
			fmt.Fprintf(a.stderr, "the store of the fleet cannot be reached; trying again: %s\n", text)
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryStore):
		}
	}
}

func (m membership) token() string {
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // text
	}
	return tokenMark + base64.RawURLEncoding.EncodeToString(b)
}

func parseToken(s string) (m membership, err error) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(s), tokenMark)
	b, err := base64.RawURLEncoding.DecodeString(rest)
	if !ok || err != nil || json.Unmarshal(b, &m) != nil || m.URL == "" || len(m.Secret) < 16 || len(m.Secret) > 1024 {
		return m, usageError{fmt.Errorf("that is not a fleet token, which begins with %s: paste what fetcher fleet invite prints", tokenMark)}
	}
	return m, nil
}

func (a fleetApp) inviteCommand() *cobra.Command {
	var fl storeFlags
	c := &cobra.Command{
		Use:   "invite",
		Short: "Print a token with which machines join the fleet",
		Long: `Print a token with which machines join the fleet; it holds the URL of the store,
with its password, and the secret of the fleet. Whoever has it is a member. The
first time, give --fleet: the store is tried, a secret is made, and this machine
joins.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return a.invite(cmd.Context(), fl) },
	}
	fl.add(c.Flags())
	return c
}

func (a fleetApp) invite(ctx context.Context, fl storeFlags) error {
	made := fl.url != "" && fl.secret == ""
	m, err := membership{Secret: rand.Text() + rand.Text()}, error(nil)
	if made {
		m.URL, err = kvurl.Absolute(fl.url)
	} else {
		m, err = a.membership(fl)
	}
	if err == nil && fl.url != "" {
		err = m.try(ctx)
	}
	if err == nil && made {
		err = a.saveMembership(m)
	}
	if err != nil {
		return err
	}
	a.out.write("invitation", map[string]any{"token": m.token()})
	if !a.flags.json {
		fmt.Fprintln(a.stdout, m.token())
	}
	fmt.Fprintf(a.stderr, "\non each machine\n\n    fetcher fleet join TOKEN\n    fetcher fleet run -o DIR\n\n")
	return nil
}

// try reads the list in the store, so that nobody is invited to one that is not there.
func (m membership) try(ctx context.Context) error {
	s, done, err := m.open(ctx)
	if err != nil {
		return err
	}
	defer done()
	_, err = s.Rollout(ctx)
	return err
}

func (a fleetApp) joinCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "join TOKEN",
		Short: "Make this machine a member of a fleet",
		Long: `Make this machine a member of a fleet: what the token says is kept in the state
directory, and fleet run, add and status need no flags any more. A token of "-"
is read from stdin.`,
		Args: exactly("TOKEN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			token, err := a.ticket(args[0])
			if err != nil {
				return err
			}
			m, err := parseToken(token)
			if err != nil {
				return err
			}
			return a.saveMembership(m)
		},
	}
}

// saveMembership keeps it, for this user alone. One that is there is not lost by
// mistake.
func (a fleetApp) saveMembership(m membership) error {
	dir, err := a.stateDir()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if old, err := a.membership(storeFlags{}); err == nil && old != m && old.Secret != m.Secret {
		return fmt.Errorf("this machine belongs to another fleet; to leave that, remove %s", filepath.Join(dir, membershipFile))
	}
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".fleet-*") // 0600
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, membershipFile))
	}
	if err != nil {
		os.Remove(f.Name())
		return err
	}
	fmt.Fprintln(a.stderr, "this machine belongs to the fleet")
	return nil
}

func (a fleetApp) addCommand() *cobra.Command {
	var fl storeFlags
	c := &cobra.Command{
		Use:   "add TICKET",
		Short: "Have every machine of the fleet fetch a share",
		Long: `Have every machine of the fleet fetch a share, and serve it on. The ticket must
name somebody who has it. A ticket of "-" is read from stdin.`,
		Args: exactly("TICKET"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ticket, err := a.ticket(args[0])
			if err != nil {
				return err
			}
			s, done, err := a.open(cmd.Context(), fl)
			if err != nil {
				return err
			}
			defer done()
			id, err := s.Add(cmd.Context(), ticket)
			if errors.Is(err, share.ErrTicket) || errors.Is(err, fetcher.ErrNoSource) {
				return usageError{err}
			}
			if err == nil {
				a.out.sum(map[string]any{"share": id.String()})
				fmt.Fprintf(a.stderr, "the fleet fetches %s; see fetcher fleet status\n", id)
			}
			return err
		},
	}
	fl.add(c.Flags())
	return c
}

func (a fleetApp) removeCommand() *cobra.Command {
	var fl storeFlags
	c := &cobra.Command{
		Use:   "remove TICKET|ID",
		Short: "Have every machine of the fleet stop fetching and serving a share",
		Long: `Have every machine of the fleet stop fetching and serving a share. No file is
removed.`,
		Args: exactly("TICKET or ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ticket, err := a.ticket(args[0])
			if err != nil {
				return err
			}
			id, _, err := fetcher.ParseSource(ticket, nil)
			if err != nil {
				return usageError{err}
			}
			s, done, err := a.open(cmd.Context(), fl)
			if err != nil {
				return err
			}
			defer done()
			return s.Remove(cmd.Context(), id)
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
		Use:   "run -o DIR",
		Short: "Fetch what the fleet fetches, and serve it on, until Ctrl-C",
		Long: `Fetch every share that was added to the fleet into DIR, verified, and serve it
on, until Ctrl-C. Restarted, it goes on where it was. This machine takes part
in elections: whoever coordinates a share leases its pieces to the members, so
that each byte enters the fleet once. If it is lost, another takes over.

While the store cannot be reached, what runs goes on, and nobody is elected.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return a.run(cmd.Context(), fl) },
	}
	f := c.Flags()
	fl.store.add(f)
	f.StringVarP(&fl.out, "out", "o", ".", "put the shares into this folder, `DIR`")
	f.StringVar(&fl.name, "name", "", "what this machine is called in fleet status: `NAME` (default the host's name)")
	f.StringArrayVar(&fl.listen, "listen", nil, listenHelp+" (default all interfaces, the same port as last time)")
	f.StringVar(&fl.limitUp, "limit-up", "", "send others at most this `RATE` of bytes per second, such as 500K or 10M")
	f.StringVar(&fl.limitDown, "limit-down", "", "ask for at most this `RATE` of bytes per second, such as 500K or 10M")
	f.DurationVar(&fl.heartbeat, "heartbeat", 2*time.Second, "how often the coordinator shows that it is alive, the same on all machines: `TIME` from 50ms to 1m")
	f.DurationVar(&fl.alone, "alone-after", 0, "go on without the coordinator after this `TIME` without it, or without a verified byte (default: wait)")
	return c
}

func (a fleetApp) run(ctx context.Context, fl fleetRun) error {
	if fl.heartbeat < 50*time.Millisecond || fl.heartbeat > time.Minute {
		return usageError{fmt.Errorf("--heartbeat is from 50ms to 1m, not %v", fl.heartbeat)}
	}
	if fl.alone < 0 {
		return usageError{errors.New("--alone-after must not be negative")}
	}
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
	s, done, err := a.openSoon(ctx, fl.store)
	if err != nil {
		return err
	}
	defer done()
	node, err := open(ctx, fetcher.Config{Dir: a.flags.dir, Listen: fl.listen, Logger: log, UploadRate: up, DownloadRate: down,
		Fleet: fetcher.Fleet{Store: s, Heartbeat: fl.heartbeat, Alone: fl.alone}})
	if err != nil {
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

// followed says what happens to a share of the fleet.
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
