package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/catalog"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
)

// fetch fetches the share of an entry when its turn comes, and then serves it, until something
// else is wanted.
func (k *keeper) fetch(e catalog.Entry) {
	if m := unmounted(e, []string{leadsTo(e.Dir, 0)}); m != "" { // else it would begin anew below the mount point
		k.d.queue.leave(&k.place)
		k.show(api.Missing, fmt.Sprintf("nothing is mounted at %s, where a disk was before. The fetch goes on when the disk is back. To fetch without that disk, remove the entry and add it again", m))
		k.lookOut([]string{m}, false, time.Minute) // of a mount nothing is heard
		return
	}
	if !k.turn() {
		return
	}
	opt := fetcher.FetchOptions{Dir: e.Dir, Peers: e.Peers, Only: e.Only, Skip: e.Skip, First: e.First, Repair: e.Repair, Visible: visible(e.Wish), DownloadRate: e.Down, Called: e.Called, OnlyHere: wasFetched(e.State), Keep: true}
	if k.d.member.owns(e) || e.Called {
		opt.Stall = patient
	}
	if opt.OnlyHere {
		opt.Turn = func(ctx context.Context) (func(), error) { return inTurn(ctx, k.d.reads) }
		k.show(api.Opening, "")
	} else {
		k.show(api.Fetching, "")
	}
	t, err := k.d.node.Fetch(k.life, e.Source, opt)
	if err != nil {
		k.d.queue.leave(&k.place)
		k.stumble(err)
		return
	}
	k.fetched = t.Entry()
	k.revisible(e.Wish)
	k.calm()
	k.mu.Lock()
	k.transfer = t
	k.mu.Unlock()
	stopped, err := k.follow(e, t)
	made(k, t)
	if !stopped && err == nil {
		k.arrived(t)
		if !sameChoice(k.entry().Wish, e.Wish) { // the wish has changed meanwhile, and that is not here yet
			k.note(func(s *catalog.Status) { s.State = catalog.Asked })
			k.unshare()
		} else if k.asTransfer(e) { // else it is served from where it lies, so that changes are noticed
			k.d.queue.leave(&k.place)
			k.seed(e, t.Unserved(), t.Look, k.unshare)
		}
	}
	k.over(t)
	if !stopped && err != nil { // what was stopped keeps its turn, unless it is not to be fetched any more
		k.d.queue.leave(&k.place)
		k.named(t)
		k.stumble(err)
	}
}

// wasFetched reports whether all that was chosen of an entry was here once. It is not fetched again unless its owner says so.
func wasFetched(s catalog.State) bool { return s == catalog.Kept || s == catalog.Missing }

// patient is how long a member waits for its fleet, and a node for a source that is to connect to it.
const patient = 30 * 24 * time.Hour

// asTransfer reports whether an entry is served by the transfer that fetched it, not from where
// it lies: so are a part of a share, and shares of a fleet, whose members know each other by
// their transfers.
func (k *keeper) asTransfer(e catalog.Entry) bool {
	return len(e.Only)+len(e.Skip) > 0 || k.d.member.owns(e)
}

// enqueue gives an entry that is to be fetched a place in the queue, unless it has one. What is for the fleet waits for no turn, as the
// fleet decides when that is fetched; nor does what a source connects for.
func enqueue(k *keeper, e catalog.Entry) {
	if e.Kind != catalog.Fetch || e.Paused || e.State == catalog.Ended || wasFetched(e.State) || k.d.member.owns(e) || e.Called {
		k.d.queue.leave(&k.place)
	} else {
		k.d.queue.enter(&k.place, e.Priority)
	}
}

// turn reports whether it is the entry's turn. If not, it waits for that, or until something else may be wanted.
func (k *keeper) turn() bool {
	if k.place.turn == nil {
		return true
	}
	k.show(api.Waiting, "")
	k.calm()
	select {
	case <-k.place.turn:
		return true
	default:
	}
	select {
	case <-k.place.turn: // whatever has changed meanwhile is looked at first
	case <-k.wake:
	case <-k.life.Done():
	}
	return false
}

// follow handles the events of a transfer of e until it has ended. stopped says that something
// else is wanted.
func (k *keeper) follow(e catalog.Entry, t *fetcher.Transfer) (stopped bool, err error) {
	life := k.life.Done()
	events := t.Events(context.Background())
	for {
		select {
		case <-life:
			stopped, life = true, nil
			k.halt(t)
		case <-k.wake:
			now := k.entry()
			t.SetDownloadRate(now.Down)
			if now.Paused || !sameChoice(now.Wish, e.Wish) || !slices.Equal(now.First, e.First) || now.Repair && !e.Repair {
				stopped = true
				k.halt(t)
			}
		case ev, ok := <-events:
			if !ok {
				return stopped, t.Wait(k.d.life)
			}
			k.heard(t, ev)
		}
	}
}

// halt stops a transfer, and keeps the verified data.
func (k *keeper) halt(t *fetcher.Transfer) {
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	if err := t.Stop(ctx); err != nil {
		k.d.log.Debug("stop a fetch", "id", k.id, "error", err)
	}
}

// sameChoice reports whether two wishes are fetched in the same way.
func sameChoice(a, b catalog.Wish) bool {
	return slices.Equal(a.Only, b.Only) && slices.Equal(a.Skip, b.Skip) && slices.Equal(a.Peers, b.Peers)
}

func (k *keeper) heard(t *fetcher.Transfer, ev fetcher.Event) {
	switch ev := ev.(type) {
	case fetcher.Planned:
		k.mu.Lock()
		k.manifest = ev.Manifest
		k.mu.Unlock()
		mounts := mountedAbove(leadsTo(k.entry().Dir, 0), map[string]bool{})
		k.note(func(s *catalog.Status) {
			s.Found = s.Found || s.Title == "" && t.WasHere() // before anything of it was fetched for this entry
			s.Share, s.Title, s.Bytes, s.Files = t.ID(), ev.Manifest.Name, ev.Bytes, ev.Files
			if !wasFetched(s.State) {
				s.State, s.Why = catalog.Asked, ""
			}
			s.Mounts = stillAway(s.Mounts, mounts)
		})
	case fetcher.Progress:
		k.moved(ev)
		k.tellSometimes()
	case fetcher.SourceChanged:
		if ev.Source.Banned {
			k.d.log.Warn("a peer is banned", "peer", ev.Source.Peer, "entry", k.id, "reason", ev.Source.Why)
		}
	case fetcher.Stalled:
		k.mu.Lock()
		k.reason = ev.Reason
		k.mu.Unlock()
		k.tellSometimes()
	}
}

// moved records the progress of a transfer.
func (k *keeper) moved(p fetcher.Progress) {
	k.mu.Lock()
	before := k.progress
	k.progress, k.reason = p, p.Reason
	k.mu.Unlock()
	k.d.tally.moved(before, p)
}

// made records what a transfer has put in its place. What is not recorded stays when the entry is removed.
func made(k *keeper, t *fetcher.Transfer) {
	if err := k.d.db.Make(context.WithoutCancel(k.life), k.id, t.Made()); err != nil {
		k.d.log.Warn("the catalog was not written", "entry", k.id, "error", err)
	}
}

// over records the end of a transfer, and of what it has served.
func (k *keeper) over(t *fetcher.Transfer) {
	p := t.Progress()
	k.moved(p)
	if t.Pieces() != nil { // else nothing was looked at
		k.note(func(s *catalog.Status) { s.Verified = p.Verified })
	}
	k.mu.Lock()
	k.transfer, k.progress = nil, fetcher.Progress{}
	k.mu.Unlock()
}

// arrived records that all that was wanted is here.
func (k *keeper) arrived(t *fetcher.Transfer) {
	p := t.Progress()
	k.moved(p)
	k.mu.Lock()
	k.troubles, k.manifest = 0, t.Manifest()
	k.mu.Unlock()
	e := k.entry()
	e.Path = t.Path()
	mounts := mountsOf(e, t.Manifest())
	k.become(func(s *catalog.Status) {
		s.State, s.Why, s.Share, s.Path, s.Title, s.Bytes, s.Files, s.Verified, s.Mounts = catalog.Kept, "", t.ID(), e.Path, p.Name, p.Bytes, p.Files, p.Verified, mounts
		s.Guarded = s.Guarded || t.Guarded()
		if s.Done.IsZero() {
			s.Done = time.Now()
		}
	})
	k.d.log.Info("a share was fetched", "id", k.id, "name", p.Name, "bytes", p.Bytes, "path", t.Path())
}

// named shows an entry of which nothing could be planned by the name that the list of files has.
func (k *keeper) named(t *fetcher.Transfer) {
	if m := t.Manifest(); m != nil {
		k.note(func(s *catalog.Status) { s.Listed = m.Name })
	}
}

// final are the errors that a retry would only repeat.
var final = []error{share.ErrTicket, fetcher.ErrNoSource, fetcher.ErrNothingSelected, path.ErrBadPattern, share.ErrPath, share.ErrExists}

// stumble handles a failed attempt: there will be another one later, or the owner must help.
func (k *keeper) stumble(err error) {
	if k.life.Err() != nil {
		return
	}
	if errors.Is(err, store.ErrNotHere) {
		lost(k, api.Missing, fmt.Sprintf("some of what was fetched is no longer at %s. Put it back, or repair the entry with fetcher set", k.entry().Path))
		return
	}
	var at *fs.PathError // not a connection that a firewall does not permit
	shut := errors.As(err, &at) && errors.Is(at, fs.ErrPermission)
	if shut || slices.ContainsFunc(final, func(f error) bool { return errors.Is(err, f) }) {
		k.d.log.Warn("a fetch has failed", "id", k.id, "reason", err)
		why := words.Plain(err)
		switch {
		case errors.Is(err, store.ErrRepairable) && wasFetched(k.found):
			why += ". Put back what was there, or repair the entry with fetcher set"
		case errors.Is(err, store.ErrRepairable):
			why += ". Repair the entry with fetcher set, or move away what is there and rescan the entry"
		case errors.Is(err, fetcher.ErrNoSource): // when it was added, one could be looked for
			why += ". Start the node with lan or dht again, or remove the entry and add a ticket that names a peer"
		case shut, errors.Is(err, share.ErrExists):
			why += ". Once that is mended, rescan the entry with fetcher set"
		}
		k.mu.Lock()
		k.code = api.ProblemOf(err).Code
		k.mu.Unlock()
		if wasFetched(k.found) {
			lost(k, api.Failed, why)
			return
		}
		k.fail(catalog.Failed, why)
		k.rest(0)
		return
	}
	wait := k.backOff()
	k.d.log.Info("a fetch will be tried again", "id", k.id, "in", wait, "reason", err)
	k.show(api.Waiting, fmt.Sprintf("%s; the fetch is tried again at %s", words.Plain(err), words.Date(time.Now().Add(wait))))
	k.rest(wait)
}

// lost shows that something of what was fetched is not what it was, and waits until that may have changed. In the catalog it is missing, whatever
// is shown, so that none of it is fetched again.
func lost(k *keeper, state, why string) {
	was := k.entry()
	k.note(func(s *catalog.Status) {
		if !k.askedAgain(s) {
			s.State, s.Why = catalog.Missing, why
		}
	})
	if was.State != catalog.Missing {
		k.d.replaced(k, was.Share)
	}
	if e := k.entry(); e.State == catalog.Missing { // else its owner wants it to be fetched by now
		k.show(state, why)
		k.lookOut([]string{e.Path}, false, k.d.setting().Rescan)
	}
}

// seedEvery is how often seed checks whether an entry was served for long enough, and whether it is to be looked at.
const seedEvery = 10 * time.Second

// seed serves what is here until something else is wanted, it was served for as long as
// requested, or over is closed. look looks whether it is still what it was, and closes over if not. stop ends the serving.
func (k *keeper) seed(e catalog.Entry, over <-chan struct{}, look, stop func()) {
	k.calm()
	check, looked := time.NewTicker(seedEvery), time.Now()
	defer check.Stop()
	for {
		now := k.entry()
		if why := enough(now, k.d.tally.sent(k.id)+now.Sent, time.Now()); why != "" {
			stop()
			k.note(func(s *catalog.Status) { s.State, s.Why = catalog.Ended, why })
			return
		}
		select {
		case <-check.C:
			if time.Since(looked) >= k.d.setting().Rescan && ifFree(k.d.reads, look) {
				looked = time.Now()
			}
		case <-k.wake:
			if now := k.entry(); now.Paused || !sameChoice(now.Wish, e.Wish) || now.State == catalog.Asked {
				stop()
				return
			}
		case <-k.files: // its owner wants the files to be checked
			stop()
			return
		case <-k.life.Done():
			stop()
			return
		case <-over:
			return // its files have changed, or another entry serves the same: check again
		}
	}
}

// inTurn waits for one of so many turns; done gives it back.
func inTurn(ctx context.Context, turns chan struct{}) (done func(), err error) {
	select {
	case turns <- struct{}{}:
		return func() { <-turns }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// ifFree does something in one of so many turns, unless none is free.
func ifFree(turns chan struct{}, do func()) bool {
	select {
	case turns <- struct{}{}:
		do()
		<-turns
		return true
	default:
		return false
	}
}

// enough says why an entry need not be served any more; empty: it must be.
func enough(e catalog.Entry, sent int64, now time.Time) string {
	switch {
	case e.SeedTime > 0 && !e.Done.IsZero() && now.Sub(e.Done) >= e.SeedTime:
		return fmt.Sprintf("it was served for %s, as was asked", words.Duration(e.SeedTime))
	case e.SeedRatio > 0 && e.Bytes > 0 && float64(sent) >= e.SeedRatio*float64(e.Bytes):
		return fmt.Sprintf("others were sent %v × its size, as was asked", e.SeedRatio)
	}
	return ""
}

// unshare stops serving what a fetch has left open. What is served from where it lies by now goes on, for this entry or another.
func (k *keeper) unshare() {
	if k.d.life.Err() != nil || k.fetched == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(k.d.life, stopTime)
	defer cancel()
	err := k.d.node.Remove(ctx, k.fetched)
	if k.fetched = 0; errors.Is(err, fetcher.ErrNoEntry) {
		return
	}
	if err != nil {
		k.d.log.Debug("stop sharing", "id", k.id, "error", err)
	}
	k.d.replaced(k, k.entry().Share)
}
