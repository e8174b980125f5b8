package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/daemon"
	"github.com/piecelease/fetcher/discovery/dht"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/web"
)

// asker is the commands that run a node, or query a running one.
type asker struct{ *app }

// commands are fetcher node, and those that query the node that it runs.
func (a asker) commands() []*cobra.Command {
	node := group(&cobra.Command{
		Use: "node", SuggestFor: []string{"start"}, Short: "Run a node that keeps its shares across restarts, and look at it",
		Long: `Run a node that keeps many shares in one process, all of which are back after a
restart. The commands for it are add, list, set, rm, id, doctor, depot, hold,
holds, holdings, release and passes.`,
	})
	node.AddCommand(a.nodeRunCommand(), a.nodeStatusCommand(), a.nodeOpenCommand())
	return []*cobra.Command{node, a.addCommand(), a.listCommand(), a.setCommand(), a.rmCommand(), a.idCommand(), a.doctorCommand()}
}

// nodeFlags are the flags of node run. They take precedence over node.toml.
type nodeFlags struct {
	listen, announce, hosts  []string
	into, limitUp, limitDown string
	name                     string
	http, cert, key, socket  string
	depot, reserve           string
	open, grace, price       string
	fleet                    storeFlags
	insecure                 bool
	relay, beacon            bool
	relayCarries             string
	reach                    reachFlags
}

func (a asker) nodeRunCommand() *cobra.Command {
	var fl nodeFlags
	c := &cobra.Command{
		Use: "run", Short: "Run the node until Ctrl-C or SIGTERM",
		Long: `Run the node of the state directory until Ctrl-C or SIGTERM; a second signal
ends it at once. What was added to the node earlier goes on from where it was.
The node logs to stderr from the level info on, unless --log-level says
otherwise.

Settings are read from node.toml in the state directory, and again on SIGHUP;
flags override it:

    into = "/srv/shares"         # where shares are put; default ~/Downloads
    listen = ["4001"]            # default: all interfaces, last time's port
    announce = ["/dns4/example.org/tcp/4001"]
    via = ["/dns4/relay.example/tcp/4001/p2p/ID"]  # a relay that leads here
    lan = false                  # do not look for peers on the local network
    proxy = "socks5://127.0.0.1:1080"  # dial peers through it, over TCP
    map-port = true              # ask the router to forward the port
    relay = true                 # be a relay for others
    relay-carries = "1G"         # content too: bytes each way, per connection
    beacon-at = ["/dns4/beacon.example/tcp/4001/p2p/ID"]  # named in tickets
    beacon = true                # be a beacon for others
    dht = ["own"]                # find and be found in a hash table
    limit-up = "10M"             # bytes per second
    limit-down = "50M"
    fetches = 5                  # how many shares are fetched at once
    rescan = "1h"                # how often files are looked at for changes
    depot = "/srv/depot"         # keep shares for accounts here
    depot-reserve = "10G"        # leave this much of its disk free
    depot-open = "1G"            # let every node hold up to this much
    depot-grace = "24h"          # keep a share this long once its leases expire
    depot-price = "free"         # or "passes": what new accounts pay
    fleet = "nats://10.0.0.5/ours"  # and fleet-secret, a file
    name = "office"              # of this machine, in fleet status
    socket = "/run/fetcher/node.sock"  # for the group that the node runs as
    http = "127.0.0.1:4820"      # the API and the page, with a token
    http-hosts = ["nas.example:4820"]
    http-cert = "/srv/cert.pem"  # needed where others can reach it
    http-key = "/srv/key.pem"
    http-insecure = true         # or no TLS, where nobody can eavesdrop

    [[limits]]                   # limits for set times: the first that applies
    days = ["mon", "tue", "wed", "thu", "fri"]
    from = "08:00"
    to = "18:00"
    up = "1M"
    down = "5M"`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("log-level") {
				a.flags.logLevel, a.plain = "info", false
			}
			return a.nodeRun(cmd.Context(), fl)
		},
	}
	fl.add(c.Flags())
	return c
}

func (fl *nodeFlags) add(f *pflag.FlagSet) {
	f.StringArrayVar(&fl.listen, "listen", nil, listenHelp+" (default all interfaces, the same port as last time)")
	f.StringArrayVar(&fl.announce, "announce", nil, "put this `ADDR`, such as /dns4/example.org/tcp/4001, into tickets instead of the node's own addresses; may be repeated")
	fl.reach.add(f)
	fl.relayFlags(f)
	f.StringVar(&fl.into, "into", "", "put shares into this folder, `DIR`, unless add names another (default ~/Downloads)")
	f.StringVar(&fl.name, "name", "", "what this machine is called in fleet status: `NAME` (default the host's name)")
	f.StringVar(&fl.limitUp, "limit-up", "", "send at most this `RATE` of bytes per second, such as 500K or 10M")
	f.StringVar(&fl.limitDown, "limit-down", "", "ask for at most this `RATE` of bytes per second, such as 500K or 10M")
	fl.depotFlags(f)
	fl.fleet.add(f)
	f.StringVar(&fl.socket, "socket", "", "also answer at this unix socket, `PATH`, for members of the group that the node runs as")
	f.StringVar(&fl.http, "http", "", "answer with the API and the page at this `ADDR` too, such as 127.0.0.1:4820")
	f.StringArrayVar(&fl.hosts, "http-host", nil, "another `NAME:PORT` by which --http may be reached; may be repeated")
	f.StringVar(&fl.cert, "http-cert", "", "a PEM `FILE` with the certificate for --http")
	f.StringVar(&fl.key, "http-key", "", "a PEM `FILE` with the key of --http-cert")
	f.BoolVar(&fl.insecure, "http-insecure", false, "allow --http without TLS at an address that others can reach")
}

func (fl *nodeFlags) relayFlags(f *pflag.FlagSet) {
	f.BoolVar(&fl.beacon, "beacon", false, "be a beacon: remember for a while who has which share, and introduce peers")
	f.BoolVar(&fl.relay, "relay", false, "be a relay: introduce peers that cannot reach each other")
	f.StringVar(&fl.relayCarries, "relay-carries", "", "as a relay, carry content too where no direct way is found: `SIZE` bytes each way per connection, such as 500M")
}

// settings are those of node.toml, overridden by the flags.
func (a asker) settings(fl nodeFlags) (s daemon.Settings, err error) {
	if err := fl.reach.check(); err != nil {
		return s, err
	}
	dir, err := a.flags.stateDir()
	if err != nil {
		return s, err
	}
	at := filepath.Join(dir, daemon.SettingsName)
	file, err := daemon.ReadSettings(at)
	switch {
	case errors.As(err, new(*os.PathError)):
		return s, fmt.Errorf("%w: %w", fetcher.ErrStateDir, err)
	case err != nil:
		return s, usageError{err}
	}
	if s, err = fl.over(file); err != nil {
		return s, err
	}
	wrong, inFile := s.Validate(), file.Validate()
	switch {
	case wrong == nil:
		return s, nil
	case inFile != nil && wrong.Error() == inFile.Error():
		return s, usageError{fmt.Errorf("%s: %w", at, wrong)}
	}
	return s, usageError{s.ValidateAs(asFlag)} // as a flag is what made it wrong
}

// asFlag is the flag for a setting, if there is one.
func asFlag(setting string) string {
	switch setting {
	case "fetches", "rescan":
		return setting
	case "http-hosts":
		return "--http-host"
	}
	return "--" + setting
}

// over returns settings with the flags over them.
func (fl nodeFlags) over(s daemon.Settings) (_ daemon.Settings, err error) {
	for _, x := range []struct {
		from string
		to   *string
	}{{fl.http, &s.HTTP}, {fl.cert, &s.Cert}, {fl.key, &s.Key}, {fl.socket, &s.Socket}, {fl.name, &s.Name}, {fl.reach.proxy, &s.Proxy}} {
		if x.from != "" {
			*x.to = x.from
		}
	}
	for _, x := range []struct {
		from []string
		to   *[]string
	}{{fl.listen, &s.Listen}, {fl.announce, &s.Announce}, {fl.reach.via, &s.Via}, {fl.reach.beaconAt, &s.BeaconAt}, {fl.reach.dht, &s.DHT}} {
		if len(x.from) > 0 {
			*x.to = x.from
		}
	}
	s.MapPort, s.Relay, s.Beacon = s.MapPort || fl.reach.mapPort, s.Relay || fl.relay, s.Beacon || fl.beacon
	s.NoLAN = s.NoLAN || !fl.reach.lan
	s.Hosts = append(s.Hosts, fl.hosts...)
	s.Insecure = s.Insecure || fl.insecure
	if fl.into != "" {
		if s.Into, err = filepath.Abs(fl.into); err != nil {
			return s, err
		}
	}
	if err := fl.depotSettings(&s); err != nil {
		return s, err
	}
	if fl.fleet.url != "" {
		s.Fleet = fl.fleet.url
	}
	if fl.fleet.secret != "" {
		if s.FleetSecret, err = filepath.Abs(fl.fleet.secret); err != nil {
			return s, err
		}
	}
	for _, x := range []struct {
		flag, text string
		to         *int64
		parse      func(string) (int64, error)
	}{{"--limit-up", fl.limitUp, &s.Up, daemon.ParseRate}, {"--limit-down", fl.limitDown, &s.Down, daemon.ParseRate}, {"--relay-carries", fl.relayCarries, &s.RelayCarries, daemon.ParseSize}} {
		if x.text != "" {
			if *x.to, err = x.parse(x.text); err != nil {
				return s, usageError{fmt.Errorf("%s: %w", x.flag, err)}
			}
		}
	}
	return s, nil
}

func (a asker) nodeRun(ctx context.Context, fl nodeFlags) error {
	s, err := a.settings(fl)
	if err != nil {
		return err
	}
	if fl.into != "" {
		if err := canHold(s.Into); err != nil {
			return usageError{fmt.Errorf("--into: %w", err)}
		}
	}
	log, err := a.logger()
	if err != nil {
		return err
	}
	schedule()
	d, err := daemon.Open(ctx, daemon.Config{Dir: a.flags.dir, Settings: s, Logger: log})
	switch {
	case err != nil && ctx.Err() != nil: // ended before it began
		return nil
	case errors.Is(err, daemon.ErrDepot):
		return err
	case errors.Is(err, share.ErrNetwork):
		return marked{err, errListen}
	case err != nil:
		return err
	}
	defer d.Close()
	l, err := d.Listen()
	switch {
	case errors.Is(err, share.ErrNetwork):
		return marked{err, errHTTP}
	case err != nil:
		return err
	}
	reload := func() { a.reload(d, fl, log) }
	defer onHangup(reload)()
	var beating sync.WaitGroup
	defer beating.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	beating.Go(func() { beat(ctx, d) })
	st, err := d.Status(ctx)
	switch {
	case ctx.Err() != nil:
		return d.Close()
	case err != nil:
		return err
	}
	a.out.write("node", st)
	a.tellUses(s, st.Addrs)
	if u := l.URL(); u != "" {
		fmt.Fprintf(a.stderr, "the node's page is at %s; fetcher node open opens it\n", strings.SplitN(u, "#", 2)[0])
	}
	sd.SdNotify(false, sd.SdNotifyReady) // it is not an error if nobody listens
	err = l.Serve(ctx, web.Page(api.Nothing))
	sd.SdNotify(false, sd.SdNotifyStopping)
	stop()
	return errors.Join(err, d.Close())
}

// answering is the smallest number of threads of a node that may run Go code at once.
const answering = 8

// schedule lets the system, and not Go alone, share out few cores: a thread gets to run within
// milliseconds, whereas a goroutine in a full queue of Go's waits for all that are before it. So
// a node answers while it checks incoming pieces as fast as it can. A choice of its owner, or
// of a container that gives it a part of the cores, is kept.
func schedule() {
	if n := runtime.GOMAXPROCS(0); n < answering && n == runtime.NumCPU() && os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(answering)
	}
}

// tellUses says how others use what this node does for them.
func (a asker) tellUses(s daemon.Settings, addrs []string) {
	var how []string
	if s.Relay {
		how = append(how, "others can be reached through this node if they run with --via")
	}
	if s.Beacon {
		how = append(how, "others use this node as a beacon with --beacon-at")
	}
	if len(s.DHT) > 0 && !slices.Contains(s.DHT, dht.IPFS) {
		how = append(how, "others join this node's hash table with --dht")
	}
	best := nearest(addrs)
	for _, h := range how {
		for _, s := range addrs {
			if !overRelay(s) && nearest([]string{s}) == best {
				fmt.Fprintf(a.stderr, "%s %s\n", h, s)
			}
		}
	}
	switch {
	case len(how) == 0:
	case best == share.Nowhere:
		fmt.Fprintln(a.stderr, "warning: nobody can use this node: it listens nowhere; name an address or a port with --listen")
	case best > 0:
		fmt.Fprintln(a.stderr, "warning: this node has no public address; if a router forwards a port to it, name the router's address with --announce")
	}
}

// reload reads the settings again.
func (a asker) reload(d *daemon.Daemon, fl nodeFlags, log *slog.Logger) {
	s, err := a.settings(fl)
	var later []string
	if err == nil {
		later, err = d.Reload(s)
	}
	if err != nil {
		log.Error("the settings stay as they were", "error", err)
	} else if len(later) > 0 {
		log.Warn("some settings take effect only at the next start", "settings", later)
	}
}

// beat tells systemd that the node answers, if systemd asks for that.
func beat(ctx context.Context, d *daemon.Daemon) {
	every, err := sd.SdWatchdogEnabled(false)
	if err != nil || every == 0 {
		return
	}
	tick := time.NewTicker(every / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			asked, cancel := context.WithTimeout(ctx, every/3)
			if _, err := d.Status(asked); err == nil {
				sd.SdNotify(false, sd.SdNotifyWatchdog)
			}
			cancel()
		}
	}
}

// systemDir is where the node of the whole machine has its socket.
var systemDir = "/run/fetcher"

// dial finds the node: that of --dir, or the user's, or the machine's.
func (a asker) dial(ctx context.Context) (*api.Client, error) {
	c, _, err := a.find(ctx)
	return c, err
}

// find is dial, and says whether it is the machine's, which has a state directory of its own.
func (a asker) find(ctx context.Context) (c *api.Client, system bool, err error) {
	dir, err := a.flags.stateDir()
	if err != nil {
		return nil, false, err
	}
	c, err = api.Dial(ctx, daemon.Socket(dir))
	if err != nil && a.flags.dir == "" {
		if c, err2 := api.Dial(ctx, daemon.Socket(systemDir)); err2 == nil {
			return c, true, nil
		} else if errors.Is(err2, os.ErrPermission) {
			return nil, false, fmt.Errorf("%w: only members of the group of %s may use the node of this machine; have the owner of the machine add you to that group, or start a node of your own with fetcher node run", api.ErrDenied, daemon.Socket(systemDir))
		}
	}
	switch {
	case errors.Is(err, os.ErrPermission):
		return nil, false, fmt.Errorf("%w: this user cannot look into the state directory %s; run the command as its owner, or name another with --dir", api.ErrDenied, dir)
	case err != nil:
		return nil, false, fmt.Errorf("%w with the state directory %s", api.ErrNoNode, dir)
	}
	return c, false, nil
}

// asking runs f with a client of the node.
func (a asker) asking(ctx context.Context, f func(*api.Client) error) error {
	c, err := a.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if err = f(c); err != nil && ctx.Err() != nil {
		return cause(ctx)
	}
	return err
}
