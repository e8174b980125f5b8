package fleet

import (
	"maps"
	"slices"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

const (
	gatherDone  = 100 * time.Millisecond // how long completions are gathered
	gatherBytes = 250 * time.Millisecond // ... and progress
	singleDones = 32                     // completions told one by one; more are told as a Have
)

// news is what the coordinator will be told soon.
type news struct {
	done    []wire.PieceDone
	more    []share.Piece     // pieces that came otherwise
	lacks   []wire.SourceDown // pieces that other members did not send
	tellAt  time.Time         // ... when; zero: there is nothing
	bytesAt time.Time         // when progress is to be told
}

// within sets a time, unless it is set.
func within(at *time.Time, now time.Time, d time.Duration) {
	if at.IsZero() {
		*at = now.Add(d)
	}
}

// due reports whether a time has come, and clears it if so.
func due(at *time.Time, now time.Time) bool {
	if at.IsZero() || at.After(now) {
		return false
	}
	*at = time.Time{}
	return true
}

// pieces hands over the messages that say which pieces are here.
func (n *news) pieces(id share.ID) (out []any) {
	for i, d := range n.done {
		if i < singleDones {
			out = append(out, d)
		} else {
			n.more = append(n.more, d.Piece)
		}
	}
	for part := range slices.Chunk(n.more, wire.MaxHave) {
		out = append(out, wire.Have{Share: id, Pieces: part})
	}
	n.done, n.more = nil, nil
	return out
}

// lacking hands over the reports on what other members did not send, neighbours together.
func (n *news) lacking() (out []any) {
	for len(n.lacks) > 0 {
		m, k := n.lacks[0], 1
		for k < len(n.lacks) && len(m.Pieces) < wire.MaxHave && n.lacks[k].Source == m.Source {
			m.Pieces = append(m.Pieces, n.lacks[k].Pieces...)
			k++
		}
		n.lacks = n.lacks[k:]
		out = append(out, m)
	}
	return out
}

// missing are reports that pieces cannot be had from a member.
func missing(id share.ID, member peers.ID, pieces *share.Set) (out []any) {
	m := wire.SourceDown{Share: id, Source: member, Member: true}
	for p := range pieces.All() {
		if m.Pieces = append(m.Pieces, p); len(m.Pieces) == wire.MaxHave {
			out = append(out, m)
			m.Pieces = nil
		}
	}
	if len(m.Pieces) > 0 {
		out = append(out, m)
	}
	return out
}

// fellows are the other members of the fleet: the sources inside it.
type fellows map[peers.ID]*fellow

// fellow is one of them.
type fellow struct {
	lacks *share.Set // pieces that it did not send though it says that it has them; nil: none
	down  bool       // nothing is fetched from it any more
}

func (f fellows) add(id peers.ID) {
	if f[id] == nil {
		f[id] = &fellow{}
	}
}

// lacks is all that is known to be lacking, for a new coordinator, except pieces that
// have since arrived here.
func (f fellows) lacks(id share.ID, mine *share.Set) (out []any) {
	for _, peer := range slices.Sorted(maps.Keys(f)) {
		if x := f[peer]; x.down {
			out = append(out, wire.SourceDown{Share: id, Source: peer, Member: true})
		} else if x.lacks != nil {
			out = append(out, missing(id, peer, x.lacks.Minus(mine))...)
		}
	}
	return out
}
