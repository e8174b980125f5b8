package daemon

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/catalog"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// tally counts what children were sent of each share, and keeps the history of each peer for
// the last 24 hours.
type tally struct {
	mu       sync.Mutex
	children map[account]taken      // what is already counted
	over     []account              // those of them whose child has gone
	takes    map[share.ID]int       // how many children take each share now
	shares   map[share.ID]int64     // bytes that are not in the catalog yet
	unsaved  map[catalog.ID]int64   // of entries, not in the catalog yet, as of the last count
	history  map[peers.ID]*standing // of at most maxStandings peers
	total    totals
}

// totals counts what happened since the node started.
type totals struct {
	verified, duplicate, sent int64 // bytes of content
	bad                       int   // blocks
	leases                    fetcher.Leases
	failures                  api.Failures
}

// account identifies one child's taking of one share; if it comes again, that is a new one.
type account struct {
	share share.ID
	peer  peers.ID
	since int64
}

// taken is what a child took.
type taken struct {
	bytes int64
	over  bool // the child has gone
}

// standing is the history of a peer, moment by moment.
type standing struct {
	moments []api.Moment // the last maxMoments
	now     api.Moment   // what has happened since the last of them
	seen    time.Time
}

const (
	countEvery   = 10 * time.Second
	momentEvery  = 5 * time.Minute
	maxMoments   = int(24 * time.Hour / momentEvery)
	maxStandings = 512
)

func newTally() *tally {
	return &tally{children: map[account]taken{}, takes: map[share.ID]int{}, shares: map[share.ID]int64{}, unsaved: map[catalog.ID]int64{}, history: map[peers.ID]*standing{}}
}

// child counts what a child was sent. It is called when the child begins, ends, and in between.
func (t *tally) child(c fetcher.Child) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := account{c.Share, c.Peer, c.Since.UnixNano()}
	had, known := t.children[a]
	is := taken{max(had.bytes, c.Bytes), had.over || c.State != fetcher.ChildTakes}
	t.children[a] = is
	if is.over && !had.over {
		t.over = append(t.over, a)
	}
	if !is.over && !known {
		t.takes[c.Share]++
	} else if is.over && !had.over && known {
		if t.takes[c.Share]--; t.takes[c.Share] == 0 {
			delete(t.takes, c.Share)
		}
	}
	if more := c.Bytes - had.bytes; more > 0 {
		t.shares[c.Share] += more
		t.total.sent += more
		t.of(c.Peer, c.At).now.OutBytes += more
	}
	if st := c.Standing; st.ID != "" {
		m := &t.of(c.Peer, c.At).now
		m.Set, m.Child = st.Set.String(), st.Score
	}
}

// gone returns the children that have gone. They are forgotten one count later, when no list of
// children has them any more.
func (t *tally) gone() []account {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := t.over
	t.over = nil
	return out
}

func (t *tally) forget(gone []account) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, a := range gone {
		delete(t.children, a)
	}
}

// of returns the standing of a peer. The caller holds mu.
func (t *tally) of(p peers.ID, now time.Time) *standing {
	s := t.history[p]
	if s == nil {
		if len(t.history) >= maxStandings {
			t.forgetOne()
		}
		s = &standing{}
		t.history[p] = s
	}
	s.seen = now
	return s
}

// forgetOne forgets the peer seen longest ago. The caller holds mu.
func (t *tally) forgetOne() {
	var oldest peers.ID
	for p, s := range t.history {
		if oldest == "" || s.seen.Before(t.history[oldest].seen) {
			oldest = p
		}
	}
	delete(t.history, oldest)
}

// source counts what a source has done since before. The caller holds mu.
func (t *tally) source(before, src fetcher.Source, now time.Time) {
	m, b, f := &t.of(src.Peer, now).now, before.Failures, src.Failures
	m.InBytes += max(0, src.Bytes-before.Bytes)
	m.Rate = max(m.Rate, int64(src.Rate))
	bad := max(0, src.BadBlocks-before.BadBlocks)
	m.BadBlocks += bad
	t.total.bad += bad
	for _, to := range []*api.Failures{&m.Failures, &t.total.failures} {
		to.Bad += max(0, f.Bad-b.Bad)
		to.Late += max(0, f.Late-b.Late)
		to.None += max(0, f.None-b.None)
		to.Lost += max(0, f.Lost-b.Lost)
	}
}

// taking returns how many children take a share now.
func (t *tally) taking(id share.ID) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.takes[id]
}

// known returns the peers met in the last 24 hours.
func (t *tally) known() []peers.ID {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Keys(t.history))
}

// moment ends a moment of all peers.
func (t *tally) moment(now time.Time, scores scored) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for p, s := range t.history {
		if now.Sub(s.seen) > 24*time.Hour {
			delete(t.history, p)
			continue
		}
		s.now.At, s.now.Score = now, scores.of(p)
		s.moments = append(s.moments, s.now)
		if len(s.moments) > maxMoments {
			s.moments = append([]api.Moment{}, s.moments[len(s.moments)-maxMoments:]...)
		}
		s.now = api.Moment{}
	}
}

// moments returns the history of a peer, the oldest first; the last is the present one.
func (t *tally) moments(p peers.ID, now time.Time) []api.Moment {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.history[p]
	if s == nil {
		return nil
	}
	last := s.now
	last.At = now
	return append(slices.Clone(s.moments), last)
}

// moved counts what a transfer has done since before.
func (t *tally) moved(before, now fetcher.Progress) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, src := range now.Sources { // sources keep their order
		if i < len(before.Sources) && before.Sources[i].Peer == src.Peer {
			t.source(before.Sources[i], src, now.At)
		} else {
			t.source(fetcher.Source{}, src, now.At)
		}
	}
	a, b, l := &t.total, before.Leases, now.Leases
	a.verified += max(0, now.Verified-now.Resumed-(before.Verified-before.Resumed))
	a.duplicate += max(0, now.Duplicate-before.Duplicate)
	for _, x := range []struct{ sum, was, is *uint64 }{{&a.leases.Granted, &b.Granted, &l.Granted}, {&a.leases.Hedged, &b.Hedged, &l.Hedged},
		{&a.leases.Finished, &b.Finished, &l.Finished}, {&a.leases.Failed, &b.Failed, &l.Failed}, {&a.leases.Expired, &b.Expired, &l.Expired},
		{&a.leases.Revoked, &b.Revoked, &l.Revoked}} {
		*x.sum += max(*x.is, *x.was) - *x.was
	}
}

func (t *tally) totals() totals {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.total
}

// take returns and clears the bytes of shares that are not credited to an entry yet.
func (t *tally) take() map[share.ID]int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := t.shares
	t.shares = map[share.ID]int64{}
	return out
}

// credit adds bytes to an entry that are not in the catalog yet.
func (t *tally) credit(id catalog.ID, bytes int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unsaved[id] += bytes
}

// sent returns the bytes sent of an entry that are not in the catalog yet.
func (t *tally) sent(id catalog.ID) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.unsaved[id]
}

// saved returns and clears what is to be saved.
func (t *tally) saved() map[catalog.ID]int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := t.unsaved
	t.unsaved = map[catalog.ID]int64{}
	return out
}

// count counts what peers take and give, until the end.
func (d *Daemon) count() {
	tick := time.NewTicker(countEvery)
	defer tick.Stop()
	last := time.Now()
	full := watchRoom(d, false)
	for {
		select {
		case <-tick.C:
		case <-d.life.Done():
			return
		}
		now := time.Now()
		counted(d)
		if now.Sub(last) >= momentEvery {
			last, full = now, watchRoom(d, full)
			d.tally.moment(now, scores(d.life, d.node, d.tally.known()))
		}
	}
}

// counted counts what has happened since the last count.
func counted(d *Daemon) {
	gone := d.tally.gone()
	heed(d.life, d)
	d.tally.forget(gone)
	for _, k := range d.all() {
		k.recount()
	}
	d.flush(d.life)
}

// scored has the scores of some peers as sources.
type scored map[peers.ID]float64

// of returns the score of a peer: 1 if it is not known.
func (s scored) of(p peers.ID) float64 {
	if score, ok := s[p]; ok {
		return score
	}
	return 1
}

// scores returns the scores of some peers as sources; none if the node is ending.
func scores(ctx context.Context, n *fetcher.Node, of []peers.ID) scored {
	out := scored{}
	if all, err := n.Scores(ctx, of); err == nil {
		for i, s := range all {
			out[of[i]] = s
		}
	}
	return out
}

// heed counts what children were sent until now, and credits it to the entries.
func heed(ctx context.Context, d *Daemon) {
	if children, err := d.node.Children(ctx); err == nil {
		for _, c := range children {
			d.tally.child(c)
		}
	}
	shares := d.tally.take()
	var idle []catalog.Entry
	credited := map[share.ID]bool{}
	for _, k := range d.all() {
		k.mu.Lock()
		e, state := k.e, k.stateNow()
		k.mu.Unlock()
		switch n := shares[e.Share]; {
		case n == 0:
		case slices.Contains([]string{api.Paused, api.Ended, api.Missing, api.Failed}, state):
			idle = append(idle, e)
		default: // each that has this content: how long it is served depends on it
			d.tally.credit(e.ID, n)
			credited[e.Share] = true
		}
	}
	for _, e := range idle {
		if !credited[e.Share] { // it was stopped since
			d.tally.credit(e.ID, shares[e.Share])
			credited[e.Share] = true
		}
	}
}

// flush writes what was sent into the catalog.
func (d *Daemon) flush(ctx context.Context) {
	heed(ctx, d)
	var unwritten *error
	for _, k := range d.all() {
		if k.behind() == nil {
			continue
		}
		if err := k.amend(func() (catalog.Entry, error) { return k.entry(), nil }); err != nil {
			unwritten = &err
			break // nor could the others be written
		}
	}
	d.unwritten.Store(unwritten)
	saved := d.tally.saved()
	if len(saved) == 0 {
		return
	}
	if err := d.db.Sent(ctx, saved); err != nil {
		d.log.Debug("what was sent is not in the catalog yet", "error", err)
		for id, n := range saved {
			d.tally.credit(id, n)
		}
		return
	}
	for id := range saved {
		k, err := d.keeper(int64(id))
		if err == nil && k.amend(func() (catalog.Entry, error) { return d.db.Get(ctx, id) }) == nil {
			k.tell()
		}
	}
}
