package peers

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/piecelease/fetcher/internal/bounds"
)

// RankingConfig parametrises a Ranking. The zero value is the default. The first
// three names and their defaults come from the design this project began with;
// they concern integrity only. Its fourth, MinPeerScore, is leasemgr's.
type RankingConfig struct {
	// RankingDecay is the part of the distance from neutral, of integrity and of
	// speed, that is left after an idle hour. In (0, 1]; default 0.95: half is gone
	// after 13.5 hours.
	RankingDecay float64
	// SuccessBonus is the share of the way to the best integrity that one MiB of
	// good data goes. In (0, 1]; default 0.5.
	SuccessBonus float64
	// FailurePenalty divides integrity by 1 + FailurePenalty for each bad block or
	// proof. Default 1.0: a half.
	FailurePenalty float64

	// MissPenalty is what a missed deadline takes from the speed, as a share.
	// In (0, 1); default 0.2. Good data takes it back as it does for integrity.
	MissPenalty float64
	// Smoothing is the weight of a new measurement in the averages of rate and
	// time to first byte. In (0, 1]; default 0.25.
	Smoothing float64
	// GoodRate is the rate, in bytes per second, that counts as half of the
	// best. Default 1 MB/s.
	GoodRate float64
	// GoodFirst is the time to first byte that halves the speed. Default 1 s.
	GoodFirst time.Duration

	// BanFor is how long the first ban lasts; a later one lasts longer with the
	// offences that are remembered, at most 8 times as long. They halve every BanFor.
	// Default 24 h.
	BanFor time.Duration
	// MaxPeers bounds the peers remembered. The one heard of least recently is
	// forgotten first, banned ones last. Default 131,072, some 30 MiB.
	MaxPeers int
}

// Validate names the fields that are out of range, with their ranges. NewRanking
// takes a configuration that Validate has not refused.
func (c RankingConfig) Validate() error {
	var f bounds.Fields
	bounds.In(&f, "RankingDecay", c.RankingDecay, 1e-6, 1)
	bounds.In(&f, "SuccessBonus", c.SuccessBonus, 1e-6, 1)
	bounds.In(&f, "FailurePenalty", c.FailurePenalty, 1e-6, 1e6)
	bounds.In(&f, "MissPenalty", c.MissPenalty, 1e-6, 1)
	bounds.In(&f, "Smoothing", c.Smoothing, 1e-6, 1)
	bounds.In(&f, "GoodRate", c.GoodRate, 1, 1e12)
	bounds.In(&f, "GoodFirst", c.GoodFirst, time.Millisecond, time.Hour)
	bounds.In(&f, "BanFor", c.BanFor, time.Second, 366*24*time.Hour)
	bounds.In(&f, "MaxPeers", c.MaxPeers, 1, 1<<24)
	return f.Err()
}

func (c RankingConfig) withDefaults() RankingConfig {
	bounds.Default(&c.RankingDecay, 0.95)
	bounds.Default(&c.SuccessBonus, 0.5)
	bounds.Default(&c.FailurePenalty, 1.0)
	bounds.Default(&c.MissPenalty, 0.2)
	bounds.Default(&c.Smoothing, 0.25)
	bounds.Default(&c.GoodRate, 1e6)
	bounds.Default(&c.GoodFirst, time.Second)
	bounds.Default(&c.BanFor, 24*time.Hour)
	bounds.Default(&c.MaxPeers, 128<<10)
	return c
}

// The bounds of the two qualities and where a peer begins.
const (
	maxIntegrity     = 2.0
	neutralIntegrity = 1.0
	neutralSpeed     = 0.5

	bytesPerStep = 1 << 20 // of good data, for one SuccessBonus
	banAt        = 1.5     // offences; a bad block is one, a bad proof two
	maxOffences  = 16.0
)

// Record is what is known of one peer, to be kept over a restart. Every value is as
// of At; Restore accepts any bytes that decode to it.
type Record struct {
	ID        ID            `json:"id"`
	At        time.Time     `json:"at"`        // wall time of the last event
	Integrity float64       `json:"integrity"` // 0 to 2
	Speed     float64       `json:"speed"`     // 0 to 1, misses left out
	Prompt    float64       `json:"prompt"`    // 0 to 1: what misses have left of the speed
	Rate      float64       `json:"rate"`      // bytes per second; 0: never measured
	First     time.Duration `json:"first"`     // to the first byte, ns
	Offences  float64       `json:"offences"`
	Until     time.Time     `json:"until,omitzero"` // of the ban
}

// Ranking knows how good peers are as sources. It has one owner; it is not safe for
// concurrent use. Times should grow from call to call; if one does not, no time is
// taken to have passed.
type Ranking struct {
	cfg    RankingConfig
	peers  map[ID]*peer
	plain  peer // of the list of peers that were never banned: next was heard of last
	banned peer // of those that are or were
}

// peer is a Record in one of the two lists.
type peer struct {
	Record
	prev, next *peer
}

// NewRanking is a Ranking that knows nobody.
func NewRanking(cfg RankingConfig) *Ranking {
	r := &Ranking{cfg: cfg.withDefaults(), peers: map[ID]*peer{}}
	r.plain.prev, r.plain.next = &r.plain, &r.plain
	r.banned.prev, r.banned.next = &r.banned, &r.banned
	return r
}

// Verified counts bytes of data that proved good. The number of calls they are spread
// over does not matter.
func (r *Ranking) Verified(id ID, bytes int64, now time.Time) {
	if bytes <= 0 {
		return
	}
	p := r.event(id, now)
	left := math.Pow(1-r.cfg.SuccessBonus, float64(bytes)/bytesPerStep)
	p.Integrity = maxIntegrity - (maxIntegrity-p.Integrity)*left
	p.Prompt = 1 - (1-p.Prompt)*left
}

// Lied counts a lie. A bad block counts 1. With proof set (a bad proof or a breach of
// the protocol) it counts 2. A ban starts at 1.5; older offences fade. banned says whether the
// peer is banned now.
func (r *Ranking) Lied(id ID, proof bool, now time.Time) (banned bool) {
	p := r.event(id, now)
	p.Integrity /= 1 + r.cfg.FailurePenalty
	more := 1.0
	if proof {
		more = 2
	}
	p.Offences = min(p.Offences+more, maxOffences)
	if p.Offences < banAt {
		return now.Before(p.Until)
	}
	until := wall(now).Add(time.Duration(p.Offences / 2 * float64(r.cfg.BanFor)))
	if until.After(p.Until) {
		p.Until = until
	}
	r.unlink(p)
	r.link(&r.banned, p)
	return true
}

// Missed counts a broken promise: a deadline that passed without the bytes, or a piece
// that the peer should have had. It concerns the speed alone.
func (r *Ranking) Missed(id ID, now time.Time) {
	p := r.event(id, now)
	p.Prompt *= 1 - r.cfg.MissPenalty
}

// Measured takes what was measured: rate in bytes per second, and the time to the
// first byte. A rate that is no positive number is ignored.
func (r *Ranking) Measured(id ID, rate float64, first time.Duration, now time.Time) {
	if !(rate > 0) || math.IsInf(rate, 1) {
		return
	}
	p := r.event(id, now)
	first = max(first, 0)
	if p.Rate == 0 {
		p.Rate, p.First = rate, first
	} else {
		p.Rate += (rate - p.Rate) * r.cfg.Smoothing
		p.First += time.Duration(float64(first-p.First) * r.cfg.Smoothing)
	}
	p.Speed = r.quality(p.Rate, p.First)
}

// quality is the speed of a rate and a time to first byte, in (0, 1).
func (r *Ranking) quality(rate float64, first time.Duration) float64 {
	return rate / (rate + r.cfg.GoodRate) / (1 + first.Seconds()/r.cfg.GoodFirst.Seconds())
}

// Banned says whether a peer is banned, and until when. At that time it no longer is.
func (r *Ranking) Banned(id ID, now time.Time) (until time.Time, banned bool) {
	if p := r.peers[id]; p != nil && now.Before(p.Until) {
		return p.Until, true
	}
	return time.Time{}, false
}

// Score is the score of a peer, in [0, 3]: 1 for an unknown one, 0 for a banned one.
func (r *Ranking) Score(id ID, now time.Time) float64 {
	p := r.peers[id]
	if p == nil {
		return neutralIntegrity * (0.5 + neutralSpeed)
	}
	if now.Before(p.Until) {
		return 0
	}
	at := r.at(p, now)
	return at.Integrity * (0.5 + at.Speed*at.Prompt)
}

// at is the record of a peer at a later time without further events.
func (r *Ranking) at(p *peer, now time.Time) Record {
	rec := p.Record
	idle := now.Sub(p.At)
	if idle <= 0 {
		return rec
	}
	left := math.Pow(r.cfg.RankingDecay, idle.Hours())
	rec.Integrity = neutralIntegrity + (rec.Integrity-neutralIntegrity)*left
	rec.Speed = neutralSpeed + (rec.Speed-neutralSpeed)*left
	rec.Prompt = 1 - (1-rec.Prompt)*left
	rec.Offences *= math.Exp2(-float64(idle) / float64(r.cfg.BanFor))
	rec.At = wall(now)
	return rec
}

// Records is all that is known, as of now, sorted by ID.
func (r *Ranking) Records(now time.Time) []Record {
	out := make([]Record, 0, len(r.peers))
	for _, p := range r.peers {
		out = append(out, r.at(p, now))
	}
	slices.SortFunc(out, func(a, b Record) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// Restore adds what was known before. The record of a peer that is known already is
// ignored. Values out of bounds are brought within them: a time in the future becomes
// now, and no ban lasts longer than one that begins now.
func (r *Ranking) Restore(records []Record, now time.Time) {
	records = slices.Clone(records)
	slices.SortStableFunc(records, func(a, b Record) int { return a.At.Compare(b.At) })
	for _, rec := range records {
		if rec.ID == "" || r.peers[rec.ID] != nil {
			continue
		}
		if rec.At.After(now) {
			rec.At = now
		}
		rec.At = wall(rec.At)
		rec.Integrity = bounded(rec.Integrity, maxIntegrity, neutralIntegrity)
		rec.Speed = bounded(rec.Speed, 1, neutralSpeed)
		rec.Prompt = bounded(rec.Prompt, 1, 1)
		rec.Rate = bounded(rec.Rate, math.MaxFloat64, 0)
		rec.First = max(rec.First, 0)
		rec.Offences = bounded(rec.Offences, maxOffences, 0)
		if latest := wall(now).Add(maxOffences / 2 * r.cfg.BanFor); rec.Until.After(latest) {
			rec.Until = latest
		}
		p := r.add(rec.ID)
		p.Record = rec
		if now.Before(rec.Until) {
			r.unlink(p)
			r.link(&r.banned, p)
		}
	}
}

// bounded is v if it lies in [0, high], the nearer bound if not, and def if it is no number.
func bounded(v, high, def float64) float64 {
	if math.IsNaN(v) {
		return def
	}
	return min(max(v, 0), high)
}

// event is the peer as of now, moved to the front of its list.
func (r *Ranking) event(id ID, now time.Time) *peer {
	p := r.peers[id]
	if p == nil {
		p = r.add(id)
		p.At = wall(now)
		return p
	}
	p.Record = r.at(p, now)
	list := &r.plain
	if !p.Until.IsZero() {
		list = &r.banned
	}
	r.unlink(p)
	r.link(list, p)
	return p
}

// add makes a neutral peer, forgetting another if there are too many.
func (r *Ranking) add(id ID) *peer {
	if len(r.peers) >= r.cfg.MaxPeers {
		old := r.plain.prev
		if old == &r.plain {
			old = r.banned.prev
		}
		r.unlink(old)
		delete(r.peers, old.ID)
	}
	p := &peer{Record: Record{ID: id, Integrity: neutralIntegrity, Speed: neutralSpeed, Prompt: 1}}
	r.peers[id] = p
	r.link(&r.plain, p)
	return p
}

func (r *Ranking) link(list, p *peer) {
	p.prev, p.next = list, list.next
	p.prev.next, p.next.prev = p, p
}

func (r *Ranking) unlink(p *peer) { p.prev.next, p.next.prev = p.next, p.prev }

// wall drops the monotonic reading: what is kept is compared after a restart.
func wall(t time.Time) time.Time { return t.Round(0).UTC() }
