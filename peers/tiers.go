package peers

import (
	"cmp"
	"math"
	"time"
)

// Keys grow with the half-lives since an epoch, up to keyMost. Less than keyLeast is nothing.
const (
	keyMost  = 256
	keyLeast = 1e-60
)

// The score of a peer.
const (
	InitialScore  = 0.3         // of a newcomer
	scoreStep     = 0.1         // of the way to a new value
	scoreHalf     = time.Minute // in which half of what sets a score apart is forgotten
	usualStep     = 0.01        // of the way to a new rate
	scoreDamping  = 0.9         // a peer takes another's place if this part of its score is still higher
	rttSmoothing  = 8
	exploredEvery = 8 // of the places that fall free, one goes to whoever has waited longest
)

// Tiers keeps peers in three sets, each in exactly one of them. It has one owner; the
// time is an argument. A call costs O(log n) in peers, a tick O(c log n) in tiers times
// locations of those peers.
//
// Places are shared out down a tree: a set has as many as it may in all, of these each
// tier and location has a claim to its target, and of these each network to half.
//
//	all ──┬── tier 1, 198.51/16 ──┬── 198.51.100/24 ── peers by score
//	      │                       └── 198.51.7/24
//	      └── tier 3, 203.0/16 ─────  203.0.113/24
//
// A claim reserves nothing: a place that nobody claims goes to a peer that waits, those
// below their targets first, then by score. A branch with more than its share gives way as
// soon as another claims the place, however briefly its peer was there. A peer is refused
// only when all sets are full. So many identities do not help to fill a set while others wait.
//
// The score is the smoothed worth of what a peer did, in [0, 1] (see Tiers.Flowed). It
// fades: while a peer waits, towards that of a newcomer, so that it is tried again; while it
// is active, towards 0, so that a peer that does nothing with its place loses it.
type Tiers struct {
	cfg    TierConfig
	each   map[ID]*member
	all    *branch
	cells  order[*branch]
	oldest [sets]order[*member]
	seq    uint64
	tried  time.Time // when Explore was last done
	filled int       // places that fell free so far
	usual  float64   // bytes per second; 0: not known
	epoch  time.Time
	tickAt time.Time
	moves  []Move
}

// member is one peer.
type member struct {
	id     ID
	net    *branch // the network it is in
	set    Set
	why    Cause
	since  time.Time
	seq    uint64 // of when it came into the set
	key    float64
	rtt    time.Duration // smoothed
	to     Tier          // the tier it is measured in, if that is another
	toFrom time.Time     // since then
}

// NewTiers makes Tiers without peers.
func NewTiers(cfg TierConfig) *Tiers {
	t := &Tiers{cfg: cfg.withDefaults(), each: map[ID]*member{}}
	t.all = newBranch(nil, 0, [sets]int{t.cfg.MaxActive, t.cfg.MaxPassive, t.cfg.MaxTracked})
	for s := range t.oldest {
		t.oldest[s].before = func(a, b *member) bool { return a.seq < b.seq }
	}
	return t
}

// Len is the number of peers in a set.
func (t *Tiers) Len(s Set) int { return t.all.n[s] }

// Subscribe adds a peer that comes from the endpoint from, or finds its place anew, and
// returns the one answer to it. Moves returns the peers that had to move for it.
func (t *Tiers) Subscribe(id ID, from Endpoint, rtt time.Duration, now time.Time) Answer {
	t.begin(now)
	m := t.each[id]
	switch {
	case m == nil:
		m = &member{id: id, rtt: rtt}
		t.each[id] = m
		m.key = t.keyOf(InitialScore, Passive, now)
		t.enter(m, tierOf(rtt), from.Location, from.Net, Passive, Arrived, now)
	case m.net.net != from.Net || m.net.up.location != from.Location:
		m.rtt, m.toFrom = rtt, time.Time{}
		t.rehouse(m, tierOf(rtt), from.Location, from.Net)
	}
	t.settle(now)
	t.moves = dropMoves(t.moves, id)
	if t.each[id] == nil {
		return Answer{Set: Outside, Retry: t.cfg.Retry}
	}
	return Answer{Set: m.set}
}

// Close removes a peer that has gone. Its place is refilled at once.
func (t *Tiers) Close(id ID, now time.Time) {
	if m := t.each[id]; m != nil {
		t.begin(now)
		t.leave(m)
		t.settle(now)
	}
}

// Invalid removes a peer that sent something invalid. The best of the next set takes its
// place at once. The Ranking decides whether it may come again.
func (t *Tiers) Invalid(id ID, now time.Time) {
	if m := t.each[id]; m != nil {
		t.moves = append(t.moves, Move{id, m.set, Outside, Invalid})
		t.Close(id, now)
	}
}

// Leave removes all peers and returns them, the active ones first.
func (t *Tiers) Leave() (out []ID) {
	for s := range t.oldest {
		for o := &t.oldest[s]; len(o.items) > 0; {
			m := o.top()
			out = append(out, m.id)
			t.leave(m)
		}
	}
	t.moves = nil
	return out
}

// Flowed counts bytes that went from us to a peer, or from it to us, in the time took. The
// faster they went the more they are worth: a half at the usual rate of all peers.
func (t *Tiers) Flowed(id ID, bytes int, took time.Duration, now time.Time) {
	if t.each[id] == nil || bytes <= 0 {
		return
	}
	rate := float64(bytes) / max(took, time.Millisecond).Seconds()
	if t.usual == 0 {
		t.usual = rate
	}
	t.Did(id, rate/(rate+t.usual), now)
	t.usual += (rate - t.usual) * usualStep
}

// Did counts something that a peer did, useful or not: worth is in [0, 1].
func (t *Tiers) Did(id ID, worth float64, now time.Time) {
	m := t.each[id]
	if m == nil || math.IsNaN(worth) {
		return
	}
	t.begin(now)
	was := t.score(m, now)
	m.key = t.keyOf(was+(bounded(worth, 1, 0)-was)*scoreStep, m.set, now)
	t.refresh(m)
}

// Measured takes a round trip to a peer. The peer changes its tier when its smoothed round
// trip has been in the other for Dwell.
func (t *Tiers) Measured(id ID, rtt time.Duration, now time.Time) {
	m := t.each[id]
	if m == nil || rtt <= 0 {
		return
	}
	t.begin(now)
	if m.rtt <= 0 {
		m.rtt = rtt
	} else {
		m.rtt += (rtt - m.rtt) / rttSmoothing
	}
	to := tierOf(m.rtt)
	switch {
	case to == m.net.up.tier:
		m.toFrom = time.Time{}
	case m.toFrom.IsZero() || m.to != to:
		m.to, m.toFrom = to, now
	case now.Sub(m.toFrom) >= t.cfg.Dwell:
		m.toFrom = time.Time{}
		t.rehouse(m, to, m.net.up.location, m.net.net)
		t.settle(now)
	}
}

// Tick improves the sets if it is time: in each tier and location, the best of those
// passive takes the place of the worst of those active if it did clearly better and neither
// came into its set just now; and the same between tracked and passive.
func (t *Tiers) Tick(now time.Time) {
	if now.Before(t.tickAt) || len(t.each) == 0 {
		return
	}
	t.begin(now)
	t.tickAt = now.Add(t.cfg.Tick)
	for _, cell := range t.cells.items {
		for s := Active; s < Tracked; s++ {
			up, down := cell.swap(s)
			t.swap(up, down, Better, now)
		}
	}
	if t.cfg.Explore > 0 {
		t.explore(now)
	}
	t.settle(now)
}

// swap gives the place of one peer to another in the next set, if neither came there just now and the
// other did clearly better, or is to be tried.
func (t *Tiers) swap(up, down *member, why Cause, now time.Time) bool {
	if up == nil || down == nil || now.Sub(up.since) < t.cfg.Dwell || now.Sub(down.since) < t.cfg.Dwell ||
		why == Better && t.score(up, now)*scoreDamping <= t.score(down, now) {
		return false
	}
	s := down.set
	t.move(up, s, why, now)
	t.move(down, s+1, Worse, now)
	return true
}

// explore gives the worst place of those that are nobody's share to the best peer that waits, or now and then to
// the one that has waited longest.
func (t *Tiers) explore(now time.Time) {
	var down *member
	for _, cell := range t.cells.items {
		if cell.n[Active] > cell.target[Active] {
			if m := cell.victim(Active); down == nil || byScore(m, down) > 0 {
				down = m
			}
		}
	}
	if now.Sub(t.tried) >= t.cfg.Explore && t.swap(t.oldest[Passive].top(), down, Tried, now) {
		t.tried = now
		return
	}
	t.swap(t.all.bestOf(Passive), down, Better, now)
}

// Wake is when Tick has something to do; zero if never.
func (t *Tiers) Wake() time.Time {
	if len(t.each) <= t.all.n[Active] { // nobody waits
		return time.Time{}
	}
	return t.tickAt
}

// Moves returns the peers that came into another set since it was last called.
func (t *Tiers) Moves() []Move {
	out := t.moves
	t.moves = nil
	return out
}

// Set is where a peer is.
func (t *Tiers) Set(id ID) Set {
	if m := t.each[id]; m != nil {
		return m.set
	}
	return Outside
}

// Guest is the set as which a peer that never subscribed is served; nobody has to
// subscribe. It is Active while that has free places.
func (t *Tiers) Guest() Set {
	if t.all.n[Active] < t.cfg.MaxActive {
		return Active
	}
	return Outside
}

// Standing returns the standing of a peer; not ok if it is not known.
func (t *Tiers) Standing(id ID, now time.Time) (st Standing, ok bool) {
	m := t.each[id]
	if m == nil {
		return st, false
	}
	return Standing{ID: id, Set: m.set, Tier: m.net.up.tier, Location: m.net.up.location, Score: t.score(m, now), Since: m.since, Why: m.why}, true
}

// settle shares out the places anew, until nobody may claim one and no place is free that
// a peer waits for.
func (t *Tiers) settle(now time.Time) {
	for t.fill(Active, now) || t.spill(Passive, now) || t.fill(Passive, now) || t.spill(Tracked, now) {
	}
}

// fill gives places of a set to peers that wait for them in the next, and reports whether
// that changed anything.
func (t *Tiers) fill(s Set, now time.Time) (changed bool) {
	for ; ; changed = true {
		switch up, down := t.all.claim(s); {
		case t.all.n[s+1] == 0:
			return changed
		case t.all.n[s] < t.all.target[s]:
			t.move(t.next(s+1), s, Refilled, now)
		case up == nil:
			return changed
		default:
			t.move(down, s+1, GaveWay, now)
			t.move(up, s, Claimed, now)
		}
	}
}

// next returns the member of a set that gets a place that fell free in the set before.
func (t *Tiers) next(s Set) *member {
	if m := t.all.claimant(s); m != nil {
		return m
	}
	if t.filled++; t.filled%exploredEvery == 0 {
		return t.oldest[s].top()
	}
	return t.all.bestOf(s)
}

// spill moves the peers that are too many for a set to the next, and reports whether there were any.
func (t *Tiers) spill(s Set, now time.Time) (changed bool) {
	for ; t.all.n[s] > t.all.target[s]; changed = true {
		t.move(t.all.victim(s), s+1, Crowded, now)
	}
	return changed
}

// move moves a peer to a set, or out of all sets.
func (t *Tiers) move(m *member, to Set, why Cause, now time.Time) {
	from, score := m.set, t.score(m, now)
	t.moves = append(t.moves, Move{m.id, from, to, why})
	if to == Outside {
		t.leave(m)
		return
	}
	t.put(m, false)
	m.set, m.why, m.since = to, why, now
	m.key = t.keyOf(score, to, now)
	t.put(m, true)
}

// rehouse gives a peer a new tier, location or network. It keeps its place until somebody
// with a claim wants it.
func (t *Tiers) rehouse(m *member, tier Tier, location, net string) {
	t.put(m, false)
	t.prune(m.net)
	m.net = t.branchOf(tier, location, net)
	t.put(m, true)
}

// enter puts a peer that is in no set into one.
func (t *Tiers) enter(m *member, tier Tier, location, net string, s Set, why Cause, now time.Time) {
	m.net = t.branchOf(tier, location, net)
	m.set, m.why, m.since = s, why, now
	t.put(m, true)
}

// leave forgets a peer.
func (t *Tiers) leave(m *member) {
	t.put(m, false)
	delete(t.each, m.id)
	t.prune(m.net)
}

// put puts a peer into its set, or takes it out.
func (t *Tiers) put(m *member, in bool) {
	n := -1
	if in {
		n = 1
		t.seq++
		m.seq = t.seq
	}
	for b := m.net; b != nil; b = b.up {
		b.n[m.set] += n
	}
	t.oldest[m.set].set(m, in)
	m.net.members[m.set].set(m, in)
	t.refresh(m)
}

// refresh updates every order above a peer after a change to it.
func (t *Tiers) refresh(m *member) {
	if m.net.members[m.set].has(m) {
		m.net.members[m.set].set(m, true)
	}
	for b := m.net; b.up != nil; b = b.up {
		b.up.ordered(b)
	}
}

// begin notes the time. Keys are relative to an epoch, so that their order stays while all
// fade; now and then the epoch is moved, or they would grow without end.
func (t *Tiers) begin(now time.Time) {
	if t.epoch.IsZero() {
		t.epoch, t.tickAt, t.tried = now, now, now
	}
	for range 5 { // by then all are 0
		if now.Sub(t.epoch) < keyMost*scoreHalf {
			return
		}
		t.epoch = t.epoch.Add(keyMost * scoreHalf)
		for _, m := range t.each { // all alike: their order stays
			m.key *= math.Exp2(-keyMost)
		}
		for s := range t.oldest {
			for _, m := range t.oldest[s].items { // one by one, because tiny keys become equal
				if math.Abs(m.key) < keyLeast {
					m.key = 0
					t.refresh(m)
				}
			}
		}
	}
	t.epoch = now
}

// rest is the score towards which the score of a peer in a set fades.
func rest(s Set) float64 {
	if s == Active {
		return 0
	}
	return InitialScore
}

func (t *Tiers) keyOf(score float64, s Set, now time.Time) float64 {
	return (score - rest(s)) * math.Exp2(float64(now.Sub(t.epoch))/float64(scoreHalf))
}

func (t *Tiers) score(m *member, now time.Time) float64 {
	return bounded(rest(m.set)+m.key*math.Exp2(-float64(now.Sub(t.epoch))/float64(scoreHalf)), 1, 0)
}

// dropMoves leaves out the moves of one peer.
func dropMoves(moves []Move, id ID) []Move {
	out := moves[:0]
	for _, m := range moves {
		if m.ID != id {
			out = append(out, m)
		}
	}
	return out
}

// byScore orders peers of one set by score, and those of equal score by arrival.
func byScore(a, b *member) int {
	return cmp.Or(cmp.Compare(b.key, a.key), cmp.Compare(a.seq, b.seq))
}
