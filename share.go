package fetcher

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	ma "github.com/multiformats/go-multiaddr"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/internal/bounds"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/vfs"
	"github.com/piecelease/fetcher/wire"
)

// ShareOptions are the options of Share. The zero value works.
type ShareOptions struct {
	// Name is the name of the share; default that of the file or folder.
	Name string
	// Also are further files and folders. The share is then a folder called Name,
	// which is required then, that holds each under its own name.
	Also []string
	// Exclude leaves out whatever matches one of these patterns, by its path in the
	// share, and everything below it. They are as in FetchOptions.Only, but a pattern
	// without a slash matches at any depth, and one that begins with a slash matches
	// only from the top.
	Exclude []string
	// Allow are the peers that may have the share; default those of Config.Allow. Others
	// are told that they may not: their transfers end with an error that wraps
	// share.ErrNotAllowed. Nothing keeps a peer that has the share from passing it on.
	Allow []peers.ID
	// Secret puts a secret into the share's tickets. Only peers that know it, and those that
	// Allow names, may have the share; others are told as above. The secret is derived from
	// this node's key and the share: tickets hold the same one when it is shared again.
	Secret bool
	// Ticket is the ticket by which the share came to this node, if it did. Its beacons are told
	// who has the share here, and its secret is the one of Secret.
	Ticket string
	// Visible says where Config.Discovery announces that the share can be had here; default
	// Private.
	Visible Visibility
	// Passing says that the files will not be shared again: nothing of them is remembered.
	Passing bool
	// Links says how symbolic links are treated; default they are kept.
	Links store.LinkMode
	// Workers is how many cores hash; default all.
	Workers int
	// Progress is called now and then with how far the import is.
	Progress func(store.ImportProgress) `json:"-"`
	// Entry is the entry of the node's catalog of which this is a new version; default a
	// new entry.
	Entry EntryID `json:"-"`
	// Of is the share that is to lie at the path: if something else does, nothing is served, and the error wraps store.ErrNotHere.
	Of share.ID `json:"-"`
	// Older are earlier versions: whoever asks for one of them is told that there is a newer one, but not which.
	Older []share.ID `json:"-"`
}

// Share is a file or folder that this node serves.
type Share struct {
	node     *Node
	entry    EntryID
	allow    []peers.ID
	guard    *share.Secret // that peers must know to have it; nil: none
	manifest *share.Manifest
	imported *store.Imported
	idle     []string
	ending
}

// validate returns an error that names what is wrong with the options.
func (o ShareOptions) validate() error {
	if err := peerIDs(o.Allow); err != nil {
		return fmt.Errorf("the list of who is allowed: %w", err)
	}
	var f bounds.Fields
	bounds.In(&f, "Visible", o.Visible, Private, Public)
	bounds.In(&f, "Links", o.Links, store.LinksKeep, store.LinksRefuse)
	if o.Ticket != "" {
		_, err := share.Parse(o.Ticket)
		f.Add("Ticket", err)
	}
	return f.Err()
}

// Share imports a file or folder and serves it, straight from where it is, until
// the node is closed or the share stopped. The files must not change meanwhile: a change
// ends the share. Files that have not changed since they were last shared are not
// read again. A share with the same content, and so the same ID, as an earlier Share
// replaces and ends it; the earlier one's entry stays EntryServed until the new one
// ends too, and is EntryOpening then, to be resumed. So does that of a share that was fetched with
// Keep. ctx is for the import alone.
//
// Errors wrap path.ErrBadPattern for a pattern of Exclude, ErrNothingSelected if Exclude leaves nothing,
// and share.ErrTicket for what is no ticket; *store.ProblemsError and *share.PathError list what cannot be shared.
func (n *Node) Share(ctx context.Context, path string, opt ShareOptions) (*Share, error) {
	if path == "" || slices.Contains(opt.Also, "") { // it would be the working directory
		return nil, fmt.Errorf("what to share: the path is empty: %w", fs.ErrInvalid)
	}
	if err := opt.validate(); err != nil {
		return nil, err
	}
	if err := n.catalog.unpause(opt.Entry); err != nil {
		return nil, err
	}
	e := Entry{ID: opt.Entry, State: EntryServed, Path: path, Serving: opt, Added: n.cfg.Wall()}
	if n.cfg.Simulation.FS == nil {
		var err error
		if e.Path, err = filepath.Abs(path); err != nil {
			return nil, err
		}
	}
	if was, _ := n.catalog.entry(e.ID); n.catalog.shared(was.Share) == nil { // else the old version is served meanwhile
		defer n.catalog.offers.Reading()()
	}
	imp, idle, err := n.importAll(ctx, n.cfg.Simulation.FS, path, opt)
	if err == nil && !opt.Of.IsZero() && imp.Manifest.ID() != opt.Of {
		err = errors.Join(store.ErrNotHere, imp.Tree.Close())
	}
	if err != nil {
		n.unshared(ctx, e.ID, err)
		return nil, err
	}
	s := &Share{node: n, manifest: imp.Manifest, imported: imp, allow: opt.Allow, guard: n.guardOf(imp.Manifest.ID(), opt), idle: idle, ending: ending{done: make(chan struct{})}}
	e.Share, e.Name = s.ID(), imp.Manifest.Name
	old, _ := n.catalog.entry(e.ID)
	if s.entry, err = n.catalog.put(e, nil); err != nil {
		imp.Tree.Close()
		return nil, err
	}
	if !old.Share.IsZero() && old.Share != e.Share {
		n.endShare(old, wire.CodeNewer)
		opt.Older = append(slices.Clip(opt.Older), old.Share)
	}
	n.catalog.offers.Superseded(opt.Older)
	return n.offer(s)
}

// ShareFS is Share for the files of an fs.FS: files embedded in a program, an archive, or
// whatever a program generates. opt.Name names the share. The fs.FS is read from many
// goroutines for as long as the share is served, and nothing is stored of it: the share has
// no entry in the catalog, and opt.Also and opt.Entry are errors.
func (n *Node) ShareFS(ctx context.Context, files fs.FS, opt ShareOptions) (*Share, error) {
	if files == nil {
		return nil, fmt.Errorf("what to share: the fs.FS is nil: %w", fs.ErrInvalid)
	}
	if opt.Name == "" || len(opt.Also) > 0 || opt.Entry != 0 {
		return nil, errors.New("a share of an fs.FS needs a Name, and takes neither Also nor Entry")
	}
	if err := opt.validate(); err != nil {
		return nil, err
	}
	defer n.catalog.offers.Reading()()
	opt.Passing = true
	imp, idle, err := n.importAll(ctx, vfs.Of(files), ".", opt)
	if err != nil {
		return nil, err
	}
	return n.offer(&Share{node: n, manifest: imp.Manifest, imported: imp, allow: opt.Allow, guard: n.guardOf(imp.Manifest.ID(), opt), idle: idle, ending: ending{done: make(chan struct{})}})
}

// callAgain is how long it takes at most until [Share.Call] calls again: people wait for it.
const callAgain = 30 * time.Second

// Call has this node connect to those that a ticket of the share names, again whenever the connection is lost,
// and tell them that the share can be had here. Those that fetch it then do so over that
// connection, though they may not be able to reach this node. Calling again replaces the ticket.
// An error wraps share.ErrTicket, also if the ticket is of another share or of this node.
//
// heard, if it is not nil, is told how each attempt went: nil says that the peer fetches from here now, an error that
// wraps ErrUnwanted that it does not fetch the share, and one that wraps share.ErrNetwork that it was not reached. It
// must not block.
func (s *Share) Call(ticket string, heard func(peer peers.ID, err error)) error {
	id, them, err := ParseSource(ticket, nil)
	switch {
	case err != nil:
		return err
	case id != s.ID():
		return words.Error(share.ErrTicket, "whoever made the ticket fetches share %s, and %s is share %s", id.Short(), s.manifest.Name, s.ID().Short())
	case len(them) == 0:
		return noSource(ticket)
	case !slices.ContainsFunc(them, func(a peers.Addr) bool { return a.ID != s.node.ID() }):
		return words.Error(share.ErrTicket, "the ticket leads to this node itself")
	}
	s.node.program.Tell(actors.ServeOn{Share: id, Layout: s.manifest.Layout(), Sources: them, Whole: true, Again: callAgain, Heard: func(peer peers.ID, err error) {
		if heard != nil {
			heard(peer, calledError(err))
		}
	}})
	return nil
}

// ErrUnwanted says that a peer does not fetch a share.
var ErrUnwanted = errors.New("the peer does not fetch the share")

// calledError is the error of an attempt to have a peer fetch from here.
func calledError(err error) error {
	var no *actors.Unwanted
	switch {
	case err == nil:
		return nil
	case errors.As(err, &no) && no.Retry == 0:
		return words.Error(ErrUnwanted, "it %v", no)
	case errors.As(err, &no):
		return fmt.Errorf("it %w", no)
	}
	return classed{err, []error{share.ErrNetwork}}
}

// offer serves a share, in place of one with the same content.
func (n *Node) offer(s *Share) (*Share, error) {
	before, err := n.catalog.offer(s)
	if err != nil {
		s.imported.Tree.Close()
		return nil, err
	}
	if before != nil {
		before.end(nil)
	}
	n.program.Offer(s.ID())
	return s, nil
}

// importAll imports what is to be shared, from this machine if from is nil, and returns the
// patterns that left nothing out.
func (n *Node) importAll(ctx context.Context, from vfs.FS, path string, opt ShareOptions) (imp *store.Imported, idle []string, err error) {
	ex, err := newExcluding(opt.Exclude)
	if err != nil {
		return nil, nil, err
	}
	o := store.ImportOptions{Name: opt.Name, Links: opt.Links, Workers: opt.Workers, Progress: opt.Progress, State: n.state, FS: from}
	if id, _, err := ParseSource(opt.Ticket, nil); opt.Ticket != "" && err == nil {
		o.Of, _ = n.state.Manifest(id) // without it, it is looked at as what was never fetched
	}
	if opt.Passing {
		o.State = nil
	}
	if len(opt.Exclude) > 0 {
		o.Exclude = ex.match
	}
	switch {
	case len(opt.Also) == 0:
		imp, err = store.Import(ctx, path, o)
	case opt.Name == "":
		err = errors.New("several files or folders in one share need a name for it")
	default:
		imp, err = store.ImportAll(ctx, append([]string{path}, opt.Also...), o)
	}
	if errors.Is(err, store.ErrNothingLeft) {
		err = words.Error(ErrNothingSelected, "%v", err)
	}
	if err == nil && imp.Manifest.Len() >= largeImport {
		debug.FreeOSMemory() // a node serves for days, and needs little of what the import took
	}
	return imp, ex.idle(), err
}

// largeImport is the number of entries from which an import leaves enough memory behind to be
// worth a tenth of a second to give it back.
const largeImport = 100_000

// excluding is what is to be left out of a share.
type excluding struct {
	texts []string
	globs []share.Globs // of each text
	used  []bool
}

func newExcluding(texts []string) (*excluding, error) {
	x := &excluding{texts: texts, used: make([]bool, len(texts))}
	for _, t := range texts {
		pattern := strings.TrimPrefix(t, "/")
		if pattern == t && t != "" && !strings.Contains(strings.TrimSuffix(t, "/"), "/") {
			pattern = "**/" + t
		}
		g, err := share.ParseGlobs([]string{pattern})
		if bad, ok := errors.AsType[*share.PatternError](err); ok {
			return nil, &share.PatternError{Text: t, Why: bad.Why}
		}
		x.globs = append(x.globs, g)
	}
	return x, nil
}

func (x *excluding) match(p string) bool {
	out := false
	for i, g := range x.globs {
		if g.Match(p) {
			out, x.used[i] = true, true
		}
	}
	return out
}

func (x *excluding) idle() (out []string) {
	for i, t := range x.texts {
		if !x.used[i] {
			out = append(out, t)
		}
	}
	return out
}

// ID is the share ID.
func (s *Share) ID() share.ID { return s.manifest.ID() }

// Manifest is the list of files.
func (s *Share) Manifest() *share.Manifest { return s.manifest }

// Imported returns what the import did: bytes hashed, bytes known from before, warnings.
func (s *Share) Imported() *store.Imported { return s.imported }

// Idle returns the patterns of ShareOptions.Exclude that left nothing out: they may be mistyped.
func (s *Share) Idle() []string { return s.idle }

// Ticket returns the one string that another node needs.
func (s *Share) Ticket() string { return s.node.Ticket(s.ID()) }

// Ticket returns the one string that another node needs to fetch a share from this one. The
// share must be served here: shared, or fetched with Keep. also are multiaddrs of others
// that have it, such as a depot; the ticket names as many of them as it has room for. Of the
// zero ID there is no ticket: it is empty.
func (n *Node) Ticket(id share.ID, also ...string) string {
	if id.IsZero() { // of an Entry whose share is not known yet
		return ""
	}
	var addrs []ma.Multiaddr
	for _, a := range slices.Concat(also, n.Addrs()) {
		if m, err := share.ParseAddr(a); err == nil {
			addrs = append(addrs, m)
		}
	}
	t, err := share.NewTicket(id, addrs)
	if n.cfg.Beacons.Use && err == nil {
		t = t.AtBeacons(n.meeting(id, n.catalog.ticketOf(id)))
	}
	switch {
	case err != nil && len(also) > 0: // a key that no ticket can name
		return n.Ticket(id)
	case err != nil: // our own addresses are well-formed
		panic(fmt.Sprintf("ticket of our own addresses: %v", err))
	}
	if secret := n.catalog.offers.Secret(id); secret != nil {
		t.Secret = secret
	}
	return t.String()
}

// Done is closed when the share has ended. Err then says why: nil if it was stopped, an
// error that wraps share.ErrChanged if a file has changed.
func (s *Share) Done() <-chan struct{} { return s.done }

// Err is why the share ended.
func (s *Share) Err() error { return s.reason() }

// Look looks whether the next n files and folders of the share, going round, are still what they were, by their sizes
// and times, and ends the share if one is not: without it, that is noticed when a peer asks for one. It does nothing
// once the share has ended.
func (s *Share) Look(n int) {
	select {
	case <-s.done:
	default:
		s.node.catalog.offers.Look(s.ID(), n)
	}
}

// Stop ends the share: children are told, no further request is served, and its entry
// is removed.
func (s *Share) Stop(ctx context.Context) error {
	_, err := s.node.stopSharing(ctx, s.ID(), s)
	return err
}

// Entry is the share's entry in the node's catalog; 0 for that of ShareFS, which has none.
func (s *Share) Entry() EntryID { return s.entry }

// StopSharing stops serving a share, one that was fetched with Keep or a Share,
// and returns how many peers that were fetching it were told. What is being fetched of it, and not
// shared otherwise, is not served after that, and its entry is EntryOpening when all is here.
func (n *Node) StopSharing(ctx context.Context, id share.ID) (children int, err error) {
	return n.stopSharing(ctx, id, nil)
}

// stopSharing stops serving a share, unless it is served by another Share than only; nil: whoever serves it.
func (n *Node) stopSharing(ctx context.Context, id share.ID, only *Share) (children int, err error) {
	s, ok := n.catalog.drop(id, only)
	switch {
	case !ok && n.catalog.withdrawn(id, only.entry):
		return 0, n.catalog.remove(only.entry)
	case !ok:
		return 0, nil
	case s != nil:
		err = n.catalog.remove(s.entry)
	case n.catalog.running(id) == nil:
		err = n.catalog.remove(n.catalog.fetched(id).ID)
	}
	children, err2 := n.withdraw(ctx, id, 0)
	if s != nil {
		s.over(nil)
	}
	return children, errors.Join(err, err2)
}

// over ends a share that is not served any more. What a running transfer has of it, for which it stood, is offered again.
func (s *Share) over(why error) {
	n := s.node
	n.catalog.left(s.ID())
	if t := n.catalog.running(s.ID()); t != nil && t.place() != nil {
		n.catalog.offerPart(t, t.place())
		n.program.Offer(s.ID())
	}
	s.end(why)
}

// withdraw stops serving a share, whoever serves it. Children are told why; 0: they hear a goodbye.
func (n *Node) withdraw(ctx context.Context, id share.ID, why wire.Code) (children int, err error) {
	n.catalog.offers.Leave(id, nil)
	children, err = n.program.Withdraw(ctx, id, why)
	n.catalog.offers.Remove(id)
	n.catalog.offers.Guard(id, nil) // who fetches it has another secret
	n.catalog.unkeeps(id, nil)
	return children, err
}
