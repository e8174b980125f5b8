package depot

import (
	"errors"
	"fmt"

	"github.com/piecelease/fetcher/share"
)

// Delay is why a share that is coming to a depot, or being repaired there, makes no
// progress. The numbers are sent to peers.
type Delay uint8

// The delays. 0 is none.
const (
	Queued      Delay = iota + 1 // others are fetched first
	Unreachable                  // no source can be reached
	Nowhere                      // no source has it
	NotAllowed                   // the sources do not let the depot have it
	DiskFull                     // the depot's disk is full
	Useless                      // the sources send wrong data, or nothing
	Failing                      // something else
)

var delayWords = [...]string{"", "others are fetched first", "no source can be reached", "no source has it", "the sources do not give it to the depot",
	"the depot's disk is full", "the sources send wrong data, or nothing", "fetching it fails there"}

func (d Delay) String() string {
	if int(d) < len(delayWords) {
		return delayWords[d]
	}
	return fmt.Sprintf("delay %d", uint8(d))
}

// DelayOf returns the delay that stands for an error of a fetch.
func DelayOf(err error) Delay {
	for _, x := range []struct {
		err error
		is  Delay
	}{{share.ErrDiskFull, DiskFull}, {share.ErrNetwork, Unreachable}, {share.ErrNotFound, Nowhere}, {share.ErrNotAllowed, NotAllowed},
		{share.ErrLied, Useless}, {share.ErrStalled, Useless}} {
		if errors.Is(err, x.err) {
			return x.is
		}
	}
	return Failing
}
