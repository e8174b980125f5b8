package actors

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/share"
)

// crawler checks what a depot has on its disk, a slice at a time: the names and sizes of all
// shares, and in separate cycles their bytes. Package depot decides when. When it is to begin anew, another takes its place.
type crawler struct {
	self         string // the ledger's name when it began: see depot.Meta
	crawl, scrub depot.Crawl
	busy         bool  // a slice is under way
	stuck        error // why the last slice of crawl failed, or else that of scrub
	stuckScrub   error
	due          agenda // shares that are to be read soon, by the wall clock
	reading      reading
}

// reading is the share that is being scrubbed.
type reading struct {
	id    share.ID // zero: none
	m     *share.Manifest
	next  share.Piece
	bad   *share.Set
	extra bool // read because it was due, not as the next of the cycle
}

// crawlPlace is the state of the crawler as stored.
type crawlPlace struct{ Crawl, Scrub depot.Crawl }

const (
	sliceShares = 256      // looked at in one slice, at most
	sliceBytes  = 64 << 20 // read in one slice, at most
)

// newCrawler is one that goes on where it was stored.
func newCrawler(m depot.Meta) *crawler {
	c := &crawler{self: m.Self}
	var p crawlPlace
	if m.Place != nil && json.Unmarshal(m.Place, &p) == nil {
		c.crawl, c.scrub = p.Crawl, p.Scrub
	}
	return c
}

// crawled is the end of a slice.
type crawled struct {
	of    *crawler
	place crawlPlace
	read  reading
	scrub bool // the slice was of a scrub
	found []visit
	err   error
}

// visit is the outcome of checking one share.
type visit struct {
	id    share.ID
	was   depot.State
	state depot.State
	gone  bool // it was removed since its folder was read
	read  bool // it is to be read soon
	again bool // it is to be read again, when damage may be believed
}

// crawl starts a slice if one is due, and returns when the next is.
func (d *depotActor) crawl(ctx actor.Context, now time.Time) time.Time {
	c := d.crawler
	if c.busy {
		return now.Add(everyHour) // the end of the slice checks again
	}
	wall := d.s.Wall()
	wait := c.crawl.Next(wall)
	if wait == 0 {
		c.busy = true
		d.slice(ctx)
		return now.Add(everyHour)
	}
	read := c.scrub.Next(wall)
	rests := read > 0 && !c.scrub.Done // after a slice of reading; what is due waits too
	if !rests && (d.pickDue(wall) || read == 0) {
		c.busy = true
		d.scrub(ctx)
		return now.Add(everyHour)
	}
	if _, at, ok := c.due.first(); ok && !rests {
		wait = min(wait, max(at.Sub(wall), time.Second))
	}
	return now.Add(min(wait, read))
}

// surveyor looks at shares, off the mailbox.
type surveyor struct {
	l    Ledger
	keep Keep
	t    *depotTimes
	s    *system.System
	of   *crawler
}

func (d *depotActor) surveyor() surveyor {
	return surveyor{d.cfg.Ledger, d.cfg.Keep, d.time, d.s, d.crawler}
}

// slice looks at the next shares.
func (d *depotActor) slice(ctx actor.Context) {
	v, c, scrub := d.surveyor(), d.crawler.crawl, d.crawler.scrub
	d.s.Task(ctx, func(ctx context.Context) any {
		begin := v.s.Now()
		out := crawled{of: v.of}
		at, done := c.At, false
		var ids []share.ID
		for range sliceShares {
			var err error
			if len(ids) == 0 {
				ids, err = v.after(ctx, at)
			}
			if err == nil && len(ids) > 0 {
				err = v.keep.Ready(ctx, v.l)
			}
			if err != nil {
				out.err = err
				break
			}
			if done = len(ids) == 0; done {
				break
			}
			id := ids[0]
			ids = ids[1:]
			if seen, x := v.visit(ctx, id); !x.gone {
				c.Report.Add(seen)
				out.found = append(out.found, x)
			}
			if at = id; v.s.Now().Sub(begin) >= depot.Slice {
				break
			}
		}
		c.Did(v.s.Wall(), v.s.Now().Sub(begin), at, done)
		out.place = crawlPlace{c, scrub}
		v.end(ctx, &out, &out.place.Crawl, done)
		return out
	})
}

// end stores where the crawler is after a slice. If that or the slice has failed, as the disk or the ledger is away, it goes on soon but
// not at once, and the last slice of a cycle is done again.
func (v surveyor) end(ctx context.Context, out *crawled, c *depot.Crawl, done bool) {
	if out.err = errors.Join(out.err, v.store(ctx, out.place, done)); out.err != nil {
		c.Done, c.Rest = false, v.s.Wall().Add(depotRetry)
	}
}

// store keeps where the crawler is, and the report of a whole cycle.
func (v surveyor) store(ctx context.Context, p crawlPlace, done bool) error {
	if done {
		report, err := json.Marshal(p.Crawl)
		if err != nil {
			return err
		}
		if err := v.l.CycleDone(ctx, v.t.now(), v.of.self, depot.Cycle{Cycle: p.Crawl.Cycle, Report: report}); err != nil {
			return err
		}
	}
	b, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return v.l.SetPlace(ctx, v.of.self, b)
}

// after returns the next shares after an ID that the disk or the ledger knows, without a gap up
// to the last of them; none: there are no more.
func (v surveyor) after(ctx context.Context, at share.ID) ([]share.ID, error) {
	out, err := v.keep.After(at)
	known, err2 := v.l.Shares(ctx, at, sliceShares)
	if err := errors.Join(err, err2); err != nil {
		return nil, err
	}
	var last share.ID // beyond it either of the two may know more
	if len(out) > 0 {
		last = out[len(out)-1]
	}
	if len(known) == sliceShares {
		if end := known[len(known)-1].Share; last.IsZero() || end.Compare(last) < 0 {
			last = end
		}
	}
	for _, k := range known {
		out = append(out, k.Share)
	}
	out = slices.DeleteFunc(out, func(id share.ID) bool { return !last.IsZero() && last.Compare(id) < 0 })
	slices.SortFunc(out, share.ID.Compare)
	return slices.Compact(out), nil
}

// visit checks one share. What goes wrong counts against that share alone.
func (v surveyor) visit(ctx context.Context, id share.ID) (depot.Seen, visit) {
	seen, x, err := v.look(ctx, id)
	if err != nil {
		v.s.Log().Warn("a kept share could not be looked at", "share", id.String(), "error", err)
		return depot.Seen{Failed: true}, visit{id: id, was: x.was, state: x.was}
	}
	return seen, x
}

func (v surveyor) look(ctx context.Context, id share.ID) (seen depot.Seen, x visit, err error) {
	now := v.t.now()
	x.id = id
	k, err := v.l.Share(ctx, id)
	if err != nil {
		return seen, x, err
	}
	x.was, x.state = k.State, k.State
	disk, err := v.keep.Look(id)
	if err != nil {
		return seen, x, err
	}
	if x.gone = k.State == depot.None && disk.Gone; x.gone {
		return seen, x, nil
	}
	leases, err := v.l.Leases(ctx, now, id)
	if err != nil {
		return seen, x, err
	}
	whole := disk.Manifest != nil && disk.Whole && disk.Bad.Count() == 0
	there, here, bytes := endsBeside(disk.Leases, now), endsOf(leases), int64(0)
	if disk.Manifest != nil {
		bytes = depot.Bytes(disk.Manifest)
	}
	again := whole && k.State == depot.Stable && k.Bytes != bytes // an earlier version of this program measured it
	if again || k.State == depot.None || k.State == depot.Going || knowsMore(there, here) || whole && knowsMore(here, there) {
		if x.state, err = v.l.Found(ctx, now, id, bytes, whole, disk.Leases); err != nil {
			return seen, x, err
		}
		x.read = whole && x.state != depot.Going // it was never verified here
		if leases, err = v.l.Leases(ctx, now, id); err != nil {
			return seen, x, err
		}
		if k, err = v.l.Share(ctx, id); err != nil {
			return seen, x, err
		}
	}
	if (x.state == depot.Stable || x.state == depot.Corrupt) && !whole {
		if x.state, err = v.l.Looked(ctx, now, v.t.elapsed(), id, missing(disk)); err != nil {
			return seen, x, err
		}
		x.again = true
	} else if k.Struck {
		x.read = true
	}
	seen = depot.Seen{Bytes: k.Bytes, Age: now.Sub(k.Since), Expired: len(leases) == 0 && x.state != depot.Going, Corrupt: x.state == depot.Corrupt}
	if seen.Expired {
		seen.Removable, err = v.l.MayGo(ctx, now, id)
	}
	return seen, x, err
}

// missing returns the missing pieces of a share that is not whole. If its manifest disappeared
// too, nobody knows how many pieces there were.
func missing(disk depot.OnDisk) *share.Set {
	switch {
	case disk.Manifest == nil || disk.Bad.Len() == 0:
		return share.FullSet(1)
	case !disk.Whole:
		return share.FullSet(disk.Bad.Len())
	}
	return disk.Bad
}

// knowsMore says whether one of the disk and the ledger knows of an account's live lease, or of a later
// end, that the other does not know. Both are ends by account.
func knowsMore(one, other map[string]int64) bool {
	for account, end := range one {
		if end > other[account] {
			return true
		}
	}
	return false
}

// endsBeside returns the ends of the live leases beside a share, by account.
func endsBeside(all []depot.Promise, now time.Time) map[string]int64 {
	ends := map[string]int64{}
	for _, p := range all {
		if depot.Live(now, p.Expires) {
			ends[p.Account] = max(ends[p.Account], p.Expires.Unix())
		}
	}
	return ends
}

// endsOf returns the ends of live leases, by account.
func endsOf(all []depot.Lease) map[string]int64 {
	ends := map[string]int64{}
	for _, l := range all {
		ends[l.Name] = l.Expires.Unix()
	}
	return ends
}

// ---- scrub ----

// pickDue picks a due share to be read, and reports whether such a share is being read.
func (d *depotActor) pickDue(wall time.Time) bool {
	c := d.crawler
	if !c.reading.id.IsZero() {
		return c.reading.extra
	}
	id, at, ok := c.due.first()
	if !ok || at.After(wall) {
		return false
	}
	c.due.drop(id)
	c.reading = reading{id: id, extra: true}
	return true
}

// scrub goes on reading the present share, or begins the next.
func (d *depotActor) scrub(ctx actor.Context) {
	v, crawl, c, r := d.surveyor(), d.crawler.crawl, d.crawler.scrub, d.crawler.reading
	d.s.Task(ctx, func(ctx context.Context) any {
		begin := v.s.Now()
		out := crawled{of: v.of, scrub: true}
		done := false
		var x visit
		if err := v.keep.Ready(ctx, v.l); err != nil {
			out.err = err
		} else {
			x, done, out.err = v.readOn(ctx, &r, c.At, begin)
		}
		at := share.ID{}
		if !x.id.IsZero() { // it has been read, or cannot be
			out.found = append(out.found, x)
			if !r.extra {
				at = x.id
				c.Report.Add(depot.Seen{Corrupt: x.state == depot.Corrupt})
			}
			r = reading{}
		}
		c.Did(v.s.Wall(), v.s.Now().Sub(begin), at, done)
		out.read, out.place = r, crawlPlace{crawl, c}
		v.end(ctx, &out, &out.place.Scrub, false)
		return out
	})
}

// readOn reads for one slice. x is the share if all of it has been read; done says that none
// is left in the cycle.
func (v surveyor) readOn(ctx context.Context, r *reading, at share.ID, begin time.Time) (x visit, done bool, err error) {
	if r.id.IsZero() {
		next, err := v.keep.After(at)
		if err != nil || len(next) == 0 {
			return x, err == nil, err
		}
		r.id = next[0]
	}
	if r.m == nil {
		disk, err := v.keep.Look(r.id)
		k, err2 := v.l.Share(ctx, r.id)
		if err != nil || err2 != nil || disk.Manifest == nil || k.State != depot.Stable && k.State != depot.Corrupt {
			x := visit{id: r.id, was: k.State, state: k.State}
			if err != nil { // against this share alone
				v.s.Log().Warn("a kept share could not be read", "share", r.id.String(), "error", err)
			} else if err2 == nil && (k.State == depot.Stable || k.State == depot.Corrupt) { // it disappeared
				x.state, err2 = v.l.Looked(ctx, v.t.now(), v.t.elapsed(), r.id, missing(disk))
			}
			return x, false, err2
		}
		r.m, r.bad = disk.Manifest, share.NewSet(disk.Manifest.Layout().Pieces())
	}
	read := 0
	r.next, err = v.keep.Scrub(r.m, r.next, r.bad, func(n int) bool {
		read += n
		return read >= sliceBytes || v.s.Now().Sub(begin) >= depot.Slice
	})
	if err != nil || int(r.next) < r.m.Layout().Pieces() {
		return x, false, err
	}
	x = visit{id: r.id, was: depot.Stable, state: depot.Stable, again: r.bad.Count() > 0}
	k, err := v.l.Share(ctx, r.id)
	if err != nil {
		return x, false, err
	}
	x.was, x.state = k.State, k.State
	if k.State == depot.Stable && (x.again || k.Struck) || k.State == depot.Corrupt && x.again {
		x.state, err = v.l.Looked(ctx, v.t.now(), v.t.elapsed(), r.id, r.bad)
	}
	return x, false, err
}

// ---- the results of a slice ----

func (d *depotActor) crawled(ctx actor.Context, m crawled) {
	c := d.crawler
	if m.of != c { // it began anew
		return
	}
	c.busy = false
	if !d.loaded {
		return
	}
	if errors.Is(m.err, depot.ErrAnew) && !d.loading {
		d.load(ctx)
	}
	if m.scrub {
		c.scrub, c.reading, c.stuckScrub = m.place.Scrub, m.read, m.err
	} else {
		c.crawl, c.stuck = m.place.Crawl, m.err
	}
	d.failed(ctx, "the crawler could not go on; it tries again", m.err)
	for _, x := range m.found {
		d.found(ctx, x, "found by the crawler")
	}
}

// found takes the outcome of checking one share.
func (d *depotActor) found(ctx actor.Context, x visit, why string) {
	if x.state != x.was {
		d.changed(ctx, x.id, x.state, why)
	}
	switch wall := d.s.Wall(); {
	case x.state == depot.Coming && d.arrivals[x.id] == nil:
		d.want(x.id, false)
	case x.state == depot.Corrupt && d.arrivals[x.id] == nil:
		d.want(x.id, true)
	case x.again:
		d.crawler.due.set(x.id, wall.Add(depot.StrikeGap))
	case x.read:
		d.crawler.due.set(x.id, wall)
	}
}
