package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/daemon"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/vfs"
)

func (a asker) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: "Say what keeps this machine from sharing, and what to do",
		Long: `Look at what a node needs: its state directory, the disk, the clock, the
network, its port, and whether others can reach it. Each line says what was
found, and what to do if something is wrong; if anything is, the exit code
is 1. A note names a limit of this machine, not a fault.

Whether others can reach this machine from elsewhere cannot be told from here
alone: it is judged by its addresses, unless a running node's relay has tried.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.doctor(cmd.Context()) },
	}
}

// finding is the result of one check.
type finding struct {
	what   string
	ok     bool
	text   string // what was found
	advice string // what to do, if something is wrong; or what may be done
}

// errUnwell says that something is wrong.
var errUnwell = errors.New("something needs attention; see the lines above")

func (a asker) doctor(ctx context.Context) error {
	dir, err := a.flags.namedDir()
	if err != nil {
		return err
	}
	var status *api.Status
	var ofFleet, ofDepot []finding
	c, system, err := a.find(ctx)
	if err == nil {
		if s, err := c.Status(ctx); err == nil {
			status = &s
			ofFleet, ofDepot = checkFleet(ctx, c, s), checkDepot(ctx, c, s)
			ofDepot = append(ofDepot, checkHolds(c.Holds(ctx))...)
		}
		c.Close()
	}
	var found []finding
	if system && status != nil { // whoever may use it need not be who may write there
		dir = status.Dir
		found = []finding{{"state", true, "the node of this machine keeps its state in " + dir, ""}, checkDisk("where the node puts shares", status.FreeBytes)}
	} else {
		found = []finding{checkState(dir), checkDisk("on the disk of "+dir, freeAt(dir))}
	}
	node := finding{"node", true, "no node is running with the state directory " + dir + either(found[0].ok, "; fetcher node run starts one", ""), ""}
	if errors.Is(err, api.ErrDenied) {
		node.text, node.advice = "whether one is running is not known", strings.TrimPrefix(words.Plain(err), api.ErrDenied.Error()+": ")
	}
	found = append(found, checkClock(dir, time.Now()), checkNetwork())
	if status != nil {
		found = append(found, finding{"node", true, fmt.Sprintf("it has run for %s", words.Duration(time.Since(status.Since))), ""}, checkReach("the node", status.Addrs, placesOf(status), status.Tried), checkEntries(status))
		found = slices.Concat(found, ofFleet, ofDepot)
	} else {
		found = append(found, node)
		if found[0].ok {
			found = append(found, a.checkPort(ctx, dir)...)
		}
	}
	return a.tellFindings(found)
}

func (a asker) tellFindings(found []finding) error {
	var err error
	for _, f := range found {
		a.out.write("check", map[string]any{"what": f.what, "ok": f.ok, "text": f.text, "advice": f.advice})
		if !a.flags.json {
			f.text, f.advice = a.flags.named(f.text), a.flags.named(f.advice) // before their lines are broken
			if _, err := fmt.Fprint(a.prose(), f.lines(newTerminal(a.stdout).columns())); err != nil {
				return err
			}
		}
		if !f.ok {
			err = errUnwell
		}
	}
	return err
}

// lines are a finding for a terminal of so many columns, 0 for none: the mark, what it is about, and the text in a column.
func (f finding) lines(columns int) string {
	const at = 16
	mark := either(f.ok, either(f.advice == "", "ok   ", "note "), "WRONG")
	out := fmt.Sprintf("%s  %-8s %s\n", mark, f.what, beside(printable(f.text), columns, at))
	if f.advice != "" {
		out += strings.Repeat(" ", at) + beside(printable(f.advice), columns, at) + "\n"
	}
	return out
}

// checkState says whether the state directory can be written.
func checkState(dir string) finding {
	f := finding{what: "state", text: dir + " can be written to"}
	err := os.MkdirAll(dir, 0o700)
	var temp *os.File
	if err == nil {
		temp, err = os.CreateTemp(dir, ".doctor-*")
	}
	if err == nil {
		_, err = temp.Write(make([]byte, 4096))
		err = errors.Join(err, temp.Close(), os.Remove(temp.Name()))
	}
	if err == nil {
		f.ok = true
		return f
	}
	f.text = fmt.Sprintf("%s cannot be written to: %s", dir, system(err))
	f.advice = "Give this user the right to write there, mount its disk for writing, or name another folder with --dir."
	if at := inTheWay(dir); at != nil {
		f.text, f.advice = words.Plain(at), "Name another folder with --dir, or FETCHER_DIR in the environment."
	} else if errors.Is(vfs.Full(err), share.ErrDiskFull) {
		f.advice = "The disk is full: make room on it, or name a folder on another disk with --dir."
	}
	return f
}

// checkFleet says whether a node that belongs to a fleet can take part in it.
func checkFleet(ctx context.Context, c *api.Client, s api.Status) []finding {
	if !s.Fleet {
		return nil
	}
	f, err := c.Fleet(ctx)
	switch {
	case err != nil:
		return []finding{{"fleet", false, "its state is not known: " + words.Plain(err), "See fetcher fleet status."}}
	case f.Away != "":
		return []finding{{"fleet", false, f.Away, "Until that is mended, this machine gets no new shares of the fleet."}}
	case len(f.Members) == 0: // they were forgotten, or none has reported yet
		return []finding{{"fleet", true, "this node is a member of a fleet; " + noMachine, ""}}
	}
	return []finding{{"fleet", true, "this node is a member of a fleet of " + words.Count(len(f.Members), "machine"), ""}}
}

// checkDepot says whether a node that is a depot can keep shares for others.
func checkDepot(ctx context.Context, c *api.Client, s api.Status) []finding {
	if !s.Depot {
		return nil
	}
	d, err := c.Depot(ctx)
	switch {
	case err != nil:
		return []finding{{"depot", false, "its state is not known: " + words.Plain(err), "See fetcher depot status."}}
	case d.Trouble != "":
		return []finding{{"depot", false, "it waits: " + d.Trouble, "Mount its disk, or name the folder where it is now, with --depot or as depot in node.toml, and start the node again."}}
	case d.Frozen:
		return []finding{{"depot", false, "it does not trust the clock, so nothing expires or is removed there", "If this machine's clock is right, say so with fetcher depot clock ok."}}
	case d.Stuck != "":
		return []finding{{"depot", false, "it cannot look at every share that it keeps: " + d.Stuck, "Look at the disk and at who owns the folders on it. The depot tries again each minute."}}
	case d.PassesTrouble != "":
		return []finding{{"depot", false, "it takes no passes now: " + d.PassesTrouble, ""}}
	}
	return []finding{{"depot", true, "it keeps shares in " + d.Dir, ""}}
}

// checkHolds says whether depots keep what they are to keep for this node.
func checkHolds(all []api.StandingHold, err error) []finding {
	switch {
	case err != nil:
		return []finding{{"holds", false, "what depots keep for this node is not known: " + words.Plain(err), "See fetcher holds."}}
	case len(all) == 0:
		return nil
	}
	late, refused := 0, 0
	for _, h := range all {
		if h.Late {
			late++
		} else if h.Ending && h.Why != "" {
			refused++
		}
	}
	f := finding{what: "holds", ok: late+refused == 0, text: words.Count(len(all), "lease") + " at depots elsewhere"}
	if late > 0 {
		f.text += fmt.Sprintf("; not renewed: %d", late)
	}
	if refused > 0 {
		f.text += fmt.Sprintf("; not released: %d", refused)
	}
	if !f.ok {
		f.advice = "fetcher holds says which, and why."
	}
	return []finding{f}
}

// freeAt is how much is free on the disk of a folder; -1 if that is not known.
func freeAt(dir string) int64 {
	d, err := vfs.Dir(dir)
	if err != nil {
		return -1
	}
	defer d.Close()
	free, err := d.Free()
	if err != nil {
		return -1
	}
	return free
}

// checkDisk says whether what is free somewhere is enough for a node.
func checkDisk(where string, free int64) finding {
	need := fmt.Sprintf("a node needs %s for what it remembers, and room for its shares.", share.Size(daemon.LeastFree))
	text := share.Size(free) + " is free " + where
	switch {
	case free < 0:
		return finding{"disk", true, "it is not known how much is free " + where, "See that there is room: " + need}
	case free < daemon.LeastFree:
		return finding{"disk", false, text, "Make room: " + need}
	}
	return finding{"disk", true, text, ""}
}

// checkClock says whether the clock may be right: not before this program was built, or
// its state directory was last written; and not more than a year after the latter.
func checkClock(dir string, now time.Time) finding {
	f := finding{what: "clock", ok: true, text: "it says " + stamp(now)}
	var last time.Time
	for _, name := range []string{"", "key", "port", "ranking", "catalog.db", "catalog.db-wal"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.ModTime().After(last) && name != "" {
			last = info.ModTime()
		}
	}
	made := builtAt()
	const off = 24 * time.Hour
	switch {
	case now.Before(made.Add(-off)):
		f.ok, f.text = false, f.text+", and this program was made on "+made.Format("2006-01-02")
	case !last.IsZero() && now.Before(last.Add(-off)):
		f.ok, f.text = false, f.text+", and the node was last used on "+last.Format("2006-01-02")
	case !last.IsZero() && now.Sub(last) > 300*24*time.Hour:
		f.text += ", and the node's files were last written on " + last.Format("2006-01-02")
		f.advice = "If the node has been used since, the clock is wrong: set it."
	}
	if !f.ok {
		f.advice = "Set the clock, and have the system keep it right (NTP): everything that expires does so by this clock."
	}
	return f
}

// builtAt is when this program's commit was made; zero if that is not known.
func builtAt() (at time.Time) {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.time" {
				at, _ = time.Parse(time.RFC3339, s.Value)
			}
		}
	}
	return at
}

func checkNetwork() finding {
	f := finding{what: "network", advice: "Connect this machine to a network, by cable or wireless, and see that the router gives it an address."}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		f.ok, f.text, f.advice = true, "the system does not list its addresses: "+err.Error(), ""
		return f
	}
	n := 0
	for _, addr := range addrs {
		if ip, ok := addr.(*net.IPNet); ok && !ip.IP.IsLoopback() && !ip.IP.IsLinkLocalUnicast() {
			n++
		}
	}
	if n > 0 {
		f.advice = ""
	}
	f.ok, f.text = n > 0, fmt.Sprintf("this machine is on a network, with %d addresses", n)
	switch n {
	case 0:
		f.text = "this machine has no address but loopback and link-local ones"
	case 1:
		f.text = "this machine is on a network, with one address"
	}
	return f
}

// checkReach says, by the addresses of a node, which who is in words, and its places at relays, from where it can be reached.
func checkReach(who string, addrs []string, places []fetcher.Place, tried []api.Tried) finding {
	f := finding{what: "reach"}
	for _, p := range places {
		if !p.Held {
			f.text = fmt.Sprintf("the relay %s does not serve the node: %s", p.Relay.Short(), cmp.Or(p.Why, "it has not answered yet"))
			f.advice = `See that the relay runs, is given with --via as "fetcher node run --relay" prints it, and can be reached from here. The node keeps asking it.`
			return f
		}
	}
	if i := slices.IndexFunc(tried, func(x api.Tried) bool { return x.Reached }); i >= 0 {
		f.ok, f.text = true, "others can reach the node from anywhere: a relay has reached it at "+tried[i].Addr
		return f
	}
	if ledToAny(addrs, places) {
		from := map[string]string{"anywhere": "from anywhere", "network": "from this network only", "machine": "from this machine only"}
		f.ok, f.text = true, "others can reach the node "+from[where(addrs, places)]+": "+reachText(addrs, places)
		if len(tried) > 0 {
			f.text += "; a relay could not reach the node directly at " + tried[0].Addr
		}
		return f
	}
	if len(tried) > 0 {
		f.text = "a relay could not reach the node at " + tried[0].Addr + ": a firewall or router lets nothing in"
		f.advice = "Let the node's port through, TCP and UDP, in the firewall of this machine and in the router. Until then, only peers that reach it in another way can fetch from it."
		return f
	}
	switch nearest(addrs) {
	case 0:
		f.ok, f.text = true, who+" has an address that can be reached from anywhere, if no firewall forbids it"
	case 1:
		f.ok, f.text = true, who+" has only private addresses: it is behind a router (NAT), and only machines on this network can fetch from it"
		f.advice = "To be reached from elsewhere, forward the node's port in the router to this machine, TCP and UDP, and name the router's address with --announce; or have the node ask for that with --map-port; or name a relay with --via. Fetching needs none of that."
	case 2:
		f.text = who + " can be reached only from this machine"
		f.advice = "If --listen, or listen in node.toml, tells it to listen on loopback, give only a port there, without an IP address; if not, connect the machine to a network."
	default:
		f.text = who + " listens nowhere"
		f.advice = "Either it was told to (--listen none, or listen in node.toml), or this machine has no network."
	}
	return f
}

// placesOf is what a running node says about its relays.
func placesOf(s *api.Status) (out []fetcher.Place) {
	for _, r := range s.Relays {
		out = append(out, fetcher.Place{Relay: peers.ID(r.Peer), Held: r.Held, Why: r.Why, Carries: r.Carries})
	}
	return out
}

func checkEntries(s *api.Status) finding {
	f := finding{what: "entries", ok: s.Troubled == 0, text: words.Count(s.Entries, "entry")}
	if s.Entries != 1 {
		f.text = fmt.Sprintf("%d entries", s.Entries)
	}
	if !f.ok {
		f.text += fmt.Sprintf(", of which %d cannot go on", s.Troubled)
		f.advice = "fetcher node status says which, and why."
	}
	return f
}

// checkPort says whether the node could listen on its last port, and from where it could be
// reached then.
func (a asker) checkPort(ctx context.Context, dir string) []finding {
	f := finding{what: "port", advice: "End the program that has it (ss -lnp shows which), or choose another port with --listen. Tickets that were handed out name the old port."}
	st, err := store.OpenState(dir)
	if err != nil {
		f.text, f.advice = words.Plain(err), advice(err)
		return []finding{f}
	}
	port := st.LoadPort()
	_, ours, err := st.Key()
	st.Close()
	switch {
	case err != nil:
		f.text, f.advice = words.Plain(err), either(errors.Is(err, fs.ErrPermission), "Let this user use that file, or run the command as a user who may.", "If the node gets a new ID, old tickets still name the old one.")
	case !ours:
		f.ok, f.text = true, "another fetcher is using the state directory, and its port"
	case port == 0:
		f.ok, f.text = true, "no port is kept from an earlier run: the node takes a free one, or that of --listen"
	default:
		err := canListen(port)
		f.ok, f.text = err == nil, fmt.Sprintf("port %d, used last time, is free", port)
		if err != nil {
			f.text = fmt.Sprintf("port %d, used last time, cannot be opened: %s", port, system(err))
		}
	}
	if f.ok {
		f.advice = ""
	}
	node, err := fetcher.Open(ctx, fetcher.Config{Dir: dir, FreshIdentity: true})
	if err != nil {
		return []finding{f, {what: "reach", text: words.Plain(err), advice: "Without a network to listen on, nobody can fetch from here."}}
	}
	defer node.Close()
	return []finding{f, checkReach("a node here", node.Addrs(), nil, nil)}
}

// system is what the system says of an error, without what was called.
func system(err error) string {
	if no := syscall.Errno(0); errors.As(err, &no) {
		return no.Error()
	}
	return err.Error()
}

func canListen(port int) error {
	at := fmt.Sprint(":", port)
	l, err := net.Listen("tcp", at)
	if err != nil {
		return err
	}
	defer l.Close()
	u, err := net.ListenPacket("udp", at)
	if err != nil {
		return err
	}
	return u.Close()
}
