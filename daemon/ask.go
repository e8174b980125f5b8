package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/catalog"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/vfs"
)

var _ api.Node = (*Daemon)(nil)

// Feed returns the feed of changes.
func (d *Daemon) Feed() *api.Feed { return d.feed }

// Status returns the status of the node.
func (d *Daemon) Status(ctx context.Context) (api.Status, error) {
	in, out := d.node.Traffic()
	s := api.Status{Version: fetcher.Version(), Peer: string(d.node.ID()), Addrs: append([]string{}, d.node.Addrs()...), Dir: d.dir, Since: d.since,
		InBytes: in, OutBytes: out, Carried: d.node.Carried(), FreeBytes: free(d.setting().Into), Fleet: d.member != nil}
	s.Relays, s.Tried, s.Depot, s.Beacon = relaysOf(d.node), triedOf(d.node), d.lender != nil, beaconOf(ctx, d.node)
	children, err := d.node.Children(ctx)
	if err != nil {
		return s, err
	}
	s.Children = len(children)
	for _, k := range d.all() {
		s.Entries++
		k.mu.Lock()
		state, rate := k.stateNow(), int64(k.progress.Rate)
		k.mu.Unlock()
		switch state {
		case api.Fetching:
			s.Fetching++
			s.Rate += rate
		case api.Waiting:
			s.Waiting++
		case api.Missing, api.Failed:
			s.Troubled++
		}
	}
	troubles := append(d.troubles(ctx), d.holdStatus(ctx, &s)...)
	if away, _ := d.member.away(time.Now()); away != "" {
		troubles = append(troubles, away)
	}
	if full := nearlyFull(s.FreeBytes); full != "" {
		troubles = append(troubles, fmt.Sprintf("%s of %s: make room, or fetches into it will wait", full, d.setting().Into))
	} else if full := nearlyFull(free(d.dir)); full != "" {
		troubles = append(troubles, fmt.Sprintf("%s of %s: make room, or the node will not remember what becomes of its entries", full, d.dir))
	}
	if err := d.unwritten.Load(); err != nil {
		troubles = append(troubles, fmt.Sprintf("the catalog in %s cannot be written (%s), and a restart would forget what has become of entries since it was last written", d.dir, words.Plain(*err)))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s.Limits, s.Warnings = d.limits, append(slices.Clone(troubles), d.warnings...)
	if s.Warnings == nil {
		s.Warnings = []string{}
	}
	return s, nil
}

// Entries returns the catalog.
func (d *Daemon) Entries(ctx context.Context) ([]api.Entry, error) {
	heed(ctx, d)
	all := d.all()
	out := make([]api.Entry, len(all))
	for i, k := range all {
		out[i] = k.view()
	}
	return out, nil
}

// Entry returns one entry of it.
func (d *Daemon) Entry(ctx context.Context, id int64) (api.Entry, error) {
	k, err := d.keeper(id)
	if err != nil {
		return api.Entry{}, err
	}
	heed(ctx, d)
	return k.view(), nil
}

// addTime is how long Add waits to see what becomes of a new entry.
const addTime = 20 * time.Second

// Add makes an entry, durably, and gives it a moment to begin. If the catalog already has it,
// the error wraps api.ErrHave; of paths that cannot be shared, as found in that moment, nothing is left.
func (d *Daemon) Add(ctx context.Context, a api.Add) (api.Entry, error) {
	w := catalog.Wish{Paths: a.Paths, Name: a.Name, Secret: a.Secret, Exclude: a.Exclude, Links: a.Links, Source: a.Ticket, Dir: a.Dir, Peers: a.Peers, Called: a.Called, Only: a.Only,
		Skip: a.Skip, First: a.First, Repair: a.Repair, SeedRatio: a.SeedRatio, Up: a.LimitUp, Down: a.LimitDown, Paused: a.Paused}
	var err, err2 error
	w.Priority, err = parsePriority(a.Priority)
	w.Visible = wishVisible(a.Visible)
	err3 := findable(w, d.onLAN, d.inTable)
	w.SeedTime, err2 = parseTime(a.SeedTime)
	if err := errors.Join(err, err2, err3); err != nil {
		return api.Entry{}, err
	}
	if err := d.complete(&w); err != nil {
		return api.Entry{}, err
	}
	k, err := d.added(ctx, w)
	if err != nil {
		return api.Entry{}, err
	}
	waiting, cancel := context.WithTimeout(ctx, addTime)
	defer cancel()
	if refused := k.settledIn(waiting); refused != nil {
		if _, err := d.remove(ctx, k, false); err != nil && !errors.Is(err, api.ErrNoEntry) {
			return api.Entry{}, err
		}
		return api.Entry{}, refused
	}
	return k.view(), nil
}

// Readable returns an error unless the user of this process may read the file, or list the folder.
func Readable(path string) error {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() && !info.Mode().IsRegular() {
		return err // opening a named pipe would wait for its writer
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return f.Close()
}

// complete fills in the fields that an entry needs, and checks them.
func (d *Daemon) complete(w *catalog.Wish) error {
	if len(w.Paths) == 0 && w.Source == "" {
		return api.Refuse(api.ErrRequest, "an entry is either paths to serve or a ticket to fetch")
	}
	for i, p := range w.Paths {
		w.Paths[i] = filepath.Clean(p)
		if !filepath.IsAbs(p) {
			continue // Check refuses it
		}
		if err := Readable(w.Paths[i]); err != nil { // of a folder, what is in it is looked at later
			if errors.Is(err, os.ErrPermission) {
				return api.Refuse(api.ErrRequest, "the user of the node, %q, may not read %s; allow it, or serve another path", userName(), p)
			}
			return api.Refuse(api.ErrRequest, "%s", words.Plain(err))
		}
	}
	if len(w.Paths) == 0 && w.Dir == "" {
		w.Dir = d.setting().Into
	}
	if len(w.Paths) == 0 {
		switch at, err := vfs.Nearest(w.Dir); {
		case vfs.NotDir(err):
			return api.Refuse(api.ErrRequest, "%s is not a folder, and a share cannot be put into it", at)
		case errors.Is(err, os.ErrPermission), err == nil && shut(at, w.Dir):
			return api.Refuse(api.ErrRequest, "the user of the node, %q, may not write to %s; allow it, or put the share elsewhere", userName(), at)
		case !w.Fleet && store.OfState(leadsTo(w.Dir, 0)):
			return api.Refuse(api.ErrRequest, "%s is in the state directory of a node, and for the node alone; put the share elsewhere", w.Dir)
		}
		_, sources, err := fetcher.ParseSource(w.Source, w.Peers)
		if err != nil {
			return api.Refuse(api.ErrRequest, "%v", err)
		}
		t, _ := share.Parse(w.Source)
		switch {
		case w.Called && len(d.node.Addrs()) == 0:
			return api.Refuse(api.ErrRequest, "no source can connect to the node, as it listens nowhere; set listen, in node.toml or as a flag")
		case len(sources)+len(t.Beacons) == 0 && !w.Called && !d.onLAN && !d.inTable:
			return api.Refuse(api.ErrRequest, "%s, or the address of a peer that has the share", noSource(w.Source))
		}
		w.Source = strings.Join(strings.Fields(w.Source), "")
	}
	if err := w.Check(); err != nil {
		return api.Refuse(api.ErrRequest, "%v", err)
	}
	return nil
}

// added writes an entry into the catalog, and starts its keeper.
func (d *Daemon) added(ctx context.Context, w catalog.Wish) (*keeper, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, errors.New("the node is ending")
	}
	if err := d.fetchable(w); err != nil {
		return nil, err
	}
	e, err := d.db.Add(ctx, time.Now(), w)
	if errors.Is(err, catalog.ErrTwice) {
		otherwise := ""
		if !slices.Equal(w.Exclude, e.Exclude) || w.Links != e.Links || w.Name != e.Name || w.Secret != e.Secret {
			otherwise = "; to serve it with other options, remove it first"
		}
		return nil, api.Refuse(api.ErrHave, "the node has that already: it is entry %d%s", e.ID, otherwise)
	}
	if err != nil {
		return nil, err
	}
	what := e.Source
	if e.Kind == catalog.Serve {
		what = strings.Join(e.Paths, ", ")
	}
	d.log.Info("an entry was added", "id", e.ID, "kind", e.Kind.String(), "what", what)
	return d.keep(e, nil), nil
}

// fetchable refuses to fetch a share into two folders, or from this node alone. The caller
// holds mu.
func (d *Daemon) fetchable(w catalog.Wish) error {
	id, sources, err := fetcher.ParseSource(w.Source, w.Peers)
	if err != nil {
		return nil // not a fetch
	}
	own := len(sources) == 1 && sources[0].ID == d.node.ID()
	if own && w.Fleet { // all of the fleet are told
		return api.Refuse(api.ErrHave, "%s", unserved(d.keepers, id))
	}
	for _, k := range d.keepers {
		e := k.entry()
		if own && e.Share == id {
			return api.Refuse(api.ErrHave, "that is a ticket of this node itself, for entry %d; another machine can fetch it while it is served", e.ID)
		}
		if other, err := share.Parse(e.Source); err == nil && other.ID == id && e.Dir != w.Dir {
			return api.Refuse(api.ErrHave, "this share is entry %d already, in %s", e.ID, e.Dir)
		}
	}
	if own {
		return api.Refuse(api.ErrRequest, "that is a ticket of this node itself, which does not serve share %s any more; name a peer that has it", id.Short())
	}
	return nil
}

// unserved says why a share of the fleet whose ticket leads to this node is not served by it, and what helps; for
// those who read it at another machine, too. It is short, as reports are clipped.
func unserved(ks map[catalog.ID]*keeper, id share.ID) string {
	for _, k := range ks {
		if e := k.entry(); e.Kind == catalog.Serve && slices.Contains(e.Older, id) {
			return fmt.Sprintf("the share's files were edited on this member: undo the edits; or, on this member, run fetcher fleet remove %s and then fetcher fleet add PATH", id)
		}
	}
	return fmt.Sprintf("the ticket names this member, which does not serve the share: there, run fetcher fleet add PATH if no file changed, or fetcher fleet remove %s", id)
}

// setTime is how long Set waits for a change to take effect.
const setTime = 5 * time.Second

// Remove stops an entry and forgets it, durably. With data, it also removes the files that
// this node made for it.
func (d *Daemon) Remove(ctx context.Context, id int64, data bool) (api.Removed, error) {
	k, err := d.keeper(id)
	if err != nil {
		return api.Removed{}, err
	}
	if err := d.member.keeps(ctx, k.entry()); err != nil {
		return api.Removed{}, err
	}
	return d.remove(ctx, k, data)
}

// remove is Remove for a keeper. What others remove meanwhile is no entry any more.
func (d *Daemon) remove(ctx context.Context, k *keeper, data bool) (api.Removed, error) {
	k.removing.Lock()
	defer k.removing.Unlock()
	if now, err := d.keeper(int64(k.id)); err != nil {
		return api.Removed{}, err
	} else if now != k { // whoever removed it before could not write that
		return d.remove(ctx, now, data)
	}
	r := api.Removed{Entry: k.view(), Data: []string{}}
	if data && k.entry().Kind == catalog.Serve {
		return r, api.Refuse(api.ErrRequest, "entry %d serves files that this node did not make; remove the entry alone, and the files by hand", k.id)
	}
	k.stop()
	k.hush()
	e, m := k.entry(), k.list() // the share may have arrived before it stopped
	// It has stopped, so that is written even if the client no longer waits.
	ctx = context.WithoutCancel(ctx)
	var made map[int]vfs.Stamp
	var err error
	if data {
		made, err = d.db.Made(ctx, k.id)
	}
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	if err == nil {
		_, err = d.db.Remove(ctx, k.id)
	}
	if err != nil && !errors.Is(err, catalog.ErrNoEntry) {
		behind := k.behind()
		d.mu.Lock()
		if !d.closed {
			d.keep(k.entry(), behind) // as it is by now
		}
		d.mu.Unlock()
		return r, err
	}
	d.mu.Lock()
	delete(d.keepers, k.id)
	d.bound(e)
	if e.Visible != "" {
		announce(d, e)
	}
	d.mu.Unlock()
	if data {
		r.Data, r.Kept = d.removeFiles(d.life, e, m, made) // even if the client no longer waits
	}
	d.log.Info("an entry was removed", "id", e.ID, "name", e.Title, "files", len(r.Data))
	d.feed.Publish(api.Event{At: time.Now(), Type: "removed", Entry: &r.Entry})
	return r, nil
}

// Peers returns the peers that send to this node or fetch from it.
func (d *Daemon) Peers(ctx context.Context) ([]api.Peer, error) {
	children, err := d.node.Children(ctx)
	if err != nil {
		return nil, err
	}
	sources := map[share.ID][]fetcher.Source{}
	for _, k := range d.all() {
		id := shareOf(k.entry())
		sources[id] = append(sources[id], k.sources()...)
	}
	return peersOf(children, sources), nil
}

// History returns how a peer did in the last 24 hours.
func (d *Daemon) History(ctx context.Context, peer string) ([]api.Moment, error) {
	m := d.tally.moments(peers.ID(peer), time.Now())
	if m == nil {
		return nil, api.Refuse(api.ErrNoEntry, "this node has not met the peer %q in the last 24 hours", peer)
	}
	m[len(m)-1].Score = scores(ctx, d.node, []peers.ID{peers.ID(peer)}).of(peers.ID(peer))
	return m, nil
}

// triedOf returns what relays found when they dialled a node.
func triedOf(n *fetcher.Node) []api.Tried {
	out := []api.Tried{}
	for _, x := range n.Tried() {
		out = append(out, api.Tried(x))
	}
	return out
}

// relaysOf returns the present state of a node's relays.
func relaysOf(n *fetcher.Node) []api.Relay {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	out := []api.Relay{}
	for _, p := range n.Places(now) {
		out = append(out, api.Relay{Peer: string(p.Relay), Held: p.Held, Why: p.Why, Carries: p.Carries})
	}
	return out
}

// noSource says that what was given names no peer, and what to give instead.
func noSource(ticketOrID string) string {
	if _, err := share.ParseID(ticketOrID); err != nil {
		return "no peer to fetch from: the ticket names none; give one that does"
	}
	return fetcher.ErrNoSource.Error() + "; give the ticket"
}
