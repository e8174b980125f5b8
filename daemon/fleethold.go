package daemon

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/internal/turns"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/passes/purse"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/renewal"
	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/share"
)

// fleetHolds is what depots are to keep for the fleet. Each member visits the depots, which have admitted all of
// them to one account; whoever finds something to be done there takes the depot's round for it.
type fleetHolds struct {
	m     *member
	turns turns.Turns[peers.ID] // for rounds: a Round is for one at a time

	mu     sync.Mutex // guards the fields below
	rounds map[peers.ID]*rounds.Round
	still  map[peers.ID]*rounds.Guard // of turns that could not be given back
}

func newFleetHolds(m *member) *fleetHolds {
	return &fleetHolds{m: m, rounds: map[peers.ID]*rounds.Round{}, still: map[peers.ID]*rounds.Guard{}}
}

// renewTime is the longest time for which a member that was killed while it renewed leases keeps the others from
// it. One that takes longer does harm no more than two that renew at once: the same time is never paid twice.
const renewTime = 10 * time.Minute

// turn is the renewals' Turn. A node that has left its fleet, or was put out of it, renews nothing for it any more.
func (m *member) turn(ctx context.Context, depot peers.ID, units int64) (end func(), err error) {
	if m == nil {
		return nil, errors.New("this node belongs to no fleet any more")
	}
	if m.isOut(ctx) {
		return nil, m.told(fetcher.ErrOtherFleet)
	}
	return m.holds.turn(ctx, depot, units)
}

// isOut asks the store whether this node was put out of its fleet. If the store does not answer, that is as it was known last.
func (m *member) isOut(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, fleetTime)
	defer cancel()
	if err := m.store.Marked(ctx); err == nil || errors.Is(err, fetcher.ErrOtherFleet) {
		m.Member(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.out.IsZero()
}

// turn takes the round of a depot. When the store is away, leases are renewed all the same.
func (f *fleetHolds) turn(ctx context.Context, depot peers.ID, units int64) (end func(), err error) {
	if err := f.afford(ctx, depot, units); err != nil {
		return nil, err
	}
	leave, err := f.turns.Take(ctx, depot)
	if err != nil {
		return nil, err
	}
	g, err := f.take(ctx, depot)
	if held, ok := errors.AsType[*rounds.HeldError](err); ok {
		leave()
		return nil, fmt.Errorf("%w; that may take %s", fetcher.ErrOthersTurn, words.Duration(held.Again))
	}
	if err != nil {
		f.m.d.log.Warn("leases of the fleet are renewed without its store", "depot", string(depot), "error", err)
		leave()
		return func() {}, nil
	}
	over := make(chan struct{})
	f.m.d.runs.Go(func() { // until the visit or the node ends
		defer leave()
		select {
		case <-over:
		case <-f.m.d.life.Done():
		}
		f.m.jobs.completed.Add(1)
		f.giveBack(depot, g)
	})
	return sync.OnceFunc(func() { close(over) }), nil
}

// giveBack gives a turn up. If the store does not confirm that, nobody else may get it before its time is over; this node tells the
// store again when it wants the turn next.
func (f *fleetHolds) giveBack(depot peers.ID, g *rounds.Guard) {
	ctx, cancel := context.WithTimeout(context.Background(), fleetTime)
	defer cancel()
	err := g.Abandon(ctx, "visited")
	if err == nil {
		return
	}
	f.m.d.log.Debug("a round was not given up", "depot", string(depot), "error", err)
	if errors.As(err, new(*rounds.LostError)) || f.m.d.life.Err() != nil {
		g.Close()
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.still[depot] = g
}

// afford refuses the turn if this node's passes do not pay for anything that is due, which another's may. units is
// the cost of the cheapest; what they do not pay for beside that is refused one by one.
func (f *fleetHolds) afford(ctx context.Context, depot peers.ID, units int64) error {
	stock, err := f.m.d.purse.Stock(ctx)
	if err != nil {
		return err
	}
	for _, s := range stock {
		if s.Depot == depot {
			units -= s.Units + s.Reserved + s.Ordered
		}
	}
	if units > 0 {
		return &purse.MissingError{Missing: units}
	}
	return nil
}

func (f *fleetHolds) take(ctx context.Context, depot peers.ID) (*rounds.Guard, error) {
	r, err := f.round(depot)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, fleetTime)
	defer cancel()
	if err := f.giveBackAgain(ctx, depot); err != nil {
		return nil, err
	}
	g, err := r.TryAcquire(ctx, renewTime)
	if err == nil {
		f.m.jobs.won.Add(1)
	}
	return g, err
}

// giveBackAgain gives up a turn that could not be given back. The store may have taken that, and another member have the turn by now.
func (f *fleetHolds) giveBackAgain(ctx context.Context, depot peers.ID) error {
	f.mu.Lock()
	g := f.still[depot]
	f.mu.Unlock()
	if g == nil {
		return nil
	}
	if err := g.Abandon(ctx, "visited"); err != nil && !errors.As(err, new(*rounds.LostError)) {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.still, depot)
	return nil
}

func (f *fleetHolds) round(depot peers.ID) (*rounds.Round, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.rounds[depot]; r != nil {
		return r, nil
	}
	r, err := rounds.New(f.m.store.KV, rounds.Config{Name: "holds." + string(depot), Holder: string(f.m.d.node.ID()), Run: rand.Text(), Clock: rounds.ClockOf(time.Now),
		Notice: func(n rounds.Notice) { f.m.d.log.Warn(n.String()) }})
	if err == nil {
		f.rounds[depot] = r
	}
	return r, err
}

// errAsking says that depots are being asked to keep a share for the fleet: what its list says of that is carried out after that.
var errAsking = errors.New("depots are being asked to keep it")

// keep has depots keep what the fleet's list says of a share. l is what that said before, and it is asked again if there is
// something to do: while other requests about holds were served, it may have changed.
func (f *fleetHolds) keep(ctx context.Context, l fetcher.ListedShare) error {
	d := f.m.d
	l = f.elsewhere(l)
	leave, ok := d.holds.asking.Try(holdOf{share: l.ID})
	if !ok {
		return errAsking
	}
	defer leave()
	d.holds.changing.Lock()
	defer d.holds.changing.Unlock()
	all, err := d.node.Holds(ctx)
	if err != nil || f.keeps(all, l) {
		return err
	}
	short, cancel := context.WithTimeout(ctx, fleetTime)
	defer cancel()
	if now, err := f.m.store.Listed(short, l.ID); err == nil {
		l = f.elsewhere(now)
	} else if !errors.Is(err, fetcher.ErrNotListed) {
		return err
	} else {
		l.Kept, l.Released = nil, nil
	}
	if f.keeps(all, l) {
		return nil
	}
	want, _ := keptFor(all, l.ID)
	return f.become(ctx, all, want, l)
}

// become has depots keep what the list says of a share, in place of want. What they are to keep no more is released only if the list says
// so, and else lapses: the share may have been taken off the list and added again, or the store restored as it was before.
func (f *fleetHolds) become(ctx context.Context, all fetcher.HoldList, want fetcher.Hold, l fetcher.ListedShare) (err error) {
	d := f.m.d
	if released(all, want, l) {
		f.lookLater(all, want, l.Kept)
	} else if _, err = d.node.LapseHold(ctx, want.ID); err != nil {
		return err
	} else {
		want.ID = 0 // what is left is wanted anew: if the node ends before that, at its next start
	}
	switch k := l.Kept; {
	case k != nil:
		want.Bytes, want.Length, want.Copies, want.Name = k.Bytes, k.Length, k.Copies, d.nameOf(want) // also for when its entry is gone
		want.Released = lastReleases(l)
		_, err = d.node.KeepHold(ctx, want, k.Depots, true)
	case want.ID != 0:
		_, err = d.node.DropHold(ctx, want.ID, true)
	}
	return err
}

// elsewhere is what the list says of a share, but for this node: it needs no lease of its own depot.
func (f *fleetHolds) elsewhere(l fetcher.ListedShare) fetcher.ListedShare {
	if l.Kept != nil {
		k := *l.Kept
		k.Depots = placed(k.Depots, f.m.d.node.ID(), nil)
		l.Kept = feasible(&k)
	}
	return l
}

// released reports whether the list says of each depot that is to keep a share no more that it was released, and later than what it said when
// this node had it keep the share: that was of another lease. So is one of a depot that was not on the list then.
func released(all fetcher.HoldList, want fetcher.Hold, l fetcher.ListedShare) bool {
	return want.ID == 0 || !slices.ContainsFunc(all.Holds, func(h fetcher.HoldStanding) bool {
		before, listed := want.Released[h.Depot]
		return h.Of(want.ID) && !listsDepot(l.Kept, h.Depot) && !(listed && l.Released[h.Depot].After(before))
	})
}

// lastReleases says of each depot that is to keep a share when it was last released; zero: never.
func lastReleases(l fetcher.ListedShare) map[peers.ID]time.Time {
	out := map[peers.ID]time.Time{}
	for _, id := range depotsOf(l.Kept) {
		out[id] = l.Released[id]
	}
	return out
}

// listsDepot reports whether a depot is among those that are to keep a share; k may be nil.
func listsDepot(k *fetcher.ListedHold, depot peers.ID) bool {
	return slices.Contains(depotsOf(k), depot)
}

// lookAfter is the time after which the depots that a member has told of a release have ended the lease, if they answer.
const lookAfter = 10 * time.Second

// lookLater visits the depots that keep a share for the fleet no more and are to keep it for this node alone, once the member that
// ended that has told them: the lease that ended was this node's too, if they have the fleet and it as one account.
func (f *fleetHolds) lookLater(all fetcher.HoldList, was fetcher.Hold, k *fetcher.ListedHold) {
	d := f.m.d
	for _, id := range was.Depots {
		ours := func(w fetcher.Hold) bool { return !w.Fleet && w.Share == was.Share && slices.Contains(w.Depots, id) }
		if listsDepot(k, id) || !slices.ContainsFunc(all.Wants, ours) {
			continue
		}
		d.runs.Go(func() {
			select {
			case <-time.After(lookAfter):
			case <-d.life.Done():
				return
			}
			if err := d.node.VisitDepot(d.life, id); err != nil {
				d.log.Debug("a depot cannot be visited now; it will be visited later", "depot", string(id), "error", err)
			}
		})
	}
}

// keptFor is what this node wants kept of a share for the fleet, new if it wants nothing yet.
func keptFor(all fetcher.HoldList, id share.ID) (want fetcher.Hold, known bool) {
	if i := slices.IndexFunc(all.Wants, func(w fetcher.Hold) bool { return w.Fleet && w.Share == id }); i >= 0 {
		return all.Wants[i], true
	}
	return fetcher.Hold{Share: id, Fleet: true, Pin: true}, false
}

// keeps reports whether this node wants kept what the fleet's list says of a share.
func (f *fleetHolds) keeps(all fetcher.HoldList, l fetcher.ListedShare) bool {
	want, known := keptFor(all, l.ID)
	if !known || l.Kept == nil {
		return known == (l.Kept != nil)
	}
	k, here := l.Kept, depotAddrs(all, want.Depots) // it may know further addresses of a depot
	news := func(addr string) bool { return !slices.Contains(here, addr) && addr != "/p2p/"+string(depotOf(addr)) }
	return slices.Equal(depotsOf(k), want.Depots) && !slices.ContainsFunc(k.Depots, news) && k.Copies == want.Copies && k.Bytes == want.Bytes &&
		k.Length == want.Length && maps.EqualFunc(lastReleases(l), want.Released, time.Time.Equal)
}

// also tells the fleet that some depots, too, are to keep a share for it, as this node has just been told, and returns what the list says
// of it by now: others may have had further depots keep it, or ended what one kept, since this node looked.
func (f *fleetHolds) also(ctx context.Context, l fetcher.HoldList, w fetcher.Hold, depots []peers.ID) (fetcher.ListedShare, error) {
	now, err := f.m.store.Keep(ctx, w.Share, func(had *fetcher.ListedHold) *fetcher.ListedHold {
		var all []string
		if had != nil {
			all = had.Depots
		}
		for _, id := range depots {
			all = placed(all, id, depotAddrs(l, []peers.ID{id}))
		}
		return feasible(&fetcher.ListedHold{Depots: all, Copies: w.Copies, Bytes: w.Bytes, Length: w.Length})
	})
	return now, f.m.told(err)
}

// without tells the fleet that a depot is no longer to keep a share for it or, if depot is empty, none is. What is not on its list
// none keeps.
func (f *fleetHolds) without(ctx context.Context, id share.ID, depot peers.ID) error {
	_, err := f.m.store.Keep(ctx, id, func(had *fetcher.ListedHold) *fetcher.ListedHold {
		if had == nil || depot == "" {
			return nil
		}
		k := *had
		k.Depots = placed(k.Depots, depot, nil)
		return feasible(&k)
	})
	if errors.Is(err, fetcher.ErrNotListed) {
		return nil
	}
	return f.m.told(err)
}

// placed puts the addresses of a depot in place of those that a list has of it, or after all others.
func placed(list []string, depot peers.ID, addrs []string) []string {
	of := func(a string) bool { return depotOf(a) == depot }
	i := slices.IndexFunc(list, of)
	if i < 0 {
		i = len(list)
	}
	return slices.Concat(list[:i], addrs, slices.DeleteFunc(slices.Clone(list[i:]), of))
}

// depotOf is the depot at an address.
func depotOf(addr string) peers.ID { return peers.ID(addr[strings.LastIndex(addr, "/")+1:]) }

// depotsOf are the depots that are to keep a share, the preferred first; nil: none.
func depotsOf(k *fetcher.ListedHold) (ids []peers.ID) {
	if k == nil {
		return nil
	}
	for _, a := range k.Depots {
		if id := depotOf(a); !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// feasible has no more copies kept than there are depots; nil if there are none.
func feasible(k *fetcher.ListedHold) *fetcher.ListedHold {
	switch n := len(depotsOf(k)); {
	case n == 0:
		return nil
	case k.Copies > n:
		k.Copies = 0
	}
	return k
}

// ofFleet says whether a hold is for what the fleet wants.
func ofFleet(l fetcher.HoldList, h fetcher.HoldStanding) bool {
	return slices.ContainsFunc(l.Wants, func(w fetcher.Hold) bool { return w.Fleet && h.Of(w.ID) })
}

// unseen says whether this node does not know what a depot keeps for the fleet, though others may: the depot does not let it in, or
// was not asked yet.
func unseen(l fetcher.HoldList, h fetcher.HoldStanding) bool {
	refused := h.State == renewal.Missing && h.Why == (&fetcher.HoldRefused{Reason: fetcher.HoldUnknownAccount}).Error()
	return h.Expires.IsZero() && (h.State == renewal.Unknown || refused) && ofFleet(l, h)
}

// asTold are the holds of a list, of which those are unknown that this node was not told of.
func asTold(l fetcher.HoldList) []fetcher.HoldStanding {
	all := slices.Clone(l.Holds)
	for i, h := range all {
		if unseen(l, h) {
			all[i].State = renewal.Unknown
		}
	}
	return all
}

// withoutFleet is a book without what is wanted for a fleet alone.
func withoutFleet(b renewal.Book) renewal.Book {
	of := func(h renewal.Hold, fleet bool) bool {
		return slices.ContainsFunc(b.Wants, func(w renewal.Want) bool {
			return w.Fleet == fleet && (h.Of(w.ID) || !fleet && w.Share == h.Share && slices.Contains(w.Depots, h.Depot))
		})
	}
	b.Holds = slices.DeleteFunc(b.Holds, func(h renewal.Hold) bool { return of(h, true) && !of(h, false) })
	b.Wants = slices.DeleteFunc(b.Wants, func(w renewal.Want) bool { return w.Fleet })
	return b
}
