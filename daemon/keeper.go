package daemon

import (
	"context"
	"sync"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/catalog"
	"github.com/piecelease/fetcher/share"
)

// keeper does what the owner wants of one entry, in one goroutine that ends with the
// entry or the daemon.
type keeper struct {
	d      *Daemon
	id     catalog.ID
	life   context.Context
	end    context.CancelFunc
	done   chan struct{}   // closed when run has returned
	wake   chan struct{}   // the wish has changed, or all is to be looked at again
	files  chan struct{}   // the files may have changed
	settle chan struct{}   // closed when the first try has come to something
	shared fetcher.EntryID // of what run has shared last, as the node counts

	telling sync.Mutex // held from the look to the telling; taken before mu

	mu       sync.Mutex // guards the fields below
	e        catalog.Entry
	state    string // of api; what e says if empty
	reason   string
	warnings []string
	manifest *share.Manifest
	transfer *fetcher.Transfer
	progress fetcher.Progress
	told     time.Time // when the last event was
	settled  bool
	troubles int // tries in a row that failed
}

func newKeeper(d *Daemon, e catalog.Entry) *keeper {
	k := &keeper{d: d, id: e.ID, e: e, done: make(chan struct{}), wake: make(chan struct{}, 1), files: make(chan struct{}, 1), settle: make(chan struct{})}
	k.life, k.end = context.WithCancel(d.life)
	if !e.Paused && e.State != catalog.Ended && e.State != catalog.Failed {
		k.state = api.Opening
	}
	return k
}

func (k *keeper) entry() catalog.Entry {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.e
}

// poke has the keeper look at its entry again.
func (k *keeper) poke() { signal(k.wake) }

// touch has it look at the files.
func (k *keeper) touch() { signal(k.files) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// run does what is wanted, again and again, until the entry is removed or the daemon
// ends.
func (k *keeper) run() {
	defer close(k.done)
	defer k.calm()
	defer k.unkept()
	for k.life.Err() == nil {
		switch e := k.entry(); {
		case e.Paused:
			k.unkept()
			k.show(api.Paused, "")
			k.rest(0)
		case e.Kind == catalog.Serve:
			k.serve(e)
		case e.State == catalog.Ended:
			k.show("", "")
			k.rest(0)
		case (e.State == catalog.Kept || e.State == catalog.Missing) && len(e.Only)+len(e.Skip) == 0:
			k.serveKept(e)
		default:
			k.fetch(e)
		}
	}
}

// rest waits until somebody wants something else, and no longer than d if that is not
// 0.
func (k *keeper) rest(d time.Duration) {
	k.calm()
	var late <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-k.wake:
	case <-late:
	case <-k.life.Done():
	}
}

// calm says that the first try has come to something.
func (k *keeper) calm() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.settled {
		k.settled = true
		close(k.settle)
	}
}

// backOff is how long to wait after a try that failed: a minute, and twice as long each
// time, to an hour.
func (k *keeper) backOff() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.troubles++
	return min(time.Minute<<min(k.troubles-1, 6), time.Hour)
}

// show says how the entry stands, for people; an empty state is what the catalog says.
func (k *keeper) show(state, reason string) {
	k.mu.Lock()
	changed := k.state != state || k.reason != reason
	k.state, k.reason = state, reason
	k.mu.Unlock()
	if changed {
		k.tell()
	}
}

// tell publishes the entry as it is. Whoever tells, what is published last was seen last.
func (k *keeper) tell() {
	k.telling.Lock()
	defer k.telling.Unlock()
	v := k.view()
	k.mu.Lock()
	k.told = time.Now()
	k.mu.Unlock()
	k.d.feed.Publish(api.Event{At: time.Now(), Type: "entry", Entry: &v})
}

// tellEvery is how often an entry that moves is told of.
const tellEvery = time.Second

func (k *keeper) tellSometimes() {
	k.mu.Lock()
	soon := time.Since(k.told) < tellEvery
	k.mu.Unlock()
	if !soon {
		k.tell()
	}
}

// note writes into the catalog what became of the entry; how it is shown stays.
func (k *keeper) note(f func(*catalog.Status)) { k.write(f, false) }

// become writes into the catalog what became of the entry, and shows it so from now on.
func (k *keeper) become(f func(*catalog.Status)) { k.write(f, true) }

func (k *keeper) write(f func(*catalog.Status), show bool) {
	before := k.entry()
	e, err := k.d.db.Note(context.WithoutCancel(k.life), time.Now(), k.id, f)
	if err != nil {
		if k.life.Err() == nil { // else it was removed
			k.d.log.Error("the catalog was not written", "entry", k.id, "error", err)
		}
		e = before
		f(&e.Status) // as it is, if not as it will be remembered
	}
	k.mu.Lock()
	k.e.Status = e.Status
	e = k.e
	if show {
		k.state, k.reason = "", ""
	}
	k.mu.Unlock()
	if e.State != before.State || e.Share != before.Share {
		k.d.log.Info("entry", "id", e.ID, "name", e.Title, "state", k.view().State, "share", e.Share.String(), "reason", e.Why)
	}
	k.tell()
}

// fail notes that the entry cannot go on.
func (k *keeper) fail(state catalog.State, why string) {
	was := k.entry()
	k.become(func(s *catalog.Status) { s.State, s.Why = state, why })
	if was.State != state {
		k.d.replaced(k, was.Share)
	}
}

// set has the wish changed, and the keeper do what it is now.
func (k *keeper) set(ctx context.Context, f func(*catalog.Wish) error) error {
	e, err := k.d.db.Set(ctx, k.id, f)
	if err != nil {
		return err
	}
	k.mu.Lock()
	k.e.Wish, k.e.Status = e.Wish, e.Status
	k.troubles = 0
	k.mu.Unlock()
	k.poke()
	return nil
}

// stop ends what the keeper does, and waits for it.
func (k *keeper) stop() {
	k.end()
	<-k.done
}

// settledIn waits until the first try has come to something.
func (k *keeper) settledIn(ctx context.Context) {
	select {
	case <-k.settle:
	case <-ctx.Done():
	}
}
