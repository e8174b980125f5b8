package fetcher

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/rounds"
)

// MemberReport is how far a member of a fleet is, as it says itself.
type MemberReport struct {
	Peer   peers.ID      `json:"peer"`
	Name   string        `json:"name"` // of its machine
	At     time.Time     `json:"at"`   // by its own clock
	Shares []ShareReport `json:"shares"`
}

// ShareReport is how far a member is with a share.
type ShareReport struct {
	ID       string `json:"share"`
	Name     string `json:"name,omitempty"`
	Bytes    int64  `json:"bytes,omitempty"` // how many are wanted; 0: not known yet
	Verified int64  `json:"verified"`
	Done     bool   `json:"done,omitempty"`
	Waits    string `json:"waits,omitempty"` // for what, if nothing moves
}

// storedReport is a report, or as much of it as one key has room for.
type storedReport struct {
	MemberReport
	More int `json:"more,omitempty"` // keys with further shares
}

// Limits on what is believed of one member.
const (
	maxReported = 200 // shares under one key
	maxMore     = 49  // further keys
	maxWaits    = 200 // bytes
	maxNamed    = 255 // bytes
)

// reportHead is more than what a report has beside its shares, in bytes.
const reportHead = 4 << 10

// statusOf is the key of a report: the first, or one of the further ones.
func statusOf(peer peers.ID, more int) string {
	if more == 0 {
		return statusKey + string(peer)
	}
	return fmt.Sprintf("%s%s.%d", statusKey, peer, more)
}

// clip shortens what would have no room.
func (r *MemberReport) clip() {
	r.Name = clip(r.Name, maxNamed)
	for i := range r.Shares {
		x := &r.Shares[i]
		x.Name, x.Waits = clip(x.Name, maxNamed), clip(x.Waits, maxWaits)
	}
}

// parts divides a report among keys.
func (r MemberReport) parts() (all []storedReport) {
	for rest := r.Shares; len(all) == 0 || len(rest) > 0 && len(all) <= maxMore; rest = rest[len(r.Shares):] {
		n, room := 0, rounds.MaxValue-reportHead
		for ; n < min(len(rest), maxReported); n++ {
			b, err := json.Marshal(rest[n])
			if room -= len(b) + len(","); err != nil || room < 0 {
				break
			}
		}
		r.Shares = rest[:n]
		all = append(all, storedReport{MemberReport: r})
	}
	all[0].More = len(all) - 1
	return all
}

// report stores what a member says; first what is under its further keys.
func (s FleetStore) report(ctx context.Context, r MemberReport) error {
	for i, part := range slices.Backward(r.parts()) {
		if err := s.put(ctx, statusOf(r.Peer, i), part); err != nil {
			return err
		}
	}
	return nil
}

// members reads what members say, by their names. What others than they have written is left out.
func (s FleetStore) members(said []rounds.Entry) (out []MemberReport) {
	further := map[string][]ShareReport{}
	var first []storedReport
	for _, e := range said {
		var r storedReport
		if s.secret().Open(e.Key, e.Value, &r) != nil {
			continue
		}
		r.Shares = r.Shares[:min(len(r.Shares), maxReported)]
		if e.Key == statusOf(r.Peer, 0) {
			first = append(first, r)
		} else {
			further[e.Key] = r.Shares
		}
	}
	for _, r := range first {
		for i := range min(r.More, maxMore) {
			r.Shares = append(r.Shares, further[statusOf(r.Peer, i+1)]...)
		}
		out = append(out, r.MemberReport)
	}
	slices.SortFunc(out, func(a, b MemberReport) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Peer, b.Peer))
	})
	return out
}

// Forget removes the report of a machine that is gone. One that still runs with the secret of the fleet
// reports again. The error wraps ErrNotListed if there is no such report.
func (s FleetStore) Forget(ctx context.Context, machine peers.ID) error {
	what := "machine " + machine.Short()
	further, err := s.entries(ctx, statusOf(machine, 0)+".")
	if err != nil {
		return err
	}
	for _, e := range further {
		if err := s.delete(ctx, e.Key, what); err != nil && !errors.Is(err, ErrNotListed) {
			return err
		}
	}
	return s.delete(ctx, statusOf(machine, 0), what)
}

// ByShare is what the member says, by the IDs of the shares.
func (m MemberReport) ByShare() map[string]ShareReport {
	out := make(map[string]ShareReport, len(m.Shares))
	for _, s := range m.Shares {
		out[s.ID] = s
	}
	return out
}
