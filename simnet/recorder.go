package simnet

import (
	"cmp"
	"slices"
	"time"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// recorder makes a Recording. It watches a run without affecting it: it schedules
// nothing and draws no random numbers.
type recorder struct {
	n        *Net
	over     bool
	next     time.Duration // of samples
	nodes    []*watched
	byNode   map[*Node]*watched
	contents []*located
	others   map[share.ID]bool // shares that are too many to be contents
	reasons  map[string]int
	out      Recording
}

// watched is what is known of a node.
type watched struct {
	x      *Node
	index  int
	life   int
	up     bool // what it offers counts
	offers []offered
	leases map[leaseKey]time.Duration // since when
	rec    NodeRecord
}

// offered is what a node has of a content, as its Seeder was told.
type offered struct {
	c    *located
	have *share.Set
}

// leaseKey names a lease of a node.
type leaseKey struct {
	source peers.ID
	piece  share.Piece
	token  share.Token
}

// located is where the pieces of a content are.
type located struct {
	id      share.ID
	holders []uint16 // of each piece
	rec     ContentRecord
}

func newRecorder(n *Net) *recorder {
	r := &recorder{n: n, byNode: map[*Node]*watched{}, others: map[share.ID]bool{}, reasons: map[string]int{"": 0}, out: Recording{Step: firstStep, Reasons: []string{""}}}
	n.World.Observe = func(d system.Delivery) {
		r.observe(d)
		n.ref.observe(d)
	}
	n.log.tap = r.mark
	return r
}

// observe sees every message before its actor does: until then everything is as it was
// at every sample that is due before now.
func (r *recorder) observe(d system.Delivery) {
	if r.over {
		return
	}
	r.sampleUntil(d.At)
	w := r.at(d.To())
	if w == nil {
		return
	}
	switch m := d.Message.(type) {
	case actors.OfferShare:
		r.offer(w, m.Share)
	case actors.PieceAvailable:
		w.gain(m)
	case actors.WithdrawShare:
		w.withdraw(m.Share)
	case actors.LeaseResponse:
		for _, l := range m.Leases {
			w.leases[leaseKey{l.Source, l.Piece, l.Token}] = d.At
		}
	case actors.LeaseRevoked:
		for _, l := range m.Leases {
			r.endLeases(w, LeaseRevoked, func(k leaseKey) bool { return k.piece == l.Piece && k.token == l.Token })
		}
	case actors.LeaseReturned:
		for _, l := range m.Leases {
			r.endLease(w, leaseKey{m.Source, l.Piece, l.Token}, LeaseReturned)
		}
	case actors.PieceDone:
		for _, c := range m.Credits {
			r.endLease(w, leaseKey{c.Source, m.Piece, c.Token}, LeaseVerified)
		}
	case actors.SourceDown:
		r.endLeases(w, LeaseLost, func(k leaseKey) bool { return k.source == m.Source })
	}
}

// at is the node that an actor's address names.
func (r *recorder) at(addr string) *watched {
	x := r.n.ref.node(addr)
	if x == nil {
		return nil
	}
	r.meet()
	w := r.byNode[x]
	if w != nil {
		r.notice(w)
	}
	return w
}

// meet begins to watch new nodes.
func (r *recorder) meet() {
	for i := len(r.nodes); i < min(len(r.n.nodes), maxWatched); i++ {
		x := r.n.nodes[i]
		w := &watched{x: x, index: i, leases: map[leaseKey]time.Duration{}}
		w.rec = NodeRecord{Name: x.Name(), Samples: make([]Sample, r.out.Samples)}
		r.nodes = append(r.nodes, w)
		r.byNode[x] = w
	}
}

// notice checks whether a node runs, and whether it is the same life.
func (r *recorder) notice(w *watched) {
	if w.life != w.x.life {
		w.life = w.x.life
		w.count(false)
		w.offers = nil
		r.endLeases(w, LeaseLost, func(leaseKey) bool { return true })
	}
	w.count(w.x.Running() && w.x.acts.honest())
}

// content is the record of a share; nil if there are too many.
func (r *recorder) content(id share.ID, pieces int) *located {
	for _, c := range r.contents {
		if c.id == id {
			return c
		}
	}
	if len(r.contents) == maxContents {
		r.others[id] = true
		return nil
	}
	c := &located{id: id, holders: make([]uint16, pieces)}
	c.rec = ContentRecord{Pieces: pieces, Holders: make([][]uint16, min(pieces, maxRows))}
	for row := range c.rec.Holders {
		c.rec.Holders[row] = make([]uint16, r.out.Samples)
	}
	r.contents = append(r.contents, c)
	return c
}

// ---- who has what ----

// count adds a node's offers to the counts, or removes them.
func (w *watched) count(up bool) {
	if w.up == up {
		return
	}
	w.up = up
	for _, o := range w.offers {
		o.add(up)
	}
}

func (o offered) add(up bool) {
	for p := range o.have.All() {
		if up {
			o.c.holders[p]++
		} else {
			o.c.holders[p]--
		}
	}
}

// offer records what a node's catalog now offers of a share.
func (r *recorder) offer(w *watched, id share.ID) {
	if w.x.offers == nil {
		return
	}
	pieces, _ := w.x.offers.Offered(id, w.x.id)
	have, err := share.ParseSet(pieces, w.x.offers.Bits(id))
	if c := r.content(id, pieces); err == nil && c != nil && pieces == len(c.holders) {
		w.withdraw(id)
		o := offered{c, have}
		w.offers = append(w.offers, o)
		if w.up {
			o.add(true)
		}
	}
}

func (w *watched) gain(m actors.PieceAvailable) {
	for _, o := range w.offers {
		if o.c.id == m.Share && o.have.Add(m.Piece) && w.up {
			o.c.holders[m.Piece]++
		}
	}
}

func (w *watched) withdraw(id share.ID) {
	w.offers = slices.DeleteFunc(w.offers, func(o offered) bool {
		if o.c.id == id && w.up {
			o.add(false)
		}
		return o.c.id == id
	})
}

// ---- who holds what ----

func (r *recorder) endLease(w *watched, k leaseKey, how LeaseEnd) {
	from, ok := w.leases[k]
	if !ok {
		return
	}
	delete(w.leases, k)
	source := r.byNode[r.n.byID[k.source]]
	if source == nil || len(r.out.Leases) == maxLeases {
		r.out.LeasesLeftOut++
		return
	}
	r.out.Leases = append(r.out.Leases, LeaseRecord{w.index, source.index, k.piece, from, r.n.Elapsed(), how})
}

func (r *recorder) endLeases(w *watched, how LeaseEnd, which func(leaseKey) bool) {
	var keys []leaseKey
	for k := range w.leases {
		if which(k) {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b leaseKey) int {
		return cmp.Or(cmp.Compare(a.token, b.token), cmp.Compare(a.piece, b.piece), cmp.Compare(a.source, b.source))
	})
	for _, k := range keys {
		r.endLease(w, k, how)
	}
}

// ---- samples ----

// sampleUntil takes the samples that are due.
func (r *recorder) sampleUntil(now time.Duration) {
	for r.next < now {
		if r.out.Samples == maxSamples {
			r.thin()
			continue
		}
		r.sample()
		r.next += r.out.Step
	}
}

func (r *recorder) sample() {
	r.meet()
	for _, w := range r.nodes {
		r.notice(w)
		if len(w.leases) > 0 && !w.x.fetching() {
			r.endLeases(w, LeaseReturned, func(leaseKey) bool { return true })
		}
		w.rec.Samples = append(w.rec.Samples, r.look(w.x))
	}
	for _, c := range r.contents {
		c.sample()
	}
	r.out.Samples++
}

// look returns the present state of a node.
func (r *recorder) look(x *Node) Sample {
	s := Sample{Sent: x.Sent(), Received: x.Received(), Wasted: x.waste}
	if x.program != nil {
		s.Children = x.sets
	}
	for _, f := range x.fetches {
		s.Verified += f.last.Verified
		s.Twice += f.twice + f.last.Duplicate
	}
	why := ""
	s.Doing, why = x.doing()
	s.Reason = r.reason(why)
	return s
}

func (r *recorder) reason(why string) int {
	i, known := r.reasons[why]
	if !known && len(r.out.Reasons) < maxReasons {
		i = len(r.out.Reasons)
		r.reasons[why] = i
		r.out.Reasons = append(r.out.Reasons, why)
	}
	return i
}

func (c *located) sample() {
	rows := len(c.rec.Holders)
	for row := range rows {
		least := c.holders[row*len(c.holders)/rows]
		for _, n := range c.holders[row*len(c.holders)/rows : (row+1)*len(c.holders)/rows] {
			least = min(least, n)
		}
		c.rec.Holders[row] = append(c.rec.Holders[row], least)
	}
}

// thin drops every second sample.
func (r *recorder) thin() {
	for _, w := range r.nodes {
		w.rec.Samples = everySecond(w.rec.Samples)
	}
	for _, c := range r.contents {
		for row := range c.rec.Holders {
			c.rec.Holders[row] = everySecond(c.rec.Holders[row])
		}
	}
	r.out.Samples /= 2
	r.out.Step *= 2
	r.next = time.Duration(r.out.Samples) * r.out.Step
}

func everySecond[T any](s []T) []T {
	for i := range len(s) / 2 {
		s[i] = s[2*i]
	}
	return s[:len(s)/2]
}

// ---- marks and the end ----

// mark sees every entry of the timeline before the event takes effect.
func (r *recorder) mark(e Entry) {
	if !r.over {
		r.sampleUntil(e.At)
	}
	switch {
	case e.Kind == MarkNone, r.over && e.Kind != MarkFault && e.Kind != MarkNote: // what ends the world is not part of the story
	case len(r.out.Marks) >= maxMarks+maxFaults, len(r.out.Marks) >= maxMarks && e.Kind != MarkFault:
		r.out.MarksLeftOut++
	default:
		r.out.Marks = append(r.out.Marks, Mark{e.At, r.n.called(e.Node), e.Kind, e.Text})
	}
}

// end is called when everything that the run waited for has ended. The last sample is
// the state then.
func (r *recorder) end() {
	r.sampleUntil(r.n.Elapsed())
	if r.out.Samples == maxSamples {
		r.thin()
	}
	r.sample()
	r.over = true
	for _, w := range r.nodes {
		r.endLeases(w, LeaseOpen, func(leaseKey) bool { return true })
		w.sum()
		r.out.Nodes = append(r.out.Nodes, w.rec)
	}
	r.findBeaten()
	for _, c := range r.contents {
		c.rec.Name = r.nameOf(c.id)
		r.out.Contents = append(r.out.Contents, c.rec)
	}
	r.out.ContentsLeftOut = len(r.others)
}

// sum completes the record of a node when all is over.
func (w *watched) sum() {
	x, rec := w.x, &w.rec
	rec.Acts, rec.Seeds, rec.Fetches = x.acts.Name, len(x.seeded) > 0, len(x.fetches) > 0
	over := true
	for i, f := range x.fetches {
		rec.Wanted += f.c.bytes
		if i == 0 || f.began < rec.Began {
			rec.Began = f.began
		}
		switch {
		case f.wholeAt > 0:
			rec.Ended = max(rec.Ended, f.wholeAt)
		case f.ended != nil:
			rec.Ended, rec.Err = max(rec.Ended, f.endedAt), f.ended.Err
		default:
			over = false
		}
	}
	if !over {
		rec.Ended = 0
	}
}

// nameOf is the name of a share.
func (r *recorder) nameOf(id share.ID) string {
	for _, w := range r.nodes {
		for _, c := range w.x.seeds {
			if c.ID() == id {
				return c.Manifest.Name
			}
		}
		for _, f := range w.x.fetches {
			if f.c.ID() == id {
				return f.c.Manifest.Name
			}
		}
	}
	return "share " + id.Short() // only a depot has it
}

// findBeaten tells leases that were revoked because another holder of the piece was
// first, from those that were late.
func (r *recorder) findBeaten() {
	type held struct {
		node  int
		piece share.Piece
	}
	won := map[held]time.Duration{}
	for _, l := range r.out.Leases {
		if l.End == LeaseVerified {
			won[held{l.Node, l.Piece}] = l.To
		}
	}
	for i := range r.out.Leases {
		l := &r.out.Leases[i]
		if at, ok := won[held{l.Node, l.Piece}]; ok && l.End == LeaseRevoked && at <= l.To && at >= l.From {
			l.End = LeaseBeaten
		}
	}
}
