package fetchpool

import "github.com/piecelease/fetcher/internal/words"

// Why is a few words for people on what the pool is doing or waiting for. It
// changes only when that changes, not with the clock.
func (p *Pool) Why() string {
	switch p.state {
	case Idle:
		return "not begun"
	case Dialing:
		if p.IsHeld() {
			return p.cause
		}
		if p.lost != "" {
			return p.lost + "; trying again"
		}
		return "connecting"
	case Subscribing:
		if p.asked || p.cause == "" || p.again.IsZero() {
			return "asking what it has"
		}
		return p.cause + "; is asked again in " + words.Duration(p.wait)
	case Waiting:
		return p.lost + "; trying again in " + words.Duration(p.wait)
	case Gone:
		return p.cause
	}
	switch {
	case p.now.Before(p.pause) && p.misses >= manyMisses:
		return "does not have what it announced; is asked again in " + words.Duration(p.wait)
	case p.now.Before(p.pause):
		return "is busy; is asked again in " + words.Duration(p.wait)
	case p.Paced():
		return "paced by the download limit of " + p.whose
	case len(p.requests) > 0:
		return "fetching"
	case p.starved:
		return "waiting for memory: as many bytes as allowed are in flight on this node"
	case len(p.leases) > 0:
		return "about to ask"
	case p.refusal != "": // also while leases are asked for anew, so that it does not change to and fro
		return p.refusal
	case p.refused:
		return "every piece that it has and this node lacks is leased already"
	}
	return "waiting for leases"
}
