package daemon

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/catalog"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
)

// keeper does what the owner wants of one entry, in one goroutine that ends with the
// entry or the daemon.
type keeper struct {
	record
	end    context.CancelFunc
	done   chan struct{} // closed when run has returned
	wake   chan struct{} // the wish has changed, or everything must be checked again
	files  chan struct{} // the files may have changed
	anew   chan struct{} // the settings were read again
	settle chan struct{} // closed when the first attempt has had a result

	shared, fetched fetcher.EntryID // what run shared and fetched last, as the node numbers it

	found catalog.State // the state in which run found the entry
	place waiting       // in the queue

	removing sync.Mutex // held while the entry is removed, from before the keeper stops until it is off Daemon.keepers or another is there

	settled bool  // guarded by mu
	refused error // why the first attempt found that its paths cannot be shared; guarded by mu
}

func newKeeper(d *Daemon, e catalog.Entry) *keeper {
	k := &keeper{record: record{d: d, id: e.ID, e: e}, place: waiting{id: e.ID}, done: make(chan struct{}), wake: make(chan struct{}, 1), files: make(chan struct{}, 1), anew: make(chan struct{}, 1), settle: make(chan struct{})}
	k.life, k.end = context.WithCancel(d.life)
	if k.halted = e.Paused; !e.Paused && e.State != catalog.Ended && e.State != catalog.Failed {
		k.state = api.Opening
	}
	return k
}

// poke makes the keeper check its entry again.
func (k *keeper) poke() { signal(k.wake) }

// touch makes it check the files.
func (k *keeper) touch() { signal(k.files) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// run carries out the wish, again and again, until the entry is removed or the daemon
// ends.
func (k *keeper) run() {
	defer close(k.done)
	defer k.calm()
	defer k.forget()
	defer k.unshare()
	defer k.d.queue.leave(&k.place)
	for k.life.Err() == nil {
		e := k.entry()
		k.found = e.State
		enqueue(k, e)
		switch {
		case e.Paused:
			k.unshare()
			k.show(api.Paused, "")
			k.rest(0)
		case e.Kind == catalog.Serve:
			k.serve(e)
		case e.State == catalog.Ended:
			k.show("", "")
			k.rest(0)
		case wasFetched(e.State) && (!k.asTransfer(e) || absent(e.Path) || notMounted(e) != nil):
			k.serveKept(e)
		default:
			k.fetch(e)
		}
	}
}

// forget ends what the node does for an entry that is removed.
func (k *keeper) forget() {
	if k.d.life.Err() != nil || k.shared == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(k.d.life, stopTime)
	defer cancel()
	if err := k.d.node.Remove(ctx, k.shared); err != nil && !errors.Is(err, fetcher.ErrNoEntry) {
		k.d.log.Debug("stop sharing", "id", k.id, "error", err)
	}
}

// rest waits until something else is wanted, for at most d unless that is 0.
func (k *keeper) rest(d time.Duration) { k.restUnless(nil, d) }

// restUnless is like rest, but a change of files also ends it, once they are quiet.
func (k *keeper) restUnless(files <-chan struct{}, d time.Duration) {
	k.calm()
	var late <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-k.wake:
	case <-files:
		k.pause()
	case <-late:
	case <-k.life.Done():
	}
}

// calm records that the first attempt has had a result.
func (k *keeper) calm() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.settled {
		k.settled = true
		close(k.settle)
	}
}

// refuse records why its paths cannot be shared, if no attempt has had another result.
func (k *keeper) refuse(err error, why string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.settled {
		class := api.ErrRequest
		var bad *store.ProblemsError
		if errors.Is(err, share.ErrPath) && !errors.As(err, &bad) { // the command's exit codes make the same difference
			class = share.ErrPath
		}
		refused := api.Refuse(class, "not added: %s", why)
		refused.Unshared = unshared(err)
		k.refused = refused
	}
}

// unshared is what an error says of files and folders that cannot be shared.
func unshared(err error) (out []api.Unshared) {
	var bad *store.ProblemsError
	var names *share.PathError
	switch {
	case errors.As(err, &bad):
		for _, p := range bad.Problems {
			out = append(out, api.Unshared{Path: p.Path, Why: p.Err.Error()})
		}
	case errors.As(err, &names):
		for _, p := range names.Problems {
			out = append(out, api.Unshared{Path: p.Path, Why: p.Why})
		}
	}
	return out
}

// askedAgain reports whether the owner has asked for a new fetch while the files were being
// checked: that request stands.
func (k *keeper) askedAgain(s *catalog.Status) bool {
	return s.State == catalog.Asked && k.found != catalog.Asked
}

// fail records that the entry cannot go on.
func (k *keeper) fail(state catalog.State, why string) {
	was := k.entry()
	k.become(func(s *catalog.Status) {
		if state != catalog.Missing || !k.askedAgain(s) {
			s.State, s.Why = state, why
		}
	})
	if was.State != state {
		k.d.replaced(k, was.Share)
	}
}

// set changes the wish, and makes the keeper carry it out.
func (k *keeper) set(ctx context.Context, f func(*catalog.Wish) error) error {
	if err := k.amend(func() (catalog.Entry, error) { return k.d.db.Set(ctx, k.id, f) }); err != nil {
		return err
	}
	k.mu.Lock()
	k.troubles = 0
	k.mu.Unlock()
	k.poke()
	return nil
}

// stop ends the keeper, and waits for it.
func (k *keeper) stop() {
	k.end()
	<-k.done
}

// settledIn waits until the first attempt has had a result, and says why it cannot be shared, if it cannot.
func (k *keeper) settledIn(ctx context.Context) error {
	select {
	case <-k.settle:
	case <-ctx.Done():
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.refused
}
