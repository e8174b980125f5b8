package beacon

import (
	"slices"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// Sample returns at most n peers that announced a share, for the peer id, which asks from at:
// one of each block, drawn at random, before there is a second of any, never the
// asker itself, and none that it is too far away to reach: unless the beacon leads there. As a list of peers in a message
// they take at most bytes bytes. If retry is not 0, the peer has asked too often,
// and may ask again after that.
func (t *Table) Sample(id peers.ID, at peers.Endpoint, key share.Hash, n, bytes int, now time.Time) (out []peers.Addr, retry time.Duration) {
	if wait := often(t.seeksFrom, t.seeksOf, at.Net, id, 1, now); wait > 0 {
		return nil, wait
	}
	t.forget(now)
	s := t.shares[key]
	if s == nil {
		return nil, 0
	}
	cells := make([][]*record, len(s.cells))
	for i, c := range s.cells {
		cells[i] = append([]*record(nil), c.records...)
	}
	for len(out) < n && len(cells) > 0 {
		t.rng.Shuffle(len(cells), func(i, j int) { cells[i], cells[j] = cells[j], cells[i] })
		left := cells[:0]
		for _, c := range cells {
			i := t.rng.IntN(len(c))
			of := c[i].of
			a := of.seen(at)
			if c[i] = c[len(c)-1]; len(c) > 1 {
				left = append(left, c[:len(c)-1])
			}
			if size := Size(a); len(out) < n && a.ID != id && len(a.Addrs) > 0 && size <= bytes {
				out, bytes = append(out, a), bytes-size
			}
		}
		cells = left
	}
	return out, 0
}

// seen is a peer as it is introduced to one that asks from at; without addresses if that cannot reach it.
func (a *announcer) seen(at peers.Endpoint) (out peers.Addr) {
	if out.ID = a.id; a.reach <= at.Reach {
		out.Addrs = a.addrs
	}
	if a.placed {
		out.Addrs = append(slices.Clip(out.Addrs), peers.ThroughNamer)
	}
	return out
}

// Size returns how many bytes a peer takes at most in a list of peers in a message.
func Size(a peers.Addr) int {
	const head = 3 // of a field of less than 16 KiB
	n := 2*head + len(a.ID)
	for _, addr := range a.Addrs {
		n += head + len(addr)
	}
	return n
}
