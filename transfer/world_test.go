package transfer

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

var theStart = time.Unix(1_000_000, 0)

const self peers.ID = "self"

// theManifest has a file of three pieces, one of none, a folder, one file of two pieces,
// and a link: pieces 0 to 2 are of "a", 3 and 4 of "d".
var theManifest = func() *share.Manifest {
	file := func(path string, size int64) share.Entry {
		e := share.Entry{Path: path, Size: size, Root: share.EmptyRoot}
		for at := int64(0); at < size; at += share.MinPiece {
			e.Pieces = append(e.Pieces, share.Hash{byte(at >> 20), path[0]})
		}
		if size > 0 {
			e.Root = share.FileRoot(e.Pieces)
		}
		return e
	}
	m, err := share.NewManifest("folder/", []share.Entry{
		file("a", 2<<20+3*share.BlockSize), file("b", 0), {Path: "c", Kind: share.Dir}, file("d", 1<<20+1),
		{Path: "e", Kind: share.Symlink, Target: "a"},
	})
	if err != nil {
		panic(err)
	}
	return m
}()

const (
	entryA, entryB, entryD = 0, 1, 3
	thePieces              = 5
)

// fataler is told when something does not hold.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// world is the owner of a Transfer, with everything around it. It checks each thing that is
// to be done against the present state.
type world struct {
	fataler
	x   *Transfer
	cfg Config
	now time.Time
	did []any // what was done since the last look

	wake      time.Time
	pools     map[int]peers.ID
	begun     int // pools
	asks      map[peers.ID]bool
	finding   bool
	leases    bool
	verifiers int
	dying     int // verifiers
	placed    bool
	work      any // under way: Open or a Work
	have      *share.Set
	blocks    map[share.Piece]*share.Blocks
	chosen    Choice
	openers   map[peers.Port]bool     // those that wait for ReaderOpened
	waits     map[peers.Port]MoveOf   // ... for ReaderReady
	readers   map[leasemgr.Reader]int // with their entries
	bans      map[peers.ID]time.Time  // until when
	over      *Ended
}

// MoveOf is the position of a reader that waits.
type MoveOf struct {
	entry int
	off   int64
}

func newWorld(t fataler, cfg Config, fetch Fetch) *world {
	fetch.Self = self
	w := &world{fataler: t, cfg: cfg.withDefaults(), now: theStart, pools: map[int]peers.ID{}, asks: map[peers.ID]bool{},
		have: share.NewSet(thePieces), blocks: map[share.Piece]*share.Blocks{}, openers: map[peers.Port]bool{}, waits: map[peers.Port]MoveOf{},
		readers: map[leasemgr.Reader]int{}, bans: map[peers.ID]time.Time{}}
	w.x = New(cfg, fetch, w.now)
	w.do()
	return w
}

// do carries out what is to be done, as the owner does after each event.
func (w *world) do() {
	w.Helper()
	todo := w.x.Next(w.now)
	w.wake = todo.Wake
	for _, a := range todo.Do {
		switch a.(type) {
		case PrioritySet, ReaderOpened, ReaderReady, Blame:
		default:
			w.claim(w.over == nil, "after the end there is %T to do", a)
		}
		w.check(a)
		w.did = append(w.did, a)
	}
	if !w.wake.IsZero() && !w.wake.After(w.now) {
		w.Fatalf("it wants to be called at %v, which was", w.wake)
	}
	if w.x.ending != nil && !w.wake.IsZero() {
		w.Fatalf("it is over, and wants to be called")
	}
	for _, more := range w.x.Next(w.now).Do { // what is only reported is handled the next time
		tell, _ := more.(Tell)
		_, ok := tell.Event.(Progress)
		w.claim(ok, "asked twice, it wants %T more", more)
	}
}

func (w *world) claim(ok bool, format string, args ...any) {
	w.Helper()
	if !ok {
		w.Fatalf(format, args...)
	}
}

// check checks one thing that is to be done.
func (w *world) check(action any) {
	w.Helper()
	if !w.checkSources(action) && !w.checkLeases(action) && !w.checkDisk(action) {
		w.checkTold(action)
	}
}

func (w *world) checkSources(action any) bool {
	w.Helper()
	switch a := action.(type) {
	case FindSources:
		w.finding = true
	case StopFinding:
		w.claim(w.finding, "nobody looks for sources")
		w.finding = false
	case Rank, Blame, AskListers:
	case AskManifest:
		w.claim(!w.asks[a.From.ID], "%s is asked for the manifest twice at once", a.From.ID)
		w.claim(!w.bans[a.From.ID].After(w.now), "%s is banned, and asked", a.From.ID)
		w.asks[a.From.ID] = true
	case StopAsking:
		w.claim(w.asks[a.Peer], "%s is not asked for anything", a.Peer)
		delete(w.asks, a.Peer)
	case StartPool:
		w.claim(w.leases && w.finding, "a pool that nobody leases anything to, or at the end")
		w.claim(a.Pool == w.begun+1, "pool %d after %d", a.Pool, w.begun)
		for _, id := range w.pools {
			w.claim(id != a.Source.ID, "%s has two pools", id)
		}
		w.claim(!w.bans[a.Source.ID].After(w.now), "%s is banned, and has a pool", a.Source.ID)
		w.claim(len(a.At) > 0 && len(a.At) <= MaxAddresses, "%d addresses", len(a.At))
		w.begun = a.Pool
		w.pools[a.Pool] = a.Source.ID
		w.claim(len(w.pools) <= w.cfg.MaxSources, "%d pools", len(w.pools))
	case StopPool:
		w.claim(w.pools[a.Pool] != "", "pool %d does not run", a.Pool)
		delete(w.pools, a.Pool)
	case TellPool:
		w.claim(w.pools[a.Pool] != "", "pool %d does not run", a.Pool)
	case Unsubscribe:
		w.claim(slices.Contains(w.running(), a.Peer), "%s has no pool", a.Peer)
	default:
		return false
	}
	return true
}

func (w *world) running() (out []peers.ID) {
	for _, id := range w.pools {
		out = append(out, id)
	}
	return out
}

func (w *world) checkLeases(action any) bool {
	w.Helper()
	switch a := action.(type) {
	case StartLeases:
		w.claim(!w.leases && w.placed && w.verifiers+w.dying == 0, "there is a LeaseManager, a verifier, or no place on disk")
		w.claim(a.Have.Equal(w.have), "it has %v, and says %v", w.have, a.Have)
		w.leases = true
		return true
	case StartVerifiers:
		w.claim(w.leases && w.verifiers+w.dying == 0, "verifiers run")
		w.verifiers = a.Count
		return true
	case StopWorkers:
		w.leases, w.dying, w.verifiers = false, w.dying+w.verifiers, 0
		return true
	case AskPlan, Prioritise, Pause, DropSource, Steer, DropReader:
		w.claim(w.leases, "nobody is there for %T", action)
		return true
	}
	return false
}

func (w *world) checkDisk(action any) bool {
	w.Helper()
	switch a := action.(type) {
	case Open:
		w.claim(w.work == nil && !w.placed, "opened while %v is under way, or twice", w.work)
		w.work = a
	case StopHashing:
	case Select:
		w.claim(w.placed, "there is no place on disk")
	case OnDisk:
		w.claim(w.work == nil && w.placed, "%v while %v is under way, or without a place on disk", a.Work, w.work)
		w.claim(a.Work != Close || w.verifiers+w.dying == 0, "closed while verifiers may write")
		w.work = a.Work
	default:
		return false
	}
	return true
}

func (w *world) checkTold(action any) {
	w.Helper()
	switch a := action.(type) {
	case Offer:
		w.claim(w.placed, "it offers what is nowhere")
	case Available, PrioritySet, BeginsAgain, StayInFleet, ServeOn:
	case ReaderOpened:
		w.claim(w.openers[a.To], "%v is answered, and has not asked", a.To)
		delete(w.openers, a.To)
		if a.Err == nil {
			w.readers[a.Reader] = a.Entry
		}
	case ReaderReady:
		at, ok := w.waits[a.To]
		w.claim(ok, "%v does not wait", a.To)
		delete(w.waits, a.To)
		w.claim(a.Err != nil || w.verified(at, a.End), "told that all is verified from %+v to %d", at, a.End)
	case Tell:
		_, ended := a.Event.(Ended)
		w.claim(!ended, "the end is told in passing")
	case Over:
		w.claim(len(w.pools)+len(w.asks)+len(w.openers)+len(w.waits) == 0, "at the end there are pools %v, questions %v, readers %v %v", w.pools, w.asks, w.openers, w.waits)
		w.claim(!w.leases && w.verifiers+w.dying == 0 && w.work == nil && !w.placed && !w.finding, "it ends while something runs")
		w.over = &a.Ended
	default:
		w.Fatalf("nobody knows how to do %T", action)
	}
}

// verified reports whether the bytes of a file from a reader's position to its end are verified.
func (w *world) verified(at MoveOf, end int64) bool {
	size := theManifest.Entry(at.entry).Size
	if at.off >= size { // nothing is waited for
		return end == at.off
	}
	if end > size || end <= at.off {
		return false
	}
	for off := at.off; off < end; off += share.BlockSize {
		p, b := theManifest.Layout().At(at.entry, off)
		if !w.have.Has(p) && (w.blocks[p] == nil || !w.blocks[p].Has(b)) {
			return false
		}
	}
	return true
}

// got returns all actions of one type that were to be done.
func got[T any](w *world) (out []T) {
	for _, a := range w.did {
		if x, ok := a.(T); ok {
			out = append(out, x)
		}
		if tell, ok := a.(Tell); ok {
			if x, ok := tell.Event.(T); ok {
				out = append(out, x)
			}
		}
	}
	return out
}

// ---- what happens ----

// happens makes something happen; what was to be done before is forgotten.
func (w *world) happens(f func()) {
	w.Helper()
	w.did = nil
	f()
	w.do()
}

// pass lets time pass, with a call whenever one is asked for.
func (w *world) pass(d time.Duration) {
	w.Helper()
	w.did = nil
	end := w.now.Add(d)
	for calls := 0; !w.wake.IsZero() && !w.wake.After(end); calls++ {
		w.claim(calls < 100_000, "it is called without end")
		w.now = w.wake
		w.do()
	}
	w.now = end
	w.do()
}

// find makes a source be found.
func (w *world) find(ids ...peers.ID) {
	w.Helper()
	for _, id := range ids {
		w.happens(func() {
			w.x.SourceFound(SourceFound{Addr: peers.Addr{ID: id, Addrs: []string{"/" + string(id)}}}, w.now)
		})
	}
}

// replied makes a peer answer that was asked for the manifest.
func (w *world) replied(from peers.ID, r wire.Reply, err error) {
	w.Helper()
	w.happens(func() {
		delete(w.asks, from)
		var b []byte
		if err == nil && r.Status == wire.OK {
			b = theManifest.Bytes()
		}
		w.x.ManifestCame(from, b, r, err, w.now)
	})
}

// opens makes the place on disk open, with these pieces.
func (w *world) opens(chosen Choice, err error, pieces ...share.Piece) {
	w.Helper()
	w.happens(func() {
		place := Place{Open: err == nil, Have: share.NewSet(thePieces)}
		for _, p := range pieces {
			place.Have.Add(p)
		}
		w.placed, w.work, w.chosen, w.have, w.blocks = place.Open, nil, slices.Clone(chosen), place.Have.Clone(), map[share.Piece]*share.Blocks{}
		w.x.Opened(place, chosen, err, w.now)
	})
}

// worked ends the disk's work.
func (w *world) worked(err error, need, free int64) {
	w.Helper()
	what := w.work.(Work)
	w.happens(func() {
		w.work = nil
		switch what {
		case Sync:
			w.x.Synced(err, w.now)
		case LookForRoom:
			w.x.RoomSeen(need, free, w.now)
		case Finish:
			w.x.Finished("/here", err, w.now)
		case Close:
			w.placed = false
			w.x.Closed(err, w.now)
		}
	})
}

// ban bans a source.
func (w *world) ban(id peers.ID, d time.Duration) {
	w.Helper()
	if w.x.byID[id] != nil { // else it is told when it has been found
		w.bans[id] = w.now.Add(d)
	}
	w.happens(func() { w.x.Banned(id, w.now.Add(d), w.now) })
}

// poolOf returns the number of a source's pool.
func (w *world) poolOf(id peers.ID) int {
	for n, of := range w.pools {
		if of == id {
			return n
		}
	}
	return 0
}

// status makes a source's pool report its state.
func (w *world) status(m SourceStatus) {
	w.Helper()
	w.happens(func() {
		m.Pool = w.poolOf(m.Source)
		w.x.SourceStatus(m, w.now)
	})
}

func (w *world) active(ids ...peers.ID) {
	w.Helper()
	for _, id := range ids {
		w.status(SourceStatus{Source: id, State: Active, Why: "fetching", Connected: true})
	}
}

// blocksOf makes blocks of a piece verified.
func (w *world) blocksOf(from peers.ID, p share.Piece, first share.Block, n int) {
	w.Helper()
	w.happens(func() {
		m := BlocksVerified{Source: from, Piece: p, Bytes: theManifest.Layout().RunSpan(p, first, n).Len, Hashed: 1}
		m.Blocks.Add(first, n)
		if w.blocks[p] == nil {
			w.blocks[p] = &share.Blocks{}
		}
		w.blocks[p].Add(first, n)
		w.x.BlocksVerified(m, w.now)
	})
}

// piece makes a whole piece arrive.
func (w *world) piece(from peers.ID, p share.Piece) {
	w.Helper()
	l := theManifest.Layout()
	w.blocksOf(from, p, 0, (l.PieceLen(p)+share.BlockSize-1)/share.BlockSize)
	w.have.Add(p)
	last := w.have.Count() == thePieces
	w.happens(func() { w.x.PieceDone(p, []peers.ID{from}, last, Leases{}, w.now) })
}

// ends ends the verifiers that were told to end.
func (w *world) ends() {
	w.Helper()
	for w.dying > 0 {
		w.dying--
		did := w.did
		w.happens(func() { w.x.VerifierGone(w.now) })
		w.did = append(did, w.did...)
	}
}

// isOver ends everything that was told to end, and returns the outcome.
func (w *world) isOver() Ended {
	w.Helper()
	if w.work != nil {
		if _, opening := w.work.(Open); opening {
			w.opens(nil, errStopped)
		} else {
			w.worked(nil, 0, 0)
		}
	}
	w.ends()
	if w.work == Close {
		w.worked(nil, 0, 0)
	}
	w.claim(w.over != nil, "it is not over; it does %v", w.work)
	return *w.over
}

var errStopped = fmt.Errorf("it was stopped while it was opened")

// fetching is a transfer that fetches from some sources.
func fetching(t testing.TB, cfg Config, from ...peers.ID) *world {
	t.Helper()
	w := newWorld(t, cfg, Fetch{Share: theManifest.ID(), Manifest: theManifest})
	w.opens(nil, nil)
	w.find(from...)
	w.active(from...)
	return w
}

func (w *world) progress() Progress { return w.x.Progress(w.now) }

// port makes the port of an actor.
func port(name string) peers.Port { return peers.Port{Node: string(self), Name: name} }
