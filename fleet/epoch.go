package fleet

import "github.com/piecelease/fetcher/share"

// Epoch is the number of a run of a coordinator. It grows with every run, and the
// tokens of the run's leases begin with its lower 24 bits: see share.Token.
type Epoch = uint64

// epochOf is the epoch that a token begins with.
func epochOf(t share.Token) Epoch { return Epoch(t >> 40) }
