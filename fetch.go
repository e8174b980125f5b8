package fetcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/internal/bounds"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
)

// ErrNoSource says that a share ID was given without a peer to fetch from.
var ErrNoSource = errors.New("no peer to fetch from: an ID alone names none")

// FetchOptions are the options of Fetch. The zero value works.
type FetchOptions struct {
	// Dir is where the share's file or folder is made; default the working directory.
	// It is made if it is not there.
	Dir string
	// Peers are further sources: multiaddrs that end in /p2p/ID.
	Peers []string
	// Only and Skip choose what is fetched: whatever matches a pattern of Only, or
	// everything if there is none, but no pattern of Skip. A pattern is matched against
	// the path in the share as path.Match does, part by part; ** matches any number of
	// parts, and a pattern that matches a folder matches all that is in it. If nothing
	// is left, the transfer ends with ErrNothingSelected.
	//
	// What is not chosen is not created. The rest is put below Dir/NAME when it is
	// complete; Dir/NAME.partial stays, for a later Fetch that chooses more.
	Only, Skip []string
	// Repair makes what lies at Dir/NAME equal to the share. Files that are right stay as
	// they are, pieces that are right are kept, and a file that differs is replaced when the
	// right one is complete; Transfer.Replaces lists those. What the share does not have, and
	// what is not chosen, is not touched. Without Repair, a target that differs is an error,
	// which wraps store.ErrRepairable if Repair could fix that.
	Repair bool
	// Like are files and folders with older versions of the share: pieces with the same
	// hash are taken from there, whatever the files are called.
	Like []string
	// First are patterns, as in Only, of what is fetched before the rest: with PriorityHigh,
	// whatever Select says.
	First []string
	// Select returns how urgent each entry is that Only and Skip leave; default
	// PriorityNormal.
	Select func(share.Entry) Priority `json:"-"`
	// DownloadRate bounds what is requested, in bytes per second of file content, within
	// Config.DownloadRate; 0 is no bound. See Transfer.SetDownloadRate.
	DownloadRate int64
	// Stall is how long without a verified byte ends the transfer; default 60 s.
	Stall time.Duration
	// OnDemand fetches only what a Reader will read soon: see Transfer.Open and
	// Reader.SetReadAhead, whose default is 4 MiB then. The transfer lasts until all
	// is here or it is stopped; time in which nobody reads does not count towards Stall.
	// It is not for nodes of a fleet.
	OnDemand bool
	// Allow are the peers that may get from this node what it has of the share; default
	// those of Config.Allow.
	Allow []peers.ID
	// Anonymous keeps this node from being named to others as a source.
	Anonymous bool
	// Visible says where Config.Discovery announces that the share can be had here; default
	// Private.
	Visible Visibility
	// Keep goes on serving the share when it is whole, until the node is closed
	// or StopSharing is called. A part that lay in its place already gets a NAME.partial, too.
	Keep bool
	// WatchLeases reports each grant and each end of a piece lease among the events, as
	// a LeaseEvent.
	WatchLeases bool
	// Verifiers is how many pieces are checked at once; default GOMAXPROCS, or the
	// number of cores if that is less.
	Verifiers int
	// Called says that a source may connect to this node, by Share.Call: none need be known then.
	Called bool `json:"-"`
	// OnlyHere serves what is in its place, and fetches nothing: if something that was chosen is not there, the
	// transfer ends with store.ErrNotHere.
	OnlyHere bool `json:"-"`
	// Turn is waited for before what is in its place is read, which may take hours; done gives it back. Its error ends the transfer.
	Turn func(context.Context) (done func(), err error) `json:"-"`
	// MaxSources bounds how many sources are fetched from at once; default 64.
	MaxSources int
	// SyncEvery and SyncBytes bound what a power cut may cost; defaults 2 s and 256 MiB.
	SyncEvery time.Duration
	SyncBytes int64
	// Entry is the entry of the node's catalog to continue; default that of an earlier
	// fetch of the share, or a new one.
	Entry EntryID `json:"-"`
}

// Transfer is the fetch of one share. Its methods are safe for concurrent use.
type Transfer struct {
	node   *Node
	id     share.ID
	handle actors.Handle
	entry  atomic.Int64
	opt    FetchOptions
	events feed[Event]
	done   chan struct{}
	asking *asking       // for the list of files
	secret *share.Secret // of the ticket; nil: none
	asked  atomic.Bool   // a source asks for the secret, or did
	forget func()        // makes the host forget it
	opened func()        // until it is called, peers that ask for the share are told to come back
	halted atomic.Bool   // it is to stop
	kept   ending        // of the serving of what it has fetched

	mu       sync.Mutex
	manifest *share.Manifest
	partial  *store.Partial
	last     Progress
	err      error
}

func (o FetchOptions) validate() error {
	var f bounds.Fields
	bounds.In(&f, "DownloadRate", o.DownloadRate, 1, 1<<50)
	bounds.In(&f, "Visible", o.Visible, Private, Public)
	bounds.In(&f, "Stall", o.Stall, time.Millisecond, 366*24*time.Hour)
	bounds.In(&f, "Verifiers", o.Verifiers, 1, 1<<10)
	bounds.In(&f, "MaxSources", o.MaxSources, 1, 1<<16)
	bounds.In(&f, "SyncEvery", o.SyncEvery, time.Millisecond, time.Hour)
	bounds.In(&f, "SyncBytes", o.SyncBytes, 1, 1<<50)
	f.Add("Allow", peerIDs(o.Allow))
	if slices.Contains(o.Like, "") { // it would be the working directory
		f.Add("Like", fmt.Errorf("a path is empty: %w", fs.ErrInvalid))
	}
	return f.Err()
}

// Fetch starts to fetch a share, given by a ticket or a share ID, into
// opt.Dir/NAME. What an earlier run left there is kept, and not hashed
// again. Several transfers may run at once, each of a different share. ctx is for the
// start alone; Stop ends the transfer.
//
// Errors wrap share.ErrTicket for a string that is neither ticket nor ID, ErrNoSource for an
// ID without a peer, path.ErrBadPattern for a bad pattern, and share.ErrHeld if this node
// fetches the share already. Wait returns every later error.
func (n *Node) Fetch(ctx context.Context, ticketOrID string, opt FetchOptions) (*Transfer, error) {
	id, sources, err := ParseSource(ticketOrID, opt.Peers)
	if err != nil {
		return nil, err
	}
	if err := opt.validate(); err != nil {
		return nil, err
	}
	choose, err := opt.selector()
	if err != nil {
		return nil, err
	}
	fleet, err := n.cfg.Fleet.forTransfer()
	if err != nil {
		return nil, err
	}
	if opt.OnDemand && fleet.Used() {
		return nil, errors.New("a node of a fleet does not fetch on demand: its coordinator says what enters the fleet")
	}
	if err := n.catalog.unpause(opt.Entry); err != nil {
		return nil, err
	}
	opt.Dir = cmp.Or(opt.Dir, ".")
	known, err := n.knownManifest(opt.Dir, id)
	if err != nil {
		return nil, err
	}
	beacons := n.asked(ticketOrID)
	of := whom(ticketOrID, opt.Peers, sources, beacons)
	if of == "" && known == nil && !opt.Called && n.cfg.Discovery == nil {
		return nil, noSource(ticketOrID)
	}
	t := &Transfer{node: n, id: id, handle: n.program.Handle(id), opt: opt, done: make(chan struct{}), kept: ending{done: make(chan struct{})}, last: Progress{Share: id}, secret: ticketSecret(ticketOrID)}
	if err := n.catalog.begin(t, of); err != nil {
		return nil, err
	}
	if err := n.enter(t, ticketOrID, known); err != nil {
		t.unbegun(err)
		return nil, err
	}
	t.forget = n.know(id, t.secret, t.guarded)
	err = n.program.Fetch(ctx, actors.FetchShare{
		Handle: t.handle, Sources: sources, Beacons: beacons, Manifest: known, DownloadRate: opt.DownloadRate, Select: t.choosing(choose), Disk: (*disk)(t), Notify: t.notify,
		Config: actors.TransferConfig{Stall: opt.Stall, SyncEvery: opt.SyncEvery, SyncBytes: opt.SyncBytes, Verifiers: opt.Verifiers,
			MaxSources: opt.MaxSources, Anonymous: opt.Anonymous, OnDemand: opt.OnDemand, Keep: opt.Keep, Called: opt.Called, Leases: n.cfg.Leases, WatchLeases: opt.WatchLeases, Fleet: fleet},
	})
	if err != nil {
		t.forget()
		t.unbegun(err)
		n.settle(t, err, func() {})
		return nil, err
	}
	if t.halted.Load() {
		t.stop() // it was called before, but perhaps when there was nothing to stop yet
	}
	return t, nil
}

// unbegun ends what waits for a transfer that does not start.
func (t *Transfer) unbegun(why error) {
	t.mu.Lock()
	t.err = why
	t.mu.Unlock()
	t.opened()
	t.node.catalog.forget(t)
	t.node.catalog.unask(t.id, t.asking)
	t.kept.end(nil)
	close(t.done) // Close may wait for it
}

// knownManifest makes dir, and looks for the share's manifest on this disk: in a partial fetch, or in the state.
func (n *Node) knownManifest(dir string, id share.ID) (*share.Manifest, error) {
	found, err := n.cfg.Simulation.find(dir, id)
	if err != nil {
		return nil, err
	}
	if found.Manifest != nil {
		return found.Manifest, nil
	}
	m, err := n.state.Manifest(id)
	if err != nil { // not known, or damaged: a peer has it
		return nil, nil
	}
	return m, nil
}

// disk opens the transfer's place, as the actors ask for it.
type disk Transfer

// Open makes or resumes DIR/NAME.partial, and serves from it at once.
func (d *disk) Open(ctx context.Context, m *share.Manifest, wanted []bool) (actors.Target, error) {
	t := (*Transfer)(d)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := t.node.state.SaveManifest(m); err != nil {
		t.node.log.Warn("the list of files was not kept", "error", err)
	}
	t.lists(m)
	t.node.catalog.unask(t.id, nil)
	if t.opt.Turn != nil {
		done, err := t.opt.Turn(ctx)
		if err != nil {
			return nil, err
		}
		defer done()
	}
	if err := t.node.catalog.offers.Yield(ctx, m.ID()); err != nil {
		return nil, err
	}
	var unread unreadable
	p, err := store.OpenPartial(ctx, t.opt.Dir, m, store.PartialOptions{State: t.node.state, Wanted: wanted, FS: t.node.cfg.Simulation.FS,
		Repair: t.opt.Repair, Like: t.opt.Like, Taking: t.comparing(), Unread: unread.add, Note: t.opt.Keep, OnlyHere: t.opt.OnlyHere})
	if err != nil {
		return nil, err
	}
	unread.warn(t.node.log)
	for _, at := range p.Aside() {
		t.node.log.Warn("something stood in the way of a file of the share, and was moved", "to", filepath.Join(t.opt.Dir, at))
	}
	t.mu.Lock()
	t.partial = p
	t.mu.Unlock()
	t.node.catalog.offerPart(t, p)
	t.node.catalog.change(t.Entry(), func(e *Entry) { e.Name = m.Name })
	t.opened()
	return timed{p, &t.node.syncs}, nil
}

// compareEvery is how often comparing reports its progress.
const compareEvery = 100 * time.Millisecond

// comparing returns a function that reports which file is compared with the share, and how
// much of it was read.
func (t *Transfer) comparing() func(path string, read int64) {
	var mu sync.Mutex
	var last time.Time
	return func(path string, read int64) {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(last) < compareEvery {
			return
		}
		last = time.Now()
		t.mu.Lock()
		p := t.last
		t.mu.Unlock()
		p.State, p.Reason = Opening, fmt.Sprintf("looking for equal pieces: read %s, now at %s", share.Size(read), path)
		t.notify(p)
	}
}

// notify takes the events of the actors. It never blocks.
func (t *Transfer) notify(e Event) {
	switch e := e.(type) {
	case Progress:
		t.setLast(e)
	case SourceChanged:
		e.Source.Way = string(t.node.Way(e.Source.Peer))
		t.events.say(e)
		return
	case Ended:
		t.ended(e)
		return
	}
	t.events.say(e)
}

func (t *Transfer) setLast(p Progress) {
	t.mu.Lock()
	t.last = p
	t.mu.Unlock()
}

// over passes the last event on.
func (t *Transfer) over(e Ended) {
	t.events.end(e)
	close(t.done)
}

// ID is the ID of the share that is being fetched.
func (t *Transfer) ID() share.ID { return t.id }

// Manifest is the list of files; nil until it is known.
func (t *Transfer) Manifest() *share.Manifest {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.manifest
}

// Wait returns when the transfer has ended: nil when every byte is verified and
// in its place, or else the reason. If ctx ends first, Wait returns and the transfer
// goes on.
//
// The reason wraps ErrStopped, ErrNothingSelected, or one of the classes of package
// share where it means that: ErrPath, ErrExists, ErrHeld, ErrDiskFull, ErrNetwork,
// ErrNotFound, ErrLied, ErrStalled. What is verified is kept, and the same Fetch goes
// on from there.
func (t *Transfer) Wait(ctx context.Context) error {
	select {
	case <-t.done:
		t.mu.Lock()
		defer t.mu.Unlock()
		return t.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Done is closed when the transfer has ended.
func (t *Transfer) Done() <-chan struct{} { return t.done }

// Progress is where the transfer stands now, with exact counts.
func (t *Transfer) Progress() Progress {
	select {
	case <-t.done:
	default:
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if p, err := t.node.program.Progress(ctx, t.handle); err == nil && p.State != Failed {
			return p
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last
}

// Pieces returns which pieces of the share are here and verified, both those that were
// fetched and those that were here before; nil before its place on disk is open. The
// set is the caller's.
func (t *Transfer) Pieces() *share.Set {
	if p := t.place(); p != nil {
		return p.Verified()
	}
	return nil
}

// Brought says who brought each piece since the transfer began: n is the n-th of
// Progress.Sources, 0 nobody, and SeveralSources several, or one beyond the 254th. It is empty
// until a piece has come, and when the transfer is over. The slice is the caller's.
func (t *Transfer) Brought(ctx context.Context) []byte {
	by, err := t.node.program.Brought(ctx, t.handle)
	if err != nil {
		return nil // it has ended
	}
	return by
}

// Why explains the wait: first what the transfer as a whole is doing, since when
// and until when, then a line for each source, then one for each missing piece or run of pieces: who has it,
// who holds it, until when, and what happens next. end is what whoever began it does when it has stalled: "gives up".
func (t *Transfer) Why(end string) []string {
	p := t.Progress()
	lines := []string{headline(p, end)}
	for _, s := range p.Sources {
		since := words.Duration(p.At.Sub(s.Since))
		line := fmt.Sprintf("source %s: %s for %s", s.Peer.Short(), s.State, since)
		if s.State == Left {
			line = fmt.Sprintf("source %s: given up %s ago", s.Peer.Short(), since)
		}
		if s.Banned {
			line = fmt.Sprintf("source %s: %s (noted %s ago)", s.Peer.Short(), s.Why, since)
		} else if s.Why != "" && s.Why != s.State.String() {
			line += ", " + s.Why
		}
		line += map[Way]string{Punched: ", connected directly, after a relay introduced it to this node", Relayed: ", connected through a relay"}[t.node.Way(s.Peer)]
		if st := s.Standing; !st.Since.IsZero() {
			line += fmt.Sprintf("; in the %s set for %s, because %s; tier %d, score %.2f", st.Set, words.Duration(p.At.Sub(st.Since)), st.Why.Reason(), st.Tier, st.Score)
		}
		lines = append(lines, fmt.Sprintf("%s; %s in %s", line, share.Size(s.Bytes), words.Count(s.Pieces, "piece")))
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if pieces, err := t.node.program.Why(ctx, t.handle); err == nil {
		lines = append(lines, pieces...)
	}
	return lines
}

// headline is what a transfer as a whole is doing.
func headline(p Progress, end string) string {
	s := p.State.String()
	if p.State == Finding {
		s = "looking for a source"
	}
	if p.Lists() {
		s = p.Reason
	} else if p.Reason != "" {
		s += ": " + strings.TrimPrefix(p.Reason, s+": ")
	}
	if p.State == Complete || p.State == Failed || p.At.IsZero() {
		return s
	}
	if since := p.At.Sub(p.Moved); since >= time.Second && !p.GivesUp.IsZero() {
		s += fmt.Sprintf("; no byte for %s: the fetch %s in %s unless one comes", words.Duration(since), end, words.Duration(p.GivesUp.Sub(p.At)))
	}
	return s
}

// Events returns the transfer's events in order, beginning with the last 256 before the call.
// Each call makes a reader of its own, until ctx or the transfer ends. The channel is
// bounded: a caller that does not read it loses events, but never the last, Ended, after
// which it is closed.
func (t *Transfer) Events(ctx context.Context) <-chan Event { return t.events.read(ctx) }

// Stop ends the transfer and keeps what is verified; Wait then returns ErrStopped. Its
// entry is removed. Stop waits until the transfer has ended; if ctx ends first, it ends all the same.
func (t *Transfer) Stop(ctx context.Context) error {
	if t.node.catalog.running(t.id) == t {
		if err := t.node.catalog.remove(t.Entry()); err != nil && !errors.Is(err, ErrClosed) {
			return err
		}
	}
	return t.halt(ctx)
}

// halt stops the transfer, and leaves its entry.
func (t *Transfer) halt(ctx context.Context) error {
	t.stop()
	select {
	case <-t.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *Transfer) stop() {
	t.halted.Store(true)
	t.node.program.StopTransfer(t.handle)
}

// SetDownloadRate bounds what this transfer requests from others, in bytes per second
// of file content, from now on; 0 is no bound but that of the node.
func (t *Transfer) SetDownloadRate(rate int64) { t.node.program.SetTransferRate(t.handle, rate) }

// Entry is the transfer's entry in the node's catalog.
func (t *Transfer) Entry() EntryID { return EntryID(t.entry.Load()) }

// Path is where the share is, or the part of it that was chosen, once that is
// complete; empty before.
func (t *Transfer) Path() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last.Path
}
