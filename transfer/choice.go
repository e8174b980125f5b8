package transfer

import (
	"errors"
	"slices"

	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/share"
)

// What is to be fetched of a share, and in what order. The transfer knows the
// priority of each entry; the LeaseManager that of each piece.

// ErrFinishing says that it is too late to change the choice.
var ErrFinishing = errors.New("the transfer is finishing, or has ended")

// ErrOpening says that it is too early to change the choice.
var ErrOpening = errors.New("the transfer has no list of files yet")

// Choice is the priority of each entry of a share; nil: Normal for all.
type Choice []leasemgr.Priority

func (c Choice) of(entry int) leasemgr.Priority {
	if c == nil {
		return leasemgr.Normal
	}
	return c[entry]
}

func (c Choice) wants(entry int) bool { return c.of(entry) != leasemgr.Skip }

// Wanted says of each entry whether it is to be fetched; nil: all are.
func (c Choice) Wanted() []bool {
	if !slices.Contains(c, leasemgr.Skip) {
		return nil
	}
	out := make([]bool, len(c))
	for i, p := range c {
		out[i] = p != leasemgr.Skip
	}
	return out
}

// pieces is the set of pieces to be fetched; nil: all.
func (c Choice) pieces(l *share.Layout) *share.Set {
	if !slices.Contains(c, leasemgr.Skip) {
		return nil
	}
	set := share.NewSet(l.Pieces())
	for i := range c {
		if c.wants(i) {
			for p := range l.EachOf(i) {
				set.Add(p)
			}
		}
	}
	return set
}

// runs are the pieces of some entries with their priorities, neighbours together.
func (c Choice) runs(l *share.Layout, which func(entry int) bool) (out []leasemgr.Run) {
	for i := range c {
		first, n := l.PiecesOf(i)
		if n == 0 || !which(i) {
			continue
		}
		if k := len(out) - 1; k >= 0 && out[k].Priority == c[i] && out[k].First+share.Piece(out[k].N) == first {
			out[k].N += n
			continue
		}
		out = append(out, leasemgr.Run{First: first, N: n, Priority: c[i]})
	}
	return out
}
