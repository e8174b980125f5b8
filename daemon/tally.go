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

// tally counts what children were sent of each share, and keeps how each peer stood in
// the last 24 hours.
type tally struct {
	mu       sync.Mutex
	children map[account]taken      // what is counted already
	over     []account              // of these, whose child has gone
	takes    map[share.ID]int       // how many take something of a share now
	shares   map[share.ID]int64     // bytes that are not in the catalog yet
	unsaved  map[catalog.ID]int64   // of these, by entry, as the last count found it
	history  map[peers.ID]*standing // of at most maxStandings peers
	total    totals
}

// totals is what happened since the node began.
type totals struct {
	verified, duplicate, sent int64 // bytes of content
	leases                    fetcher.Leases
	failures                  api.Failures
}

// account is one child's taking of one share; a later one of the same begins anew.
type account struct {
	share share.ID
	peer  peers.ID
	since int64
}

// taken is what a child took.
type taken struct {
	bytes int64
	over  bool // it has gone
}

// standing is how a peer stood, moment by moment.
type standing struct {
	moments []api.Moment // the last maxMoments
	now     api.Moment   // what was since the last of them
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

// child counts what a child was sent. It is told of its beginning, its end, and between.
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
}

// gone is the children that have gone. Those are forgotten a count later, when no list of
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

// of is the standing of a peer. It needs mu.
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

// forgetOne forgets the peer that was seen the longest ago. It needs mu.
func (t *tally) forgetOne() {
	var oldest peers.ID
	for p, s := range t.history {
		if oldest == "" || s.seen.Before(t.history[oldest].seen) {
			oldest = p
		}
	}
	delete(t.history, oldest)
}

// source counts what a source has done since it stood as before. It needs mu.
func (t *tally) source(before, src fetcher.Source, now time.Time) {
	m, b, f := &t.of(src.Peer, now).now, before.Failures, src.Failures
	m.InBytes += max(0, src.Bytes-before.Bytes)
	m.Rate = max(m.Rate, int64(src.Rate))
	m.BadBlocks += max(0, src.BadBlocks-before.BadBlocks)
	for _, to := range []*api.Failures{&m.Failures, &t.total.failures} {
		to.Bad += max(0, f.Bad-b.Bad)
		to.Late += max(0, f.Late-b.Late)
		to.None += max(0, f.None-b.None)
		to.Lost += max(0, f.Lost-b.Lost)
	}
}

// taking is how many take something of a share now.
func (t *tally) taking(id share.ID) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.takes[id]
}

// known is the peers that were met in the last 24 hours.
func (t *tally) known() []peers.ID {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Keys(t.history))
}

// moment ends a moment of all peers, of which some have scores.
func (t *tally) moment(now time.Time, scores map[peers.ID]float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for p, s := range t.history {
		if now.Sub(s.seen) > 24*time.Hour {
			delete(t.history, p)
			continue
		}
		s.now.At, s.now.Score = now, scores[p]
		s.moments = append(s.moments, s.now)
		if len(s.moments) > maxMoments {
			s.moments = append([]api.Moment{}, s.moments[len(s.moments)-maxMoments:]...)
		}
		s.now = api.Moment{}
	}
}

// moments is how a peer stood, the oldest first; the last is of now.
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

// moved counts what a transfer has done since it stood as before.
func (t *tally) moved(before, now fetcher.Progress) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, src := range now.Sources { // which stay in their order
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

// take is the bytes of shares that no entry has yet.
func (t *tally) take() map[share.ID]int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := t.shares
	t.shares = map[share.ID]int64{}
	return out
}

// credit gives bytes to an entry, which the catalog has not yet.
func (t *tally) credit(id catalog.ID, bytes int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unsaved[id] += bytes
}

// sent is what the catalog does not have yet of what was sent of an entry.
func (t *tally) sent(id catalog.ID) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.unsaved[id]
}

// saved is what is to be saved. What it says is gone then.
func (t *tally) saved() map[catalog.ID]int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := t.unsaved
	t.unsaved = map[catalog.ID]int64{}
	return out
}

// count counts what moves, until the end.
func (d *Daemon) count() {
	tick := time.NewTicker(countEvery)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-tick.C:
		case <-d.life.Done():
			return
		}
		now := time.Now()
		counted(d)
		if now.Sub(last) >= momentEvery {
			last = now
			d.tally.moment(now, scores(d.life, d.node, d.tally.known()))
		}
	}
}

// counted counts what has moved since the last count.
func counted(d *Daemon) {
	gone := d.tally.gone()
	if children, err := d.node.Children(d.life); err == nil {
		for _, c := range children {
			d.tally.child(c)
		}
	}
	d.tally.forget(gone)
	for _, k := range d.all() {
		k.recount()
	}
	d.flush(d.life)
}

// scores is what some peers are worth; none if the node is ending.
func scores(ctx context.Context, n *fetcher.Node, of []peers.ID) map[peers.ID]float64 {
	out := map[peers.ID]float64{}
	if all, err := n.Scores(ctx, of); err == nil {
		for i, s := range all {
			out[of[i]] = s
		}
	}
	return out
}

// flush writes into the catalog what was sent.
func (d *Daemon) flush(ctx context.Context) {
	shares := d.tally.take()
	for _, k := range d.all() {
		e := k.entry()
		if n := shares[e.Share]; n > 0 {
			d.tally.credit(e.ID, n)
			delete(shares, e.Share) // of several with the same content, the first has it
		}
	}
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
		if err != nil {
			continue
		}
		if _, err := k.write(false, func() (catalog.Entry, error) { return d.db.Get(ctx, id) }); err == nil {
			k.tell()
		}
	}
}
