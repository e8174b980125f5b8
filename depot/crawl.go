package depot

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/piecelease/fetcher/share"
)

const (
	// Slice is how long the crawler works at a time.
	Slice = 100 * time.Millisecond
	// Duty is the fraction of the time that it works: one in Duty.
	Duty = 10
	// ShortestCycle is the least time from the start of one cycle to that of the next.
	ShortestCycle = 3 * 24 * time.Hour
	// longestRest bounds the rest after a slice, so that a machine that slept during
	// one does not rest for days.
	longestRest = time.Hour
)

// A Crawl is the position of the crawler. It visits all shares on the disk in the order
// of their IDs, a slice at a time. The position is stored after each slice, so that a
// crawler that was killed repeats at most one.
//
// Its fields are exported only to be stored; the zero value has never run.
type Crawl struct {
	Cycle  int64     // number of the cycle, from 1
	Began  time.Time // when the cycle began
	At     share.ID  // the last share visited; zero: none yet
	Rest   time.Time // no slice before this time
	Done   bool      // the cycle is done, and the next begins at Rest
	Report Report
}

// A Report is what the crawler has seen in a cycle. Bytes are those of shares.
type Report struct {
	Examined, Expired, Corrupt, Failed int           // shares; Expired: nobody holds them any more; Failed: not examined
	Removable                          int           // those of Expired whose grace is over
	Bytes, ExpiredBytes, RemovableB    int64         // of the shares examined, of those nobody holds, and of those whose grace is over
	Ages                               [13]int       // shares by weeks since they entered their state; the last: longer
	Worked                             time.Duration // in all slices
}

// Seen is the result of a visit to one share. A slice has several.
type Seen struct {
	Bytes            int64
	Age              time.Duration // since it entered its state
	Expired, Corrupt bool
	Removable        bool // expired, and its grace is over
	Failed           bool // the visit ended in an error: it counts in Failed, and nothing else is known
}

// Add counts the result of the visit to the next share.
func (r *Report) Add(s Seen) {
	r.Examined++
	if s.Failed {
		r.Failed++
		return
	}
	r.Bytes += s.Bytes
	if s.Expired {
		r.Expired++
		r.ExpiredBytes += s.Bytes
	}
	if s.Removable {
		r.Removable++
		r.RemovableB += s.Bytes
	}
	if s.Corrupt {
		r.Corrupt++
	}
	week := s.Age / (7 * 24 * time.Hour)
	r.Ages[min(max(int(week), 0), len(r.Ages)-1)]++
}

// Next returns how long to wait until the next slice; 0: it begins now, with the first
// share after c.At. A cycle begins with its first slice. A rest further ahead than any
// can be, because the clock was set back, is ignored.
func (c *Crawl) Next(now time.Time) time.Duration {
	most := longestRest
	if c.Done {
		most = ShortestCycle
	}
	if wait := c.Rest.Sub(now); wait > 0 && wait <= most {
		return wait
	}
	if c.Cycle == 0 || c.Done {
		*c = Crawl{Cycle: c.Cycle + 1, Began: now}
	}
	return 0
}

// Did records a slice that ended at now, took that long, and visited all shares up to
// at. done says that these were the last: then Report is complete for the cycle.
func (c *Crawl) Did(now time.Time, took time.Duration, at share.ID, done bool) {
	took = max(took, 0)
	c.Report.Worked += took
	if !at.IsZero() {
		c.At = at
	}
	c.Rest = now.Add(min(took*(Duty-1), longestRest))
	if c.Done = done; done {
		if next := c.Began.Add(ShortestCycle); next.After(c.Rest) {
			c.Rest = next
		}
	}
}

// Left returns how long the rest of the cycle will take at the rate so far; 0 if that is
// not known yet, or the cycle is done.
func (c *Crawl) Left(now time.Time) time.Duration {
	if c.Done || c.At.IsZero() {
		return 0
	}
	done := (float64(binary.BigEndian.Uint64(c.At.Bytes()[4:])) + 1) / math.MaxUint64
	left := float64(now.Sub(c.Began)) * (1 - done) / done
	return time.Duration(min(max(left, 0), float64(math.MaxInt64/2)))
}
