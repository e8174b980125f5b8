package daemon

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/turns"
)

// fleetHeard is what a member has heard of the progress of its fleet.
type fleetHeard struct {
	asking turns.Turns[struct{}] // of whoever asks the store

	mu       sync.Mutex // guards the fields below
	last     api.Fleet
	has      int       // as many changes of this node were made before last
	changes  int       // ... of all
	failed   error     // why the store gave no answer
	failedAt time.Time // ... the last time
}

// fleetFresh is how long an answer counts.
const fleetFresh = time.Second

// forget has the store asked again; if it does not answer, the last report is what is known.
func (m *member) forget() {
	m.heard.mu.Lock()
	defer m.heard.mu.Unlock()
	m.heard.changes++
}

// Fleet returns the progress of the fleet. While the store is away it returns the last report. Of those who ask meanwhile one
// waits for the store, and the others take the answer, also if there is none.
func (d *Daemon) Fleet(ctx context.Context) (api.Fleet, error) {
	m, err := d.member.belongs()
	if err != nil {
		return api.Fleet{}, err
	}
	h, began := &m.heard, time.Now()
	leave, err := h.asking.Take(ctx, struct{}{})
	if err != nil {
		return m.unread(err), nil
	}
	defer leave()
	h.mu.Lock()
	last, changes, failed := h.last, h.changes, h.failed
	fresh, meanwhile := h.has == changes && time.Since(last.At) < fleetFresh, h.failedAt.After(began)
	h.mu.Unlock()
	switch {
	case fresh:
		return last, nil
	case meanwhile:
		return m.unread(failed), nil
	}
	short, cancel := context.WithTimeout(ctx, fleetTime)
	defer cancel()
	r, err := m.store.Rollout(short)
	if err == nil || errors.Is(err, fetcher.ErrOtherFleet) {
		m.Member(err)
	}
	if err == nil {
		last = FleetView(r, time.Now())
	}
	h.mu.Lock()
	if err == nil {
		h.last, h.has = last, changes
	} else if ctx.Err() == nil { // else it is whoever asked that did not wait
		h.failed, h.failedAt = err, time.Now()
	}
	h.mu.Unlock()
	if err != nil {
		return m.unread(err), nil
	}
	return last, nil
}

// unread is the last report, and why there is none now.
func (m *member) unread(err error) api.Fleet {
	m.heard.mu.Lock()
	out := m.heard.last
	m.heard.mu.Unlock()
	if out.At.IsZero() {
		out = m.alone(time.Now())
	}
	if out.Away, out.AwaySince = m.away(time.Now()); out.Away == "" {
		out.Away = "the state of the fleet cannot be read: " + err.Error()
	}
	return out
}
