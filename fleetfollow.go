package fetcher

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/share"
)

// FollowOptions are what FollowFleet may be told.
type FollowOptions struct {
	// Dir is where the shares are put; default the working directory.
	Dir string
	// Name is what this machine is called in the fleet's rollout; default its peer ID.
	Name string
	// Fetch is how each share is fetched; Dir, Keep and Stall are filled in.
	Fetch FetchOptions
	// Told hears what happens: a share that begins, is done, or failed and is tried again.
	// It must not block, and may be nil.
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
	tellEvery   = 2 * time.Second  // how far this node is, if that has changed
	tellAnyway  = 10 * time.Second
	noStall     = 30 * 24 * time.Hour // a member waits for its fleet
)

// FollowFleet fetches what the list of the fleet names, serves it on, and tells the
// fleet how far it is, until ctx ends; Config.Fleet.Store says which fleet. What was
// begun goes on until the node is closed. While the store cannot be reached, so does
// what was begun.
func (n *Node) FollowFleet(ctx context.Context, opt FollowOptions) error {
	if n.cfg.Fleet.Store.KV == nil {
		return errors.New("the node has no store of a fleet")
	}
	if opt.Told == nil {
		opt.Told = func(FollowEvent) {}
	}
	if opt.Name == "" {
		opt.Name = string(n.ID())
	}
	f := &follower{n: n, store: n.cfg.Fleet.Store, opt: opt, news: make(chan []rounds.Entry), list: map[share.ID]*followed{}}
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		f.watch(ctx)
	}()
	defer func() { <-watched }()
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case entries := <-f.news:
			f.update(entries)
		case <-tick.C:
		}
		f.look(ctx)
		f.tell(ctx)
	}
}

// follower is a running FollowFleet.
type follower struct {
	n     *Node
	store FleetStore
	opt   FollowOptions
	news  chan []rounds.Entry
	list  map[share.ID]*followed
	order []share.ID

	told   MemberReport // last
	toldAt time.Time
}

// followed is a share of the list.
type followed struct {
	ListedShare
	t     *Transfer // the last; nil: none yet
	ended bool      // ... and that was told
	err   error
	retry time.Time
}

// watch passes on what changes in the list, until ctx ends.
func (f *follower) watch(ctx context.Context) {
	for ctx.Err() == nil {
		err := f.store.KV.Watch(ctx, listKey, func(entries []rounds.Entry) {
			select {
			case f.news <- slices.Clone(entries):
			case <-ctx.Done():
			}
		})
		if ctx.Err() == nil {
			f.n.log.Warn("the list of the fleet cannot be read; it is tried again", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryWatch):
		}
	}
}

func (f *follower) update(entries []rounds.Entry) {
	for _, e := range entries {
		l, ok, err := f.store.listed(e)
		switch old := f.list[l.ID]; {
		case err != nil:
			f.n.log.Warn("an entry in the list of the fleet is ignored", "error", err)
		case ok && old != nil:
			old.ListedShare = l
		case ok:
			f.list[l.ID] = &followed{ListedShare: l}
			f.order = append(f.order, l.ID)
		case old != nil:
			f.remove(old)
		}
	}
}

// remove ends what was begun for a share.
func (f *follower) remove(x *followed) {
	delete(f.list, x.ID)
	f.order = slices.DeleteFunc(f.order, func(id share.ID) bool { return id == x.ID })
	if x.t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), partingTime)
	defer cancel()
	if err := f.n.Remove(ctx, x.t.Entry()); err != nil {
		f.n.log.Warn("a share that was removed from the fleet's list", "error", err)
	}
	f.opt.Told(FollowEvent{Share: x.ID, Name: nameOf(x.t), What: "removed", Transfer: x.t})
}

// look begins what is to be begun, and notes what has ended.
func (f *follower) look(ctx context.Context) {
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

func (f *follower) begin(ctx context.Context, x *followed) {
	opt := f.opt.Fetch
	opt.Dir, opt.Keep, opt.Stall = f.opt.Dir, true, noStall
	t, err := f.n.Fetch(ctx, x.Ticket, opt)
	if errors.Is(err, share.ErrHeld) { // by what was asked of the node otherwise
		all := f.n.Transfers()
		if i := slices.IndexFunc(all, func(t *Transfer) bool { return t.ID() == x.ID }); i >= 0 {
			t, err = all[i], nil
		}
	}
	if err != nil {
		f.failed(x, err)
		return
	}
	x.t, x.ended, x.err = t, false, nil
	f.opt.Told(FollowEvent{Share: x.ID, What: "begun", Transfer: t})
}

func (f *follower) failed(x *followed, err error) {
	x.t, x.err, x.retry = nil, err, time.Now().Add(retryFetch)
	f.n.log.Warn("a share of the fleet's list cannot be fetched; it is tried again", "share", x.ID.String(), "error", err)
	f.opt.Told(FollowEvent{Share: x.ID, What: "failed", Err: err})
}

// ended notes the end of a transfer.
func (f *follower) ended(x *followed) {
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

// tell says how far this node is, if that has changed.
func (f *follower) tell(ctx context.Context) {
	now := time.Now()
	if now.Sub(f.toldAt) < tellEvery {
		return
	}
	r := MemberReport{Peer: f.n.ID(), Name: f.opt.Name}
	for _, id := range f.order[:min(len(f.order), maxReported)] {
		r.Shares = append(r.Shares, f.list[id].report())
	}
	if reflect.DeepEqual(r, f.told) && now.Sub(f.toldAt) < tellAnyway {
		return
	}
	f.told, f.toldAt = r, now
	r.At = f.n.cfg.Wall().UTC()
	ctx, cancel := context.WithTimeout(ctx, tellEvery)
	defer cancel()
	if err := f.store.put(ctx, statusKey+string(r.Peer), r); err != nil {
		f.told = MemberReport{} // again the next time
		f.n.log.Debug("how far this node is was not told to the fleet", "error", err)
	}
}

func (x *followed) report() ShareReport {
	r := ShareReport{ID: x.ID.String()}
	if x.t == nil {
		if x.err != nil {
			r.Waits = clip(x.err.Error(), maxWaits)
		}
		return r
	}
	p := x.t.Progress()
	r.Name, r.Bytes, r.Verified, r.Done = nameOf(x.t), p.Bytes, p.Verified, x.ended
	if !x.ended {
		r.Waits = clip(p.Reason, maxWaits)
	}
	return r
}

// clip is the beginning of a text.
func clip(s string, bytes int) string {
	return strings.ToValidUTF8(s[:min(len(s), bytes)], "")
}
