package leasemgr

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// State is the state of a piece.
type State string

const (
	IsVerified State = "verified"
	IsLeased   State = "leased"
	IsWanted   State = "wanted"
	IsSkipped  State = "skipped" // not in the plan
	IsUnknown  State = "not a piece of this share"
)

// Holder is a source that holds a piece.
type Holder struct {
	Source  peers.ID
	Since   time.Time
	Until   time.Time // as things stand
	Got     int       // bytes that came in
	Size    int       // bytes of the piece
	Hedge   bool
	Overdue bool
}

// Explanation is who has a piece, who holds it, until when, and what happens
// next. It may stand for a run of pieces for which the same is true; then Since is
// the earliest of the run, Until the latest, and bytes are summed.
type Explanation struct {
	First, Last share.Piece
	Files       string // the files of the pieces, for people; the caller may set it
	State       State
	At          time.Time // of the explanation
	Connected   int       // sources that have any piece
	Has         int       // sources that have it
	Sources     []peers.ID
	Holders     []Holder
	Next        string // what happens next
}

// maxNamed is how many sources an explanation names.
const maxNamed = 8

// Why explains a piece.
func (m *Manager) Why(p share.Piece, now time.Time) Explanation {
	m.clock.tick(now)
	e := Explanation{First: p, Last: p, At: now, State: IsUnknown, Connected: m.connected()}
	if int64(p) >= int64(m.space.n) {
		return e
	}
	q := uint32(p)
	f := m.findings(q)
	e.State = m.state(q)
	e.Has = len(f.have)
	for _, s := range f.have[:min(len(f.have), maxNamed)] {
		e.Sources = append(e.Sources, s.id)
	}
	for at := m.held[q]; at != 0; at = m.twinOf(q, at) {
		e.Holders = append(e.Holders, m.holder(at))
	}
	e.Next = m.next(e, f)
	return e
}

// connected counts the sources that have anything: one that is not connected has
// announced nothing.
func (m *Manager) connected() (n int) {
	for _, s := range m.sources {
		if s != nil && s.have.n > 0 {
			n++
		}
	}
	return n
}

func (m *Manager) state(p uint32) State {
	switch {
	case m.verified.has(p):
		return IsVerified
	case !m.plan.has(p):
		return IsSkipped
	case m.held[p] != 0:
		return IsLeased
	default:
		return IsWanted
	}
}

func (m *Manager) holder(at uint32) Holder {
	l, p := &m.leases[at], m.public(at)
	return Holder{
		Source:  p.Source,
		Since:   p.Granted,
		Until:   p.Expires,
		Got:     int(l.got),
		Size:    int(l.length),
		Hedge:   l.hedge,
		Overdue: m.clock.at >= m.due(m.sources[l.source], l),
	}
}

// findings is what the sources have to do with a piece.
type findings struct {
	piece   uint32
	have    []*source // that have it, by ID
	able    int       // of these: could be granted it now
	full    int       // ... but hold as many leases as they may
	banned  int
	shunned []*source
	gave    []*source // that gave it to others
}

func (m *Manager) findings(p uint32) (f findings) {
	f.piece = p
	spared := 0
	for _, s := range m.sources {
		if s == nil || !s.have.has(p, m.space.n) {
			continue
		}
		f.have = append(f.have, s)
		switch {
		case s.banned:
			f.banned++
		case s.shuns(p):
			f.shunned = append(f.shunned, s)
		case s.defers(p):
			f.gave = append(f.gave, s)
		case s.left, m.spared(s):
			spared++
		case !m.room(s, int64(m.layout.PieceLen(share.Piece(p)))):
			f.full++
		default:
			f.able++
		}
	}
	if f.able == 0 && f.full == 0 {
		f.able = spared // there is nobody else to ask
	}
	slices.SortFunc(f.have, func(a, b *source) int { return cmp.Compare(a.id, b.id) })
	return f
}

const goesOn = "; goes on when that is over"

// next is what happens next to a piece.
func (m *Manager) next(e Explanation, f findings) string {
	switch e.State {
	case IsVerified:
		return "nothing: this node has it"
	case IsSkipped:
		return "nothing: it is not selected"
	case IsLeased:
		return m.nextLeased(e, f)
	}
	switch {
	case m.paused != "":
		return m.paused + goesOn
	case e.Connected == 0:
		return "no source is connected that has any piece; waits for one"
	case e.Has == 0:
		return plural(e.Connected, "source is connected and does not have it", "sources are connected and none has it") + "; waits for one that does"
	case f.banned == e.Has:
		return "every source that has it is banned for sending wrong data; waits for another source"
	case f.able == 1:
		return "the one source that has room will be asked for it" + m.asked(f)
	case f.able > 0:
		return "one of " + strconv.Itoa(f.able) + " sources that have room will be asked for it" + m.asked(f)
	case f.full == 0 && len(f.gave) > 0:
		return plural(len(f.gave), "source is", "sources are") + " busy with many peers and gave it to others first; the first of these others to have it will be asked for it" + m.asked(f)
	default:
		return plural(f.full, "source that could send it holds", "sources that could send it hold") +
			" as many leases as allowed; the first to finish one will be asked for it" + m.asked(f)
	}
}

func (m *Manager) nextLeased(e Explanation, f findings) string {
	h := e.Holders[0]
	others := len(f.have) - f.banned - len(f.shunned) - len(f.gave)
	for _, h := range e.Holders {
		if i := m.byID[h.Source]; !m.sources[i].banned && m.may(m.sources[i], f.piece) {
			others--
		}
	}
	then := "it is wanted again" + m.asked(f)
	switch {
	case others == 1:
		then = "another source that has it will be asked for it"
	case others > 1:
		then = "one of " + strconv.Itoa(others) + " other sources that have it will be asked for it"
	case len(f.have) <= len(e.Holders):
		then = "the same source is asked again, as no other has it"
	case len(f.have)-f.banned <= len(e.Holders):
		then = "the same source is asked again, as every other that has it is banned"
	}
	switch {
	case len(e.Holders) > 1:
		return "whichever of its holders finishes first completes it"
	case h.Overdue && others > 0:
		return "its holder is overdue: the next idle source is asked for it too"
	default:
		return "if nothing more comes within " + words.Duration(h.Until.Sub(e.At)) + ": " + then
	}
}

// asked tells when sources will be asked again for a piece that they failed with, or gave
// to others.
func (m *Manager) asked(f findings) (text string) {
	if len(f.shunned) > 0 {
		end := never
		for _, e := range m.shunned {
			if s := m.sources[e.source]; s != nil && s.serial == e.serial && slices.Contains(f.shunned, s) {
				end = min(end, e.until)
			}
		}
		text = "; of those that failed to deliver it, the first is asked again in " + words.Duration(time.Duration(end-m.clock.at))
	}
	if len(f.gave) > 0 {
		end := never
		for _, s := range f.gave {
			end = min(end, s.deferred[f.piece])
		}
		text += "; of those that gave it to others, the first is asked again in " + words.Duration(time.Duration(end-m.clock.at))
	}
	return text
}

// String is the explanation as one line for people.
func (e Explanation) String() string {
	var b strings.Builder
	if e.Files != "" {
		b.WriteString(e.Files + ", ")
	}
	if e.First == e.Last {
		fmt.Fprintf(&b, "piece %d", e.First)
	} else {
		fmt.Fprintf(&b, "pieces %d-%d", e.First, e.Last)
	}
	fmt.Fprintf(&b, ": %s; ", e.State)
	for _, h := range e.Holders {
		fmt.Fprintf(&b, "held by %s for %s so far, and for another %s; %s of %s has come; ",
			h.Source.Short(), words.Duration(e.At.Sub(h.Since)), words.Duration(h.Until.Sub(e.At)), share.Size(h.Got), share.Size(h.Size))
	}
	if e.Has > 0 {
		names := make([]string, 0, len(e.Sources))
		for _, id := range e.Sources {
			names = append(names, id.Short())
		}
		if e.Has > len(names) {
			names = append(names, fmt.Sprintf("and %d more", e.Has-len(names)))
		}
		fmt.Fprintf(&b, "available from %s; ", strings.Join(names, ", "))
	}
	if e.First != e.Last && e.Connected > 0 && !strings.HasSuffix(e.Next, goesOn) { // what is next is said of the piece
		b.WriteString("each: ")
	}
	return b.String() + e.Next
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Missing explains every piece of the plan that is not verified, in runs for which
// the same is true: the same sources have them and the same hold them. It stops
// after limit runs. It takes time in proportion to the share.
func (m *Manager) Missing(limit int, now time.Time) []Explanation {
	m.clock.tick(now)
	var out []Explanation
	edge, edges := -1, uint64(0) // the word, and where in it have-sets differ
	for p := range m.plan.all() {
		if m.verified.has(p) {
			continue
		}
		if w := int(p / 64); w != edge {
			edge, edges = w, m.edges(w)
		}
		if n := len(out); n > 0 && edges>>(p%64)&1 == 0 && m.joins(&out[n-1], p) {
			continue
		}
		if len(out) == limit {
			break
		}
		out = append(out, m.Why(share.Piece(p), now))
	}
	return out
}

// edges marks the pieces of word w whose sources differ from those of the piece
// before.
func (m *Manager) edges(w int) (x uint64) {
	for _, s := range m.sources {
		if s == nil || s.have.n == 0 {
			continue
		}
		if s.have.n < m.space.n {
			h, before := s.have.word(w, m.space), uint64(0)
			if w > 0 {
				before = s.have.word(w-1, m.space) >> 63
			}
			x |= h ^ (h<<1 | before)
		}
		for i := range 64 {
			if p := uint32(w*64 + i); len(s.deferred) > 0 && s.defers(p) != (p > 0 && s.defers(p-1)) {
				x |= 1 << i
			}
		}
		for _, p := range s.shunned {
			for q := p; q <= p+1; q++ {
				if int(q/64) == w {
					x |= 1 << (q % 64)
				}
			}
		}
	}
	return x
}

// joins makes p part of a run if the same is true for it.
func (m *Manager) joins(e *Explanation, p uint32) bool {
	if uint32(e.Last)+1 != p || m.state(p) != e.State {
		return false
	}
	var hs [2]Holder
	n := 0
	for at := m.held[p]; at != 0; at = m.twinOf(p, at) {
		hs[n] = m.holder(at)
		if n >= len(e.Holders) || e.Holders[n].Source != hs[n].Source || e.Holders[n].Overdue != hs[n].Overdue {
			return false
		}
		n++
	}
	if n != len(e.Holders) {
		return false
	}
	for i, h := range hs[:n] {
		run := &e.Holders[i]
		if h.Since.Before(run.Since) {
			run.Since = h.Since
		}
		if h.Until.After(run.Until) {
			run.Until = h.Until
		}
		run.Got += h.Got
		run.Size += h.Size
	}
	e.Last = share.Piece(p)
	return true
}
