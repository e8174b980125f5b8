package leasemgr

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"pgregory.net/rapid"
)

// machine drives a Manager with random calls, beside a model of its leases that
// knows only what the Manager said.
type machine struct {
	t     *rapid.T // the source of chance
	fatal func(format string, args ...any)
	only  int // the invariant to check; 0: all
	m     *Manager
	now   time.Time
	n     int
	live  map[share.Token]Lease // leases that were granted and have not ended
	ended []Lease               // some that have
	last  share.Token
	open  map[peers.ID]int // granted minus ended
	trace []string         // what the Manager answered, if it is recorded
	keep  bool
	names []peers.ID
	lines bool // sources share lines
}

func newMachine(t *rapid.T, only int) *machine {
	n := rapid.IntRange(1, 140).Draw(t, "pieces")
	if rapid.Bool().Draw(t, "few pieces") {
		n = min(n, 6)
	}
	lengths := make(uneven, n)
	for i := range lengths {
		lengths[i] = rapid.SampledFrom([]int{1, 5000, share.BlockSize, share.MinPiece, share.MinPiece, share.MaxPiece}).Draw(t, "length")
	}
	x := &machine{t: t, fatal: t.Fatalf, only: only, n: n, now: time.Unix(1000, 0), live: map[share.Token]Lease{}, open: map[peers.ID]int{}}
	plan := Plan{Layout: lengths, Epoch: uint64(rapid.IntRange(0, 3).Draw(t, "epoch")), Seed: rapid.Uint64().Draw(t, "seed")}
	if rapid.Bool().Draw(t, "beside others") {
		plan.Self = "self"
	}
	if rapid.Bool().Draw(t, "resumed") {
		plan.Verified = x.set("verified")
	}
	if rapid.Bool().Draw(t, "selected") {
		plan.Wanted = x.set("selected")
	}
	cfg := Config{
		MaxLeasesPerPeer: rapid.IntRange(0, 4).Draw(t, "cap"),
		MaxSmallLeases:   rapid.IntRange(0, 6).Draw(t, "small cap"),
		HedgeFloor:       rapid.SampledFrom([]int64{0, -1, 1 << 40}).Draw(t, "hedge floor"),
		ShunFor:          rapid.SampledFrom([]time.Duration{0, -1, time.Second}).Draw(t, "shun"),
	}
	x.m = New(cfg, plan, x.now)
	for i := range rapid.IntRange(1, 4).Draw(t, "sources") {
		x.names = append(x.names, peers.ID(fmt.Sprintf("source-%c", 'a'+i)))
	}
	x.lines = rapid.Bool().Draw(t, "lines")
	return x
}

func (x *machine) set(label string) *share.Set {
	s := share.NewSet(x.n)
	switch rapid.IntRange(0, 2).Draw(x.t, label+" kind") {
	case 0:
		return share.FullSet(x.n)
	case 1:
		for p := range x.n {
			if rapid.Bool().Draw(x.t, label) {
				s.Add(share.Piece(p))
			}
		}
	}
	return s
}

// claim fails the test unless ok, which an invariant of prior-art/semantics.md (b)
// requires.
func (x *machine) claim(invariant int, ok bool, format string, args ...any) {
	if !ok && (x.only == 0 || x.only == invariant) {
		x.fatal("invariant %d: %s\n%s", invariant, fmt.Sprintf(format, args...), x.m.Describe())
	}
}

func (x *machine) source() peers.ID { return rapid.SampledFrom(x.names).Draw(x.t, "source") }
func (x *machine) piece() share.Piece {
	return share.Piece(rapid.IntRange(0, x.n).Draw(x.t, "piece")) // n is outside the share
}

// someLease is a lease, live or not, or an invented one.
func (x *machine) someLease() Lease {
	tokens := make([]share.Token, 0, len(x.live))
	for token := range x.live {
		tokens = append(tokens, token)
	}
	slices.Sort(tokens)
	k := rapid.IntRange(0, 9).Draw(x.t, "lease kind")
	switch {
	case k < 6 && len(tokens) > 0:
		return x.live[rapid.SampledFrom(tokens).Draw(x.t, "live lease")]
	case k < 9 && len(x.ended) > 0:
		return rapid.SampledFrom(x.ended).Draw(x.t, "ended lease")
	}
	return Lease{Piece: x.piece(), Source: x.source(), Token: share.Token(rapid.Uint64Range(0, 1<<41).Draw(x.t, "token"))}
}

func (x *machine) isLive(l Lease) bool {
	k, ok := x.live[l.Token]
	return ok && k.Piece == l.Piece && k.Source == l.Source
}

// over records that a lease ended.
func (x *machine) over(l Lease) {
	x.claim(3, x.isLive(l), "lease %d on %d ended twice, or was never granted", l.Token, l.Piece)
	delete(x.live, l.Token)
	x.open[l.Source]--
	x.ended = append(x.ended, l)
}

// apply records what a call said is to be done.
func (x *machine) apply(todo Todo) {
	for _, l := range slices.Concat(todo.Revoked, todo.Expired, todo.Finished) {
		x.over(l)
	}
	for _, id := range todo.Wake {
		_, known := x.m.byID[id]
		x.claim(10, known, "%s is woken and not there", id)
	}
	x.note(todo)
}

func (x *machine) note(answer ...any) {
	if x.keep {
		x.trace = append(x.trace, fmt.Sprintf("%+v", answer))
	}
}

// drain fetches what a grant left over.
func (x *machine) drain() {
	if at := x.m.Wake(); !at.IsZero() && !at.After(x.now) {
		x.apply(x.m.Expire(x.now))
	}
}

// holders returns the live leases on a piece.
func (x *machine) holders(p share.Piece) (out []Lease) {
	for _, l := range x.live {
		if l.Piece == p {
			out = append(out, l)
		}
	}
	return out
}

// grantable returns the pieces that nobody holds and source s could be granted.
func (x *machine) grantable(s *source) (out []uint32) {
	for p := range uint32(x.n) {
		if x.m.state(p) == IsWanted && x.m.may(s, p) && (!x.m.spared(s) || x.needs(s, p)) && !x.leaves(s, p) {
			out = append(out, p)
		}
	}
	return out
}

// leaves reports whether p is left to others who fetch the share too.
func (x *machine) leaves(s *source, p uint32) bool {
	return s.have.n == x.n && !x.m.spared(s) && x.m.fed(s) && x.m.rank(p) > perLevel && !x.m.begun.has(p) && x.m.another(x.m.rivals(s), p)
}

// needs reports whether a source has to be asked for p although it is spared.
func (x *machine) needs(s *source, p uint32) bool {
	own := 0
	if s.have.n < x.n {
		own = 1
	}
	failed := slices.ContainsFunc(x.m.shunned, func(e shun) bool { return e.piece == p })
	return failed || x.m.rarity.of(p) <= own && !x.m.othersWhole(s)
}

// order is the rank of a piece by rule 7 of DESIGN: less is sooner.
func (x *machine) order(p uint32) [4]int {
	window, begun := 1, 1
	for _, r := range x.m.readers {
		if p >= r.at && p < r.to {
			window = 0
		}
	}
	if x.m.begun.has(p) {
		begun = 0
	}
	class := classOf(x.m.rarity.of(p))
	if begun == 0 || window == 0 {
		class = 0
	}
	if window == 0 {
		begun = 0
	}
	return [4]int{x.m.level(p), window, begun, class}
}

func (x *machine) acquire(id peers.ID, max int) (no Refusal) {
	i, known := x.m.byID[id]
	if known && max > 0 { // what Acquire does first
		x.m.clock.tick(x.now)
		x.m.recall(x.m.sources[i])
	}
	before := x.m.fingerprint()
	for range max {
		var s *source
		var could []uint32
		if known {
			s = x.m.sources[i]
			could = x.grantable(s)
		}
		var got []Lease
		got, no = x.m.Acquire(id, 1, x.now)
		x.note(got, no)
		if len(got) == 0 {
			x.refused(id, no, s, could, before)
			break
		}
		x.claim(12, no == Refusal{}, "granted and refused: %v", no)
		x.granted(got[0], s, could)
		x.drain()
		before = x.m.fingerprint()
	}
	return no
}

func (x *machine) granted(l Lease, s *source, could []uint32) {
	x.claim(14, l.Token > x.last, "token %d after %d", l.Token, x.last)
	x.claim(14, uint64(l.Token)>>40 == x.m.epoch, "token %d of epoch %d", l.Token, x.m.epoch)
	x.last = l.Token
	x.claim(8, int(l.Piece) < x.n && x.m.plan.has(uint32(l.Piece)), "piece %d is not planned", l.Piece)
	x.claim(8, s != nil && s.have.has(uint32(l.Piece), x.n) && !s.banned, "%s may not have %d", l.Source, l.Piece)
	x.claim(8, !s.shuns(uint32(l.Piece)), "%s was asked again for %d at once", l.Source, l.Piece)
	x.claim(5, !x.m.verified.has(uint32(l.Piece)), "piece %d is verified and leased", l.Piece)
	x.claim(13, x.now.Before(l.Expires), "lease is born dead: %v", l)
	x.claim(13, !l.Expires.After(x.now.Add(x.m.cfg.LeaseDuration)), "lease %v outlives the backstop", l)
	// A takeover ends another lease; Todo reports that right after.
	taken := slices.Clone(x.m.todo.Revoked)
	for _, r := range taken {
		x.over(r)
	}
	x.m.todo.Revoked = nil
	others := x.holders(l.Piece)
	x.live[l.Token] = l
	x.open[l.Source]++
	reads := slices.ContainsFunc(x.m.readers, func(r reader) bool { return r.at == uint32(l.Piece) })
	switch {
	case len(others) == 0 && len(taken) == 0:
		x.claim(1, !l.Hedge, "a hedge of nothing")
		for _, p := range could {
			if x.m.spared(s) {
				break // it is asked for what it must be, whatever the order
			}
			a, b := x.order(p), x.order(uint32(l.Piece))
			if s.have.n == x.n && len(x.m.rivals(s)) > 0 { // of equally urgent pieces our own goes first
				x.claim(16, a[0] >= b[0] || x.m.fed(s), "granted %d %v before %d %v", l.Piece, b, p, a)
				continue
			}
			x.claim(16, slices.Compare(a[:], b[:]) >= 0, "granted %d %v before %d %v", l.Piece, b, p, a)
		}
	case len(others) == 0:
		x.claim(1, !l.Hedge && taken[0].Piece == l.Piece && taken[0].Source != l.Source, "took %v", taken)
		x.claim(1, len(could) == 0 || reads, "took over %d with %v to do", l.Piece, could)
	default:
		x.claim(1, len(others) == 1, "%d holders of %d", len(others)+1, l.Piece)
		x.claim(1, l.Hedge && others[0].Source != l.Source, "hedge with itself: %v %v", l, others)
		x.claim(1, len(could) == 0 || reads, "hedged %d with %v to do", l.Piece, could)
	}
	x.claim(1, x.m.hedged+x.m.stats.Duplicate <= x.m.allowance() || len(taken) > 0, "hedges: %d + %d over %d",
		x.m.hedged, x.m.stats.Duplicate, x.m.allowance())
	// The cap, as if this lease were asked for now.
	n := int64(x.m.layout.PieceLen(l.Piece))
	s.count--
	s.pending -= n
	x.claim(7, x.m.room(s, n), "%s is over its cap", l.Source)
	s.count++
	s.pending += n
}

func (x *machine) refused(id peers.ID, no Refusal, s *source, could []uint32, before string) {
	x.claim(12, x.m.fingerprint() == before, "a refusal changed something")
	x.claim(10, no.Reason != 0, "refused without a reason")
	if s == nil {
		x.claim(8, no.Reason == UnknownSource && no.Never, "%v for a stranger", no)
		return
	}
	if !no.Until.IsZero() {
		x.claim(10, no.Until.After(x.now), "may ask again in the past")
	}
	switch no.Reason {
	case AllVerified:
		x.claim(10, x.m.Done(), "refused as if done")
	case IsBanned:
		x.claim(10, s.banned, "refused as if banned")
	case IsPaused:
		x.claim(10, x.m.paused != "", "refused as if paused")
	case AtCapacity:
		x.claim(10, s.count > 0, "full without a lease")
	case Spared:
		x.claim(10, len(could) == 0, "spared with %v to do", could)
		x.claim(10, !no.Until.IsZero() && no.Until.Sub(x.now) <= time.Duration(lookAgain), "spared until %v", no.Until)
		x.claim(10, x.m.spared(s) || s.left || len(s.deferred) > 0, "spared without need")
	case NoneHere, AllLeased:
		x.claim(10, len(could) == 0, "refused (%s) with %v to do", no.Reason, could)
		x.claim(10, (no.Reason == AllLeased) == !no.Until.IsZero(), "%v", no)
	default:
		x.claim(10, false, "odd reason %q", no.Reason)
	}
}

// ifStale makes a call on l, and checks that it has no effect if l is not live.
func (x *machine) ifStale(l Lease, call func() Todo) {
	before, was := x.m.fingerprint(), x.isLive(l)
	todo := call()
	if !was {
		x.claim(4, x.m.fingerprint() == before, "a stale call changed something")
		x.claim(4, len(todo.Revoked)+len(todo.Expired)+len(todo.Finished) == 0, "a stale call ended %v", todo)
	}
	x.apply(todo)
}

func (x *machine) fail(l Lease, why Reason) {
	x.ifStale(l, func() Todo {
		was := x.isLive(l)
		todo := x.m.Fail(l.Source, l.Piece, l.Token, why, x.now)
		if was {
			x.over(l)
		}
		return todo
	})
}

func (x *machine) away(l Lease, retry time.Duration) {
	x.ifStale(l, func() Todo {
		was := x.isLive(l)
		todo := x.m.Defer(l.Source, l.Piece, l.Token, retry, x.now)
		if was {
			x.over(l)
		}
		return todo
	})
}

func (x *machine) verify(p share.Piece, tokens ...share.Token) {
	holders := x.holders(p)
	todo := x.m.Verified(p, x.now, tokens...)
	x.apply(todo)
	if int(p) >= x.n {
		return
	}
	x.claim(6, x.m.verified.has(uint32(p)), "verified data was not accepted")
	for _, l := range holders {
		x.claim(3, !x.isLive(l), "lease %v outlived its piece", l)
	}
	for _, l := range todo.Finished {
		x.claim(3, slices.Contains(tokens, l.Token), "%v finished without credit", l)
	}
	for _, l := range todo.Revoked {
		x.claim(3, !slices.Contains(tokens, l.Token), "%v was revoked in spite of its credit", l)
	}
}

// pairs are the (source, piece) pairs that could be granted, except for lack of room.
func (x *machine) pairs() map[string]bool {
	out := map[string]bool{}
	for _, s := range x.m.sources {
		if s == nil || s.banned {
			continue
		}
		for _, p := range x.grantable(s) {
			out[fmt.Sprint(s.id, p)] = true
		}
	}
	return out
}

func (x *machine) never15(call func()) {
	before := x.pairs()
	call()
	after := x.pairs()
	for k := range before {
		x.claim(15, after[k], "%s cannot be granted any more", k)
	}
}

// step makes one random call.
func (x *machine) step() {
	t := x.t
	switch op := rapid.IntRange(0, 22).Draw(t, "op"); op {
	case 0:
		id := x.source()
		x.never15(func() { x.m.AddSource(id, x.now) })
		if x.lines {
			x.m.Shares(id, rapid.SampledFrom([]peers.ID{"", "x", "y"}).Draw(t, "line"))
		}
	case 1:
		x.apply(x.m.SetHave(x.source(), x.set("have"), x.now))
	case 2:
		x.announce(x.source(), x.piece(), x.piece())
	case 3:
		x.crash(x.source())
	case 4:
		rate := rapid.SampledFrom([]float64{-1, 0, 1, 1e4, 1e6, 1e8, 1e300}).Draw(t, "rate")
		trip := rapid.SampledFrom([]time.Duration{-1, 0, time.Millisecond, time.Second, time.Hour}).Draw(t, "trip")
		x.apply(x.m.Measured(x.source(), rate, trip, x.now))
	case 5:
		score := rapid.SampledFrom([]float64{-1, 0, 0.1, 0.2, 1, 10}).Draw(t, "score")
		x.apply(x.m.Rank(x.source(), score, rapid.IntRange(0, 4).Draw(t, "banned") == 0, x.now))
	case 6, 7, 8, 9, 10:
		x.acquire(x.source(), rapid.IntRange(0, 6).Draw(t, "max"))
	case 11, 12:
		l := x.someLease()
		n := rapid.IntRange(-1, share.MinPiece+1).Draw(t, "bytes")
		x.ifStale(l, func() Todo { return x.m.Progress(l.Source, l.Piece, l.Token, n, x.now) })
	case 13, 14:
		l := x.someLease()
		why := rapid.SampledFrom([]Reason{BadData, Missed, NotFound, GaveBack, Lost, Disk, Elsewhere}).Draw(t, "why")
		if retry := time.Duration(rapid.IntRange(0, 4).Draw(t, "retry")) * time.Second; why == Elsewhere {
			x.away(l, retry)
			return
		}
		x.fail(l, why)
	case 15:
		l := x.someLease()
		x.verify(l.Piece, l.Token)
	case 16:
		x.verify(x.piece())
	case 17:
		x.apply(x.m.Unverified(x.piece(), x.now))
	case 18:
		x.m.Begun(x.piece())
	case 19:
		prio := rapid.SampledFrom([]Priority{Skip, Low, Normal, High}).Draw(t, "priority")
		x.apply(x.m.SetPriority(x.piece(), rapid.IntRange(-1, x.n).Draw(t, "pieces"), prio, x.now))
	case 20:
		switch rapid.IntRange(0, 5).Draw(t, "misc") {
		case 0:
			x.apply(x.m.SetReader(Reader(rapid.IntRange(0, 1).Draw(t, "reader")), x.piece(), rapid.IntRange(-1, 20).Draw(t, "window"), x.now))
		case 1:
			x.m.DropReader(Reader(rapid.IntRange(0, 1).Draw(t, "reader")))
		case 2:
			x.m.Pause("disk full")
		case 3:
			x.apply(x.m.Resume(x.now))
		case 4:
			x.apply(x.m.Busy(x.source(), x.now))
		case 5:
			x.apply(x.m.Excuse(x.source(), x.now))
		}
	case 21:
		id, p := x.source(), x.piece()
		if rapid.Bool().Draw(t, "restore") {
			x.restore(id, p)
		} else {
			x.reserve(id, p)
		}
	case 22:
		x.haveNot(x.source(), x.piece(), x.piece())
	}
	x.drain() // as every caller does, by its alarm
	x.pass()
	x.invariants()
}

// announce gives pieces to a source. If it waits on, none of them is of use to it now.
func (x *machine) announce(id peers.ID, pieces ...share.Piece) {
	i, known := x.m.byID[id]
	news := slices.DeleteFunc(slices.Clone(pieces), func(p share.Piece) bool {
		return int(p) >= x.n || known && x.m.sources[i].have.has(uint32(p), x.n)
	})
	x.never15(func() { x.apply(x.m.Have(id, pieces, x.now)) })
	if known && x.m.asleep.has(i) && x.m.sources[i].idle() {
		got, _ := x.m.clone().Acquire(id, 1, x.now)
		x.claim(10, len(got) == 0 || !slices.Contains(news, got[0].Piece), "%s could have %v, and was not woken", id, got)
	}
}

func (x *machine) haveNot(id peers.ID, pieces ...share.Piece) {
	x.apply(x.m.HaveNot(id, pieces, x.now))
	i, known := x.m.byID[id]
	for _, p := range pieces {
		x.claim(8, !known || int(p) >= x.n || !x.m.sources[i].have.has(uint32(p), x.n), "%s has %d, which was taken from it", id, p)
		for _, l := range x.holders(p) {
			x.claim(3, l.Source != id, "%v outlived what its source has", l)
		}
	}
}

// crash removes a source, with all its leases.
func (x *machine) crash(id peers.ID) {
	for token, l := range x.live {
		if l.Source == id {
			delete(x.live, token)
			x.ended = append(x.ended, l)
		}
	}
	slices.SortFunc(x.ended, func(a, b Lease) int { return int(int64(a.Token) - int64(b.Token)) })
	x.open[id] = 0
	x.apply(x.m.RemoveSource(id, x.now))
}

// reserve leases a piece as Acquire could, without its choice.
func (x *machine) reserve(id peers.ID, p share.Piece) {
	if i, ok := x.m.byID[id]; ok && int(p) < x.n && x.m.room(x.m.sources[i], int64(x.m.layout.PieceLen(p))) {
		x.restore(id, p)
	}
}

func (x *machine) restore(id peers.ID, p share.Piece) {
	l, ok := x.m.Restore(id, p, x.now)
	if !ok {
		return
	}
	x.claim(14, l.Token > x.last, "token %d after %d", l.Token, x.last)
	x.last = l.Token
	x.claim(1, len(x.holders(p)) == 0, "leased a held piece")
	x.live[l.Token] = l
	x.open[id]++
}

// pass lets time pass, or a clock step, and expires what is due.
func (x *machine) pass() {
	switch rapid.IntRange(0, 7).Draw(x.t, "time") {
	case 0:
		x.now = x.now.Add(time.Duration(rapid.IntRange(1, 1000).Draw(x.t, "ms")) * time.Millisecond)
	case 1:
		if at := x.m.Wake(); at.After(x.now) {
			x.now = at
		}
	case 2:
		x.now = x.now.Add(time.Duration(rapid.IntRange(-3600, 400).Draw(x.t, "step")) * time.Second)
	default:
		return
	}
	x.apply(x.m.Expire(x.now))
}

// invariants checks what must hold between any two calls.
func (x *machine) invariants() {
	if err := x.m.check(); err != nil {
		x.fatal("%v", err)
	}
	wanted, leased, verified := x.m.Counts()
	x.claim(2, wanted+leased+verified == x.m.plan.count(), "%d + %d + %d of %d", wanted, leased, verified, x.m.plan.count())
	held := map[share.Piece]int{}
	count := map[peers.ID]int{}
	for _, l := range x.live {
		held[l.Piece]++
		count[l.Source]++
		x.claim(2, x.m.live(l.Source, l.Piece, l.Token) != 0, "lease %v is gone, and nobody said so", l)
	}
	x.claim(2, len(held) == leased, "%d pieces are leased, should be %d", leased, len(held))
	for p, n := range held {
		x.claim(1, n <= 2, "piece %d has %d holders", p, n)
	}
	for _, id := range x.m.ids() {
		s := x.m.sources[x.m.byID[id]]
		x.claim(7, s.count == count[id] && s.count == x.open[id], "%s holds %d, model %d, granted-ended %d", id, s.count, count[id], x.open[id])
		if s.waiting == NoneHere || s.waiting == AllLeased {
			x.claim(10, len(x.grantable(s)) == 0, "%s sleeps (%s) with %v to do", id, s.waiting, x.grantable(s))
		}
		if s.waiting == NoneHere {
			x.claim(10, !x.m.couldUse(s) || len(s.shunned) > 0, "%s sleeps as if it had nothing", id)
		}
		if s.waiting == AtCapacity {
			x.claim(10, s.count > 0, "%s waits for its own leases and has none", id)
		}
		x.claim(10, s.waiting != IsBanned || s.banned, "%s sleeps after its ban", id)
		x.claim(10, s.waiting != IsPaused || x.m.paused != "", "%s sleeps after the pause", id)
	}
}

// starve checks that with no further calls but the alarm's every lease ends.
func (x *machine) starve() {
	limit := x.now.Add(x.m.cfg.LeaseDuration)
	for rounds := 0; len(x.live) > 0; rounds++ {
		at := x.m.Wake()
		x.claim(9, !at.IsZero() && rounds < 10_000, "%d leases and no alarm", len(x.live))
		if x.now = at; at.After(limit) {
			x.claim(9, false, "%d leases live past the backstop", len(x.live))
		}
		x.apply(x.m.Expire(x.now))
	}
}

// finish checks that the transfer ends with one honest source of everything.
func (x *machine) finish() {
	x.apply(x.m.Resume(x.now))
	x.m.AddSource("honest", x.now)
	x.names = append(x.names, "honest")
	x.apply(x.m.SetHave("honest", share.FullSet(x.n), x.now))
	for rounds := 0; !x.m.Done(); rounds++ {
		x.claim(11, rounds < 2000, "no end in sight")
		no := x.acquire("honest", 4)
		for p := range share.Piece(x.n) {
			for _, l := range x.holders(p) {
				if l.Source == "honest" {
					x.verify(p, l.Token)
				}
			}
		}
		at := x.m.Wake()
		if !at.After(x.now) || no.Until.After(x.now) && no.Until.Before(at) {
			at = no.Until // when whoever was refused asks again
		}
		if at.After(x.now) {
			x.now = at
			x.apply(x.m.Expire(x.now))
		}
	}
}

func runMachine(t *rapid.T, only int) *machine {
	x := newMachine(t, only)
	for range rapid.IntRange(1, 60).Draw(t, "steps") {
		x.step()
	}
	return x
}

func TestRandomCallsAgreeWithModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := runMachine(t, 0)
		x.starve()
		x.finish()
		x.invariants()
	})
}
