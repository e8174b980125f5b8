package fetchpool

import (
	"math/rand/v2"
	"time"
)

// backoff is the waits between the attempts of one operation: min, twice that,
// and so on to max, each drawn between three quarters and five quarters of that,
// so that many pools that failed together do not come back together.
type backoff struct {
	min, max time.Duration
	failed   int // failed attempts in a row
}

func (b *backoff) next(rng *rand.Rand) time.Duration {
	d := b.max
	if b.failed < 32 && b.min<<b.failed < b.max {
		d = b.min << b.failed
	}
	b.failed++
	return min(spread(d, rng), b.max)
}

// spread is between three quarters and five quarters of a wait.
func spread(d time.Duration, rng *rand.Rand) time.Duration {
	return d*3/4 + time.Duration(rng.Int64N(int64(d/2)+1))
}

func (b *backoff) reset() { b.failed = 0 }
