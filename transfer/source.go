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
	fails int // pools of it that failed
	info  Source
	rate  meter          // of what is verified
	set   peers.Set      // as of the last place
	moved time.Time      // into its set
	from  peers.Endpoint // where its connection comes from; empty: there was none
	asked time.Time      // by the clock of places, when something was first asked of it alone in a fleet
	gave  time.Time      // by the same, when it last brought something

	asking   bool      // for the manifest
	slowAt   time.Time // asking, or was last: when others are asked beside
	askAt    time.Time // not before
	listAt   time.Time // asking: when the manifest began to come; zero: it has not
	listed   string    // ... how much of it has
	cuts     int       // manifests that began to come and did not come to the end
	asks     int       // failed in a row
	dials    int       // failed in a row
	held     bool      // waits for other links of this node
	fetching bool      // something is asked of it
	paced    bool      // the download limit is what holds it up
	up       bool      // was connected, at least once
	here     bool      // is connected, or was when it failed last
	busy     bool      // answers that it is busy
	answered bool      // something took a connection, at least once
	lastLoss string    // why the last connection failed; empty: none did, or another one works
	proxy    error     // ... if this node's proxy is why
	dialled  bool      // ... or one before, at an address that this node may dial: its proxy leads to no QUIC
	sent     bool      // named others that have the manifest
	whole    bool      // said that it has every piece, and no pool has made use of that
	until    time.Time // info.Banned: when that ends
	out      bool      // over for good, unless it was banned and that ends, or it comes by itself and one of these holds:
	notFound bool      // ... it said that it does not have the share
	denied   bool      // ... it said that this node may not have it
	lost     bool      // ... it could not be reached
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

// listing says that it is sending the manifest.
func (src *source) listing() string { return "getting the list of files from " + src.addr.ID.Short() }

// connected reports whether anything ever took a connection at a source's addresses.
func (src *source) connected() bool { return src.up || src.answered }

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
