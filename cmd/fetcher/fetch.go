package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/share"
)

// identityHelp is the help of --identity.
const identityHelp = "use the stored identity of this node instead of a fresh one"

// fetchFlags are the flags of fetch.
type fetchFlags struct {
	out       string
	only      []string
	skip      []string
	repair    bool
	like      []string
	peers     []string
	listen    []string
	seed      string
	stall     time.Duration
	identity  bool
	called    bool // a source connects to this node, and not the other way
	announce  []string
	reach     reachFlags
	limitUp   string
	limitDown string
	fleet     fleetFlags
	found     fetcher.Discoveries // what finding has made
}

// calledWait is how long a fetch waits for a source to connect to it, unless told: people pass a ticket on.
const calledWait = 10 * time.Minute

// seedForever is the value of --seed without a time.
const seedForever = "forever"

func (a *app) fetchCommand() *cobra.Command {
	var fl fetchFlags
	c := &cobra.Command{
		Use: "fetch TICKET|ID|CODE", SuggestFor: []string{"get", "download", "receive"},
		Short: "Fetch a share, verified; run it again to resume",
		Long: `Fetch a share into DIR/NAME and verify every block of it. What an earlier run
fetched is kept, and not hashed again. A ticket of "-" is read from stdin.

A CODE such as 7-marble-fossil is what share --code says: it is good for one
try within two minutes, through a beacon that both sides name with --beacon-at.

With --only or --skip, files are chosen by their path in the share, as ls prints
it, or the same without NAME/. In a pattern, * ? [a-z] match within one part of
the path, and ** any number of parts; a pattern that matches a folder chooses
all that is in it. Only the chosen files are made: each is in DIR/NAME when it
is complete, and DIR/NAME.partial stays for a later run that chooses more.

If DIR/NAME exists and differs, nothing is done, unless --repair is given: then
what is missing or wrong is fetched, and a wrong file is replaced once the right
one is complete; the names of such files are printed first. Files that are not
in the share are left alone. With --like, pieces that an older version also has
are taken from there.

While it fetches, it serves others what it has verified; with --seed it goes
on doing so when it is done.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 && fl.seed == seedForever {
				for _, arg := range args {
					if _, err := words.ParseDuration(arg); err == nil {
						return usageError{fmt.Errorf("the time of --seed goes right after an =, as in --seed=%s", arg)}
					}
				}
			}
			if asCode(args) != "" {
				return nil // its words may be apart
			}
			if len(args) == 2 && isTicket(args[0]) && !isTicket(args[1]) {
				return usageError{fmt.Errorf("to fetch into the folder %s, put -o before it: -o %s", args[1], quote(args[1]))}
			}
			return oneTicket("TICKET, ID or CODE")(cmd, args)
		},
		ValidArgsFunction: completeCode,
		RunE:              func(cmd *cobra.Command, args []string) error { return a.fetch(cmd, args, fl) },
	}
	f := c.Flags()
	f.StringVarP(&fl.out, "out", "o", ".", "put the share into this folder, `DIR`")
	f.StringArrayVar(&fl.only, "only", nil, "fetch only what matches this `PATTERN`; may be repeated")
	f.StringArrayVar(&fl.skip, "skip", nil, "do not fetch what matches this `PATTERN`; may be repeated")
	f.BoolVar(&fl.repair, "repair", false, "fetch what is missing or wrong in DIR/NAME, and replace only that")
	f.StringArrayVar(&fl.like, "like", nil, "take from this folder or file, `DIR`, the pieces that it has in common with the share; may be repeated")
	fl.sources(f)
	f.StringArrayVar(&fl.announce, "announce", nil, "put this `ADDR`, such as /dns4/example.org/tcp/4001, into the tickets of --seed and --listen-for-source instead of the node's own addresses; may be repeated")
	fl.reach.inbound(f)
	f.StringArrayVar(&fl.reach.beaconAt, "beacon-at", nil, "look a CODE up at the beacon at this `ADDR`, a multiaddr that ends in /p2p/ID; with a ticket that names beacons, ask this one for sources too; may be given twice: a CODE is looked up at the first")
	fl.fleet.add(f)
	f.StringVar(&fl.seed, "seed", "", "go on serving when done: for a `TIME` such as 30m, or until Ctrl-C")
	f.Lookup("seed").NoOptDefVal = seedForever
	f.BoolVar(&fl.called, "listen-for-source", false, "for when this node cannot reach whoever has the files: print a ticket with which they run share --to, and so connect to this node; with this flag, the node uses its stored identity, and waits 10m unless --stall says otherwise")
	return c
}

// sources are the flags that say from where to fetch.
func (fl *fetchFlags) sources(f *pflag.FlagSet) {
	f.StringArrayVar(&fl.peers, "peer", nil, "fetch from this `ADDR` too, a multiaddr that ends in /p2p/ID; may be repeated")
	f.StringArrayVar(&fl.listen, "listen", nil, listenHelp+" (default all interfaces, any port)")
	fl.reach.outbound(f, lookHelp)
	spanVar(f, &fl.stall, "stall", time.Minute, time.Millisecond, maxWait, "give up after this `TIME` without a verified byte")
	f.StringVar(&fl.limitUp, "limit-up", "", "send others at most this `RATE` of bytes per second, such as 500K or 10M")
	f.StringVar(&fl.limitDown, "limit-down", "", "ask for at most this `RATE` of bytes per second, such as 500K or 10M")
	f.BoolVar(&fl.identity, "identity", false, identityHelp)
}

// await sets what else goes with a fetch that a source connects to.
func (fl *fetchFlags) await(stall bool) {
	fl.identity = true // its ticket leads to a node that was started again, too
	if !stall {
		fl.stall = calledWait
	}
}

// rates are the limits in bytes per second; 0 is none.
type rates struct{ up, down int64 }

// check interprets the flags; seed is how long to serve afterwards, negative for ever.
func (fl fetchFlags) check() (seed time.Duration, limit rates, err error) {
	for _, at := range fl.like {
		if _, err := os.Stat(at); err != nil {
			return 0, limit, usageError{fmt.Errorf("--like: there is no file or folder %q", at)}
		}
	}
	if _, err := canBeFolder(fl.out); errors.As(err, new(usageError)) {
		return 0, limit, usageError{fmt.Errorf("-o: %w", err)}
	}
	switch fl.seed {
	case "", "false":
	case seedForever, "true":
		seed = -1
	default:
		if seed, err = words.ParseDuration(fl.seed); err != nil {
			return 0, limit, usageError{fmt.Errorf("--seed: %w", err)}
		}
		if seed <= 0 {
			return 0, limit, usageError{fmt.Errorf("--seed takes a time such as --seed=30m, not %q", fl.seed)}
		}
	}
	if limit.up, err = parseRate("--limit-up", fl.limitUp); err == nil {
		limit.down, err = parseRate("--limit-down", fl.limitDown)
	}
	if err == nil {
		err = fl.reach.check()
	}
	return seed, limit, err
}

// finding is what the flags ask for about finding others.
func (fl *fetchFlags) finding(ticket string, log *slog.Logger) fetcher.Discovery {
	entry := slices.Clone(fl.peers)
	if t, err := share.Parse(ticket); err == nil {
		for _, a := range t.Beacons {
			entry = append(entry, a.String())
		}
	}
	fl.found = discoveries(fl.reach.lan, fl.reach.dht, entry, true, log)
	return orNone(fl.found)
}

func (a *app) fetch(cmd *cobra.Command, args []string, fl fetchFlags) error {
	ctx := cmd.Context()
	if fl.called {
		fl.await(cmd.Flags().Changed("stall"))
	}
	seed, limit, err := fl.check()
	if err != nil {
		return err
	}
	ticket, err := a.ticketFrom(cmd, args, fl)
	if err != nil {
		return err
	}
	log, err := a.logger()
	if err != nil {
		return err
	}
	fleet, done, err := a.fleet(ctx, fl.fleet)
	if err != nil {
		return err
	}
	defer done()
	began := time.Now()
	children := newAudience(a)
	node, err := open(ctx, fetcher.Config{Dir: a.flags.dir, FreshIdentity: !fl.identity && !fl.fleet.used(), Listen: fl.listen, Announce: fl.announce, Reach: fl.reach.to(ticket, fl.peers), Beacons: fl.reach.beacons(), Discovery: fl.finding(ticket, log), Logger: log, UploadRate: limit.up, DownloadRate: limit.down, Fleet: fleet, OnChild: children.heard})
	if err != nil {
		return err
	}
	defer node.Close()
	children.node = node
	a.tellOfNode(ctx, cmd, ticket, "-o", fl.out)
	t, err := node.Fetch(ctx, ticket, fetcher.FetchOptions{Dir: fl.out, Only: fl.only, Skip: fl.skip, Repair: fl.repair, Like: fl.like, Peers: fl.peers, Called: fl.called, Stall: fl.stall, Keep: seed != 0})
	if err != nil {
		return misnamed(err)
	}
	w := &watcher{app: a, node: node, t: t, children: children, began: began, reach: fl.reach, id: fl.alone(cmd, ticket)}
	if fl.called {
		if err := w.awaitCall(ctx); err != nil {
			return err
		}
	}
	err = w.follow(ctx)
	w.summarize()
	if err != nil {
		return w.failed(cmd, err, ticket, fl)
	}
	fmt.Fprintf(a.stderr, "done: %s\n%s\n", printable(t.Path()), achieved(t.Progress(), time.Since(began)))
	files, _, _ := t.Manifest().Count()
	if _, err := os.Lstat(t.Path() + ".partial"); err == nil && t.Progress().Files < files { // files that were there before need none
		fmt.Fprintf(a.stderr, "%s.partial stays, for when others of the %d files are wanted; a fetch of all of them removes it\n", printable(t.Path()), files)
	}
	if seed != 0 {
		if err := w.seed(ctx, seed); err != nil {
			return err
		}
	}
	return w.leave()
}

// failed says how to go on after an interruption, and marks the error of a fetch that got nothing.
func (w *watcher) failed(cmd *cobra.Command, err error, ticket string, fl fetchFlags) error {
	switch {
	case w.id.is && errors.Is(err, fetcher.ErrUnfound):
		w.kept = w.t.Progress().Verified > 0
		return w.id.unfound(err)
	case errors.Is(err, errInterrupted):
		fmt.Fprintf(w.stderr, "interrupted; each whole piece that is verified is kept. To resume:\n\n    %s\n", again(cmd, ticket, fl.out))
	case w.t.Progress().Verified > 0:
		w.kept = true
	case fl.called && (errors.Is(err, share.ErrStalled) || errors.Is(err, share.ErrNetwork)):
		return marked{err, errUncalled}
	case fl.fleet.used() && fl.fleet.alone == 0 && errors.Is(err, share.ErrStalled):
		return marked{err, errLeased}
	}
	return err
}

// again is the command that resumes: the same choice, sources and limits.
func again(cmd *cobra.Command, ticket string, out string) string {
	words := []string{cmd.CommandPath(), strings.Join(strings.Fields(ticket), ""), "-o", quote(out)}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Name != "out" {
			words = append(words, given(f)...)
		}
	})
	return strings.Join(words, " ")
}

// watcher reports a transfer's progress to a person, or a program.
type watcher struct {
	*app
	node     *fetcher.Node
	t        *fetcher.Transfer
	children *audience
	began    time.Time
	reach    reachFlags
	id       loneID
}

// follow shows the events until the transfer has ended.
func (w *watcher) follow(ctx context.Context) error {
	defer w.stderr.clear()
	interrupted := ctx.Done()
	asked, stop := whyAsked()
	defer stop()
	events := w.t.Events(context.WithoutCancel(ctx))
	slow, lost := w.id.alarms()
	unheard := false
	for {
		select {
		case <-slow:
			if looks(w.t) {
				w.stderr.clear()
				fmt.Fprintln(w.stderr, w.id.says())
			}
		case <-lost:
			if unheard = looks(w.t); unheard {
				w.t.Stop(ctx) // it has ended: the end is among the events
			}
		case <-asked:
			w.stderr.clear()
			for _, s := range w.t.Why("gives up") {
				fmt.Fprintln(w.stderr, printable(s))
			}
		case <-interrupted:
			interrupted = nil
			w.t.Stop(ctx) // it has ended: the end is among the events
		case e, ok := <-events:
			if !ok {
				return errors.New("internal error: the transfer ended without a result") // cannot happen: Ended comes first
			}
			if end, ok := e.(fetcher.Ended); ok {
				if errors.Is(end.Err, fetcher.ErrStopped) {
					if unheard && interrupted != nil {
						return fetcher.ErrUnfound
					}
					return errInterrupted
				}
				return end.Err
			}
			w.show(e)
		}
	}
}

func (w *watcher) show(e fetcher.Event) {
	switch e := e.(type) {
	case fetcher.Planned:
		w.plan(e)
	case fetcher.Progress:
		w.stderr.show(describe(e), picture(e), false)
		w.out.throttled("progress", e)
	case fetcher.SourceChanged:
		w.out.write("source", e)
		if e.Source.Banned {
			w.stderr.clear()
			fmt.Fprintf(w.stderr, "source %s is %s\n", e.Source.Peer, printable(e.Source.Why))
		}
	case fetcher.Stalled:
		w.out.write("stall", e)
		p := w.t.Progress()
		p.Reason = e.Reason
		w.stderr.show(describe(p), picture(p), true)
	}
}

func (w *watcher) plan(e fetcher.Planned) {
	m := e.Manifest
	files, _, _ := m.Count()
	w.stderr.clear()
	fmt.Fprintf(w.stderr, "%s: %s in %s", printable(m.Name), share.Size(e.Bytes), words.Count(e.Files, "file"))
	if e.Files < files {
		fmt.Fprintf(w.stderr, ", of %s in %s", share.Size(m.Layout().Bytes()), words.Count(files, "file"))
	}
	if e.Resumed > 0 {
		fmt.Fprintf(w.stderr, "; %s is here already", share.Size(e.Resumed))
	}
	fmt.Fprintln(w.stderr)
	replaces := append([]string{}, w.t.Replaces()...)
	if len(replaces) > 0 {
		fmt.Fprintf(w.stderr, "%s, and will be replaced when the right bytes are here:\n", either(len(replaces) == 1, "1 file differs", fmt.Sprintf("%d files differ", len(replaces))))
		for _, p := range replaces {
			fmt.Fprintf(w.stderr, "%s%s\n", verbatim, printable(p))
		}
	}
	w.out.write("plan", e, map[string]any{"replaces": replaces, "pieces": w.t.Progress().Pieces})
}

// summarize is the last line about the transfer.
func (w *watcher) summarize() {
	p := w.t.Progress()
	in, out := w.node.Traffic()
	sum := map[string]any{"name": p.Name, "bytes": p.Bytes, "verified_bytes": p.Verified, "wire_bytes": in + out, "duplicate_bytes": p.Duplicate,
		"resumed_bytes": p.Resumed, "hashed_bytes": p.Hashed, "seconds": time.Since(w.began).Seconds(), "sources": append([]fetcher.Source{}, p.Sources...), "path": p.Path}
	maps.DeleteFunc(sum, func(_ string, v any) bool { return v == "" }) // not known
	w.out.sum(sum)
	if !w.flags.json && p.Duplicate > 0 {
		fmt.Fprintf(w.stderr, "%s was received twice\n", share.Size(p.Duplicate))
	}
}

// seed keeps serving for a time, until it is interrupted, or until a file has changed, which is an error.
func (w *watcher) seed(ctx context.Context, d time.Duration) error {
	until := "until Ctrl-C"
	if d >= 0 {
		until = "for " + words.Duration(d)
	}
	if err := w.offer(ctx, until); err != nil {
		return err
	}
	if d >= 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, d)
		defer stop()
	}
	w.children.shares[w.t.ID()] = w.t.Manifest()
	serving, stop := context.WithCancel(ctx)
	defer stop()
	go func() { // ends with serving
		select {
		case <-w.t.Unserved():
			stop()
		case <-serving.Done():
		}
	}()
	w.children.follow(serving)
	err := w.t.UnservedErr()
	if err != nil {
		w.out.write("gone", map[string]any{"share": w.t.ID().String(), "name": w.t.Manifest().Name, "why": err.Error()})
		select { // as after share
		case <-ctx.Done():
		case <-time.After(parting):
		}
	}
	return err
}

// callText says how a source connects to whoever made a ticket.
const callText = "waiting for whoever has the share; on the machine that has it, run this, with the file or folder as PATH\n\n" + verbatim + "fetcher share PATH --to %s\n\n"

// awaitCall prints the ticket by which a source connects to this node.
func (w *watcher) awaitCall(ctx context.Context) error {
	places := w.reach.settled(ctx, w.node)
	addrs, ticket := w.node.Addrs(), w.node.Ticket(w.t.ID())
	if len(addrs) == 0 {
		return usageError{errors.New("--listen-for-source needs an address at which this node can be reached, and it listens nowhere")}
	}
	warnings := append([]string{}, reachWarnings(addrs, places, false, false)...)
	w.out.write("await", map[string]any{"ticket": ticket, "share": w.t.ID().String(), "peer": string(w.node.ID()), "addrs": addrs, "reach": where(addrs, places), "warnings": warnings})
	for _, s := range reachWarnings(addrs, places, w.flags.logsWarnings(), false) {
		fmt.Fprintln(w.stderr, "warning:", s)
	}
	fmt.Fprintf(w.stderr, callText, ticket)
	if w.flags.json {
		return nil
	}
	_, err := fmt.Fprintln(sink{w.stdout}, ticket)
	return err
}

// offer prints the ticket of what it keeps serving: alone on stdout, as share does.
func (w *watcher) offer(ctx context.Context, until string) error {
	places := w.reach.settled(ctx, w.node)
	m, addrs, ticket := w.t.Manifest(), w.node.Addrs(), w.node.Ticket(w.t.ID())
	files, dirs, links := m.Count()
	part := []string{}
	if w.t.Progress().Files < files {
		part = append(part, "this node serves only the files that it has fetched")
	}
	w.out.write("share", map[string]any{"ticket": ticket, "share": m.ID().String(), "name": m.Name, "bytes": m.Layout().Bytes(), "files": files, "dirs": dirs, "links": links,
		"peer": string(w.node.ID()), "addrs": addrs, "reach": where(addrs, places), "warnings": slices.Concat(reachWarnings(addrs, places, false, false), part)})
	for _, s := range slices.Concat(reachWarnings(addrs, places, w.flags.logsWarnings(), false), part) {
		fmt.Fprintln(w.stderr, "warning:", s)
	}
	if len(addrs) == 0 {
		fmt.Fprintln(w.stderr, "serving it", until)
		return nil
	}
	fmt.Fprintf(w.stderr, "serving it %s; fetch it from here with\n\n%sfetcher fetch %s\n\n", until, verbatim, ticket)
	if w.flags.json {
		return nil
	}
	_, err := fmt.Fprintln(sink{w.stdout}, ticket)
	return err
}

// leave says goodbye to the children and closes the node.
func (w *watcher) leave() error {
	if err := w.node.Close(); err != nil {
		w.stderr.clear()
		fmt.Fprintln(w.stderr, "warning: the node did not shut down cleanly:", err)
	}
	return nil
}
