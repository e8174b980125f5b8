package simnet

import (
	"time"

	"github.com/piecelease/fetcher/share"
)

// Mbit is a million bits per second, in the bytes per second that lines count.
const Mbit = 1e6 / 8

// Line is the way in and out of a node or of a site. The zero Line has no
// limits and no delay.
type Line struct {
	Up, Down float64       // bytes per second; 0 is no limit
	Latency  time.Duration // one way
	Jitter   time.Duration // up to this much more, drawn for each message and part of a reply
	// Loss is the share of packets of 1,400 bytes that are lost. What is lost
	// is sent again: streams are reliable. That takes a round trip, or more if
	// it is lost again; everything behind it waits; and a sender that sees losses
	// sends no faster than TCP Reno would (Mathis et al., 1997).
	Loss float64
}

// String is how fast the line is.
func (l Line) String() string { return rate(l.Up) + " up, " + rate(l.Down) + " down" }

func rate(r float64) string {
	if r == 0 {
		return "unlimited"
	}
	return share.Size(int64(r)) + "/s"
}
