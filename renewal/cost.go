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

// Credit is what an account has paid at a depot and not used up, in MiB-seconds. After a
// renewal whose missing units alone were paid it is less than a unit.
type Credit int64

// Paid is the credit that units make.
func Paid(units int64) Credit { return Credit(units * unit) }

// MaxUnits bounds what is paid at a time, and MaxCredit what an account may have: far above what
// it can use up, and far below what an int64 holds.
const (
	MaxUnits  = 1 << 24
	MaxCredit = Credit(1 << 60)
)

const unit = int64(UnitTime / time.Second) // MiB-seconds in a unit

// Cost is what it costs to keep bytes bytes for added longer than is paid for
// already, in the units that are missing for it, and what is left of credit when they are paid. Sizes count in whole MiB and
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

// Added is the time that a renewal to until adds to a lease that ends at end.
func Added(end, until, now time.Time) time.Duration {
	if now.After(end) {
		end = now
	}
	return max(until.Sub(end), 0)
}
