package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/signal"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/vfs"
)

func (a *app) catCommand() *cobra.Command {
	var fl fetchFlags
	c := &cobra.Command{
		Use:   "cat TICKET|ID [FILE]",
		Short: "Write one file of a share to stdout, verified, while it is fetched",
		Long: `Write one file of a share to stdout. Its bytes come in order, each only when it
is verified; nothing else of the share is fetched. FILE is a path as ls prints
it; it may be left out if the share is a single file.

Nothing is kept, unless -o says where.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cmp.Or(codeOf(args), codeOf(args[:min(1, len(args))])); err != nil {
				return usageError{err}
			}
			if len(args) < 1 || len(args) > 2 {
				return usageError{fmt.Errorf("%s needs a TICKET or ID, and a FILE if the share has several; see %s --help", called(cmd), cmd.CommandPath())}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.cat(cmd, args[0], append(args, "")[1], fl)
		},
	}
	c.Flags().StringVarP(&fl.out, "out", "o", "", "keep the file in this folder, `DIR`, at its path as ls prints it")
	fl.sources(c.Flags())
	return c
}

// errPipe is reported when nobody reads stdout any more.
var errPipe = errors.New("stdout was closed by its reader")

func (a *app) cat(cmd *cobra.Command, ticket, file string, fl fetchFlags) error {
	ctx := cmd.Context()
	if a.flags.json {
		return usageError{errors.New("cat writes the file to stdout, so it cannot write --json there; use fetch --only")}
	}
	_, limit, err := fl.check()
	if err != nil {
		return err
	}
	if ticket, err = a.ticket(cmd, ticket); err != nil {
		return err
	}
	if _, _, err := fetcher.ParseSource(ticket, fl.peers); err != nil {
		return usageError{err}
	}
	log, err := a.logger()
	if err != nil {
		return err
	}
	signal.Ignore(syscall.SIGPIPE) // a write fails instead, and we clean up
	node, err := open(ctx, fetcher.Config{Dir: a.flags.dir, FreshIdentity: !fl.identity, Listen: fl.listen, Reach: fl.reach.to(ticket, fl.peers), Beacons: fetcher.Beacons{Use: true}, Discovery: fl.finding(ticket, log), Logger: log, UploadRate: limit.up, DownloadRate: limit.down})
	if err != nil {
		return err
	}
	defer node.Close()
	c := &catting{app: a, node: node, ticket: ticket, fl: fl, id: fl.alone(cmd, ticket)}
	switch err = c.run(ctx, file); {
	case err != nil && ctx.Err() != nil:
		return cause(ctx)
	case errors.Is(err, store.ErrRepairable):
		return marked{err, errCat}
	}
	return err
}

// catting is one run of cat.
type catting struct {
	*app
	node   *fetcher.Node
	ticket string
	fl     fetchFlags
	id     loneID
}

func (c *catting) run(ctx context.Context, file string) error {
	listing, cancel := context.WithTimeout(ctx, c.fl.stall)
	defer cancel()
	m, err := c.manifest(listing, c.node, c.ticket, c.fl, c.id)
	if err != nil {
		return err
	}
	e, err := fileOf(m, file)
	if err != nil {
		return err
	}
	dir := c.fl.out
	if dir == "" {
		s, err := newScratch(c.flags.dir)
		if err != nil {
			return err
		}
		defer s.remove()
		dir = s.dir
	}
	t, err := c.node.Fetch(ctx, c.ticket, fetcher.FetchOptions{Dir: dir, Peers: c.fl.peers, Stall: c.fl.stall, Select: func(x share.Entry) fetcher.Priority {
		if x.Path != e.Path {
			return fetcher.PrioritySkip
		}
		return fetcher.PriorityNormal
	}})
	if err != nil {
		return err
	}
	var telling sync.WaitGroup
	unheard := false
	telling.Go(func() { unheard = c.tell(ctx, t) })
	err = c.copy(ctx, t, e.Path)
	if err == nil && c.fl.out != "" {
		err = t.Wait(ctx)
	}
	if err != nil || c.fl.out == "" {
		c.kept = err != nil && c.fl.out != "" && t.Progress().Verified > 0
		t.Stop(context.WithoutCancel(ctx))
	}
	telling.Wait()
	if unheard && err != nil {
		err = fetcher.ErrUnfound
	}
	if err != nil || c.fl.out == "" {
		return c.id.unfound(err)
	}
	at := t.Path()
	if !m.Single() {
		at = filepath.Join(at, filepath.FromSlash(e.Path))
	}
	fmt.Fprintf(c.stderr, "kept: %s\n", printable(at))
	return nil
}

// copy writes a file to stdout.
func (c *catting) copy(ctx context.Context, t *fetcher.Transfer, path string) error {
	r, err := t.Open(ctx, path)
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.CopyBuffer(sink{c.stdout}, struct{ io.Reader }{r}, make([]byte, 256<<10))
	return err
}

// prose is stdout for text: on a terminal, lines are wrapped.
func (a *app) prose() io.Writer {
	t := newTerminal(a.stdout)
	t.edit = a.flags.named
	return sink{t}
}

// sink is stdout, with errors that say what they mean.
type sink struct{ io.Writer }

func (s sink) Write(b []byte) (int, error) {
	n, err := s.Writer.Write(b)
	switch {
	case errors.Is(err, syscall.EPIPE):
		err = errPipe
	case errors.Is(vfs.Full(err), share.ErrDiskFull):
		err = words.Error(share.ErrDiskFull, "stdout cannot be written to: %v", share.ErrDiskFull)
	case err != nil:
		if at, ok := errors.AsType[*fs.PathError](err); ok {
			err = at.Err
		}
		err = fmt.Errorf("stdout cannot be written to: %w", err)
	}
	return n, err
}

// tell reports on stderr what a person should know, until the transfer ends. One for which nobody was found it ends itself:
// unheard.
func (c *catting) tell(ctx context.Context, t *fetcher.Transfer) (unheard bool) {
	slow, lost := c.id.alarms()
	events := t.Events(context.Background())
	for {
		select {
		case <-slow:
			if looks(t) {
				fmt.Fprintln(c.stderr, c.id.says())
			}
		case <-lost:
			if unheard = looks(t); unheard {
				t.Stop(context.WithoutCancel(ctx))
			}
		case e, ok := <-events:
			if !ok {
				return unheard
			}
			c.say(e)
		}
	}
}

func (c *catting) say(e fetcher.Event) {
	switch e := e.(type) {
	case fetcher.Stalled:
		fmt.Fprintf(c.stderr, "waiting: %s\n", printable(e.Reason))
	case fetcher.SourceChanged:
		if e.Source.Banned {
			fmt.Fprintf(c.stderr, "source %s is %s\n", e.Source.Peer, printable(e.Source.Why))
		}
	}
}

// fileOf finds a file by its path in the share, with or without the share's name before it.
func fileOf(m *share.Manifest, file string) (share.Entry, error) {
	if file == "" {
		if !m.Single() {
			return share.Entry{}, usageError{fmt.Errorf("%s is a folder: name a FILE in it; fetcher ls lists its files", printable(m.Name))}
		}
		return m.Entry(0), nil
	}
	for _, p := range []string{file, strings.TrimPrefix(file, m.Name+"/")} {
		i, ok := m.Find(p)
		if !ok {
			continue
		}
		switch e := m.Entry(i); e.Kind {
		case share.File:
			return e, nil
		case share.Symlink:
			return share.Entry{}, usageError{fmt.Errorf("%q is a link to %q; name that", p, path.Join(path.Dir(p), e.Target))}
		case share.Dir:
			return share.Entry{}, usageError{fmt.Errorf("%q is an empty folder", p)}
		}
	}
	for _, p := range []string{file, strings.TrimPrefix(file, m.Name+"/")} {
		below := strings.TrimSuffix(p, "/") + "/"
		if i, _ := m.Find(below); i < m.Len() && strings.HasPrefix(m.Entry(i).Path, below) {
			return share.Entry{}, usageError{fmt.Errorf("%q is a folder; name a FILE in it", p)}
		}
	}
	return share.Entry{}, usageError{fmt.Errorf("%s has no file %q; fetcher ls lists what it has", printable(m.Name), file)}
}
