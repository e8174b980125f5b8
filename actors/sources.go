package actors

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

const (
	maxManifestAsks = 3 // peers asked for the manifest at once, those apart that take long
	slowManifest    = 5 * time.Second
	maxBusy         = 30 * time.Second // before a busy source is asked again, whatever it says
	enoughDials     = 4                // failed in a row, for a source to count as unreachable
	namedDials      = 6                // ... for one that only another peer named to be given up
)

// source is one peer that is fetched from, or may be.
type source struct {
	addr  peers.Addr // as it was found first
	at    places
	named bool
	again int // taken up again because another peer named it
	pool  *actor.PID
	pools int // started so far
	turns int // places given up to others
	info  Source
	rate  meter // of what is verified

	asking   bool      // for the manifest
	slowAt   time.Time // asking: when others are asked beside
	askAt    time.Time // not before
	asks     int       // failed in a row
	cancel   func()    // the manifest request under way
	dials    int       // failed in a row
	held     bool      // waits for other links of this node
	up       bool      // was connected, at least once
	answered bool      // something took a connection, at least once
	lastLoss string    // why the last connection failed; empty: none did, or another one works
	notFound bool      // said that it does not have the share
	out      bool      // over for good
	lost     bool      // ... unless it comes by itself: it could not be reached
	in0      int64     // traffic with the peer before this transfer
	out0     int64
}

// seen is what others are told of the source now.
func (src *source) seen(now time.Time) Source {
	s := src.info
	s.Rate = src.rate.perSecond(now)
	return s
}

// places are where one source is by whoever named it, the first and the newest of the
// others. What comes of the first may be another's lie, so they are
// tried in turn.
type places []peers.Addr

const maxPlaces = maxNamers

// also adds addresses, and says whether they are new.
func (p *places) also(a peers.Addr) bool {
	if slices.ContainsFunc(*p, func(x peers.Addr) bool { return slices.Equal(x.Addrs, a.Addrs) }) {
		return false
	}
	if len(*p) == maxPlaces {
		*p = slices.Delete(*p, 1, 2)
	}
	*p = append(*p, a)
	return true
}

// try is where to try after so many attempts that failed.
func (p places) try(failed int) peers.Addr { return p[failed%len(p)] }

// stop ends what a source is doing; its record stays.
func (s *source) stop(ctx actor.Context) {
	if s.cancel != nil {
		s.cancel()
		s.cancel, s.asking = nil, false
	}
	if s.pool != nil {
		ctx.Stop(s.pool)
		s.pool = nil
	}
}

func (t *transfer) sourceFound(ctx actor.Context, m SourceFound) {
	if t.ending != nil || m.Addr.ID == t.net.Self() {
		return
	}
	if src := t.sources[m.Addr.ID]; src != nil {
		t.foundAgain(ctx, src, m)
		return
	}
	src := &source{addr: m.Addr, at: places{m.Addr}, named: m.Named, info: Source{Peer: m.Addr.ID}}
	src.in0, src.out0 = t.net.Traffic(m.Addr.ID)
	t.sources[m.Addr.ID] = src
	t.order = append(t.order, src)
	ctx.Request(t.node, AskRank{m.Addr.ID})
	t.startPool(ctx, src)
}

// foundAgain takes note of other addresses of a source, and takes it up again if it was
// given up because it could not be reached: always if it has come to us, and else only
// so often, as who is named need not exist.
func (t *transfer) foundAgain(ctx actor.Context, src *source, m SourceFound) {
	if src.at.also(m.Addr) && src.pool != nil {
		ctx.Send(src.pool, SourceAlso{m.Addr})
	}
	switch {
	case !src.lost:
		return
	case m.Came:
		src.at = places{m.Addr}
	case src.again == maxPlaces:
		return
	default:
		src.again++
	}
	src.out, src.lost, src.dials, src.asks, src.askAt = false, false, 0, 0, time.Time{}
	src.info.State, src.info.Why = Connecting, ""
	t.notify(SourceChanged{src.seen(t.s.Now())})
	t.startPool(ctx, src)
}

// goodSources are those that the share came from, first of all those that it was begun with.
func (t *transfer) goodSources() []peers.Addr {
	out := slices.DeleteFunc(slices.Clone(t.cmd.Sources), func(a peers.Addr) bool { return t.sources[a.ID] != nil && t.sources[a.ID].info.Banned })
	for _, src := range t.order {
		if src.info.Bytes > 0 && !src.info.Banned && !slices.ContainsFunc(out, func(a peers.Addr) bool { return a.ID == src.addr.ID }) {
			out = append(out, src.at[0])
		}
	}
	return out
}

// active is how many sources have a pool.
func (t *transfer) active() (n int) {
	for _, src := range t.order {
		if src.pool != nil {
			n++
		}
	}
	return n
}

// askForManifest asks some sources that have not failed lately.
func (t *transfer) askForManifest(ctx actor.Context) {
	now := t.s.Now()
	asking := 0
	for _, src := range t.order {
		if src.asking && src.slowAt.After(now) {
			asking++
		}
	}
	for _, src := range t.order {
		if asking >= maxManifestAsks {
			return
		}
		if src.asking || src.out || src.askAt.After(now) {
			continue
		}
		src.asking, src.slowAt = true, now.Add(slowManifest)
		asking++
		self, s, id := ctx.Self(), t.s, src.addr.ID
		why := "asking for the list of files"
		if src.lastLoss != "" {
			why = src.lastLoss + "; trying again"
		}
		src.stands(now, Connecting, why)
		src.cancel = t.net.FetchManifest(src.at.try(src.asks), t.cmd.Share, share.MaxManifest, func(b []byte, r wire.Reply, err error) {
			s.Send(self, manifestCame{id, b, r, err})
		})
	}
}

func (t *transfer) manifestCame(ctx actor.Context, m manifestCame) {
	src := t.sources[m.from]
	if src == nil || !src.asking {
		return
	}
	src.asking, src.cancel = false, nil
	now := t.s.Now()
	var parsed *share.Manifest
	switch {
	case m.err != nil:
		t.manifestFailed(ctx, src, m.err, now)
	case m.r.Status == wire.OK:
		src.up, src.dials, src.lastLoss = true, 0, ""
		if t.manifest != nil {
			return
		}
		var err error
		if parsed, err = share.DecodeManifest(m.manifest); err != nil {
			// The bytes are those that the share ID names, so no peer has better ones.
			t.end(ctx, Ended{Err: err})
			return
		}
	case m.r.Status == wire.Busy:
		src.up, src.dials, src.lastLoss = true, 0, ""
		src.retry(now, min(max(m.r.Retry, 100*time.Millisecond), maxBusy), "is busy; asked again in ")
	case m.r.Status == wire.NotFound:
		src.up, src.notFound = true, true
		t.sourceOut(ctx, src, "does not have the share")
	default:
		src.up, src.notFound = true, m.r.Status == wire.Gone
		t.sourceOut(ctx, src, m.r.String())
	}
	if parsed != nil {
		t.cancelAsks()
		t.open(ctx, parsed)
		return
	}
	t.judge(ctx)
}

func (t *transfer) manifestFailed(ctx actor.Context, src *source, err error, now time.Time) {
	switch {
	case errors.Is(err, peers.ErrProtocol), errors.Is(err, share.ErrManifest):
		src.up = true
		t.sourceLied(ctx, SourceLied{Source: src.addr.ID, Kind: Broken, Rule: rule(err)})
		t.sourceOut(ctx, src, src.info.Lie)
		return
	case errors.Is(err, peers.ErrUnreachable):
		src.dials++
	default:
		src.up = true
	}
	src.lastLoss = err.Error()
	if src.named && src.dials >= namedDials {
		src.lost = true
		t.sourceOut(ctx, src, src.lastLoss)
		return
	}
	src.asks++
	src.retry(now, min(time.Second<<min(src.asks-1, 5), 30*time.Second), src.lastLoss+"; trying again in ")
}

func (s *source) retry(now time.Time, after time.Duration, why string) {
	s.askAt = now.Add(after)
	s.stands(now, Resting, why+words.Duration(after))
}

// rule is which rule an error that wraps peers.ErrProtocol says was broken.
func rule(err error) string {
	return strings.TrimPrefix(err.Error(), peers.ErrProtocol.Error()+": ")
}

// stands notes how a source is.
func (s *source) stands(now time.Time, state SourceState, why string) {
	if s.info.State != state || s.info.Since.IsZero() {
		s.info.Since = now
	}
	s.info.State, s.info.Why = state, why
}

func (t *transfer) cancelAsks() {
	for _, src := range t.order {
		if src.cancel != nil {
			src.cancel()
			src.cancel, src.asking = nil, false
		}
	}
}

// sourceOut ends a source for good.
func (t *transfer) sourceOut(ctx actor.Context, src *source, why string) {
	src.out = true
	src.stop(ctx)
	if src.info.State != Banned {
		src.stands(t.s.Now(), Left, why)
	}
	t.notify(SourceChanged{src.seen(t.s.Now())})
}

func (t *transfer) sourceStatus(ctx actor.Context, m SourceStatus) {
	src := t.sources[m.Source]
	if src == nil || src.pool == nil || !sameActor(ctx.Sender(), src.pool) {
		return
	}
	src.up, src.answered = src.up || m.Connected, src.answered || m.Answered
	src.dials, src.lastLoss = m.Dials, m.LastLoss
	t.excuse(src)
	src.held = m.Held
	t.excuse(src)
	if m.RTT > 0 {
		src.info.RTT = m.RTT
	}
	was := src.info
	src.stands(t.s.Now(), m.State, m.Why)
	switch {
	case m.Gone:
		src.notFound = src.notFound || errors.Is(m.Outcome, share.ErrNotFound)
		t.sourceOut(ctx, src, m.Why)
		t.startWaiting(ctx)
	case src.named && !src.up && m.Dials >= namedDials:
		src.lost = true
		t.sourceOut(ctx, src, m.LastLoss)
		t.startWaiting(ctx)
	case m.Dials >= enoughDials && t.someWait():
		t.makeRoom(ctx, src)
	case was.State != src.info.State:
		t.notify(SourceChanged{src.seen(t.s.Now())})
	}
	t.judge(ctx)
}

func (s *source) waits() bool { return s.pool == nil && !s.out }

// someWait says whether a source waits for a place.
func (t *transfer) someWait() bool {
	return t.active() >= t.cfg.MaxSources && slices.ContainsFunc(t.order, (*source).waits)
}

// makeRoom has a source that cannot be reached wait in place of one that has waited.
func (t *transfer) makeRoom(ctx actor.Context, src *source) {
	src.stop(ctx)
	src.turns++
	src.info.State, src.info.Why = Resting, "waits while others are tried: "+src.info.Why
	t.notify(SourceChanged{src.seen(t.s.Now())})
	t.startWaiting(ctx)
}

// startWaiting gives places that are free to sources that have none: to those first
// that have given up theirs least often.
func (t *transfer) startWaiting(ctx actor.Context) {
	waiting := slices.DeleteFunc(slices.Clone(t.order), func(s *source) bool { return !s.waits() })
	slices.SortStableFunc(waiting, func(a, b *source) int { return cmp.Compare(a.turns, b.turns) })
	for _, src := range waiting {
		t.startPool(ctx, src)
	}
}

func (t *transfer) sourceLied(ctx actor.Context, m SourceLied) {
	src := t.sources[m.Source]
	if src == nil {
		return
	}
	src.info.BadBlocks++
	src.info.Lie = m.Kind.String()
	if m.Rule != "" {
		src.info.Lie += ": " + m.Rule
	}
	ctx.Request(t.node, PeerLied{Peer: m.Source, Proof: m.Kind == BadProof || m.Kind == Broken})
}

func (t *transfer) banned(ctx actor.Context, m PeerBanned) {
	src := t.sources[m.Peer]
	if src == nil || src.info.State == Banned {
		return
	}
	now := t.s.Now()
	src.info.Banned = true
	src.stands(now, Banned, fmt.Sprintf("banned for %s: it %s", words.Duration(m.Until.Sub(now)), orElse(src.info.Lie, "lied before")))
	t.toLeases(ctx, SourceDown{m.Peer})
	t.sourceOut(ctx, src, src.info.Why)
	t.startWaiting(ctx)
	t.judge(ctx)
}

// judge ends the transfer when no source is left that could ever help.
func (t *transfer) judge(ctx actor.Context) {
	if t.ending != nil || len(t.order) == 0 || t.state >= Finishing {
		return
	}
	var out, notFound, unreachable, liars int
	for _, src := range t.order {
		switch {
		case !src.connected() && src.dials >= enoughDials:
			unreachable++
		case src.out && !src.lost:
			out++
		}
		if src.notFound {
			notFound++
		}
		if src.info.BadBlocks > 0 || src.info.Banned { // now, or before
			liars++
		}
	}
	n := len(t.order)
	switch {
	case unreachable == n:
		t.end(ctx, Ended{Err: t.noConnection()})
	case notFound == n:
		t.end(ctx, Ended{Err: fmt.Errorf("%w: asked %d (%s)", share.ErrNotFound, n, t.lastWord())})
	case out == n && liars == 0 && !t.cfg.Fleet.used(): // a coordinator may name others
		t.end(ctx, Ended{Err: fmt.Errorf("%w: no source is left of %d (%s)", share.ErrStalled, n, t.lastWord())})
	case out+unreachable == n && liars > 0:
		t.end(ctx, Ended{Err: fmt.Errorf("%w: no source is left, and %d of %d lied (%s)", share.ErrLied, liars, n, t.lastWord())})
	}
}

// connected says whether anything took a connection at a source's addresses, ever.
func (s *source) connected() bool { return s.up || s.answered }

// noConnection is the end of a transfer none of whose sources took a connection.
func (t *transfer) noConnection() error {
	return fmt.Errorf("%w: no connection to %s (%s)", share.ErrNetwork, words.Count(len(t.order), "peer"), t.lastLoss())
}

// lastWord is what the most recent source that says anything says.
func (t *transfer) lastWord() string {
	src := t.lastSource()
	if src == nil {
		return "no source is known"
	}
	return src.addr.ID.Short() + ": " + src.info.Why
}

// lastLoss is lastWord at the end, when nothing is tried again.
func (t *transfer) lastLoss() string {
	src := t.lastSource()
	if src == nil || src.lastLoss == "" {
		return t.lastWord()
	}
	return src.addr.ID.Short() + ": " + src.lastLoss
}

// lastSource is the most recent source that says anything: of those that deliver, if
// there are any, else of those that may come back. Nil: there is none.
func (t *transfer) lastSource() *source {
	for _, counts := range []func(*source) bool{
		func(src *source) bool { return !src.out && src.info.State == Active },
		func(src *source) bool { return !src.out },
		func(src *source) bool { return true },
	} {
		for _, src := range slices.Backward(t.order) {
			if counts(src) && src.info.Why != "" {
				return src
			}
		}
	}
	return nil
}
