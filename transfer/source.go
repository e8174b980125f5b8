package transfer

import (
	"slices"
	"time"

	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/peers"
)

// source is one peer that the share is fetched from, or may be.
type source struct {
	addr  peers.Addr // as it was found first
	at    Addresses
	again int // taken up again because another peer named it
	index int // in order of arrival, from 0
	pool  int // its number; 0: there is none
	pools int // started so far
	turns int // how often it gave its place to another
	info  Source
	rate  meter // of what is verified

	asking   bool      // for the manifest
	slowAt   time.Time // asking: when others are asked beside
	askAt    time.Time // not before
	asks     int       // failed in a row
	dials    int       // failed in a row
	held     bool      // waits for other links of this node
	up       bool      // was connected, at least once
	answered bool      // something took a connection, at least once
	lastLoss string    // why the last connection failed; empty: none did, or another one works
	notFound bool      // said that it does not have the share
	denied   bool      // said that this node may not have it
	out      bool      // over for good
	lost     bool      // ... unless it comes by itself: it could not be reached
}

// seen is the present state of the source, as others are told.
func (src *source) seen(now time.Time) Source {
	s := src.info
	s.Rate = src.rate.perSecond(now)
	return s
}

// stands records the state of a source.
func (src *source) stands(now time.Time, state SourceState, why string) {
	if src.info.State != state || src.info.Since.IsZero() {
		src.info.Since = now
	}
	src.info.State, src.info.Why = state, why
}

// retry notes when a source may be asked for the manifest again.
func (src *source) retry(now time.Time, after time.Duration, why string) {
	src.askAt = now.Add(after)
	src.stands(now, Resting, why+words.Duration(after))
}

// connected reports whether anything ever took a connection at a source's addresses.
func (src *source) connected() bool { return src.up || src.answered }

// waits reports whether the source could have a pool, if there were a place.
func (src *source) waits() bool { return src.pool == 0 && !src.out }

// Addresses are where one source is according to those that named it: the first, and the
// newest of the others. Any of them may be a lie, so they are tried in turn.
type Addresses []peers.Addr

// MaxAddresses is the number of Addresses remembered.
const MaxAddresses = 4

// Also adds addresses, and says whether they are new.
func (p *Addresses) Also(a peers.Addr) bool {
	if slices.ContainsFunc(*p, func(x peers.Addr) bool { return slices.Equal(x.Addrs, a.Addrs) }) {
		return false
	}
	if len(*p) == MaxAddresses {
		*p = slices.Delete(*p, 1, 2)
	}
	*p = append(*p, a)
	return true
}

// Try returns where to try after the given number of failed attempts.
func (p Addresses) Try(failed int) peers.Addr { return p[failed%len(p)] }
