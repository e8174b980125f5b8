package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/piecelease/fetcher/catalog"
	"github.com/piecelease/fetcher/internal/words"
)

// This file is which fleet a node belongs to, and what keeps it from that.

// placeOf returns the store that the settings name, without a password; "" if they name none.
func placeOf(cfg Config) string {
	if cfg.Fleet == "" {
		return ""
	}
	at, _, _ := strings.Cut(cfg.Fleet, "?")
	scheme, rest, _ := strings.Cut(at, "://")
	return scheme + "://" + rest[strings.LastIndexByte(rest, '@')+1:]
}

// fleetOfName is the file of a state directory that has the ID of the fleet to which the entries of the catalog and what
// depots keep for it belong, and on the next line the place of its store.
const fleetOfName = "fleet.of"

// isNew reports whether this node does not belong to the fleet of which its catalog is. One
// that does not say whose it is, or not so that it can be read, is of the present one: nothing is forgotten on suspicion.
// Nor is it if the settings name the same store, with another secret, or the same fleet at another store; that is noted.
func (m *member) isNew() bool {
	b, err := readUpTo(filepath.Join(m.d.dir, fleetOfName), maxMembership)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.d.log.Warn("which fleet this node has belonged to cannot be read", "error", err)
		return false
	}
	id, place, _ := strings.Cut(string(b), "\n")
	if err == nil && id != m.id && (m.place == "" || place != m.place) {
		return true
	}
	if id != m.id || m.place != "" && place != m.place {
		if err := m.settle(); err != nil {
			m.d.log.Warn("which fleet this node belongs to was not kept", "error", err)
		}
	}
	return false
}

// settle keeps which fleet this node belongs to.
func (m *member) settle() error {
	return replace(filepath.Join(m.d.dir, fleetOfName), []byte(m.id+"\n"+m.place))
}

// takeOver makes what a fleet had in the catalog that this node has left for another its owner's, except what that kept
// for itself, which goes.
func (m *member) takeOver(ctx context.Context, db *catalog.DB) error {
	if m == nil || !m.isNew() {
		return nil
	}
	all, err := db.List(ctx)
	if err != nil {
		return err
	}
	for _, e := range all {
		switch {
		case !e.Fleet:
			continue
		case e.Dir == m.internal(shareOf(e)):
			_, err = db.Remove(ctx, e.ID)
			err = errors.Join(err, os.RemoveAll(e.Dir))
		default:
			_, err = db.Set(ctx, e.ID, func(w *catalog.Wish) error { w.Fleet = false; return nil })
		}
		if err != nil {
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
	what := "join it with its new token, and restart the node"
	if joined, ok, err := Joined(m.d.dir); err == nil && ok && joined.Secret != m.store.Secret && m.d.setting().Fleet == "" {
		what = "this machine has joined it anew: restart the node"
	} else if m.d.setting().Fleet != "" {
		what = "put the new one into the file that fleet-secret names, and restart the node"
	}
	return fmt.Sprintf("this node is no member of its fleet any more, found out %s ago: the fleet has another secret; %s", words.Duration(now.Sub(since)), what)
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
	return fmt.Sprintf("the store of the fleet has not answered for %s: %v; what runs goes on, and nobody is elected", words.Duration(now.Sub(a.Since)), a.Why), a.Since
}
