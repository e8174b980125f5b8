package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// addFlags are the flags of add.
type addFlags struct {
	out, name, links, priority string
	only, skip, first, exclude []string
	peers                      []string
	seedUntil                  []string
	limitUp, limitDown         string
	visible                    fetcher.Visibility
	repair, secret, called     bool
	paused, wait               bool
}

func (a asker) addCommand() *cobra.Command {
	var fl addFlags
	c := &cobra.Command{
		Use: "add TICKET|PATH...", SuggestFor: []string{"serve"}, Short: "Have the node fetch a share, or serve paths",
		Long: `Have the node fetch what a TICKET names, or serve each PATH, until it is
removed. What was added is there again after a restart or a power cut.

stdout has only tickets, in the order of the arguments: one for each PATH and,
with --listen-for-source, a new one for each TICKET, to send to whoever has its
files. With --name, the paths are one share. With --wait, add ends when
the share is here.

What was fetched is then served: for ever, or with --seed-until for a time (such
as 36h), or until a multiple of its size has been sent (such as 2).`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{fmt.Errorf("add needs a TICKET or a PATH; see %s --help", cmd.CommandPath())}
			}
			if err := codeOf(args); err != nil {
				return usageError{err}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := a.wishes(cmd, args, fl)
			if err != nil {
				return err
			}
			return a.asking(cmd.Context(), func(c *api.Client) error { return a.add(cmd.Context(), c, all, fl) })
		},
	}
	f := c.Flags()
	f.StringVarP(&fl.out, "out", "o", "", "put the share into this folder, `DIR` (default the node's setting)")
	f.StringArrayVar(&fl.only, "only", nil, "fetch only what matches this `PATTERN`; may be repeated")
	f.StringArrayVar(&fl.skip, "skip", nil, "do not fetch what matches this `PATTERN`; may be repeated")
	f.StringArrayVar(&fl.peers, "peer", nil, "fetch from this `ADDR` too, a multiaddr that ends in /p2p/ID; may be repeated")
	f.StringArrayVar(&fl.first, "first", nil, firstHelp)
	f.BoolVar(&fl.repair, "repair", false, "fetch what is missing or wrong in DIR/NAME, and replace only that")
	f.StringVar(&fl.name, "name", "", "serve all that is given as one share, and call it `NAME`")
	f.StringArrayVar(&fl.exclude, "exclude", nil, "do not serve what matches this `PATTERN`; may be repeated")
	f.StringVar(&fl.links, "links", "keep", "what to do with symbolic links that are served: `MODE` keep, skip or refuse")
	f.StringVar(&fl.priority, "priority", "", "fetch it before or after other shares: `LEVEL` low, normal or high")
	f.StringVar(&fl.limitUp, "limit-up", "", "send others at most this `RATE` of bytes per second of what is added, within the node's limit")
	f.StringVar(&fl.limitDown, "limit-down", "", "ask for at most this `RATE` of bytes per second for what is added, within the node's limit")
	f.TextVar(&fl.visible, "visible", fetcher.Private, visibleHelp+"node run --dht)")
	f.BoolVar(&fl.secret, "secret", false, "give what is served only to those who have its ticket, which then holds a secret")
	f.BoolVar(&fl.paused, "paused", false, "add it paused; fetcher set --resume starts it")
	f.StringArrayVar(&fl.seedUntil, "seed-until", nil, seedHelp+"; may be repeated")
	f.BoolVar(&fl.called, "listen-for-source", false, "for when the node cannot reach whoever has the files: print a ticket with which they run share --to, and so connect to the node")
	f.BoolVar(&fl.wait, "wait", false, "wait until it is complete, or has failed; a pause does not end the wait")
	return c
}

const firstHelp = "fetch what matches this `PATTERN` before the rest; may be repeated"

const seedHelp = "after fetching, serve it for this `TIME`, such as 36h, or until this multiple of its size has been sent, such as 2"

// seedUntil reads the values of --seed-until; "never" sets neither.
func seedUntil(values []string) (ratio float64, long string, err error) {
	if slices.Contains(values, "never") && len(values) > 1 {
		return 0, "", usageError{errors.New(`"never" cannot be given together with another value of --seed-until`)}
	}
	for _, v := range values {
		if n, err := strconv.ParseFloat(v, 64); err == nil && n > 0 && n <= 1e6 {
			ratio = n
		} else if t, err := words.ParseDuration(v); err == nil && t > 0 {
			long = typed(t)
		} else if v != "never" {
			return 0, "", usageError{fmt.Errorf(`--seed-until is a time such as 36h or 7d (at most 36600d), a number such as 2 (at most 1000000), or the word "never", and not %q`, v)}
		}
	}
	return ratio, long, nil
}

func (a asker) add(ctx context.Context, c *api.Client, all []api.Add, fl addFlags) error {
	for i, one := range all {
		e, err := c.Add(ctx, one)
		err = inPart(err, one.Paths)
		if fl.repair && errors.Is(err, api.ErrHave) && fetches(ctx, c, one.Ticket) {
			err = fmt.Errorf("%w; to repair that entry: fetcher set ENTRY --repair", err)
		}
		if err != nil && len(all) > 1 {
			return ofOne(one, err, i == len(all)-1)
		}
		if err != nil {
			return err
		}
		if one.Called {
			fmt.Fprintf(a.stderr, callText, e.Ticket)
		}
		if e.Kind == "serve" || fl.wait {
			if e, err = a.await(ctx, c, e, fl.wait && e.Kind == "fetch"); err != nil && ctx.Err() != nil {
				fmt.Fprintf(a.stderr, "interrupted; the node goes on with entry %d, and fetcher list shows how far it has got\n", e.ID)
			}
			if err != nil {
				return err
			}
		}
		if err := a.printAdded(e, one.Called); err != nil {
			return err
		}
		if seen := seenText(fl.visible, fl.secret, false); e.Kind == "serve" && seen != "" {
			fmt.Fprintln(a.stderr, seen)
		}
	}
	return nil
}

// fetches says whether what the node has of a ticket's share was fetched: files that are served are not repaired.
func fetches(ctx context.Context, c *api.Client, ticket string) bool {
	id, _, err := fetcher.ParseSource(ticket, nil)
	all, err2 := c.Entries(ctx)
	all = slices.DeleteFunc(all, func(e api.Entry) bool { return e.Share != id.String() })
	return cmp.Or(err, err2) == nil && len(all) > 0 && !slices.ContainsFunc(all, func(e api.Entry) bool { return e.Kind != "fetch" })
}

// ofOne has the error about one of several things that were to be added name it, if it does not already, and say what became of those after it.
func ofOne(x api.Add, err error, last bool) error {
	what, text, after := givenAs(x)+": ", err.Error(), ""
	if slices.ContainsFunc(x.Paths, func(p string) bool { return speaksOf(text, p) }) {
		what = ""
	}
	if !last {
		after = either(strings.Contains(text, "\n"), "\n", "; ") + "the arguments after this one were not added"
	}
	return fmt.Errorf("%s%w%s", what, err, after)
}

// givenAs is how the arguments named what was to be added.
func givenAs(x api.Add) string { return cmp.Or(strings.Join(x.Paths, ", "), x.Ticket) }

// isPriority checks the value of --priority.
func isPriority(s string) error {
	if s != "" && !slices.Contains([]string{"low", "normal", "high"}, s) {
		return usageError{fmt.Errorf("--priority is low, normal or high, not %q", s)}
	}
	return nil
}

// wishes is what the arguments mean: a ticket, or paths.
func (a asker) wishes(cmd *cobra.Command, args []string, fl addFlags) (out []api.Add, err error) {
	if err := isPriority(fl.priority); err != nil {
		return nil, err
	}
	common := api.Add{Priority: fl.priority, Visible: fl.visible.String(), Secret: fl.secret, Paused: fl.paused}
	if common.LimitUp, err = parseRate("--limit-up", fl.limitUp); err != nil {
		return nil, err
	}
	fetch, serve := common, common
	if fetch.LimitDown, err = parseRate("--limit-down", fl.limitDown); err != nil {
		return nil, err
	}
	fetch.Only, fetch.Skip, fetch.First, fetch.Peers, fetch.Repair, fetch.Called = fl.only, fl.skip, fl.first, fl.peers, fl.repair, fl.called
	if fetch.SeedRatio, fetch.SeedTime, err = seedUntil(fl.seedUntil); err != nil {
		return nil, err
	}
	if fl.out != "" {
		if fetch.Dir, err = filepath.Abs(fl.out); err != nil {
			return nil, err
		}
	}
	_, err = linkMode(fl.links)
	if err := cmp.Or(err, checkName(fl.name)); err != nil {
		return nil, err
	}
	serve.Exclude, serve.Name, serve.Links = fl.exclude, fl.name, fl.links
	for _, arg := range args {
		_, missing := os.Lstat(arg)
		if arg == "-" || missing != nil {
			one := fetch
			if err := neither(arg); err != nil {
				return nil, err
			}
			if one.Ticket, err = a.ticket(cmd, arg); err != nil {
				return nil, err
			}
			out = append(out, one)
			continue
		}
		at, err := filepath.Abs(arg)
		if err := cmp.Or(err, api.CheckText(at), nameable([]string{arg}, fl.name)); err != nil {
			return nil, err
		}
		if fl.name != "" && len(serve.Paths) > 0 {
			last := &out[len(out)-1]
			last.Paths = append(last.Paths, at)
			continue
		}
		one := serve
		one.Paths = []string{at}
		if fl.name != "" {
			serve.Paths = one.Paths // the others follow
		}
		out = append(out, one)
	}
	return out, cmp.Or(eachOnce(args), fl.fit(out), api.CheckText(out))
}

// fit refuses flags that none of the new entries heeds.
func (fl addFlags) fit(all []api.Add) error {
	fetches := slices.ContainsFunc(all, func(x api.Add) bool { return x.Ticket != "" })
	serves := slices.ContainsFunc(all, func(x api.Add) bool { return x.Ticket == "" })
	for _, x := range []struct {
		flag         string
		given, heeds bool
		is           string
	}{
		{"-o", fl.out != "", fetches, "fetched"}, {"--only", len(fl.only) > 0, fetches, "fetched"}, {"--skip", len(fl.skip) > 0, fetches, "fetched"}, {"--first", len(fl.first) > 0, fetches, "fetched"},
		{"--peer", len(fl.peers) > 0, fetches, "fetched"}, {"--repair", fl.repair, fetches, "fetched"}, {"--listen-for-source", fl.called, fetches, "fetched"}, {"--seed-until", len(fl.seedUntil) > 0, fetches, "fetched"},
		{"--limit-down", fl.limitDown != "", fetches, "fetched"}, {"--name", fl.name != "", serves, "served"}, {"--exclude", len(fl.exclude) > 0, serves, "served"},
	} {
		if x.given && !x.heeds {
			return usageError{fmt.Errorf("%s is for what is %s; nothing was added", x.flag, x.is)}
		}
	}
	return nil
}

// await waits until an entry is here, with whole until it is whole though it is paused meanwhile, and reports its state.
func (a asker) await(ctx context.Context, c *api.Client, e api.Entry, whole bool) (api.Entry, error) {
	defer a.stderr.clear()
	was := ""
	is := func(e api.Entry) bool {
		switch {
		case e.State == api.Opening, e.State == api.Waiting, e.State == api.Fetching:
		case whole && e.State == api.Paused && (e.Bytes == 0 || e.Verified < e.Bytes):
			e.Reason = fmt.Sprintf("fetcher set %d --resume goes on with it", e.ID)
		default:
			return true // whoever waits says it
		}
		anew := e.State != was || e.State == api.Waiting // and its reason
		was = e.State
		a.stderr.show(fmt.Sprintf("%s: %s", printable(nameOf(e)), describeEntry(e)), nil, anew)
		return false
	}
	if is(e) {
		return e, failed(e)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var last api.Entry
	var gone error
	first := true
	err := c.Events(ctx, "0-0", func(ev api.Event) bool { // an unknown ID: the first event says to read everything again
		switch {
		case first || ev.Type == "reset":
			first = false
			last, gone = c.Entry(ctx, e.ID)
			return gone != nil || is(last)
		case ev.Entry != nil && ev.Entry.ID == e.ID && ev.Type == "removed":
			gone = fmt.Errorf("entry %d, %s, was removed before it was complete", e.ID, printable(nameOf(*ev.Entry)))
			return true
		case ev.Entry != nil && ev.Entry.ID == e.ID:
			last = *ev.Entry
			return is(last)
		}
		return false
	})
	if err := cmp.Or(err, gone); err != nil {
		return e, err
	}
	return last, failed(last)
}

// failed is the error of an entry that needs its owner.
func failed(e api.Entry) error {
	switch e.State {
	case api.Failed, api.Missing:
		return &api.Problem{Code: e.Code, Detail: troubleOf(e, e.Reason)}
	}
	return nil
}

// troubleOf says which entry needs its owner, and why.
func troubleOf(e api.Entry, why string) string {
	return fmt.Sprintf("entry %d, %s, %s: %s", e.ID, printable(nameOf(e)), either(e.State == api.Failed, "has failed", "is missing"), why)
}

// nameOf is the name of an entry, as far as that is known.
func nameOf(e api.Entry) string {
	switch {
	case e.Name != "":
		return e.Name
	case len(e.Paths) > 0:
		return filepath.Base(e.Paths[0])
	case e.Share != "":
		return "share " + shortly(e.Share)
	}
	return fmt.Sprint("entry ", e.ID)
}

// describeChild says which peer fetches an entry from here, and its progress, on one line.
func describeChild(c api.Child, now time.Time) string {
	s := fmt.Sprintf("%s, %s in %s, %s", peers.ID(c.Peer).Short(), share.Size(c.Bytes), brief(now.Sub(c.Since)), c.Set)
	var why peers.Cause
	if c.Why == "" || why.UnmarshalText([]byte(c.Why)) != nil {
		return s
	}
	return fmt.Sprintf("%s for %s, because %s, tier %d, score %.2f", s, brief(now.Sub(c.Moved)), why.Reason(), c.Tier, c.Score)
}

// oneLine is a text of several lines, such as the reason of an entry's state, as one.
func oneLine(lines string) (s string) {
	for line := range strings.Lines(lines) {
		switch line = strings.TrimSpace(line); {
		case s == "" || line == "":
			s += line
		case strings.HasSuffix(s, ":"):
			s += " " + line
		default:
			s += "; " + line
		}
	}
	return printable(s)
}

// describeEntry is the state of an entry, on one line.
func describeEntry(e api.Entry) string {
	s := e.State
	if e.State == api.Fetching && e.Bytes > 0 {
		of := either(e.Sources == 0 && e.Reason != "", "", ", "+words.Count(e.Sources, "source")) // the reason says it of how many
		s = fmt.Sprintf("%d %%, %s of %s, %s/s%s", e.Verified*100/e.Bytes, share.Size(e.Verified), share.Size(e.Bytes), share.Size(e.Rate), of)
	}
	if e.Reason != "" {
		s += ": " + oneLine(e.Reason)
	}
	return s
}

func (a asker) printAdded(e api.Entry, called bool) error {
	a.out.write("entry", e)
	fmt.Fprintf(a.stderr, "entry %d: %s, %s\n", e.ID, printable(nameOf(e)), describeEntry(e))
	for _, w := range e.Warnings {
		fmt.Fprintf(a.stderr, "warning: %s\n", printable(w))
	}
	if e.Path != "" {
		fmt.Fprintf(a.stderr, "it is at %s\n", printable(e.Path))
	}
	if a.flags.json || e.Kind != "serve" && !called || e.Ticket == "" {
		return nil
	}
	_, err := fmt.Fprintln(sink{a.stdout}, e.Ticket)
	return err
}

func (a asker) rmCommand() *cobra.Command {
	var data bool
	c := &cobra.Command{
		Use: "rm ENTRY...", SuggestFor: []string{"remove", "delete"}, Short: "Stop entries of the node, and forget them",
		ValidArgsFunction: a.completeEntries,
		Long: `Stop entries of the node, and forget them. An ENTRY is given by its number, its
name or its share ID; digits are always a number. Files stay, unless --data is
given: then those that the node made, and nobody has changed since, are removed.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{fmt.Errorf("rm needs an ENTRY; see %s --help", cmd.CommandPath())}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.asking(cmd.Context(), func(c *api.Client) error { return a.rm(cmd.Context(), c, args, data) })
		},
	}
	c.Flags().BoolVar(&data, "data", false, "also remove the files that this node made, and no others")
	return c
}

// fetched fails if one of some entries has files that the node did not make, and says which.
func fetched(ctx context.Context, c *api.Client, ids []int64, says string) error {
	for _, id := range ids {
		e, err := c.Entry(ctx, id)
		if err != nil {
			return err
		}
		if e.Kind == "serve" {
			return usageError{fmt.Errorf("entry %d serves files that this node did not make. %s", id, says)}
		}
	}
	return nil
}

func (a asker) rm(ctx context.Context, c *api.Client, args []string, data bool) error {
	ids, err := entriesOf(ctx, c, args)
	if err != nil {
		return fmt.Errorf("%w; nothing was removed", err)
	}
	if data {
		if err := fetched(ctx, c, ids, "Remove it without --data, and the files by hand; nothing was removed"); err != nil {
			return err
		}
	}
	for _, id := range ids {
		r, err := c.Remove(ctx, id, data)
		if err != nil {
			return err
		}
		a.out.write("removed", r)
		fmt.Fprintf(a.stderr, "entry %d, %s, is removed", id, printable(nameOf(r.Entry)))
		if data {
			fmt.Fprintf(a.stderr, ", and %s with it", words.Count(len(r.Data), "file"))
		}
		fmt.Fprintln(a.stderr)
		if r.Kept != "" {
			fmt.Fprintln(a.stderr, oneLine(r.Kept))
		}
		if err := a.tellHeld(ctx, c, r.Entry); err != nil {
			return err
		}
	}
	return nil
}
