package fetcher

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/piecelease/fetcher/fleet"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/share"
)

// FleetStore is the store in which the members of a fleet elect a coordinator. It also
// lists the shares that every member is to have, and how far each member is. Its
// methods are safe for concurrent use.
type FleetStore struct {
	KV rounds.KV
	// Secret is what the members know, 16 to 1,024 bytes. Whoever knows it and can reach
	// the store is a member.
	Secret string
}

// Keys of a store, before the ID of a share or of a peer.
const (
	listKey   = "share.v1."
	statusKey = "status.v1."
	fleetKey  = fleet.MarkKey
)

// storeWithin bounds each call of a store.
const storeWithin = 30 * time.Second

// ErrNotListed says that a share is not on the list of a fleet.
var ErrNotListed = errors.New("not on the list of the fleet")

// ErrOtherFleet says that a store has entries of a fleet, and none is written with the secret of
// this one.
var ErrOtherFleet = fleet.ErrOther

// ListedShare is a share that every member of a fleet is to have.
type ListedShare struct {
	ID       share.ID    `json:"-"`
	Ticket   string      `json:"ticket"`
	Added    time.Time   `json:"added"`
	Internal bool        `json:"internal,omitempty"` // see AddInternal
	Depot    string      `json:"depot,omitempty"`    // see AddInternal
	Kept     *ListedHold `json:"kept,omitempty"`     // nil: the fleet has no depot keep it
	// Released says when each depot was last released, also of those that keep it again. What is not in Kept any more, and was not released
	// since it was, nobody has released: it lapses.
	Released map[peers.ID]time.Time `json:"released,omitempty"`
}

// ListedHold is what a fleet has depots keep of a share, in an account to which each depot has admitted
// all members.
type ListedHold struct {
	Depots []string      `json:"depots"` // multiaddrs that end in /p2p/ID
	Copies int           `json:"copies,omitempty"`
	Bytes  int64         `json:"bytes"` // size of a lease
	Length time.Duration `json:"length,omitempty"`
}

// MaxListed is the number of shares that the list of a fleet has room for: what members report of them has to fit into the store.
const MaxListed = 4_000

// MaxListedDepots is the number of depots that a fleet has keep a share, at most.
const MaxListedDepots = 64

// at are the depots; nil has none.
func (h *ListedHold) at() []peers.Addr {
	if h == nil {
		return nil
	}
	all, _ := depotsAt(h.Depots) // see check
	return all
}

func (h *ListedHold) check() error {
	if h == nil {
		return nil
	}
	if n := len(h.Depots); n > MaxListedDepots {
		return fmt.Errorf("the depots that are to keep the share for the fleet have %d addresses together, and the fleet's list has room for %d", n, MaxListedDepots)
	} else if n < 1 || h.Copies < 0 || h.Copies > n || h.Bytes < 0 || h.Length != 0 && (h.Length < MinHoldLength || h.Length > MaxHoldLength) {
		return fmt.Errorf("a share that depots keep for a fleet must have at least one depot, no more copies than depots, and leases of %s to %s",
			words.Duration(MinHoldLength), words.Duration(MaxHoldLength))
	}
	_, err := depotsAt(h.Depots)
	return err
}

// Rollout is how far a fleet is.
type Rollout struct {
	Shares  []ShareRollout // in the order in which they were added
	Members []MemberReport // by their names
}

// ShareRollout is how far a fleet is with a share.
type ShareRollout struct {
	ListedShare
	Name        string    // empty: nobody knows it yet
	Done        int       // members that have it
	Coordinator peers.ID  // empty: none is elected
	Term        uint64    // of the latest
	Heard       time.Time // when the coordinator last showed that it is alive, by its own clock, or, if it is late and that is ahead, by this one; zero: not known
	Late        bool      // it has missed a heartbeat
}

func (s FleetStore) validate() error {
	if n := len(s.Secret); s.KV != nil && (n < fleet.MinSecret || n > fleet.MaxSecret) {
		return fmt.Errorf("the fleet's Secret has %d bytes: it must have from %d to %d", n, fleet.MinSecret, fleet.MaxSecret)
	}
	return nil
}

func (s FleetStore) secret() fleet.Secret { return fleet.Secret(s.Secret) }

// Add puts a share on the list: every member fetches it. The ticket must name a source.
// A share that is listed already gets the new ticket.
func (s FleetStore) Add(ctx context.Context, ticket string) (share.ID, error) {
	return s.add(ctx, ListedShare{Ticket: ticket})
}

// AddInternal is Add for a share that the fleet needs for itself, such as a backup. Members
// keep it apart from what their owners asked for, and remove its files when it is taken
// off the list; [Node.FollowFleet] leaves it out. depot names the depot whose leases it is a snapshot of: whoever has that depot
// takes earlier ones off the list.
func (s FleetStore) AddInternal(ctx context.Context, ticket, depot string) (share.ID, error) {
	return s.add(ctx, ListedShare{Ticket: ticket, Internal: true, Depot: depot})
}

func (s FleetStore) add(ctx context.Context, l ListedShare) (share.ID, error) {
	id, sources, err := ParseSource(l.Ticket, nil)
	switch {
	case err != nil:
		return id, err
	case len(sources) == 0:
		return id, noSource(l.Ticket)
	}
	list, _, err := s.read(ctx)
	if err != nil {
		return id, err
	}
	others := 0
	for _, e := range list {
		if len(e.Value) > 0 && e.Key != listKey+id.String() {
			others++
		}
	}
	if others >= MaxListed {
		return id, fmt.Errorf("the list of the fleet has %d shares, and room for no more: remove one that is not wanted any more", others)
	}
	l.Added = time.Now().UTC()
	return id, s.editList(ctx, id, func(e rounds.Entry) (any, error) {
		if had, ok, _ := s.listed(e); ok { // what is not of the fleet is replaced
			l.Kept, l.Released = had.Kept, had.Released
		}
		return l, nil
	})
}

// Keep changes what depots are to keep of a listed share for the fleet, and returns what the list says of it from then on. Depots that are
// not to keep it any more are released. change is given what the list says at that moment, nil if no depot keeps it, and may be called
// several times. The error wraps ErrNotListed if the share is not listed.
func (s FleetStore) Keep(ctx context.Context, id share.ID, change func(had *ListedHold) *ListedHold) (l ListedShare, err error) {
	err = s.editList(ctx, id, func(e rounds.Entry) (any, error) {
		var ok bool
		var err error
		if l, ok, err = s.listed(e); !ok {
			return nil, cmp.Or(err, notListed(id))
		}
		err = l.keep(change(l.Kept), time.Now().UTC())
		return l, err
	})
	return l, err
}

// keep changes what depots are to keep, and writes down which of them are released by that. A later release of the share has a later
// time also if the clock was set back, or is another member's: it is known by that, and the earliest are forgotten.
func (l *ListedShare) keep(k *ListedHold, now time.Time) error {
	l.Released = maps.Clone(l.Released)
	if l.Released == nil {
		l.Released = map[peers.ID]time.Time{}
	}
	for _, had := range l.Released {
		if !had.Before(now) {
			now = had.Add(1)
		}
	}
	for _, d := range l.Kept.at() {
		if !slices.ContainsFunc(k.at(), func(a peers.Addr) bool { return a.ID == d.ID }) {
			l.Released[d.ID] = now
		}
	}
	l.Kept = k
	for len(l.Released) > MaxListedDepots {
		delete(l.Released, slices.MinFunc(slices.Collect(maps.Keys(l.Released)), func(a, b peers.ID) int { return l.Released[a].Compare(l.Released[b]) }))
	}
	return k.check()
}

// Listed returns what the list says of a share now. The error wraps ErrNotListed if it is not listed.
func (s FleetStore) Listed(ctx context.Context, id share.ID) (ListedShare, error) {
	ctx, cancel := context.WithTimeout(ctx, storeWithin)
	defer cancel()
	e, err := s.KV.Get(ctx, listKey+id.String())
	if err != nil && !errors.Is(err, rounds.ErrNotFound) {
		return ListedShare{}, err
	}
	if err := s.owned(ctx); err != nil { // as a change of the secret leaves nothing that this can read
		return ListedShare{}, err
	}
	e.Key = listKey + id.String()
	l, ok, err := s.listed(e)
	if !ok {
		err = cmp.Or(err, notListed(id))
	}
	return l, err
}

func notListed(id share.ID) error { return fmt.Errorf("share %s is %w", id.Short(), ErrNotListed) }

// Remove takes a share from the list. Members stop fetching and serving it, and keep
// what they have. The error wraps ErrNotListed if it is not listed.
func (s FleetStore) Remove(ctx context.Context, id share.ID) error {
	return s.delete(ctx, listKey+id.String(), "share "+id.Short())
}

// delete deletes what the store has at a key.
func (s FleetStore) delete(ctx context.Context, key, what string) error {
	ctx, cancel := context.WithTimeout(ctx, storeWithin)
	defer cancel()
	for range 5 {
		e, err := s.KV.Get(ctx, key)
		if err == nil || errors.Is(err, rounds.ErrNotFound) {
			err = cmp.Or(s.owned(ctx), err) // what a stranger does not find may be there
		}
		switch {
		case errors.Is(err, rounds.ErrNotFound) || err == nil && len(e.Value) == 0:
			return fmt.Errorf("%s is %w", what, ErrNotListed)
		case err != nil:
			return err
		}
		if _, err = s.KV.Delete(ctx, key, e.Rev); !errors.Is(err, rounds.ErrConflict) {
			return err
		}
	}
	return words.Error(rounds.ErrConflict, "the entry of %s in the fleet's store is changed again and again; try again later", what)
}

// put writes an entry, even if others write it too.
func (s FleetStore) put(ctx context.Context, key string, v any) error {
	return s.edit(ctx, key, func(rounds.Entry) (any, error) { return v, nil })
}

// editList is edit for the list of the fleet. Once the secret was changed it writes nothing more; and what it wrote just
// before, the change may not have taken over, so that is an error as well.
func (s FleetStore) editList(ctx context.Context, id share.ID, to func(rounds.Entry) (any, error)) error {
	err := s.edit(ctx, listKey+id.String(), func(e rounds.Entry) (any, error) {
		if err := s.owned(ctx); err != nil { // e was read before this: if it is as it was when it is replaced, a change takes that over
			return nil, err
		}
		return to(e)
	})
	return cmp.Or(err, s.owned(ctx))
}

// Marked returns [ErrOtherFleet] if the mark of the store is another fleet's, or was made with another secret, and
// [rounds.ErrNotFound] if the store has none.
func (s FleetStore) Marked(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, storeWithin)
	defer cancel()
	mark, err := s.KV.Get(ctx, fleetKey)
	return cmp.Or(err, s.secret().Owns(mark.Value))
}

// owned is Marked, but a store without a mark may be this fleet's.
func (s FleetStore) owned(ctx context.Context) error {
	err := s.Marked(ctx)
	if errors.Is(err, rounds.ErrNotFound) {
		return nil
	}
	return err
}

// edit seals an entry anew, even if others write it too; an entry that is not there has no Value.
func (s FleetStore) edit(ctx context.Context, key string, to func(rounds.Entry) (any, error)) error {
	return s.replace(ctx, key, func(e rounds.Entry) ([]byte, error) {
		v, err := to(e)
		if err != nil {
			return nil, err
		}
		return s.secret().Seal(key, v), nil
	})
}

// replace is edit for entries that are sealed otherwise.
func (s FleetStore) replace(ctx context.Context, key string, to func(rounds.Entry) ([]byte, error)) error {
	ctx, cancel := context.WithTimeout(ctx, storeWithin)
	defer cancel()
	for range 5 {
		e, err := s.KV.Get(ctx, key)
		if err != nil && !errors.Is(err, rounds.ErrNotFound) {
			return err
		}
		e.Key = key
		value, err2 := to(e)
		if err2 != nil {
			return err2
		}
		if err != nil {
			_, err = s.KV.Create(ctx, key, value)
		} else {
			_, err = s.KV.Update(ctx, key, value, e.Rev)
		}
		if !errors.Is(err, rounds.ErrConflict) && !errors.Is(err, rounds.ErrExists) {
			return err
		}
	}
	return words.Error(rounds.ErrConflict, "the entry %s of the fleet's store is changed again and again; try again later", key)
}

// entries is what the store has below a prefix.
func (s FleetStore) entries(ctx context.Context, prefix string) (out []rounds.Entry, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeWithin)
	defer cancel()
	got := false
	err = s.KV.Watch(ctx, prefix, func(all []rounds.Entry) {
		if !got {
			out, got = slices.Clone(all), true
			cancel()
		}
	})
	if got {
		return out, nil
	}
	return nil, err
}

// listed reads an entry of the list; not ok if it was removed. An entry that is
// not sealed with the secret, or not about the share of its key, is an error.
func (s FleetStore) listed(e rounds.Entry) (l ListedShare, ok bool, err error) {
	if l.ID, err = share.ParseID(strings.TrimPrefix(e.Key, listKey)); err != nil || len(e.Value) == 0 {
		return l, false, err
	}
	if err := s.secret().Open(e.Key, e.Value, &l); err != nil {
		return l, false, err
	}
	id, _, err := ParseSource(l.Ticket, nil)
	if err == nil && id != l.ID {
		err = fmt.Errorf("%s: its ticket is for another share, %s", e.Key, id)
	}
	if err2 := l.Kept.check(); err == nil && err2 != nil {
		err = fmt.Errorf("%s: %w", e.Key, err2)
	}
	return l, err == nil, err
}

// read reads the list, and what members say. Whose store it is, its mark says; without one the list; and only if
// that is empty the reports, which a member of another fleet may have written into it.
func (s FleetStore) read(ctx context.Context) (list, said []rounds.Entry, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeWithin)
	defer cancel()
	if list, err = s.entries(ctx, listKey); err != nil {
		return nil, nil, err
	}
	if said, err = s.entries(ctx, statusKey); err != nil {
		return nil, nil, err
	}
	mark, err := s.KV.Get(ctx, fleetKey)
	if err != nil && !errors.Is(err, rounds.ErrNotFound) {
		return nil, nil, err
	}
	for _, proof := range [][]rounds.Entry{{mark}, list, said} {
		foreign := false
		for _, e := range proof {
			var is json.RawMessage
			if len(e.Value) > 0 && s.secret().Open(e.Key, e.Value, &is) == nil {
				return list, said, nil
			}
			foreign = foreign || len(e.Value) > 0
		}
		if foreign {
			return nil, nil, ErrOtherFleet
		}
	}
	return list, said, nil
}

// Claim marks the store as this fleet's, so that it is not taken for an empty one with another
// secret. If it is another fleet's, that is [ErrOtherFleet].
func (s FleetStore) Claim(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, storeWithin)
	defer cancel()
	if _, _, err := s.read(ctx); err != nil {
		return err
	}
	made := struct {
		Made time.Time `json:"made"`
	}{time.Now().UTC()}
	_, err := s.KV.Create(ctx, fleetKey, s.secret().Seal(fleetKey, made))
	if errors.Is(err, rounds.ErrExists) {
		_, _, err = s.read(ctx) // somebody else was first just now, or it was ours already
	}
	return err
}

// Rollout reads how far the fleet is. What others than members have written into the store
// is ignored.
func (s FleetStore) Rollout(ctx context.Context) (Rollout, error) {
	var out Rollout
	list, said, err := s.read(ctx)
	if err != nil {
		return out, err
	}
	out.Members = s.members(said)
	for _, e := range list {
		l, ok, _ := s.listed(e)
		if !ok {
			continue
		}
		out.Shares = append(out.Shares, ShareRollout{ListedShare: l})
	}
	for _, m := range out.Members {
		m.count(out.Shares)
	}
	slices.SortFunc(out.Shares, func(a, b ShareRollout) int { return earlierListed(a.ListedShare, b.ListedShare) })
	return out, s.offices(ctx, out.Shares)
}

// earlierListed orders shares as they were added.
func earlierListed(a, b ListedShare) int {
	return cmp.Or(a.Added.Compare(b.Added), cmp.Compare(a.ID.String(), b.ID.String()))
}

// count counts the member among those that have the shares.
func (m MemberReport) count(shares []ShareRollout) {
	said := m.ByShare()
	for i := range shares {
		x := &shares[i]
		is := said[x.ID.String()]
		x.Name = cmp.Or(x.Name, is.Name)
		if is.Done {
			x.Done++
		}
	}
}
