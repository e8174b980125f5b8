package simnet

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/transfer"
)

// referee checks every message and every node, and knows what must hold
// whatever a scenario does:
//
//   - each piece of a plan is wanted, leased or verified, and no other is: with each
//     that completes one less is left, and the counts per sender add up to it;
//   - a node that waits longer than five seconds has said why;
//   - no node waits long while another could help;
//   - no honest node is blamed;
//   - a share that is whole has exactly the bytes that were generated;
//   - nobody serves what it has not verified;
//   - a fetch ends once, soon when it is told to, and says nothing after that;
//   - at the end nothing is leased or in flight, no actor of a fetch lives, no
//     link or file is open, no lock held, and nothing lies beside a share that is
//     whole;
//   - no program logs an error, panics, fails to end, or runs in circles.
type referee struct {
	n      *Net
	Faults []Fault
	byNode map[string]*Node

	patience time.Duration // how long a wait may be that somebody could end
	exempt   bool          // ... and whether that is not checked

	serving map[served]*share.Set // what nodes served at the present check, of those that were asked about

	second    time.Duration // when the present second began
	steps     uint64        // ... and the steps until then
	inCircles bool

	over bool // the story is: what starts from now on fetches nothing
}

// served names what one node serves of some content.
type served struct {
	by *Node
	of *Content
}

// Fault is something that did not hold.
type Fault struct {
	At   time.Duration
	Node peers.ID
	Rule string
	Text string
}

func (f Fault) String() string {
	return fmt.Sprintf("%.3f %s: %s: %s", f.At.Seconds(), cmp.Or(f.Node, "all"), f.Rule, f.Text)
}

const (
	sayWhyIn   = 5 * time.Second
	lookAt     = time.Second // how often waits are checked
	maxFaults  = 50
	helpWithin = 40 * time.Second // default of referee.patience: the longest redial, 30 s and its jitter, and the dial
)

func newReferee(n *Net) *referee {
	r := &referee{n: n, byNode: map[string]*Node{}, patience: helpWithin, serving: map[served]*share.Set{}}
	n.Every(lookAt, func() bool {
		r.look()
		return true
	})
	return r
}

func (r *referee) broken(node peers.ID, rule, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.n.log.add(MarkFault, node, "FAULT %s: %s", rule, text)
	if len(r.Faults) < maxFaults {
		r.Faults = append(r.Faults, Fault{r.n.Elapsed(), peers.ID(r.n.called(node)), rule, text})
	}
}

// node is the node that an actor's address names.
func (r *referee) node(addr string) *Node {
	id, _, _ := strings.Cut(addr, "/")
	return r.n.byID[peers.ID(id)]
}

// observe sees every message as it is handed over.
func (r *referee) observe(d system.Delivery) {
	switch m := d.Message.(type) {
	case actors.BlocksVerified:
		if x := r.node(d.To()); x != nil && m.Bytes > 0 {
			for _, f := range x.fetches {
				if f.ended == nil {
					f.moved = d.At
					f.bytes += int64(m.Bytes)
				}
			}
		}
	case actors.PieceDone:
		r.pieceDone(r.node(d.To()), m)
	case actors.LeaseRevoked:
		if x := r.node(d.To()); x != nil {
			if f := x.only(); f != nil {
				f.revoked += len(m.Leases)
			}
		}
	}
}

// pieceDone checks what a lease manager reports when a piece is verified. A node that
// fetches two shares at once does not say which one it means.
func (r *referee) pieceDone(x *Node, m actors.PieceDone) {
	if m.Last != (m.Remaining == 0) {
		r.broken(x.id, "conservation", "piece %d is done; reported to be the last: %v; reported as still to come: %d", m.Piece, m.Last, m.Remaining)
	}
	f := x.only()
	if f == nil || f.opt.Skip != nil { // where the choice changes, so does the plan
		return
	}
	if f.toCome--; m.Remaining != f.toCome {
		r.broken(x.id, "conservation", "piece %d is done; still to come by the plan: %d; wanted or leased: %d", m.Piece, f.toCome, m.Remaining)
		f.toCome = m.Remaining // report it only once
	}
	sum := 0
	for _, c := range m.Credits {
		sum += c.Bytes
	}
	if want := f.c.Manifest.Layout().PieceLen(m.Piece); sum != want {
		r.broken(x.id, "credits", "piece %d has %d bytes, and its sources are credited with %d", m.Piece, want, sum)
	}
}

// only is the one fetch that a node is running; nil if there are none or several.
func (x *Node) only() (one *Fetch) {
	for _, f := range x.fetches {
		if f.life != x.life || f.ended != nil {
			continue
		}
		if one != nil {
			return nil
		}
		one = f
	}
	return one
}

// plan checks what a lease manager reports of itself.
func (r *referee) plan(f *Fetch, wanted, leased, verified int) {
	if all := f.c.Manifest.Layout().Pieces(); wanted+leased+verified != all && wanted+leased+verified > 0 {
		r.broken(f.x.id, "conservation", "%d wanted, %d leased and %d verified do not add up to %d pieces", wanted, leased, verified, all)
	}
}

// look is called once a second.
func (r *referee) look() {
	clear(r.serving)
	for _, x := range r.n.nodes {
		if x.state != running {
			continue
		}
		for _, f := range x.fetches {
			if f.ended == nil && f.life == x.life {
				r.waits(f)
				r.unverified(f)
			}
		}
	}
}

// unverified checks what a node serves while it fetches.
func (r *referee) unverified(f *Fetch) {
	if r.n.tier != nil || f.partial == nil || f.boasts {
		return
	}
	if p, ok := r.serves(f.x, f.c, f.partial.Verified()); ok {
		f.boasts = true
		r.broken(f.x.id, "serves", "piece %d is not verified, and is served", p)
	}
}

// waits checks a fetch that is running.
func (r *referee) waits(f *Fetch) {
	now := r.n.Elapsed()
	since := max(f.moved, f.x.disturbed)
	quiet := now - since
	switch f.last.State {
	case actors.Opening, actors.Finishing, actors.Complete:
		return
	}
	if quiet > sayWhyIn+lookAt && f.stalled < f.moved {
		r.broken(f.x.id, "silent wait", "nothing for %s, and no reason given", words.Duration(quiet))
		f.stalled = now // report it only once
	}
	if f.needless || r.exempt || f.last.State == actors.DiskFull || !f.x.acts.honest() { // what that one sends may be why it waits
		return
	}
	if y, p := r.helper(f, since); y != nil {
		f.needless = true
		r.broken(f.x.id, "needless wait", "nothing for %s%s; %s has piece %d", words.Duration(quiet), f.because(), y.Name(), p)
		r.n.ask(f)
	}
}

// helper is an honest node that could have helped a fetch for longer than a node
// should wait, and a piece that it has. When a fetch moves, this time starts again.
func (r *referee) helper(f *Fetch, since time.Duration) (*Node, share.Piece) {
	now := r.n.Elapsed()
	before := f.helpers
	f.helpers = nil
	if now-since < lookAt {
		return nil, 0
	}
	have := f.Verified()
	if have == nil && f.last.State == transfer.Finding {
		have = share.NewSet(f.c.Manifest.Layout().Pieces())
	}
	if have == nil {
		return nil, 0
	}
	f.helpers = map[*Node]time.Duration{}
	for _, s := range f.last.Sources {
		y := r.n.byID[s.Peer]
		if y == nil || !r.n.could(y, f.x) {
			continue
		}
		p, ok := r.serves(y, f.c, have)
		if !ok {
			continue
		}
		could, known := before[y]
		if !known || y.disturbed > could {
			could = now
		}
		f.helpers[y] = could
		if now-could > r.patience {
			return y, p
		}
	}
	return nil, 0
}

// could says whether an honest node can now send another what it has.
func (n *Net) could(y, x *Node) bool {
	return y.state == running && y.acts.honest() && y.acts.MuteAfter == 0 && y.acts.Rate == 0 && !y.cfg.NAT && !n.blocked(y, x) && !n.blocked(x, y)
}

// serves is the first piece that a node serves and that is not among those given.
func (r *referee) serves(y *Node, c *Content, have *share.Set) (share.Piece, bool) {
	all := r.serving[served{y, c}]
	if all == nil { // computed once: in a large fleet every node is a source of every other
		all = share.NewSet(have.Len())
		for p := range share.Piece(have.Len()) {
			if y.host.Serves(c, p) {
				all.Add(p)
			}
		}
		r.serving[served{y, c}] = all
	}
	for p := range all.Minus(have).All() {
		return p, true
	}
	return 0, false
}

// ask has the plan of a fetch explained in the timeline, soon.
func (n *Net) ask(f *Fetch) {
	n.log.add(MarkNone, f.x.id, "why: %s", strings.Join(f.why.Why, "\n                          "))
	for _, s := range f.last.Sources {
		n.log.add(MarkNone, f.x.id, "why: source %s %v, %d bytes, %.0f B/s, rtt %v: %s", n.called(s.Peer), s.State, s.Bytes, s.Rate, s.RTT, s.Why)
	}
}

func (r *referee) stalled(f *Fetch, e actors.Stalled) {
	if e.Reason == "" {
		r.broken(f.x.id, "silent wait", "stalled for %s without a reason", words.Duration(e.For))
	}
}

// told hears every event of a fetch before the fetch takes note of it.
func (r *referee) told(f *Fetch, e actors.Event) {
	if f.ended != nil {
		r.broken(f.x.id, "end", "the fetch has ended, and still reports something (%T)", e)
	}
	switch e := e.(type) {
	case actors.Planned:
		f.toCome = e.Pieces
	case actors.Progress:
		r.blame(f, e.Sources)
	case actors.Ended:
		r.blame(f, e.Last.Sources)
	}
}

// blame checks what a fetch says of its sources.
func (r *referee) blame(f *Fetch, sources []actors.Source) {
	for _, s := range sources {
		if s.BadBlocks == 0 && !s.Banned {
			continue
		}
		if y := r.n.byID[s.Peer]; y != nil && y.acts.honest() && !f.blames[y] {
			f.blames[y] = true // report it only once
			r.broken(f.x.id, "blame", "%s is honest; lies that it is blamed for in this run: %d (%s); banned: %v", y.Name(), s.BadBlocks, cmp.Or(s.Lie, "none"), s.Banned)
		}
	}
}

// ended checks a fetch that is over.
func (r *referee) ended(f *Fetch) {
	if f.ended.Err != nil {
		return
	}
	p := f.last
	if p.Done != p.Pieces || p.Verified != p.Bytes || p.Bytes != f.c.bytes {
		r.broken(f.x.id, "whole", "the fetch reported that it is whole, with %d of %d pieces and %d of %d bytes; the share has %d bytes", p.Done, p.Pieces, p.Verified, p.Bytes, f.c.bytes)
	}
	if err := f.c.Check(f.x.disk.FS()); err != nil {
		r.broken(f.x.id, "bytes", "%v", err)
	}
	if name := f.c.Manifest.Name + ".partial"; !errors.Is(second(f.x.disk.FS().Lstat(name)), fs.ErrNotExist) {
		r.broken(f.x.id, "left", "the share is whole, and %s is still there", name)
	}
}

func second[T any](_ T, err error) error { return err }

// closed checks a node whose program has ended.
func (r *referee) closed(x *Node) {
	if bytes, blocks := x.host.InFlight(); bytes != 0 || blocks != 0 {
		r.broken(x.id, "in flight", "%s in %s are left when it has ended", words.Count(int(bytes), "byte"), words.Count(blocks, "block"))
	}
	x.conned(func(c *conn) {
		for _, u := range c.users[c.side(x)] {
			if l, ok := u.(*link); ok && c.believes(x) {
				r.broken(x.id, "left", "it has ended, and a link to %s is open", l.to)
			}
		}
	})
}

// left checks a node that has ended in good order.
func (r *referee) left(x *Node) {
	if open, _ := x.disk.Open(); open > 0 || x.disk.Held() > 0 {
		r.broken(x.id, "left", "it has ended, and has %s and %s", words.Count(open, "open file"), words.Count(x.disk.Held(), "lock"))
	}
}

// spinning is how many steps of one node in a second can no longer be useful work.
const spinning = 200_000

// spins says whether the nodes run in circles: there is always something to do, and
// time does not pass.
func (r *referee) spins() bool {
	now, steps := r.n.Elapsed(), r.n.Steps()
	switch {
	case r.inCircles:
	case now-r.second >= time.Second:
		r.second, r.steps = now, steps
	case steps-r.steps > spinning*uint64(max(4, len(r.n.nodes))):
		r.inCircles = true
		r.broken("", "spin", "%d steps within a second, which began at %v", steps-r.steps, r.second)
	}
	return r.inCircles
}

// final checks everything when all is over.
func (r *referee) final() {
	for _, x := range r.n.nodes {
		for _, f := range x.fetches {
			r.verdict(f)
		}
		if x.state != running {
			continue
		}
		idle := true
		for _, f := range x.fetches {
			idle = idle && f.ended != nil
		}
		if bytes, blocks := x.host.InFlight(); idle && (bytes != 0 || blocks != 0) {
			r.broken(x.id, "in flight", "%s in %s, and nothing is being fetched", words.Count(int(bytes), "byte"), words.Count(blocks, "block"))
		}
		if r.n.tier == nil && idle {
			if ids := x.program.Transfers(); len(ids) > 0 {
				r.broken(x.id, "left", "nothing is being fetched, and this is still running: %s", strings.Join(ids, ", "))
			}
		}
	}
}

// verdict says whether a fetch ended as it should.
func (r *referee) verdict(f *Fetch) {
	switch {
	case f.ended == nil && f.opt.MayFail && f.life != f.x.life:
	case f.ended == nil:
		r.broken(f.x.id, "end", "has not ended: %v, %d of %d bytes%s", f.last.State, f.last.Verified, f.c.bytes, f.because())
		if f.x.state == running {
			why, wanted, leased, verified := f.x.host.Why(f)
			r.plan(f, wanted, leased, verified)
			f.why.Why = why[:min(len(why), 20)] // all of it is in Result.Missing
			r.n.ask(f)
		}
	case f.opt.MayFail:
	case !is(f.ended.Err, f.opt.Want):
		r.broken(f.x.id, "end", "ended: %v; it should have ended: %v", orWhole(f.ended.Err), orWhole(f.opt.Want))
		r.n.ask(f)
	}
}
