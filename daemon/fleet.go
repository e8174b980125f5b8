package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/catalog"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/rounds/kvurl"
	"github.com/piecelease/fetcher/share"
)

// member is the part of a Daemon that belongs to a fleet: the shares of the fleet's list are
// entries of the catalog.
type member struct {
	d     *Daemon
	store fetcher.FleetStore
	kv    *kvurl.Patient
	url   string // of the store
	of    belonging
	moved bool   // the catalog's holds are still those of another fleet, which this node has left
	name  string // of this machine
	holds *fleetHolds

	keeping sync.Mutex // held while depots are told what to keep

	mu     sync.Mutex // guards the fields below
	list   map[share.ID]*listed
	untold map[share.ID]bool // depots are not told yet what the list says of them
	out    time.Time         // since when this node is no member any more; zero: it is one

	heard fleetHeard

	jobs roundCounts
}

// listed is a share on the list.
type listed struct {
	fetcher.ListedShare
	err   error // why there is no entry for it
	again time.Time
}

// addAgain is how often an entry that could not be made for a share is tried again.
const addAgain = 15 * time.Second

// fleetTime is how long the store has to answer.
const fleetTime = 8 * time.Second

// openMember returns the membership given by the settings or the state directory; nil: none.
// The store may be away.
func openMember(d *Daemon, cfg Config) (*member, error) {
	m, ok, err := membershipFor(cfg)
	if !ok || err != nil {
		return nil, err
	}
	kv, err := kvurl.Later(m.URL)
	if err != nil {
		return nil, err
	}
	of, err := belongs(m, cfg.Settings)
	if err != nil {
		return nil, errors.Join(err, kv.Close())
	}
	name := cfg.Name
	if name == "" {
		name, _ = os.Hostname()
	}
	out := &member{d: d, store: fetcher.FleetStore{KV: kv, Secret: m.Secret}, kv: kv, url: m.URL, of: of, name: name, list: map[share.ID]*listed{}, untold: map[share.ID]bool{}}
	out.holds = newFleetHolds(out)
	return out, nil
}

// membershipFor returns the membership given by the settings, or by the state directory; ok is
// false if there is none.
func membershipFor(cfg Config) (m Membership, ok bool, err error) {
	if cfg.Fleet == "" {
		return Joined(cfg.Dir)
	}
	m, err = MembershipOf(cfg.Fleet, cfg.FleetSecret)
	return m, err == nil, err
}

func (m *member) close() error {
	if m == nil {
		return nil
	}
	return m.kv.Close()
}

// fleet returns the fleet of the node's configuration.
func (m *member) fleet() fetcher.Fleet {
	if m == nil {
		return fetcher.Fleet{}
	}
	return fetcher.Fleet{Store: m.store}
}

// follow carries out the list, until the end.
func (m *member) follow() {
	me := fetcher.MemberReport{Peer: m.d.node.ID(), Name: m.name}
	m.store.Follow(m.d.life, me, m.d.log, m) // ends with life
}

// owns reports whether an entry is there because the fleet has its share.
func (m *member) owns(e catalog.Entry) bool { return m != nil && e.Fleet }

// index maps shares to the keepers of their entries. Entries made for the fleet take
// precedence.
func (m *member) index() map[share.ID]*keeper {
	out := map[share.ID]*keeper{}
	for _, k := range m.d.all() {
		e := k.entry()
		id := shareOf(e)
		if out[id] == nil || e.Fleet {
			out[id] = k
		}
	}
	return out
}

// shareOf returns the share of an entry, even if its fetch has only just begun.
func shareOf(e catalog.Entry) share.ID {
	if !e.Share.IsZero() {
		return e.Share
	}
	t, _ := share.Parse(e.Source)
	return t.ID
}

// Update makes entries for shares added to the list, and removes those of shares taken off it.
func (m *member) Update(ctx context.Context, changed []fetcher.ListedShare, gone []share.ID) {
	has := m.index()
	m.mu.Lock()
	for _, l := range changed {
		m.list[l.ID], m.untold[l.ID] = &listed{ListedShare: l}, true
	}
	for _, id := range gone {
		delete(m.list, id)
		m.untold[id] = true
	}
	var missing []*listed
	for id, l := range m.list {
		if has[id] == nil && !time.Now().Before(l.again) {
			missing = append(missing, l)
		}
	}
	untold := len(m.untold) > 0
	m.mu.Unlock()
	slices.SortFunc(missing, func(a, b *listed) int { return a.Added.Compare(b.Added) })
	for _, l := range missing {
		m.add(ctx, l)
	}
	for _, l := range changed {
		if k := has[l.ID]; k != nil {
			m.sources(ctx, k, l)
		}
	}
	if untold && m.keeping.TryLock() { // a depot may be slow, and the fleet is to hear of this member meanwhile
		m.d.runs.Go(func() {
			defer m.keeping.Unlock()
			m.keep(ctx)
		})
	}
	for _, id := range gone {
		k := has[id]
		if k != nil && k.entry().Fleet {
			if m.leaves(ctx, k) {
				continue
			}
			if _, err := m.d.remove(ctx, k, false); err != nil {
				m.d.log.Warn("a share was taken off the fleet's list, and its entry could not be removed", "id", k.id, "error", err)
				continue
			}
		} else if k != nil && k.entry().Dir == m.internal(id) {
			continue // its owner's
		}
		if err := os.RemoveAll(m.internal(id)); err != nil {
			m.d.log.Warn("a share was taken off the fleet's list, and its files cannot be removed", "error", err)
		}
	}
}

// keep has depots keep what the list says of shares for which that has changed, and nothing of those that are
// gone from it.
func (m *member) keep(ctx context.Context) {
	m.mu.Lock()
	todo := slices.Collect(maps.Keys(m.untold))
	m.mu.Unlock()
	for _, id := range todo {
		want := fetcher.ListedShare{ID: id}
		m.mu.Lock()
		l := m.list[id]
		m.mu.Unlock()
		if l != nil {
			want = l.ListedShare
		}
		err := m.holds.keep(ctx, want)
		m.mu.Lock()
		if err == nil && m.list[id] == l { // it may have changed meanwhile
			delete(m.untold, id)
		}
		m.mu.Unlock()
		if err != nil && !errors.Is(err, errAsking) && ctx.Err() == nil {
			m.d.log.Warn("depots could not be told what they are to keep for the fleet", "share", id.String(), "error", err)
		}
	}
}

// add makes an entry for a share on the list.
func (m *member) add(ctx context.Context, l *listed) {
	w := catalog.Wish{Source: l.Ticket, Fleet: true}
	if l.Internal {
		w.Dir = m.internal(l.ID)
	}
	err := m.d.complete(&w)
	if err == nil {
		_, err = m.d.added(ctx, w)
	}
	m.mu.Lock()
	l.err, l.again = err, time.Now().Add(addAgain)
	m.mu.Unlock()
	if err != nil {
		m.d.log.Warn("a share of the fleet's list cannot be added", "share", l.ID.String(), "error", err)
	}
}

// internal returns the folder of a share that the fleet keeps for itself.
func (m *member) internal(id share.ID) string {
	return filepath.Join(m.d.dir, internalName, id.String())
}

const internalName = "fleet"

// sources gives an entry of the fleet the sources of the ticket on the list.
func (m *member) sources(ctx context.Context, k *keeper, l fetcher.ListedShare) {
	e := k.entry()
	_, sources, err := fetcher.ParseSource(l.Ticket, nil)
	if err != nil || !e.Fleet || l.Ticket == e.Source && len(e.Peers) == 0 {
		return
	}
	more := addrsOf(sources)
	if slices.Equal(more, e.Peers) {
		return
	}
	if err := k.set(ctx, func(w *catalog.Wish) error { w.Peers = more; return nil }); err != nil {
		m.d.log.Warn("the fleet has another ticket for a share, and this node could not change to it", "id", k.id, "error", err)
	}
}

func addrsOf(sources []peers.Addr) (out []string) {
	for _, s := range sources {
		for _, a := range s.Addrs {
			out = append(out, a+"/p2p/"+string(s.ID))
		}
	}
	return out
}

// Report returns the progress of this machine with each share on the list.
func (m *member) Report() (out []fetcher.ShareReport) {
	has := m.index()
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, l := range m.list {
		r := fetcher.ShareReport{ID: id.String()}
		if k := has[id]; k != nil {
			r = reportOf(id, k)
		} else if l.err != nil {
			r.Waits = l.err.Error()
		}
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b fetcher.ShareReport) int { return strings.Compare(a.ID, b.ID) })
	return out
}

func reportOf(id share.ID, k *keeper) fetcher.ShareReport {
	v := k.view()
	whole := v.State == api.Paused && v.Bytes > 0 && v.Verified == v.Bytes
	r := fetcher.ShareReport{ID: id.String(), Name: v.Name, Bytes: v.Bytes, Verified: v.Verified, Done: v.State == api.Served || v.State == api.Ended || whole}
	switch {
	case v.State == api.Paused:
		r.Waits = "paused"
	case !r.Done:
		r.Waits = v.Reason
	}
	return r
}

// keeps refuses to remove an entry that would be made again. A store that was emptied, or restored as it was before, tells no member what it
// has no more: it is asked.
func (m *member) keeps(ctx context.Context, e catalog.Entry) error {
	if !m.owns(e) {
		return nil
	}
	id := shareOf(e)
	m.mu.Lock()
	l := m.list[id]
	m.mu.Unlock()
	if l == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, fleetTime)
	defer cancel()
	if _, err := m.store.Listed(ctx, id); errors.Is(err, fetcher.ErrNotListed) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.list[id] == l { // it was not added just now
			delete(m.list, id)
			m.untold[id] = true
			return nil
		}
	}
	return api.Refuse(api.ErrRequest, "entry %d is here because the fleet has its share: fetcher fleet remove %s takes the share off the fleet's list, for every machine; to stop it on this machine alone, pause the entry", e.ID, id)
}

// ---- as an api.Node ----

// belongs returns the membership of this node, or a refusal.
func (m *member) belongs() (*member, error) {
	if m == nil {
		return nil, api.Refuse(api.ErrNoEntry, "this node belongs to no fleet; fetcher fleet join makes it a member, from its next start on")
	}
	return m, nil
}

// AddToFleet makes every member fetch a share.
func (d *Daemon) AddToFleet(ctx context.Context, ticket string) (api.FleetShare, error) {
	m, err := d.member.belongs()
	if err != nil {
		return api.FleetShare{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, fleetTime)
	defer cancel()
	id, err := m.store.Add(ctx, ticket)
	m.forget()
	return api.FleetShare{Share: id.String()}, m.told(err)
}

// RemoveFromFleet makes every member stop fetching and serving a share.
func (d *Daemon) RemoveFromFleet(ctx context.Context, text string) (api.FleetShare, error) {
	m, err := d.member.belongs()
	if err != nil {
		return api.FleetShare{}, err
	}
	id, err := share.ParseID(text)
	if err != nil {
		return api.FleetShare{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, fleetTime)
	defer cancel()
	was, err := RemoveListed(ctx, m.store, id)
	m.forget()
	return was, m.told(err)
}

// RemoveListed takes a share from the list of a fleet, and returns which, and how many depots were to keep it.
func RemoveListed(ctx context.Context, s fetcher.FleetStore, id share.ID) (api.FleetShare, error) {
	l, _ := s.Listed(ctx, id) // if not, Remove says why
	return api.FleetShare{Share: id.String(), Depots: len(depotsOf(l.Kept))}, s.Remove(ctx, id)
}

// Rounds returns the rounds in the store of the fleet.
func (d *Daemon) Rounds(ctx context.Context) ([]api.Round, error) {
	m, err := d.member.belongs()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, fleetTime)
	defer cancel()
	out, err := RoundsView(ctx, m.kv)
	return out, m.told(err)
}

// RoundsView returns the rounds of a store in the form of the API.
func RoundsView(ctx context.Context, kv rounds.KV) (out []api.Round, err error) {
	all, err := rounds.List(ctx, kv)
	if err != nil {
		return nil, fmt.Errorf("the store of rounds: %w", err)
	}
	for _, x := range all {
		r := x.Record
		if x.Err != nil {
			out = append(out, api.Round{Round: x.Name, State: "corrupt", Text: x.Err.Error()})
			continue
		}
		view := api.Round{Round: x.Name, State: r.State.String(), Term: r.Term, Holder: r.Holder, Acquired: r.Acquired, Office: r.Office, Ended: r.Ended, Outcome: r.Outcome}
		if !r.Office {
			view.Ends = r.Expires()
		}
		out = append(out, view)
	}
	return out, nil
}

// ForgetMachine forgets a machine of the fleet.
func (d *Daemon) ForgetMachine(ctx context.Context, text string) (api.FleetMember, error) {
	m, err := d.member.belongs()
	if err != nil {
		return api.FleetMember{}, err
	}
	defer m.forget()
	was, err := ForgetMachine(ctx, m.store, text)
	return was, m.told(err)
}

// ForgetMachine removes the machine with a name or an ID from the reports of a fleet, and returns its last one.
func ForgetMachine(ctx context.Context, s fetcher.FleetStore, text string) (api.FleetMember, error) {
	r, err := s.Rollout(ctx)
	if err != nil {
		return api.FleetMember{}, err
	}
	id, err := r.Machine(text)
	if err != nil {
		return api.FleetMember{}, err
	}
	var was api.FleetMember
	for _, m := range FleetView(r, time.Now()).Members {
		if m.Peer == string(id) {
			was = m
		}
	}
	return was, s.Forget(ctx, id)
}

// unheardAfter is the time after which a member counts as silent. A member reports every 10 s,
// and clocks differ.
const unheardAfter = 30 * time.Second

// FleetView converts a rollout to the form of the API.
func FleetView(r fetcher.Rollout, now time.Time) api.Fleet {
	f := api.Fleet{At: now, Shares: []api.FleetShare{}, Members: []api.FleetMember{}}
	for _, m := range r.Members {
		f.Members = append(f.Members, api.FleetMember{Name: m.Name, Peer: string(m.Peer), At: m.At, Silent: now.Sub(m.At) > unheardAfter})
	}
	said := make([]map[string]fetcher.ShareReport, len(r.Members))
	for i, m := range r.Members {
		said[i] = m.ByShare()
	}
	for _, x := range r.Shares {
		s := api.FleetShare{Share: x.ID.String(), Name: x.Name, Added: x.Added, Done: x.Done, Coordinator: string(x.Coordinator), Heard: x.Heard, Late: x.Late, Term: x.Term, Depots: len(depotsOf(x.Kept)), Members: []api.FleetProgress{}}
		for i, m := range r.Members {
			is, begun := said[i][s.Share]
			s.Members = append(s.Members, api.FleetProgress{Peer: string(m.Peer), Begun: begun, Bytes: is.Bytes, Verified: is.Verified, Done: is.Done, Waits: is.Waits})
		}
		f.Shares = append(f.Shares, s)
	}
	return f
}
