package renewal

import (
	"math/bits"
	"time"
)

// A unit of cost is 1 MiB for 31 days: what the smallest pass pays for.
const (
	UnitBytes = 1 << 20
	UnitTime  = DefaultLength
)

// Credit is what an account has paid at a depot and not used up, in MiB-seconds. After a
// renewal for which only the missing units were paid it is less than a unit.
type Credit int64

// Paid returns the credit that units give.
func Paid(units int64) Credit { return Credit(units * unit) }

// MaxUnits bounds one payment, and MaxCredit the credit of an account: far more than it can
// use up, and far less than an int64 holds.
const (
	MaxUnits  = 1 << 24
	MaxCredit = Credit(1 << 60)
)

const unit = int64(UnitTime / time.Second) // MiB-seconds in a unit

// Cost returns the units that are missing to keep bytes bytes for added longer than is
// already paid for, and the credit left once they are paid. Sizes are rounded up to whole MiB,
// times to whole seconds. What adds no time costs nothing, and neither do 0 bytes. added is the
// new end - the later of old end and now: time is never paid twice, and a lapse is not paid for.
// Over any sequence of renewals of a lease the units add up to the size times all
// time that was added, rounded up once.
func Cost(bytes int64, added time.Duration, credit Credit) (units int64, left Credit) {
	if bytes <= 0 || added <= 0 {
		return 0, credit
	}
	size := uint64((bytes-1)/UnitBytes + 1)
	seconds := uint64((added-1)/time.Second + 1)
	hi, lo := bits.Mul64(size, seconds)
	paid := uint64(max(credit, 0))
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

// Added returns the time that a renewal to until adds to a lease that ends at end.
func Added(end, until, now time.Time) time.Duration {
	if now.After(end) {
		end = now
	}
	return max(until.Sub(end), 0)
}
