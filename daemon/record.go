package daemon

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/catalog"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// record is the state of an entry: as the catalog has it, and as it is shown.
type record struct {
	d    *Daemon
	id   catalog.ID
	life context.Context // ends with its keeper

	telling   sync.Mutex // held while the entry is read and published; taken before mu
	gone      bool       // nothing is published any more; telling guards it
	writing   sync.Mutex // held while the entry is changed in the catalog and then here; taken before mu
	unwritten error      // why the catalog does not have the status of the entry; writing guards it

	mu       sync.Mutex // guards the fields below
	e        catalog.Entry
	state    string // of package api; empty: as e says
	reason   string
	halted   bool   // its keeper has stopped, as it is paused
	code     string // of the error for which the last attempt failed for good
	warnings []string
	manifest *share.Manifest
	transfer *fetcher.Transfer
	progress fetcher.Progress
	told     time.Time // when the last event was published
	takers   int       // peers that took its share, in that event
	troubles int       // failed attempts in a row
}

func (r *record) entry() catalog.Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.e
}

// rests reports whether the entry waits for its next attempt.
func (r *record) rests() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state == api.Waiting && r.reason != ""
}

// backOff returns how long to wait after a failed attempt: a minute, doubling with each failure,
// up to an hour.
func (r *record) backOff() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.troubles++
	return min(time.Minute<<min(r.troubles-1, 6), time.Hour)
}

// show sets how the entry is shown to people; if state is empty, as the catalog says.
func (r *record) show(state, reason string) {
	r.mu.Lock()
	changed := r.state != state || r.reason != reason
	r.state, r.reason = state, reason
	r.halted = state == api.Paused
	r.mu.Unlock()
	if changed {
		r.tell()
	}
}

// tell publishes the entry as it is. The last event always has the latest state, whoever calls.
func (r *record) tell() {
	r.telling.Lock()
	defer r.telling.Unlock()
	if r.gone {
		return
	}
	v := r.view()
	r.mu.Lock()
	r.told, r.takers = time.Now(), v.Children
	r.mu.Unlock()
	r.d.feed.Publish(api.Event{At: time.Now(), Type: "entry", Entry: &v})
}

// hush has nothing published any more of an entry that has stopped, whoever still has it in hand.
func (r *record) hush() {
	r.telling.Lock()
	defer r.telling.Unlock()
	r.gone = true
}

// tellEvery is how often progress of an entry is published.
const tellEvery = time.Second

func (r *record) tellSometimes() {
	r.mu.Lock()
	soon := time.Since(r.told) < tellEvery
	r.mu.Unlock()
	if !soon {
		r.tell()
	}
}

// recount publishes the entry again if the number of peers that take it has changed.
func (r *record) recount() {
	r.mu.Lock()
	same := r.takers == r.d.tally.taking(r.e.Share)
	r.mu.Unlock()
	if !same {
		r.tell()
	}
}

// note writes a new status of the entry into the catalog; how it is shown stays.
func (r *record) note(f func(*catalog.Status)) { r.noted(f, false) }

// become writes a new status of the entry into the catalog, and shows the entry so from now on.
func (r *record) become(f func(*catalog.Status)) { r.noted(f, true) }

func (r *record) noted(f func(*catalog.Status), show bool) {
	var before catalog.Entry
	e, _ := r.write(show, func() (catalog.Entry, error) {
		before = r.entry()
		e, err := r.d.db.Note(context.WithoutCancel(r.life), time.Now(), r.id, func(s *catalog.Status) {
			if r.unwritten != nil {
				restore(s, before.Status)
			}
			f(s)
		})
		if r.unwritten = err; err != nil {
			if r.life.Err() == nil { // else the entry was removed
				r.d.unwritten.Store(&err)
				r.d.log.Error("the catalog was not written", "entry", r.id, "error", err)
			}
			e = before
			f(&e.Status) // as it is, even if it was not stored
			e.Repair = e.Repair && e.State != catalog.Kept
		}
		return e, nil
	})
	if e.State != before.State || e.Share != before.Share {
		r.d.log.Info("entry", "id", e.ID, "name", e.Title, "state", r.view().State, "share", e.Share.String(), "reason", e.Why)
	}
	r.tell()
}

// restore makes a status of the catalog what it would be had all of it been written. What was sent is written by itself.
func restore(s *catalog.Status, is catalog.Status) {
	is.Sent = s.Sent
	*s = is
}

// behind returns why the catalog does not have the status of the entry; nil if it has.
func (r *record) behind() error {
	r.writing.Lock()
	defer r.writing.Unlock()
	return r.unwritten
}

// catchUp writes what could not be written before. The caller holds writing.
func (r *record) catchUp() error {
	if r.unwritten == nil {
		return nil
	}
	is := r.entry().Status
	_, r.unwritten = r.d.db.Note(context.WithoutCancel(r.life), time.Now(), r.id, func(s *catalog.Status) { restore(s, is) })
	return r.unwritten
}

// amend is write, once the catalog has what could not be written before.
func (r *record) amend(f func() (catalog.Entry, error)) error {
	_, err := r.write(false, func() (catalog.Entry, error) {
		if err := r.catchUp(); err != nil {
			return catalog.Entry{}, err
		}
		return f()
	})
	return err
}

// write lets f change the entry in the catalog, one caller at a time, and keeps the entry that f
// returns; with show it is also shown so.
func (r *record) write(show bool, f func() (catalog.Entry, error)) (catalog.Entry, error) {
	r.writing.Lock()
	defer r.writing.Unlock()
	e, err := f()
	if err != nil {
		return e, err
	}
	r.mu.Lock()
	was := r.e
	r.e = e
	if show {
		r.state, r.reason = "", ""
	}
	r.mu.Unlock()
	if was.Share != e.Share || was.Up != e.Up {
		r.d.mu.Lock()
		r.d.bound(was)
		r.d.bound(e)
		r.d.mu.Unlock()
	}
	if reshown(was, e) {
		r.d.mu.Lock()
		announce(r.d, was)
		announce(r.d, e)
		r.d.mu.Unlock()
	}
	return e, nil
}

// stateNow returns the entry's state in the API. The caller holds mu.
func (r *record) stateNow() string {
	switch {
	case r.state != "":
		return r.state
	case r.e.Paused && r.halted:
		return api.Paused
	}
	switch r.e.State {
	case catalog.Serving, catalog.Kept:
		return api.Served
	case catalog.Ended:
		return api.Ended
	case catalog.Missing:
		return api.Missing
	case catalog.Failed:
		return api.Failed
	}
	return api.Opening
}

// view returns the entry in the form of the API.
func (r *record) view() api.Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, p := r.e, r.progress
	v := api.Entry{ID: int64(e.ID), Kind: e.Kind.String(), State: r.stateNow(), Reason: r.reason, Name: cmp.Or(e.Title, e.Listed), Named: e.Name, Paths: e.Paths, Dir: e.Dir, Path: e.Path,
		Bytes: e.Bytes, Files: e.Files, Sent: e.Sent + r.d.tally.sent(r.id), Priority: priorities[e.Priority+1], Only: e.Only, Skip: e.Skip, First: e.First, SeedRatio: e.SeedRatio, LimitUp: e.Up, LimitDown: e.Down, Visible: cmp.Or(e.Visible, private),
		Added: e.Added, Since: e.Since, Fleet: r.d.member.owns(e), Warnings: r.warnings}
	if v.Reason == "" && r.state == "" && !e.Paused { // what is paused is not served again when it is back
		v.Reason = e.Why
	}
	if v.State == api.Waiting && v.Reason == "" {
		switch n, waits := r.d.queue.before(r.id); {
		case !waits:
			v.Reason = "it is about to begin"
		case n > 0:
			v.Reason = fmt.Sprintf("others are fetched first; before it in the queue: %d", n)
		default:
			v.Reason = "others are fetched first; it is next"
		}
	}
	if v.State == api.Failed {
		v.Code = r.code
	}
	if e.SeedTime > 0 {
		v.SeedTime = e.SeedTime.String()
	}
	if !e.Done.IsZero() {
		v.Done = &e.Done
	}
	if id := shareOf(e); !id.IsZero() {
		v.Share = id.String()
		if e.Called && e.Done.IsZero() { // a source connects to the node by it
			v.Ticket = r.d.node.Ticket(id)
		}
	}
	if !e.Share.IsZero() {
		v.Children = r.d.tally.taking(e.Share)
		if v.State == api.Served || v.State == api.Fetching {
			v.Ticket = r.d.node.Ticket(e.Share)
		}
	}
	for _, id := range e.Older {
		v.Older = append(v.Older, id.String())
	}
	switch {
	case e.State == catalog.Serving, e.State == catalog.Kept, e.State == catalog.Ended:
		v.Verified = e.Bytes
	case r.transfer == nil:
		v.Verified = min(e.Verified, e.Bytes)
	default:
		v.Verified, v.Rate = p.Verified, int64(p.Rate)
		for _, s := range p.Sources {
			if s.State.Connected() {
				v.Sources++
			}
		}
	}
	return v
}

// list returns the list of files of the entry's share; nil until it is known.
func (r *record) list() *share.Manifest {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.manifest
}

// sources returns the peers that the entry is fetched from.
func (r *record) sources() []fetcher.Source {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.progress.Sources
}

func (r *record) running() *fetcher.Transfer {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.transfer
}

// peersOf sums up by peer what children take and sources give.
func peersOf(children []fetcher.Child, sources map[share.ID][]fetcher.Source) []api.Peer {
	type both struct {
		peer  peers.ID
		share share.ID
	}
	by, met := map[peers.ID]*api.Peer{}, map[both]bool{}
	of := func(id peers.ID, s share.ID) *api.Peer {
		if by[id] == nil {
			by[id] = &api.Peer{Peer: string(id)}
		}
		if b := (both{id, s}); !met[b] {
			met[b] = true
			by[id].Entries++
		}
		return by[id]
	}
	for _, c := range children {
		p := of(c.Peer, c.Share)
		p.Addr, p.OutBytes = c.Addr, p.OutBytes+c.Bytes
	}
	for id, all := range sources {
		for _, s := range all {
			p := of(s.Peer, id)
			p.InBytes, p.Rate, p.Banned = p.InBytes+s.Bytes, p.Rate+int64(s.Rate), p.Banned || s.Banned
		}
	}
	out := make([]api.Peer, 0, len(by))
	for _, p := range by {
		out = append(out, *p)
	}
	slices.SortFunc(out, func(a, b api.Peer) int { return cmp.Compare(a.Peer, b.Peer) })
	return out
}
