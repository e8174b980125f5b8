package simnet

import (
	"fmt"

	"github.com/piecelease/fetcher/share"
)

// Missing is what a fetch lacks at the end of a run that does not hold, and why: for
// every missing piece, or run of pieces, which node has it, which holds it, and what would
// happen next.
type Missing struct {
	Node  string
	Share string // its name
	Why   []string
}

// missing explains every fetch that has not ended as it should, and is not whole.
func (r *referee) missing() (out []Missing) {
	for _, x := range r.n.nodes {
		for _, f := range x.fetches {
			switch {
			case f.ended == nil && f.opt.MayFail && f.life != x.life:
			case f.ended != nil && (f.ended.Err == nil || f.opt.MayFail || is(f.ended.Err, f.opt.Want)):
			default:
				out = append(out, Missing{x.Name(), f.c.Manifest.Name, f.lacks()})
			}
		}
	}
	return out
}

// lacks returns a line for each missing piece or run of pieces. Its plan explains them
// while there is one.
func (f *Fetch) lacks() []string {
	if f.ended == nil && f.life == f.x.life && f.x.state == running {
		if why, _, _, _ := f.x.host.Why(f); len(why) > 0 {
			return why
		}
	}
	have := f.Verified()
	switch {
	case have != nil:
	case f.partial != nil:
		have = f.partial.Verified()
	default:
		have = share.NewSet(f.c.Manifest.Layout().Pieces())
	}
	why := f.now()
	var out []string
	for p, n := share.Piece(0), share.Piece(have.Len()); p < n; p++ {
		first := p
		for p < n && !have.Has(p) {
			p++
		}
		switch {
		case p == first+1:
			out = append(out, fmt.Sprintf("piece %d: %s", first, why))
		case p > first:
			out = append(out, fmt.Sprintf("pieces %d-%d: %s", first, p-1, why))
		}
	}
	return out
}

// now describes a fetch that has no plan.
func (f *Fetch) now() string {
	switch {
	case f.ended != nil:
		return fmt.Sprintf("the fetch ended after %v: %v", f.Took(), f.ended.Err)
	case f.x.state == frozen:
		return "the node is frozen"
	case f.x.state == stopped:
		return "the node is not running"
	case f.life != f.x.life:
		return "the node is running, and is not fetching the share"
	}
	return f.last.State.String() + f.because()
}

// because is the reason that a fetch gave last, after a colon, if it gave one.
func (f *Fetch) because() string {
	if f.last.Reason == "" {
		return ""
	}
	return ": " + f.last.Reason
}
