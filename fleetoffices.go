package fetcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/piecelease/fetcher/fleet"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/rounds"
)

// lookAgain bounds how long a coordinator that seems silent is watched for a heartbeat.
const lookAgain = 3 * time.Second

// offices fills in who coordinates each share, and whether it is alive. A coordinator whose last heartbeat seems
// long ago, or is still to come, has another clock than this machine, or is late: it is late only if no heartbeat comes
// meanwhile. If that takes longer than anybody waits for a report, its clock is believed.
func (s FleetStore) offices(ctx context.Context, all []ShareRollout) error {
	var each, late []*ShareRollout
	wait := time.Duration(0)
	for i := range all {
		each = append(each, &all[i])
	}
	ttls, err := s.officesOf(ctx, each)
	if err != nil {
		return err
	}
	for i, x := range each {
		ago := time.Since(x.Heard)
		if x.Heard.IsZero() || ago.Abs() <= ttls[i] {
			continue
		}
		if watch := rounds.Heartbeat(ttls[i]) * 5 / 4; watch <= lookAgain {
			late, wait = append(late, x), max(wait, watch)
		} else {
			x.Late = ago > 0
		}
	}
	if len(late) == 0 {
		return nil
	}
	select {
	case <-time.After(wait):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	var was []time.Time
	for _, x := range late {
		was = append(was, x.Heard)
	}
	if _, err := s.officesOf(ctx, late); err != nil {
		return err
	}
	for i, x := range late {
		if x.Late = x.Heard.Equal(was[i]); x.Late && time.Until(was[i]) > 0 {
			x.Heard = time.Now().Add(-wait) // which is all that this machine knows
		}
	}
	return nil
}

// officesAtOnce are read at the same time: a store may be far away, and a fleet have many shares.
const officesAtOnce = 16

// officesOf is office for several shares.
func (s FleetStore) officesOf(ctx context.Context, all []*ShareRollout) ([]time.Duration, error) {
	ttls, errs := make([]time.Duration, len(all)), make([]error, len(all))
	var reading sync.WaitGroup
	for first := range min(officesAtOnce, len(all)) {
		reading.Go(func() {
			for i := first; i < len(all); i += officesAtOnce {
				if ttls[i], errs[i] = s.office(ctx, all[i]); errs[i] != nil {
					return
				}
			}
		})
	}
	reading.Wait()
	return ttls, cmp.Or(errs...)
}

// office reads who coordinates a share, and returns how long a heartbeat lasts.
func (s FleetStore) office(ctx context.Context, x *ShareRollout) (ttl time.Duration, err error) {
	name := fleet.RoundName(x.ID)
	rec, err := rounds.Current(ctx, s.KV, name)
	if errors.Is(err, rounds.ErrNever) || errors.Is(err, rounds.ErrCorrupt) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	x.Coordinator, x.Term, x.Heard = "", rec.Term, time.Time{}
	if rec.State == rounds.Abandoned {
		return 0, nil
	}
	x.Coordinator = peers.ID(rec.Holder)
	var h fleet.Holder
	if s.secret().Open(name, []byte(rec.Data), &h) == nil {
		x.Heard = h.At
	}
	return rec.TTL, nil
}

// Machine returns the member with a name, or with a peer ID or its last eight characters. The error wraps
// [ErrNotListed].
func (r Rollout) Machine(what string) (peers.ID, error) {
	found := map[peers.ID]bool{}
	var last peers.ID
	for _, m := range r.Members {
		if string(m.Peer) == what {
			return m.Peer, nil // whatever others are called
		}
		if m.Name == what || m.Peer.Short() == what {
			found[m.Peer], last = true, m.Peer
		}
	}
	switch len(found) {
	case 1:
		return last, nil
	case 0:
		return "", fmt.Errorf("machine %q is %w", what, ErrNotListed)
	}
	return "", words.Error(ErrNotListed, "%d machines of the fleet are called %q: name one by its ID", len(found), what)
}
