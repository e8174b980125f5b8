package simnet

import (
	"strings"
	"time"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/transfer"
)

// FetchOptions are how a node fetches. The zero value works.
type FetchOptions struct {
	Config actors.TransferConfig // default 2 verifiers
	// Leave stops the node when the fetch has succeeded, as the command does;
	// default: it goes on serving.
	Leave bool
	// Want is how the fetch must end, as errors.Is sees it; default nil, whole.
	Want error
	// MayFail is any other end that is no fault of the program.
	MayFail bool
	// Manifest, if set, need not be asked for.
	Manifest bool
	// Beacons, if any, are asked who else has it, at S1.
	Beacons []*Node
	// Skip leaves out entries of the manifest, until Choose says otherwise. An entry
	// still left out at the end is a fault: scenarios end with the whole share.
	Skip func(entry int) bool
}

// Fetch is one share that a node fetches, over all its lives.
type Fetch struct {
	x       *Node
	c       *Content
	from    []*Node
	opt     FetchOptions
	life    int           // of the node, when it was begun last
	handle  actors.Handle // of the last life's run, at S1
	partial *store.Partial
	began   time.Duration // when it was asked for
	started time.Duration // of the last life's run
	ended   *actors.Ended // of the last life
	endedAt time.Duration
	wholeAt time.Duration // the first time that it was whole; 0: not yet
	last    actors.Progress
	resumed int64 // bytes, in all lives

	toCome   int           // pieces of the plan that are not done
	revoked  int           // leases that were revoked from its pools
	moved    time.Duration // when a byte was last verified, or the fetch began
	bytes    int64         // verified, in all lives
	twice    int64         // of duplicates, in all lives
	leases   LeaseEnds     // in lives that are over
	stalled  time.Duration // when it last said why nothing moves; negative: not yet
	why      actors.Stalled
	needless bool
	helpers  map[*Node]time.Duration // which could have helped, and since when
	boasts   bool                    // it serves pieces that it has not verified
	blames   map[*Node]bool          // honest nodes that it said lied
}

// Fetches returns everything that the node was told to fetch, in that order.
func (x *Node) Fetches() []*Fetch { return x.fetches }

// Fetch starts fetching content from nodes that it knows.
func (x *Node) Fetch(c *Content, from ...*Node) *Fetch {
	return x.FetchWith(c, FetchOptions{}, from...)
}

// FetchWith is Fetch with options.
func (x *Node) FetchWith(c *Content, opt FetchOptions, from ...*Node) *Fetch {
	f := &Fetch{x: x, c: c, opt: opt, from: from, began: x.net.Elapsed(), blames: map[*Node]bool{}}
	if f.opt.Config.Verifiers == 0 {
		f.opt.Config.Verifiers = 2
	}
	f.opt.Config.Keep = !f.opt.Leave
	x.fetches = append(x.fetches, f)
	f.begin()
	return f
}

// begin starts the fetch, now or when its node starts.
func (f *Fetch) begin() {
	x := f.x
	if x.state != running && x.state != frozen || x.closing {
		return
	}
	x.net.log.add(MarkNone, x.id, "fetches %s", f.c.Manifest.Name)
	now := x.net.Elapsed()
	f.life, f.ended = x.life, nil
	f.last.State, f.last.Reason, f.last.Sources = transfer.Finding, "", nil // what the life before told is over
	f.started, f.moved, f.stalled = now, now, -1
	x.host.Fetch(f)
}

// resume continues in the node's next life, unless the story is over.
func (f *Fetch) resume() {
	switch {
	case f.x.net.ref.over:
	case f.ended == nil || f.ended.Err != nil:
		f.begin()
	case !f.opt.Leave: // whole: recognise it, and serve it
		f.begin()
	}
}

// ends is told that the node's life is over.
func (f *Fetch) ends() {
	f.twice += f.last.Duplicate
	f.leases = f.leases.add(f.last.Leases)
	f.last.Duplicate, f.last.Leases = 0, actors.Leases{}
}

// Notify is for a Host: something has happened to the fetch.
func (f *Fetch) Notify(e actors.Event) {
	n := f.x.net
	n.ref.told(f, e)
	switch e := e.(type) {
	case actors.Progress:
		if n.tier != nil { // where simnet does not see the messages of actors
			f.advanced(e.Verified)
		}
		f.last = e
	case actors.Planned:
		f.resumed += e.Resumed
		n.log.add(MarkNone, f.x.id, "plan: %s to fetch, %s resumed", words.Count(e.Pieces, "piece"), words.Count(int(e.Resumed), "byte"))
	case actors.SourceChanged:
		kind := MarkNone
		if e.Source.State == actors.Banned {
			kind = MarkBan
		}
		text := e.Source.Why
		if state := e.Source.State.String(); !strings.HasPrefix(text, state) {
			text = state + ": " + text
		}
		n.log.add(kind, f.x.id, "source %s: %s", n.called(e.Source.Peer), text)
	case actors.Stalled:
		f.stalled, f.why = n.Elapsed(), e
		n.log.add(MarkStall, f.x.id, "stalled for %s: %s", words.Duration(e.For), e.Reason)
		n.ref.stalled(f, e)
	case actors.Ended:
		if n.tier != nil {
			f.advanced(e.Last.Verified)
		}
		f.last, f.ended, f.endedAt = e.Last, &e, n.Elapsed()
		if e.Err == nil && f.wholeAt == 0 {
			f.wholeAt = f.endedAt
		}
		n.log.add(MarkEnd, f.x.id, "ended: %v", orWhole(e.Err))
		n.ref.ended(f)
		if f.x.offers != nil && e.Err != nil {
			f.x.offers.Remove(f.c.ID())
		}
		if e.Err == nil && f.opt.Leave {
			life := f.x.life
			n.After(0, func() {
				if f.x.life == life {
					f.x.Stop()
				}
			})
		}
	}
}

// advanced records how much is verified.
func (f *Fetch) advanced(verified int64) {
	if verified != f.last.Verified {
		f.moved = f.x.net.Elapsed()
	}
	f.bytes += max(0, verified-f.last.Verified)
}

func orWhole(err error) string {
	if err == nil {
		return "whole"
	}
	return err.Error()
}

// Stop ends the fetch; what is verified is kept.
func (f *Fetch) Stop() { f.x.host.StopFetch(f) }

// Done says whether the fetch has ended, and how.
func (f *Fetch) Done() (done bool, err error) {
	if f.ended == nil {
		return false, nil
	}
	return true, f.ended.Err
}

// Part is how much of the share is verified, from 0 to 1.
func (f *Fetch) Part() float64 { return float64(f.last.Verified) / float64(f.c.bytes) }

// Took is how long the last run of the fetch took.
func (f *Fetch) Took() time.Duration { return f.endedAt - f.started }

// EndedAt is when it ended last, since the world began.
func (f *Fetch) EndedAt() time.Duration { return f.endedAt }

// Resumed is the bytes that its runs found on disk, together.
func (f *Fetch) Resumed() int64 { return f.resumed }

// Revoked is how many leases were revoked from its pools.
func (f *Fetch) Revoked() int { return f.revoked }

// Stalled is the last reason that it gave for making no progress.
func (f *Fetch) Stalled() actors.Stalled { return f.why }

// Progress is the last progress that it reported.
func (f *Fetch) Progress() actors.Progress { return f.last }

// Node is where the fetch happens.
func (f *Fetch) Node() *Node { return f.x }

// Content is what is fetched, Sources from which nodes, and Options how.
func (f *Fetch) Content() *Content     { return f.c }
func (f *Fetch) Sources() []*Node      { return f.from }
func (f *Fetch) Options() FetchOptions { return f.opt }

// Verified is the pieces that are here, for reading only; nil while that is not known.
func (f *Fetch) Verified() *share.Set { return f.x.host.Verified(f) }
