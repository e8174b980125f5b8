package fetcher

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
)

// Catalog keeps the entries of a node, which are what its owner asked of it, across restarts.
// Each change is durable before the call that makes it returns. A node calls its methods one at
// a time; they may take as long as a disk takes. Without a catalog, entries end with the node.
type Catalog interface {
	// Load returns all entries, in the order of their IDs. Open calls it once.
	Load() ([]Entry, error)
	// Put stores an entry durably, in place of the one that has its ID, if any. An entry
	// without an ID gets one that was never given before.
	Put(e Entry) (EntryID, error)
	// Delete durably removes an entry. It is no error if there is none.
	Delete(id EntryID) error
}

// EntryID names an entry for as long as its catalog lasts: 1 and up.
type EntryID int64

// Entry is one line of a node's catalog: a path that is served, or a share that is
// fetched and, with FetchOptions.Keep, served afterwards. encoding/json writes and reads it.
type Entry struct {
	ID    EntryID
	Share share.ID   // what is here now; zero: not known yet. A new version changes it, but not ID
	Name  string     // of the share; empty until it is known
	State EntryState //
	Why   string     // for people, with EntryMissing and EntryFailed
	Added time.Time  // by Config.Wall

	// Path is the absolute path that is served, and Serving how. Empty if the entry is fetched.
	Path    string
	Serving ShareOptions
	// Ticket is the ticket or share ID that is fetched, and Fetching how; its Dir is
	// absolute. Empty if the entry is served from Path.
	Ticket   string
	Fetching FetchOptions
}

// EntryState is the state of an entry.
type EntryState uint8

// The states of an entry.
const (
	EntryOpening  EntryState = iota // being imported or checked; or not begun since the node was opened, or since what stood for it ended
	EntryFetching                   // being fetched; what is verified of it is served
	EntryServed                     // whole here, and served
	EntryPaused                     // neither fetched nor served until Resume
	EntryMissing                    // the path is not there, has changed, or cannot be read
	EntryFailed                     // the fetch has ended without the share
)

var entryStates = [...]string{"opening", "fetching", "served", "paused", "missing", "failed"}

func (s EntryState) String() string {
	if int(s) >= len(entryStates) {
		return fmt.Sprintf("EntryState(%d)", uint8(s))
	}
	return entryStates[s]
}

// MarshalText is the state's word.
func (s EntryState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the state's word.
func (s *EntryState) UnmarshalText(b []byte) error {
	i := slices.Index(entryStates[:], string(b))
	if i < 0 {
		return fmt.Errorf("%q is not a state of an entry", b)
	}
	*s = EntryState(i)
	return nil
}

// ErrNoEntry says that the catalog has no entry with an ID.
var ErrNoEntry = errors.New("there is no such entry")

// ErrClosed says that a node has been closed.
var ErrClosed = system.ErrClosed

// catalog owns the list of shares that a node has: what was asked of it, which of that
// runs, and which is open for peers to fetch.
type catalog struct {
	offers  *store.Offers
	kept    Catalog // nil: nothing is kept
	hear    func(Entry)
	found   Discovery // nil: none
	changed func()    // called on each change of an entry; may be nil
	log     *slog.Logger

	writing  sync.Mutex // held during each change of an entry, until it is kept
	offering sync.Mutex // held while a share is offered

	mu        sync.Mutex // guards the fields below
	entries   map[EntryID]Entry
	last      EntryID // given, if nothing is kept
	transfers map[share.ID]*Transfer
	shares    map[share.ID]*Share
	served    map[share.ID]*Transfer // that are over; see keeps
	stoodFor  map[share.ID][]EntryID // served by the Share of another entry, which has the same content
	asking    map[share.ID][]*asking // for the list of files
	closed    bool
}

func openCatalog(cfg Config) (*catalog, error) {
	c := &catalog{offers: store.NewOffers(cfg.Allow...), kept: cfg.Catalog, hear: cfg.OnEntry, found: cfg.Discovery, log: cfg.Logger,
		entries: map[EntryID]Entry{}, transfers: map[share.ID]*Transfer{}, shares: map[share.ID]*Share{}, served: map[share.ID]*Transfer{}, stoodFor: map[share.ID][]EntryID{},
		asking: map[share.ID][]*asking{}}
	if c.kept == nil {
		return c, nil
	}
	all, err := c.kept.Load()
	if err != nil {
		return nil, fmt.Errorf("%w: the catalog cannot be read: %w", ErrStateDir, err)
	}
	for _, e := range all {
		if e.State == EntryFetching || e.State == EntryServed {
			e.State = EntryOpening // it was fetched or served, and will be
		}
		c.entries[e.ID] = e
	}
	return c, nil
}

// close makes the catalog take in nothing more, and returns the transfers that run. Entries
// stay as they are; pending writes are done when it returns.
func (c *catalog) close() []*Transfer {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	return slices.Collect(maps.Values(c.transfers))
}

func (c *catalog) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// all are the entries, by ID.
func (c *catalog) all() []Entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := slices.Collect(maps.Values(c.entries))
	slices.SortFunc(out, func(a, b Entry) int { return int(a.ID - b.ID) })
	return out
}

func (c *catalog) entry(id EntryID) (Entry, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[id]
	return e, ok
}

// fetched is the entry that fetches or has fetched a share; zero: none.
func (c *catalog) fetched(id share.ID) Entry { return c.like(Entry{Share: id}) }

// ticketOf is the ticket by which a share came here, that of the oldest entry if there are
// several; empty if by none.
func (c *catalog) ticketOf(id share.ID) (ticket string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	oldest := EntryID(0)
	for _, e := range c.entries {
		if t := cmp.Or(e.Ticket, e.Serving.Ticket); e.Share == id && t != "" && (ticket == "" || e.ID < oldest) {
			ticket, oldest = t, e.ID
		}
	}
	return ticket
}

// like is the entry that serves the same paths as e, or fetches the same share; zero: none.
func (c *catalog) like(e Entry) (found Entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, x := range c.entries {
		if x.Share == e.Share && x.Path == e.Path && slices.Equal(x.Serving.Also, e.Serving.Also) {
			found = x
		}
	}
	return found
}

// put keeps an entry: under its ID, or that of an entry for the same, or a new one. Before anybody else
// can change it, it is that of t, which may be nil.
func (c *catalog) put(e Entry, t *Transfer) (EntryID, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	was, ok := c.entry(e.ID)
	switch {
	case e.ID != 0 && !ok:
		return 0, fmt.Errorf("%w: %d", ErrNoEntry, e.ID)
	case was.State == EntryPaused:
		return 0, errPaused
	case e.ID == 0 && !e.Share.IsZero():
		was = c.like(e)
		e.ID = was.ID
	}
	if was.ID != 0 {
		e.Added = was.Added
	}
	id, err := c.write(e)
	if t != nil && err == nil {
		t.entry.Store(int64(id))
	}
	return id, err
}

// errPaused ends what was begun for an entry that was paused since.
var errPaused = words.Error(ErrStopped, "the entry was paused meanwhile")

// unpause notes that an entry is begun; it goes on unless it is paused again. There need be none.
func (c *catalog) unpause(id EntryID) error {
	if e, _ := c.entry(id); e.State != EntryPaused {
		return nil
	}
	return c.change(id, func(e *Entry) { e.State = EntryOpening })
}

// repause undoes unpause, as nothing was begun for the entry.
func (c *catalog) repause(id EntryID) {
	if e, _ := c.entry(id); e.State != EntryOpening || c.running(e.Share) != nil {
		return
	}
	if err := c.change(id, func(e *Entry) { e.State = EntryPaused }); err != nil && !errors.Is(err, ErrNoEntry) && !errors.Is(err, ErrClosed) {
		c.log.Warn("an entry could not be resumed; it is paused again, but this could not be stored", "entry", id, "error", err)
	}
}

// write keeps an entry; writing is held.
func (c *catalog) write(e Entry) (EntryID, error) {
	if c.isClosed() {
		return 0, ErrClosed
	}
	switch {
	case c.kept != nil:
		id, err := c.kept.Put(e)
		if err != nil {
			return 0, fmt.Errorf("the entry cannot be kept: %w", err)
		}
		e.ID = id
	case e.ID == 0:
		c.last++
		e.ID = c.last
	}
	c.mu.Lock()
	c.entries[e.ID] = e
	c.mu.Unlock()
	if c.hear != nil {
		c.hear(e)
	}
	c.tellChanged()
	return e.ID, nil
}

// tellChanged tells those that announce what is here.
func (c *catalog) tellChanged() {
	if c.found != nil {
		c.found.Changed()
	}
	if c.changed != nil {
		c.changed()
	}
}

// change changes an entry.
func (c *catalog) change(id EntryID, f func(e *Entry)) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	e, ok := c.entry(id)
	if !ok {
		return fmt.Errorf("%w: %d", ErrNoEntry, id)
	}
	f(&e)
	_, err := c.write(e)
	return err
}

// set records a state that has come about already: if it cannot be kept, that is logged. wanted is false if
// the entry is gone, or paused, which it stays.
func (c *catalog) set(id EntryID, s EntryState, why error) (wanted bool) {
	wanted = true
	err := c.change(id, func(e *Entry) {
		if wanted = e.State != EntryPaused; !wanted {
			return
		}
		if e.State, e.Why = s, ""; why != nil {
			e.Why = why.Error()
		}
	})
	if err != nil && !errors.Is(err, ErrNoEntry) && !errors.Is(err, ErrClosed) {
		c.log.Warn("the state of an entry was not kept", "entry", id, "state", s, "error", err)
	}
	return wanted && !errors.Is(err, ErrNoEntry)
}

// remove forgets an entry; 0 is none.
func (c *catalog) remove(id EntryID) error {
	if id == 0 {
		return nil
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.isClosed() {
		return ErrClosed
	}
	if c.kept != nil {
		if err := c.kept.Delete(id); err != nil {
			return fmt.Errorf("the entry cannot be forgotten: %w", err)
		}
	}
	c.mu.Lock()
	delete(c.entries, id)
	c.mu.Unlock()
	c.tellChanged()
	return nil
}

// ---- what runs ----

// begin registers a transfer, which asks for the list of files of whoever of says: one of each share at a time.
func (c *catalog) begin(t *Transfer, of string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return ErrClosed
	case c.transfers[t.id] != nil:
		return words.Error(share.ErrHeld, "share %s is being fetched by this node already", t.id.Short())
	}
	c.transfers[t.id] = t
	t.asking = c.asks(t.id, of)
	t.opened = c.offers.Opening(t.id)
	return nil
}

// forget removes a transfer that has ended.
func (c *catalog) forget(t *Transfer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.transfers[t.id] == t {
		delete(c.transfers, t.id)
	}
}

// offerPart offers what a transfer has, unless the share is shared anyway.
func (c *catalog) offerPart(t *Transfer, p *store.Partial) {
	c.offering.Lock()
	defer c.offering.Unlock()
	if c.shared(t.id) == nil {
		defer c.offers.Opening(t.id)() // the guard holds until then
		c.guard(t)
		c.offers.Add(p, t.opt.Allow...)
	}
}

// offer registers a Share, unless its entry is paused or gone by now, and returns the one that it replaces.
// It stands for the entry of that one from then on.
func (c *catalog) offer(s *Share) (before *Share, err error) {
	c.offering.Lock()
	defer c.offering.Unlock()
	c.mu.Lock()
	if e, ok := c.entries[s.entry]; c.closed {
		err = ErrClosed
	} else if e.State == EntryPaused {
		err = errPaused
	} else if s.entry != 0 && !ok {
		err = fmt.Errorf("%w: %d", ErrNoEntry, s.entry)
	}
	if err != nil {
		c.mu.Unlock()
		return nil, err
	}
	before = c.shares[s.ID()]
	c.shares[s.ID()] = s
	others := slices.DeleteFunc(c.stoodFor[s.ID()], func(id EntryID) bool { return id == s.entry })
	if before != nil && before.entry != 0 && before.entry != s.entry {
		others = append(others, before.entry)
	}
	c.standFor(s.ID(), others)
	c.mu.Unlock()
	defer c.offers.Opening(s.ID())() // the guard holds until then
	c.offers.Guard(s.ID(), s.guard)
	c.offers.Add(s.imported.Tree, s.allow...)
	return before, nil
}

// drop removes a Share: only, or with nil whichever there is. ok says that it did, or that
// there was none.
func (c *catalog) drop(id share.ID, only *Share) (s *Share, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s = c.shares[id]
	if only != nil && s != only {
		return nil, false
	}
	delete(c.shares, id)
	return s, true
}

// withdrawn notes that a share no longer stands for an entry, and reports whether it did.
func (c *catalog) withdrawn(id share.ID, entry EntryID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := len(c.stoodFor[id])
	c.standFor(id, slices.DeleteFunc(c.stoodFor[id], func(x EntryID) bool { return x == entry }))
	return len(c.stoodFor[id]) < before
}

// standFor sets for which other entries a Share stands; mu is held.
func (c *catalog) standFor(id share.ID, others []EntryID) {
	if c.stoodFor[id] = others; len(others) == 0 {
		delete(c.stoodFor, id)
	}
}

// left marks the entries that a dropped Share stood for as to be opened again.
func (c *catalog) left(id share.ID) {
	c.mu.Lock()
	others := c.stoodFor[id]
	if c.shares[id] == nil {
		delete(c.stoodFor, id)
	} else {
		others = nil
	}
	c.mu.Unlock()
	for _, x := range others {
		c.reopen(x, id)
	}
}

// reopen marks an entry as to be opened again if it says that a share is served, which is not so any more.
func (c *catalog) reopen(x EntryID, id share.ID) {
	if e, ok := c.entry(x); ok && e.Share == id && e.State == EntryServed {
		c.set(x, EntryOpening, nil)
	}
}

// shared is the Share of an ID; nil if there is none.
func (c *catalog) shared(id share.ID) *Share {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shares[id]
}

// running is the transfer of a share; nil if there is none.
func (c *catalog) running(id share.ID) *Transfer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.transfers[id]
}

// lists returns all that runs, in the order of share IDs.
func (c *catalog) lists() (shares []*Share, transfers []*Transfer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return byShare(c.shares), byShare(c.transfers)
}

func byShare[V any](m map[share.ID]V) (out []V) {
	ids := slices.SortedFunc(maps.Keys(m), func(a, b share.ID) int { return strings.Compare(a.String(), b.String()) })
	for _, id := range ids {
		out = append(out, m[id])
	}
	return out
}
