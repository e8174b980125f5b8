package peers

import (
	"maps"
	"time"
)

// Allowance bounds what each peer may make this node do: a burst at once, and from
// then on a rate per second. What does not fit has to wait, so a peer that asks too
// often waits, and nobody else. It has one owner; the time is an argument.
type Allowance struct {
	rate, burst float64
	owes        map[ID]debt
	many        int // number of peers after which those that owe nothing are forgotten
}

// debt is what a peer has taken and time has not paid back.
type debt struct {
	of float64
	at time.Time
}

const fewPeers = 1024

// NewAllowance allows each peer burst at once, and rate per second.
func NewAllowance(rate, burst int) *Allowance {
	return &Allowance{rate: float64(rate), burst: float64(burst), owes: map[ID]debt{}, many: fewPeers}
}

// Take takes cost from a peer's allowance. If wait is not 0 it has taken nothing, and there
// is enough after that time. A cost above the burst may be taken when nothing is owed.
func (a *Allowance) Take(id ID, cost int, now time.Time) (wait time.Duration) {
	if wait := a.Wait(id, cost, now); wait > 0 {
		return wait
	}
	a.owes[id] = debt{a.left(a.owes[id], now) + float64(cost), now}
	if len(a.owes) > a.many {
		maps.DeleteFunc(a.owes, func(_ ID, d debt) bool { return a.left(d, now) == 0 })
		a.many = max(fewPeers, 2*len(a.owes))
	}
	return 0
}

// Wait is what Take would say, and takes nothing.
func (a *Allowance) Wait(id ID, cost int, now time.Time) time.Duration {
	over := a.left(a.owes[id], now) + min(float64(cost), a.burst) - a.burst
	if over <= 0 {
		return 0
	}
	return time.Duration(over/a.rate*float64(time.Second)) + time.Millisecond
}

func (a *Allowance) left(d debt, now time.Time) float64 {
	return max(0, d.of-max(0, now.Sub(d.at).Seconds())*a.rate)
}
