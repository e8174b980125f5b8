package fetchpool

import (
	"math/rand/v2"
	"time"
)

// backoff is the waits between the attempts of one operation: min, twice that,
// and so on to max, each drawn from the three quarters below to a quarter above,
// so that many pools that failed together do not come back together.
type backoff struct {
	min, max time.Duration
	failed   int // attempts in a row
}

func (b *backoff) next(rng *rand.Rand) time.Duration {
	d := b.max
	if b.failed < 32 && b.min<<b.failed < b.max {
		d = b.min << b.failed
	}
	b.failed++
	return min(d*3/4+time.Duration(rng.Int64N(int64(d/2)+1)), b.max)
}

func (b *backoff) reset() { b.failed = 0 }
