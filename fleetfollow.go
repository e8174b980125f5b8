package fetcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/share"
)

// FollowOptions are the options of FollowFleet.
type FollowOptions struct {
	// Dir is where the shares are put; default the working directory.
	Dir string
	// Name is what this machine is called in the fleet's rollout; default its peer ID.
	Name string
	// Fetch is how each share is fetched; Dir, Keep and Stall are filled in.
	Fetch FetchOptions
	// Told is called when the fetch of a share begins, is done, or has failed and will be
	// retried. It must not block, and may be nil.
	Told func(FollowEvent)
}

// FollowEvent is what happens to a share of the fleet's list.
type FollowEvent struct {
	Share    share.ID
	Name     string // empty: not known yet
	What     string // "begun", "done", "failed" or "removed"
	Err      error  // failed
	Transfer *Transfer
}

const (
	followEvery = time.Second
	retryFetch  = 15 * time.Second // of a share that could not be fetched
	retryWatch  = 2 * time.Second  // after the store was lost
	tellEvery   = 2 * time.Second  // reports how far this node is, if that has changed
	tellAnyway  = 10 * time.Second
	tellWithin  = 20 * time.Second    // gives up, and tries again
	noStall     = 30 * 24 * time.Hour // a member waits for its fleet
)

// FleetWork is what a member does about the list of its fleet; see [FleetStore.Follow].
// Its methods are called one at a time.
type FleetWork interface {
	// Update gets the shares that are new on the list or have another ticket there, in the
	// order in which they were added, and those that were removed; the first call gets the
	// whole list. It is called about once a second, with nothing if nothing has changed, and
	// must not block for long.
	Update(ctx context.Context, listed []ListedShare, gone []share.ID)
	// Report returns how far this member is with each share.
	Report() []ShareReport
	// Member is called whenever it is known whether this node is a member: with nil, or with
	// [ErrOtherFleet] when the secret of the fleet was changed.
	Member(err error)
}

// Follow keeps work up to date with the list of the fleet, and tells the fleet how far it is,
// in the name of me, until ctx ends; it returns why ctx ended. While the store cannot be
// reached, nothing changes. log may be nil.
func (s FleetStore) Follow(ctx context.Context, me MemberReport, log *slog.Logger, work FleetWork) error {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	f := &follower{store: s, me: me, log: log, work: work, news: make(chan []rounds.Entry), heard: make(chan error, 1)}
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { f.watch(ctx) })
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		var entries []rounds.Entry
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case entries = <-f.news:
		case err := <-f.heard:
			f.answered(err)
		case <-tick.C:
		}
		listed, gone := f.read(entries)
		work.Update(ctx, listed, gone)
		if r, due := f.due(time.Now()); due {
			running.Go(func() { f.heard <- f.tell(ctx, r) })
		}
	}
}

// follower is a running Follow.
type follower struct {
	store FleetStore
	me    MemberReport
	log   *slog.Logger
	work  FleetWork
	news  chan []rounds.Entry

	ours bool // the store is not another fleet's; only of what tells

	heard   chan error   // how it ended to tell
	telling bool         // it is being told
	told    MemberReport // last
	toldAt  time.Time
}

// watch passes on what changes in the list, until ctx ends.
func (f *follower) watch(ctx context.Context) {
	for said := ""; ctx.Err() == nil; {
		err := f.store.KV.Watch(ctx, listKey, func(entries []rounds.Entry) {
			select {
			case f.news <- slices.Clone(entries):
			case <-ctx.Done():
			}
		})
		if text := fmt.Sprint(err); ctx.Err() == nil && text != said {
			said = text
			f.log.Warn("the list of the fleet cannot be read; this node will try again", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryWatch):
		}
	}
}

// read decodes changes of the list: of each share the last.
func (f *follower) read(entries []rounds.Entry) (listed []ListedShare, gone []share.ID) {
	last := map[string]uint64{}
	for _, e := range entries {
		last[e.Key] = max(last[e.Key], e.Rev)
	}
	for _, e := range entries {
		if e.Rev != last[e.Key] {
			continue
		}
		l, ok, err := f.store.listed(e)
		switch {
		case err != nil:
			f.log.Warn("an entry in the list of the fleet is ignored", "error", err)
			f.told = MemberReport{} // it may have another secret: to tell anew finds out, within tellEvery
		case ok:
			listed = append(listed, l)
		default:
			gone = append(gone, l.ID)
		}
	}
	slices.SortFunc(listed, earlierListed)
	return listed, gone
}

// due returns how far this node is, if that is to be told now.
func (f *follower) due(now time.Time) (r MemberReport, due bool) {
	if f.telling || now.Sub(f.toldAt) < tellEvery {
		return r, false
	}
	r = f.me
	r.Shares = f.work.Report()
	r.clip()
	if reflect.DeepEqual(r, f.told) && now.Sub(f.toldAt) < tellAnyway {
		return r, false
	}
	f.telling, f.told, f.toldAt = true, r, now
	r.At = now.UTC()
	return r, true
}

// tell says how far this node is. It writes nothing into another fleet's store. A store may be slow: what the list says
// is done meanwhile.
func (f *follower) tell(ctx context.Context, r MemberReport) error {
	ctx, cancel := context.WithTimeout(ctx, tellWithin)
	defer cancel()
	if err := f.owned(ctx); err != nil {
		return err
	}
	return f.store.report(ctx, r)
}

// answered notes how it ended to tell.
func (f *follower) answered(err error) {
	f.telling = false
	if err == nil || errors.Is(err, ErrOtherFleet) {
		f.work.Member(err)
	}
	if err != nil {
		f.told = MemberReport{} // again the next time
		f.log.Debug("the fleet was not told how far this node has got", "error", err)
	}
}

// owned returns ErrOtherFleet if the store is another fleet's, or the secret of the fleet was changed.
func (f *follower) owned(ctx context.Context) error {
	if !f.ours {
		_, _, err := f.store.read(ctx)
		f.ours = err == nil
		return err
	}
	err := f.store.owned(ctx)
	if errors.Is(err, ErrOtherFleet) {
		f.ours = false
		f.log.Warn("this node is no longer a member of the fleet; join it to the fleet again, then restart it", "error", err)
	}
	return err
}

// FollowFleet fetches what the list of the fleet names, serves it from then on, and tells the
// fleet how far it is, until ctx ends; Config.Fleet.Store says which fleet. Transfers that
// were begun go on until the node is closed, and also while the store cannot be reached.
func (n *Node) FollowFleet(ctx context.Context, opt FollowOptions) error {
	if n.cfg.Fleet.Store.KV == nil {
		return errors.New("the node has no store of a fleet")
	}
	if opt.Told == nil {
		opt.Told = func(FollowEvent) {}
	}
	f := &followed{n: n, opt: opt, list: map[share.ID]*followedShare{}}
	return n.cfg.Fleet.Store.Follow(ctx, MemberReport{Peer: n.ID(), Name: cmp.Or(opt.Name, string(n.ID()))}, n.log, f)
}

// followed is a running FollowFleet: all that is on the list is fetched.
type followed struct {
	n     *Node
	opt   FollowOptions
	list  map[share.ID]*followedShare
	order []share.ID
}

// followedShare is a share of the list.
type followedShare struct {
	ListedShare
	t     *Transfer // the last; nil: none yet
	other bool      // ... which the node was asked for otherwise
	ended bool      // ... and that was told
	err   error
	retry time.Time
}

func (f *followed) Update(ctx context.Context, listed []ListedShare, gone []share.ID) {
	for _, l := range listed {
		if l.Internal {
			continue
		}
		if old := f.list[l.ID]; old != nil {
			later := old.Ticket != l.Ticket
			if old.ListedShare = l; later {
				f.fetchAnew(old)
			}
			continue
		}
		f.list[l.ID] = &followedShare{ListedShare: l}
		f.order = append(f.order, l.ID)
	}
	for _, id := range gone {
		if old := f.list[id]; old != nil {
			f.remove(old)
		}
	}
	f.look(ctx)
}

func (f *followed) Member(error) {}

func (f *followed) Report() (out []ShareReport) {
	for _, id := range f.order {
		out = append(out, f.list[id].report())
	}
	return out
}

// remove ends what was begun for a share.
func (f *followed) remove(x *followedShare) {
	delete(f.list, x.ID)
	f.order = slices.DeleteFunc(f.order, func(id share.ID) bool { return id == x.ID })
	if x.t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), partingTime)
	defer cancel()
	if err := f.n.Remove(ctx, x.t.Entry()); err != nil {
		f.n.log.Warn("a share was taken off the fleet's list, and what this node remembers of it cannot be removed", "error", err)
	}
	f.opt.Told(FollowEvent{Share: x.ID, Name: nameOf(x.t), What: "removed", Transfer: x.t})
}

// fetchAnew ends a transfer that has begun, so that the next fetches what is missing with the ticket that is listed now.
func (f *followed) fetchAnew(x *followedShare) {
	x.retry = time.Time{}
	if x.t == nil || x.other || x.ended {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), partingTime)
	defer cancel()
	if err := x.t.Stop(ctx); err != nil {
		f.n.log.Warn("the fleet has another ticket for a share, and this node could not change to it", "share", x.ID.String(), "error", err)
	} else if errors.Is(x.t.Wait(ctx), ErrStopped) { // else look sees how it ended
		x.t = nil
	}
}

// look begins the transfers that are due, and notes which have ended.
func (f *followed) look(ctx context.Context) {
	for _, id := range f.order {
		x := f.list[id]
		if x.t != nil && !x.ended {
			f.ended(x)
		}
		if x.t == nil && !time.Now().Before(x.retry) {
			f.begin(ctx, x)
		}
	}
}

func (f *followed) begin(ctx context.Context, x *followedShare) {
	opt := f.opt.Fetch
	opt.Dir, opt.Keep, opt.Stall = f.opt.Dir, true, noStall
	t, err := f.n.Fetch(ctx, x.Ticket, opt)
	other := errors.Is(err, share.ErrHeld)
	if other { // by a transfer that the node was asked for otherwise
		all := f.n.Transfers()
		if i := slices.IndexFunc(all, func(t *Transfer) bool { return t.ID() == x.ID }); i >= 0 {
			t, err = all[i], nil
		}
	}
	if err != nil {
		f.failed(x, err)
		return
	}
	x.t, x.other, x.ended, x.err = t, other, false, nil
	f.opt.Told(FollowEvent{Share: x.ID, What: "begun", Transfer: t})
}

func (f *followed) failed(x *followedShare, err error) {
	x.t, x.err, x.retry = nil, err, time.Now().Add(retryFetch)
	f.n.log.Warn("a share of the fleet's list cannot be fetched; this node will try again", "share", x.ID.String(), "error", err)
	f.opt.Told(FollowEvent{Share: x.ID, What: "failed", Err: err})
}

// ended notes the end of a transfer.
func (f *followed) ended(x *followedShare) {
	select {
	case <-x.t.Done():
	default:
		return
	}
	if err := x.t.Wait(context.Background()); err != nil {
		f.failed(x, err)
		return
	}
	x.ended = true
	f.opt.Told(FollowEvent{Share: x.ID, Name: nameOf(x.t), What: "done", Transfer: x.t})
}

func nameOf(t *Transfer) string {
	if m := t.Manifest(); m != nil {
		return m.Name
	}
	return ""
}

func (x *followedShare) report() ShareReport {
	r := ShareReport{ID: x.ID.String()}
	if x.t == nil {
		if x.err != nil {
			r.Waits = x.err.Error()
		}
		return r
	}
	p := x.t.Progress()
	r.Name, r.Bytes, r.Verified, r.Done = nameOf(x.t), p.Bytes, p.Verified, x.ended
	if !x.ended {
		r.Waits = p.Reason
	}
	return r
}

// clip cuts a text to at most that many bytes.
func clip(s string, bytes int) string {
	return strings.ToValidUTF8(s[:min(len(s), bytes)], "")
}
