package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
	"github.com/spf13/cobra"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/store"
)

func (a *app) shareCommand() *cobra.Command {
	var listen, announce []string
	var links string
	var limitUp string
	c := &cobra.Command{
		Use:   "share PATH",
		Short: "Serve a file or folder, and print its ticket",
		Long: `Serve a file or folder, straight from where it is, until Ctrl-C.

The first line on stdout is the ticket, alone. What is for people goes to
stderr. What has not changed since it was last shared is not read again.`,
		Args: exactly("PATH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			mode, err := linkMode(links)
			if err != nil {
				return err
			}
			rate, err := parseRate("--limit-up", limitUp)
			if err != nil {
				return err
			}
			return a.share(cmd, args[0], listen, announce, mode, rate)
		},
	}
	f := c.Flags()
	f.StringArrayVar(&listen, "listen", nil, listenHelp+" (default all interfaces, any port)")
	f.StringArrayVar(&announce, "announce", nil, "put this `ADDR`, a multiaddr, into the ticket instead; may be repeated")
	f.StringVar(&links, "links", "keep", "what becomes of symbolic links, a `MODE`: keep those that stay inside, skip all, or refuse them")
	f.StringVar(&limitUp, "limit-up", "", "send at most this `RATE` of bytes per second, such as 500K or 10M")
	return c
}

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

func (a *app) share(cmd *cobra.Command, path string, listen, announce []string, links store.LinkMode, limitUp int64) error {
	ctx := cmd.Context()
	log, err := a.logger()
	if err != nil {
		return err
	}
	node, err := open(ctx, fetcher.Config{Dir: a.flags.dir, Listen: listen, Announce: announce, Logger: log, UploadRate: limitUp})
	if err != nil {
		return err
	}
	defer node.Close()
	bar := newLiveLine(a.stderr)
	began := time.Now()
	s, err := node.Share(ctx, path, fetcher.ShareOptions{Links: links, Progress: func(p store.ImportProgress) {
		bar.show(fmt.Sprintf("reading %s of %s, %d of %s", size(p.Bytes), size(p.Total), p.Files, count(p.TotalFiles, "file")), false)
		a.out.throttled("progress", map[string]any{"bytes": p.Total, "read_bytes": p.Bytes, "files": p.Files, "hashed_bytes": p.Hashed})
	}})
	bar.clear()
	if err != nil {
		if c := cause(ctx); c != nil && ctx.Err() != nil {
			return c
		}
		return err
	}
	if err := a.describe(node, s, path, time.Since(began)); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return node.Close()
	case <-s.Done():
		return s.Err()
	}
}

// describe tells what is shared: the ticket on stdout, the rest on stderr.
func (a *app) describe(node *fetcher.Node, s *fetcher.Share, path string, took time.Duration) error {
	m, imp, ticket := s.Manifest(), s.Imported(), s.Ticket()
	files, dirs, links := m.Count()
	bytes := m.Layout().Bytes()
	addrs := node.Addrs()
	warnings := warnings(imp, addrs)
	fields := map[string]any{"ticket": ticket, "share": s.ID().String(), "name": m.Name, "bytes": bytes, "files": files, "dirs": dirs, "links": links,
		"hashed_bytes": imp.Hashed, "cached_bytes": imp.Cached, "peer": string(node.ID()), "addrs": addrs, "warnings": warnings, "seconds": took.Seconds()}
	a.out.write("share", fields)
	a.out.sum(map[string]any{"share": s.ID().String(), "name": m.Name, "bytes": bytes, "hashed_bytes": imp.Hashed})
	if !a.flags.json {
		if _, err := fmt.Fprintln(sink{a.stdout}, ticket); err != nil {
			return err // nobody could fetch it
		}
	}
	e := a.stderr
	fmt.Fprintf(e, "\nsharing  %s\n", path)
	fmt.Fprintf(e, "name     %s\n", m.Name)
	fmt.Fprintf(e, "size     %s (%d bytes) in %s, %s, %s\n", size(bytes), bytes, count(files, "file"), count(dirs, "empty folder"), count(links, "link"))
	fmt.Fprintf(e, "share    %s\n", s.ID())
	fmt.Fprintf(e, "hashed   %s in %v, %s known from before\n", size(imp.Hashed), took.Round(time.Millisecond), size(imp.Cached))
	for i, addr := range addrs {
		fmt.Fprintf(e, "%-8s %s\n", either(i == 0, "address", ""), addr)
	}
	for _, w := range warnings {
		fmt.Fprintf(e, "warning: %s\n", w)
	}
	fmt.Fprintf(e, "\nfetch it elsewhere with\n\n    fetcher fetch %s\n\nserving until Ctrl-C\n", ticket)
	return nil
}

// count is n things in words.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func either(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}

// warnings are what the person should know though nothing is wrong yet.
func warnings(imp *store.Imported, addrs []string) []string {
	out := append([]string{}, imp.Warnings...)
	switch {
	case len(addrs) == 0:
		out = append(out, "this node does not listen, so the ticket names no address")
	case !anyPublic(addrs):
		out = append(out, "the ticket has private addresses only: it works inside this network")
	}
	return out
}

func anyPublic(addrs []string) bool {
	for _, s := range addrs {
		m, err := ma.NewMultiaddr(s)
		if err != nil {
			continue
		}
		if manet.IsPublicAddr(m) || isName(m) {
			return true
		}
	}
	return false
}

// isName says whether a multiaddr begins with a name to look up.
func isName(m ma.Multiaddr) bool {
	return len(m) > 0 && strings.HasPrefix(m[0].Protocol().Name, "dns")
}

// parseRate reads bytes per second: a number, with K, M or G for powers of 1,000. Empty is no limit.
func parseRate(flag, s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	unit := int64(1)
	digits := strings.TrimRight(s, "kKmMgG")
	switch strings.ToUpper(s[len(digits):]) {
	case "":
	case "K":
		unit = 1e3
	case "M":
		unit = 1e6
	case "G":
		unit = 1e9
	default:
		digits = ""
	}
	n, err := strconv.ParseFloat(digits, 64)
	if n *= float64(unit); err != nil || !(n >= 1 && n <= 1e15) {
		return 0, usageError{fmt.Errorf("%s is bytes per second, such as 500K or 10M, not %q", flag, s)}
	}
	return int64(n), nil
}
