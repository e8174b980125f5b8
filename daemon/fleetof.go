package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/catalog"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/rounds/kvurl"
	"github.com/piecelease/fetcher/share"
)

// This file is which fleet a node belongs to, and what keeps it from that.

// fleetOfName is the file of a state directory that says to which fleet the entries of the catalog and what depots keep for
// it belong.
const fleetOfName = "fleet.of"

// belonging is a fleet as that file has it, a line for each field.
type belonging struct {
	id     string // of the fleet; one that is given by settings has another with another secret
	place  string // of its store: see kvurl.Place
	joined bool   // by a token, and not given by settings: then another ID is another fleet
}

func (b belonging) String() string {
	how := "set"
	if b.joined {
		how = "joined"
	}
	return b.id + "\n" + b.place + "\n" + how
}

// sameAs reports whether this is the fleet that a text of the file speaks of. A fleet may get another secret, and
// may move to another store.
func (b belonging) sameAs(text string) bool {
	id, rest, _ := strings.Cut(text, "\n")
	place, how, _ := strings.Cut(rest, "\n")
	return id == b.id || place == b.place && !(b.joined && how == "joined")
}

// isNew reports whether this node does not belong to the fleet of which its catalog is. One
// that does not say whose it is, or not so that it can be read, is of the present one: nothing is forgotten on suspicion.
// What has changed of the same fleet is noted.
func (m *member) isNew() bool {
	b, err := readUpTo(filepath.Join(m.d.dir, fleetOfName), maxMembership)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		m.d.log.Warn("cannot read which fleet this node belonged to", "error", err)
		return false
	case len(b) > 0 && !m.of.sameAs(string(b)):
		return true
	case string(b) != m.of.String():
		if err := m.settle(); err != nil {
			m.d.log.Warn("it was not recorded which fleet this node belongs to", "error", err)
		}
	}
	return false
}

// settle keeps which fleet this node belongs to.
func (m *member) settle() error {
	m.moved = false
	return replace(filepath.Join(m.d.dir, fleetOfName), []byte(m.of.String()))
}

// takeOver finds out whether this node has left another fleet for this one. What that had in the catalog is then the
// owner's, except what it kept for itself, which goes.
func (m *member) takeOver(ctx context.Context, db *catalog.DB) error {
	if m == nil {
		return nil
	}
	all, err := db.List(ctx)
	if err != nil {
		return err
	}
	if m.moved = m.isNew(); !m.moved {
		return m.rehome(ctx, db, all)
	}
	for _, e := range all {
		switch {
		case !e.Fleet:
			continue
		case m.isInternal(e):
			_, err = db.Remove(ctx, e.ID)
			err = errors.Join(err, os.RemoveAll(m.internal(shareOf(e))))
		default:
			_, err = db.Set(ctx, e.ID, func(w *catalog.Wish) error { w.Fleet = false; return nil })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isInternal reports whether an entry is of a share that the fleet keeps for itself, also if the state directory was elsewhere when it was added.
func (m *member) isInternal(e catalog.Entry) bool {
	is := m.internal(shareOf(e))
	return e.Fleet && (e.Dir == is || filepath.Base(e.Dir) == filepath.Base(is) && filepath.Base(filepath.Dir(e.Dir)) == internalName && absent(e.Dir))
}

// rehome forgets where the fleet's own was before the state directory was moved: it is added again, and found where it is now.
func (m *member) rehome(ctx context.Context, db *catalog.DB, all []catalog.Entry) error {
	for _, e := range all {
		if e.Dir == m.internal(shareOf(e)) || !m.isInternal(e) {
			continue
		}
		if _, err := db.Remove(ctx, e.ID); err != nil {
			return err
		}
	}
	return nil
}

// Member notes whether this node is a member.
func (m *member) Member(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case err == nil:
		m.out = time.Time{}
	case m.out.IsZero():
		m.out = time.Now()
	}
}

// putOut says that this node is no member any more, and what to do.
func (m *member) putOut(now, since time.Time) string {
	return fmt.Sprintf("this node ceased to be a member of its fleet %s ago: %s", words.Duration(max(now.Sub(since), time.Second)), m.whyOut())
}

// now is the membership that a machine has now: the node is a member as of its start. same says that it is of the same fleet.
func (m *member) now() (now Membership, same bool, err error) {
	cfg := m.d.setting()
	now, ok, err := membershipFor(Config{Dir: m.d.dir, Settings: cfg})
	if !ok || err != nil {
		return now, false, err
	}
	of, err := belongs(now, cfg)
	return now, of.sameAs(m.of.String()), err
}

// belongs says which fleet a membership is of.
func belongs(m Membership, cfg Settings) (belonging, error) {
	place, err := kvurl.Place(m.URL)
	return belonging{id: m.Fleet(), place: place, joined: cfg.Fleet == ""}, err
}

// whyOut says why the fleet is not this node's any more, and what to do: the node has its secret from its start.
func (m *member) whyOut() string {
	now, same, err := m.now()
	switch {
	case err == nil && same && now.Secret != m.store.Secret:
		return "it runs with the previous secret of the fleet; restart the node"
	case err == nil && !same:
		return "this machine has left it; restart the node"
	case m.d.setting().Fleet != "":
		return "the fleet has another secret; put the new one into the file that fleet-secret names, and restart the node"
	}
	return `the fleet has another secret; join it with the token that "fetcher fleet invite" prints on another member, and restart the node`
}

// leaves makes the owner's what the fleet has brought, if this machine has left the fleet: the node is a member until it is restarted.
// If that is not known, or fails, nothing is changed.
func (m *member) leaves(ctx context.Context, k *keeper) bool {
	_, same, err := m.now()
	if e := k.entry(); err == nil && same || m.isInternal(e) {
		return false
	}
	if err == nil {
		err = k.set(ctx, func(w *catalog.Wish) error { w.Fleet = false; return nil })
		k.tell()
	}
	if err != nil {
		m.d.log.Warn("a share was taken off the fleet's list, and its entry could not be turned into an ordinary entry of this machine", "id", k.id, "error", err)
	}
	return true
}

// told has an error of the store about the fleet say what to do here.
func (m *member) told(err error) error {
	switch {
	case errors.Is(err, fetcher.ErrOtherFleet):
		return words.Error(fetcher.ErrOtherFleet, "this node is no longer a member of its fleet: %s", m.whyOut())
	case errors.Is(err, fetcher.ErrNotListed):
		return fmt.Errorf("%w; fetcher fleet status shows the list", err)
	case errors.Is(err, rounds.ErrAway):
		return api.Refuse(share.ErrNetwork, "the store of the fleet does not answer; once it does, run the same command again")
	case errors.Is(err, rounds.ErrUnfit):
		return api.Refuse(share.ErrNetwork, "%s", words.Plain(err))
	}
	return err
}

// away says what keeps this node from its fleet, that it is no member any more or that the store does not answer, and
// since when; "" if nothing does.
func (m *member) away(now time.Time) (what string, since time.Time) {
	if m == nil {
		return "", since
	}
	m.mu.Lock()
	since = m.out
	m.mu.Unlock()
	if !since.IsZero() {
		return m.putOut(now, since), since
	}
	a := m.kv.Away()
	if a.Why == nil {
		return "", since
	}
	how, why := "has not answered for %s", ""
	if errors.Is(a.Why, rounds.ErrUnfit) {
		how = "has not been usable for %s"
		_, why, _ = strings.Cut(words.Plain(a.Why), rounds.ErrUnfit.Error())
	} else if !errors.Is(a.Why, context.DeadlineExceeded) {
		why = fmt.Sprintf(": %v", a.Why)
	}
	return fmt.Sprintf("the store of the fleet "+how+"%s; whatever is running goes on, and no coordinator is elected%s", words.Duration(max(now.Sub(a.Since), time.Second)), why, m.otherURL(a.Why)), a.Since
}

// otherURL says what to do if the store has another URL than this node knows, as with another password.
func (m *member) otherURL(why error) string {
	now, same, err := m.now()
	switch {
	case err == nil && same && now.URL != m.url:
		return ". Restart the node: the URL of the store was changed on this machine, and the node still uses the old one"
	case !errors.Is(why, rounds.ErrLogin):
		return ""
	case m.d.setting().Fleet != "":
		return `. Put the right user and password into the URL in the setting "fleet", and restart the node`
	}
	return `. On this machine, give "fetcher fleet invite" the URL with the right user and password; the other machines join again with the token that it prints`
}

// alone is what this machine knows of its fleet if the store has not answered yet: its own entries.
func (m *member) alone(now time.Time) api.Fleet {
	me := fetcher.MemberReport{Peer: m.d.node.ID(), Name: m.name, At: now}
	var r fetcher.Rollout
	for id, k := range m.index() {
		if !k.entry().Fleet {
			continue
		}
		x := reportOf(id, k)
		me.Shares = append(me.Shares, x)
		s := fetcher.ShareRollout{Name: x.Name}
		if s.ID = id; x.Done {
			s.Done = 1
		}
		r.Shares = append(r.Shares, s)
	}
	if len(r.Shares) > 0 {
		r.Members = []fetcher.MemberReport{me}
	}
	slices.SortFunc(r.Shares, func(a, b fetcher.ShareRollout) int { return a.ID.Compare(b.ID) })
	f := FleetView(r, now)
	f.At = time.Time{}
	return f
}
