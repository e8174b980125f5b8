package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/daemon"
	"github.com/piecelease/fetcher/discovery/dht"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
)

// shareFlags are the flags of share.
type shareFlags struct {
	listen, announce, exclude, allow []string
	name, links, limitUp             string
	visible                          fetcher.Visibility
	qr, secret, code                 bool
	to                               string
	reach                            reachFlags
}

func (a *app) shareCommand() *cobra.Command {
	var fl shareFlags
	c := &cobra.Command{
		Use: "share PATH...", SuggestFor: []string{"serve", "send", "upload"},
		Short: "Serve files or folders, and print their tickets",
		Long: `Serve files or folders, straight from where they are, until Ctrl-C.

Each PATH is a share of its own, and stdout has a line with the ticket of each,
in the order given, and nothing else. With --name they are one share, a folder
of that name that holds them all. A PATH of "-" is what is read from stdin, to
its end; it needs a --name, and is kept in the state directory while it is
served.

Messages go to stderr. What has not changed since it was last shared is not read
again. When a file changes, its share ends, and the others go on: each file
is checked before it is sent, and all are checked in turn, a thousand a second.

With --exclude, files and folders are left out by their path in the share:
* ? [a-z] match within a part of it, ** any number of parts. A pattern without
a slash matches at any depth, and one that begins with a slash only at the top.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{fmt.Errorf("%s needs a PATH; see %s --help", called(cmd), cmd.CommandPath())}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.share(cmd, args, fl) },
	}
	f := c.Flags()
	f.StringVar(&fl.name, "name", "", "call the share `NAME`, and put all that is given into it")
	f.StringArrayVar(&fl.exclude, "exclude", nil, "leave out what matches this `PATTERN`; may be repeated")
	f.StringArrayVar(&fl.listen, "listen", nil, listenHelp+" (default all interfaces, any port)")
	f.StringArrayVar(&fl.announce, "announce", nil, "put this `ADDR`, such as /dns4/example.org/tcp/4001, into the ticket instead of the node's own addresses; may be repeated")
	f.TextVar(&fl.visible, "visible", fetcher.Private, visibleHelp+"--dht)")
	fl.reach.add(f)
	f.StringArrayVar(&fl.allow, "allow", nil, "give it only to this `PEER`, an ID; may be repeated; others are refused")
	f.BoolVar(&fl.secret, "secret", false, "give it only to those who have its ticket, which then holds a secret, and to those of --allow")
	f.StringVar(&fl.links, "links", "keep", "what to do with symbolic links: `MODE` keep (one that leads out of the share is an error), skip (leave all out) or refuse (any is an error)")
	f.StringVar(&fl.limitUp, "limit-up", "", "send at most this `RATE` of bytes per second, such as 500K or 10M")
	f.BoolVar(&fl.code, "code", false, "also give the ticket to whoever types the code that you tell them; needs --beacon-at (if that is given twice, the first counts)")
	f.StringVar(&fl.to, "to", "", "connect to whoever made this `TICKET` with fetch --listen-for-source, for when they cannot reach this machine")
	f.BoolVar(&fl.qr, "qr", false, "show the ticket as a QR code too")
	return c
}

// shareStdin is the PATH that means stdin.
const shareStdin = "-"

// check interprets the flags and paths: the options, and what goes into each share.
func (fl shareFlags) check(paths []string) (opt fetcher.ShareOptions, limitUp int64, err error) {
	switch stdin := slices.Contains(paths, shareStdin); {
	case stdin && len(paths) > 1:
		return opt, 0, usageError{errors.New("- (stdin) is a share of its own: give no other PATH with it")}
	case stdin && fl.name == "":
		return opt, 0, usageError{errors.New("what is read from stdin needs a --name")}
	case stdin && len(fl.exclude) > 0:
		return opt, 0, usageError{errors.New("--exclude cannot be given with - (stdin)")}
	case fl.code && len(paths) > 1 && fl.name == "":
		return opt, 0, usageError{errors.New("--code is for one share: give one PATH, or a --name to put all into one")}
	case fl.code && len(fl.reach.beaconAt) == 0:
		return opt, 0, errNoBeaconAt
	}
	if err := cmp.Or(checkName(fl.name), notPaths(paths)); err != nil {
		return opt, 0, err
	}
	opt = fetcher.ShareOptions{Name: fl.name, Exclude: fl.exclude, Visible: fl.visible, Secret: fl.secret}
	if opt.Links, err = linkMode(fl.links); err != nil {
		return opt, 0, err
	}
	if opt.Allow, err = allowed(fl.allow); err != nil {
		return opt, 0, err
	}
	if fl.to != "" {
		if t, err := share.Parse(fl.to); err != nil {
			return opt, 0, usageError{fmt.Errorf("--to: %w", err)}
		} else if len(t.Peers) == 0 {
			return opt, 0, usageError{errors.New("--to takes the ticket that fetch --listen-for-source prints, and not an ID")}
		}
	}
	if fl.visible == fetcher.Public && len(fl.reach.dht) == 0 {
		return opt, 0, usageError{errors.New("--visible public needs a table to be found in: give --dht too")}
	}
	if fl.visible == fetcher.VisibleLAN && !fl.reach.lan {
		return opt, 0, usageError{errors.New("--visible lan announces what is shared on the local network, and --lan=false turns that off: leave out --lan=false, or unset FETCHER_LAN")}
	}
	if limitUp, err = parseRate("--limit-up", fl.limitUp); err == nil {
		err = cmp.Or(fl.reach.check(), present(paths), nameable(paths, fl.name), eachOnce(paths))
	}
	return opt, limitUp, err
}

// checkName refuses what cannot be the name of a share, before anything is read for it.
func checkName(name string) error {
	if why := badName(name); name != "" && why != "" {
		return usageError{fmt.Errorf("--name %q %s", name, why)}
	}
	return nil
}

// badName says why no share can have a name; "" if one can.
func badName(name string) string {
	var bad *share.PathError
	if _, err := share.NewManifest(name+"/", nil); errors.As(err, &bad) {
		return bad.Problems[0].Why
	}
	return ""
}

// visibleHelp describes --visible, up to the command whose --dht counts.
const visibleHelp = "who can find it by its ID alone: `WHO` is private (nobody), lan (the local network) or public (everybody, through the table of "

func linkMode(s string) (store.LinkMode, error) {
	switch s {
	case "keep":
		return store.LinksKeep, nil
	case "skip":
		return store.LinksSkip, nil
	case "refuse":
		return store.LinksRefuse, nil
	}
	return 0, usageError{fmt.Errorf("--links is keep, skip or refuse, not %q", s)}
}

func (a *app) share(cmd *cobra.Command, paths []string, fl shareFlags) error {
	ctx := cmd.Context()
	opt, limitUp, err := fl.check(paths)
	if err != nil {
		return err
	}
	log, err := a.logger()
	if err != nil {
		return err
	}
	children := newAudience(a)
	node, err := open(ctx, fetcher.Config{Dir: a.flags.dir, Listen: fl.listen, Announce: fl.announce, Reach: fl.reach.to(fl.to, nil), Beacons: fl.reach.beacons(), Discovery: fl.reach.finding(log), Logger: log, UploadRate: limitUp, OnChild: children.heard})
	if err != nil {
		return err
	}
	defer node.Close()
	children.node = node
	if paths[0] != shareStdin {
		a.tellOfNode(ctx, cmd, paths...)
	} else {
		kept, err := a.keepStdin(ctx)
		if err != nil {
			return err
		}
		defer kept.remove()
		paths, opt.Passing = []string{filepath.Join(kept.dir, stdinName)}, true
	}
	s := &sharer{app: a, node: node, children: children, opt: opt, reach: fl.reach, qr: fl.qr, code: fl.code, to: fl.to, calls: make(chan answer, 16), answered: map[peers.ID]string{}}
	if len(fl.reach.beaconAt) > 0 {
		s.beaconAt = fl.reach.beaconAt[0]
	}
	if err := s.importAll(ctx, paths, opt); err != nil {
		if ctx.Err() != nil {
			return cause(ctx)
		}
		return err
	}
	if err := s.call(); err != nil {
		return err
	}
	s.places = fl.reach.settled(ctx, node)
	if err := s.describe(); err != nil {
		return err
	}
	return s.serve(ctx)
}

// sharer is one run of share.
type sharer struct {
	*app
	node     *fetcher.Node
	shares   []served
	children *audience
	opt      fetcher.ShareOptions
	reach    reachFlags
	qr       bool   // show the tickets as QR codes
	code     bool   // give the ticket for a code
	said     bool   // there is one, or was
	to       string // the ticket of --to
	beaconAt string // the first beacon of the ticket; "": there is none
	places   []fetcher.Place
	calls    chan answer // of those to whom the ticket of --to leads
	answered map[peers.ID]string
}

// served is a share, and the time it took to import it.
type served struct {
	*fetcher.Share
	took time.Duration
	like string // the path given before that has the same content; empty: none
}

// importAll begins to share the paths: each as its own share, or with a name all as one.
func (s *sharer) importAll(ctx context.Context, paths []string, opt fetcher.ShareOptions) error {
	defer s.stderr.clear()
	of := ""
	opt.Progress = func(p store.ImportProgress) {
		s.stderr.show(fmt.Sprintf("reading%s %s of %s, %d of %s", of, share.Size(p.Bytes), share.Size(p.Total), p.Files, words.Count(p.TotalFiles, "file")), nil, false)
		s.out.throttled("progress", map[string]any{"bytes": p.Total, "read_bytes": p.Bytes, "files": p.Files, "hashed_bytes": p.Hashed})
	}
	if opt.Name != "" {
		opt.Also, paths = paths[1:], paths[:1]
	}
	for i, p := range paths {
		if len(paths) > 1 {
			of = fmt.Sprintf(" %s (%d of %d):", printable(filepath.Base(p)), i+1, len(paths))
		}
		began := time.Now()
		one, err := s.node.Share(ctx, p, opt)
		if info, e := os.Stat(p); err != nil && (len(opt.Also) > 0 || e == nil && info.IsDir()) {
			return importError{err, either(len(opt.Also) > 0, "", p)}
		} else if err != nil {
			return err
		}
		like := ""
		if i := slices.IndexFunc(s.shares, func(x served) bool { return x.ID() == one.ID() }); i >= 0 {
			like = paths[i]
		}
		s.shares = append(s.shares, served{one, time.Since(began), like})
		s.children.shares[one.ID()] = one.Manifest()
	}
	return nil
}

// importError is an error about several files, some of which could be left out. dir is the folder that they are in;
// "": several.
type importError struct {
	error
	dir string
}

func (e importError) Unwrap() error { return e.error }

// describe reports what is shared: the tickets on stdout, the rest on stderr.
func (s *sharer) describe() error {
	addrs := s.node.Addrs()
	var names []string
	var bytes, hashed int64
	for _, one := range s.shares {
		m, imp := one.Manifest(), one.Imported()
		names, bytes, hashed = append(names, m.Name), bytes+m.Layout().Bytes(), hashed+imp.Hashed
		if !s.flags.json {
			if _, err := fmt.Fprintln(sink{s.stdout}, one.Ticket()); err != nil {
				return err // nobody could fetch it
			}
		}
		s.describeOne(one, addrs)
		if s.qr {
			if err := s.showQR(one.Ticket()); err != nil {
				return err
			}
		}
	}
	s.out.sum(map[string]any{"share": s.shares[0].ID().String(), "name": strings.Join(names, ", "), "bytes": bytes, "hashed_bytes": hashed})
	e := s.stderr
	for _, p := range s.idle() {
		fmt.Fprintf(e, "warning: %s\n", idleWarning(p))
	}
	for i, addr := range addrs {
		fmt.Fprintf(e, "%-8s %s\n", either(i == 0, "address", ""), strings.TrimSuffix(addr, "/p2p/"+string(s.node.ID())))
	}
	fmt.Fprintf(e, "peer     /p2p/%s\n", s.node.ID())
	reach := where(addrs, s.places)
	if text := reachText(addrs, s.places); text != "" {
		from := map[string]string{"anywhere": "from anywhere", "network": "on this network", "machine": "on this machine"}[reach]
		fmt.Fprintf(e, "works    %s: %s\n", from, text)
	}
	for _, w := range reachWarnings(addrs, s.places, s.flags.logsWarnings(), s.to != "") {
		fmt.Fprintf(e, "warning: %s\n", w)
	}
	if s.beaconAt != "" {
		fmt.Fprintln(e, "beacon   the ticket also leads to whoever else has the share, and to this node if its address changes, provided that the node at --beacon-at is a beacon, and can reach those nodes or is their relay")
	}
	one := len(s.shares) == 1
	if from, ok := map[string]string{"anywhere": "elsewhere", "network": "elsewhere on this network", "machine": "on this machine"}[reach]; ok {
		fmt.Fprintf(e, "\nfetch %s %s with\n\n%sfetcher fetch %s\n\n", either(one, "it", "any of them"), from, verbatim, either(one, s.shares[0].Ticket(), "TICKET"))
	} else {
		fmt.Fprintln(e)
	}
	if found := s.foundBy(reach); found != "" {
		fmt.Fprintf(e, "or by the ID alone, %s\n\n%sfetcher fetch %s%s\n\n", found, verbatim, either(one, s.shares[0].ID().String(), "ID"), s.inTable(addrs))
	}
	if reach == "machine" && s.opt.Visible == fetcher.VisibleLAN {
		fmt.Fprintf(e, "nobody on this network finds %s: this node listens on no address there\n\n", either(one, "it by its ID", "them by their IDs"))
	} else if seen := seenText(s.opt.Visible, s.opt.Secret, len(s.opt.Allow) > 0); seen != "" {
		fmt.Fprintf(e, "%s\n\n", seen)
	}
	fmt.Fprintln(e, "serving until Ctrl-C")
	return nil
}

// seenByOthers says what others see of a share that is announced and has a secret, which some need no ticket for if it allows them.
func seenByOthers(allows bool) string {
	return "whoever knows the ID of a share finds that this node has it, but only those who have its ticket" + either(allows, ", and those named by --allow,", "") + " can fetch it"
}

// seenText is seenByOthers for such a share; "" for any other.
func seenText(v fetcher.Visibility, secret, allows bool) string {
	if v == fetcher.Private || !secret {
		return ""
	}
	return seenByOthers(allows)
}

// alone says that no other machine can fetch from a node that can be reached from there, as where has it.
func alone(reach string) bool { return reach == "machine" || reach == "nowhere" }

// foundBy says who finds the shares by their IDs alone; "": nobody, as this node cannot be reached, or they need a ticket for its
// secret.
func (s *sharer) foundBy(reach string) string {
	switch {
	case s.opt.Secret, reach == "nowhere":
	case s.opt.Visible == fetcher.Public:
		place := map[string]string{"network": "on this network, ", "machine": "on this machine, "}[reach]
		return place + "wherever the same hash table is used, with"
	case s.opt.Visible == fetcher.VisibleLAN && s.reach.lan && !alone(reach):
		return "on this network, with"
	}
	return ""
}

// inTable is the flag by which others use the hash table in which the shares are public.
func (s *sharer) inTable(addrs []string) string {
	if s.opt.Visible != fetcher.Public {
		return ""
	}
	for _, which := range slices.Concat(s.reach.dht, addrs) {
		if which != dht.Own { // that of no node in particular
			return " --dht " + which
		}
	}
	return ""
}

func idleWarning(pattern string) string { return fmt.Sprintf("--exclude %q left nothing out", pattern) }

// idle is the patterns that left nothing out of any share.
func (s *sharer) idle() []string {
	out := s.shares[0].Idle()
	for _, one := range s.shares[1:] {
		out = slices.DeleteFunc(slices.Clone(out), func(p string) bool { return !slices.Contains(one.Idle(), p) })
	}
	return out
}

func (s *sharer) describeOne(one served, addrs []string) {
	m, imp := one.Manifest(), one.Imported()
	files, dirs, links := m.Count()
	bytes := m.Layout().Bytes()
	warnings := append([]string{}, imp.Warnings...)
	for _, p := range one.Idle() {
		warnings = append(warnings, idleWarning(p))
	}
	warnings = append(warnings, reachWarnings(addrs, s.places, false, s.to != "")...)
	s.out.write("share", map[string]any{"ticket": one.Ticket(), "share": one.ID().String(), "name": m.Name, "bytes": bytes, "files": files, "dirs": dirs, "links": links,
		"hashed_bytes": imp.Hashed, "cached_bytes": imp.Cached, "excluded": imp.Excluded, "peer": string(s.node.ID()), "addrs": addrs, "reach": where(addrs, s.places), "warnings": warnings, "seconds": one.took.Seconds()})
	what := []string{words.Count(files, "file")}
	if dirs > 0 {
		what = append(what, words.Count(dirs, "empty folder"))
	}
	if links > 0 {
		what = append(what, words.Count(links, "link"))
	}
	e := s.stderr
	fmt.Fprintf(e, "\nsharing  %s\n", printable(m.Name))
	fmt.Fprintf(e, "size     %s%s in %s\n", share.Size(bytes), either(bytes < 1000, "", fmt.Sprintf(" (%d bytes)", bytes)), strings.Join(what, ", "))
	if imp.Excluded > 0 {
		fmt.Fprintf(e, "left out %d %s\n", imp.Excluded, either(imp.Excluded == 1, "file or folder", "files and folders"))
	}
	fmt.Fprintf(e, "share    %s\n", one.ID())
	fmt.Fprintf(e, "hashed   %s in %s, %s known from before\n", share.Size(imp.Hashed), words.Duration(one.took), share.Size(imp.Cached))
	for _, w := range imp.Warnings {
		fmt.Fprintf(e, "warning: %s\n", printable(w))
	}
	if one.like != "" {
		fmt.Fprintf(e, "warning: it is the same as %s: both have the same ticket, and what was given last is served\n", printable(one.like))
	}
}

// parting is how long a node whose last share has ended answers that it has.
var parting = 2 * time.Second

// serve waits until it is told to end, or nothing is left to serve.
func (s *sharer) serve(ctx context.Context) error {
	ended := make(chan served)
	done := make(chan struct{})
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer close(done)
	for _, one := range s.shares {
		waiting.Go(func() {
			select {
			case <-one.Done():
			case <-done:
				return
			}
			select {
			case ended <- one:
			case <-done:
			}
		})
	}
	defer looking(time.Second, s.looks())()
	show := time.NewTicker(time.Second)
	defer show.Stop()
	defer s.stderr.clear()
	serving, stop := context.WithCancel(ctx)
	defer stop()
	code := s.giveCode(serving, &waiting)
	for {
		select {
		case <-ctx.Done():
			return s.node.Close()
		case c := <-code.said:
			s.tellCode(c)
		case err := <-code.end:
			s.codeEnded(err)
		case x := <-s.calls:
			s.tellCall(x)
		case c := <-s.children.events:
			s.children.tell(c)
		case <-show.C:
			s.children.show(ctx)
		case one := <-ended:
			s.shares = slices.DeleteFunc(s.shares, func(x served) bool { return x == one })
			err := one.Err()
			if err == nil { // another of the same content replaced it
				continue
			}
			s.out.write("gone", map[string]any{"share": one.ID().String(), "name": one.Manifest().Name, "why": err.Error()})
			if len(s.shares) == 0 {
				select { // whoever is connecting now is told that the file has changed, and not left to wait for a node that is gone
				case <-ctx.Done():
				case <-time.After(parting):
				}
				return err
			}
			fmt.Fprintf(s.stderr, "%s is not shared any more: %s\n%s %s still served.\n", printable(one.Manifest().Name), printable(err.Error()),
				words.Count(len(s.shares), "other share"), either(len(s.shares) == 1, "is", "are"))
		}
	}
}

func either(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}

// parseRate reads bytes per second, as daemon.ParseRate does. Empty means no limit.
func parseRate(flag, s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	rate, err := daemon.ParseRate(s)
	if err != nil {
		return 0, usageError{fmt.Errorf("%s: %w", flag, err)}
	}
	return rate, nil
}
