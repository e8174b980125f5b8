package renewal

import (
	"math/bits"
	"time"
)

// A unit of cost is 1 MiB for 31 days: what a pass of the smallest kind pays.
const (
	UnitBytes = 1 << 20
	UnitTime  = DefaultLength
)

// Credit is what was paid and not yet used up, of one account at one depot: less
// than a unit, in MiB-seconds.
type Credit int64

const unit = int64(UnitTime / time.Second) // MiB-seconds in a unit

// Cost is what it costs to keep bytes bytes for added longer than is paid for
// already, in units, and what is left of credit then. Sizes count in whole MiB and
// times in whole seconds, both rounded up. Whatever adds no time costs nothing, and so
// does nothing at all. added is new end - the later of old end and now: time is never
// paid twice, and a lapse is not paid for.
//
// Over any sequence of renewals of a lease the units add up to the size times all
// time that was added, rounded up once.
func Cost(bytes int64, added time.Duration, credit Credit) (units int64, left Credit) {
	if bytes <= 0 || added <= 0 {
		return 0, credit
	}
	size := uint64((bytes-1)/UnitBytes + 1)
	seconds := uint64((added-1)/time.Second + 1)
	hi, lo := bits.Mul64(size, seconds)
	paid := uint64(min(max(int64(credit), 0), unit-1))
	lo, borrow := bits.Sub64(lo, paid, 0)
	if borrow > hi { // the credit covers it
		return 0, Credit(-int64(lo))
	}
	hi -= borrow
	q, rest := bits.Div64(hi, lo, uint64(unit)) // hi < unit: a size is below 2^44 MiB, a time below 2^34 s
	if rest == 0 {
		return int64(q), 0
	}
	return int64(q) + 1, Credit(uint64(unit) - rest)
}

// Added is the time that a renewal to until adds to a lease that ends at end.
func Added(end, until, now time.Time) time.Duration {
	if now.After(end) {
		end = now
	}
	return max(until.Sub(end), 0)
}
