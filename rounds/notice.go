package rounds

import (
	"fmt"
	"time"

	"github.com/piecelease/fetcher/internal/words"
)

// A Notice tells an operator something worth knowing; it changes nothing.
type Notice struct {
	Kind   NoticeKind
	Round  string
	Record Record    // whose it is about
	Clock  time.Time // our wall clock
	Member string    // who reported Term
	Term   uint64
}

// NoticeKind says what a [Notice] is about.
type NoticeKind int

// The kinds of notices.
const (
	// ClockAhead: the clock of the record's holder is more than five minutes
	// ahead of ours. One of them is wrong.
	ClockAhead NoticeKind = iota

	// Overtaken: the record's holder took a round while it was ours. If that was
	// before its time was over by our clock, the clocks differ.
	Overtaken

	// Unresolved: a guard was closed and neither completed nor abandoned. The
	// round waits until its time is over.
	Unresolved

	// Implausible: a member reported a term that is too far above every term in the
	// store. The report does not count.
	Implausible

	// Twin: another process with our Holder took our office. It leaves it to that one
	// until the office is over.
	Twin
)

func (n Notice) String() string {
	r := n.Record
	switch n.Kind {
	case ClockAhead:
		return fmt.Sprintf("round %s: %q acquired term %d at %s, and here it is %s; set the clock that is wrong", n.Round, r.Holder, r.Term, show(r.Acquired), show(n.Clock))
	case Overtaken:
		lost, acquired := &LostError{n.Round, n.Term, r}, ", acquired at"
		switch r.Term {
		case 0:
			return lost.Error()
		case n.Term:
			acquired = fmt.Sprintf("; in the store it is %q that acquired this term, at", r.Holder)
		}
		return fmt.Sprintf("%v%s %s; here it is %s; if these times do not fit together, set the clock that is wrong", lost, acquired, show(r.Acquired), show(n.Clock))
	case Unresolved:
		text, left := fmt.Sprintf("round %s: term %d was neither completed nor abandoned", n.Round, r.Term), r.TTL
		if !r.Office {
			left = r.Expires().Sub(n.Clock)
		}
		if left > 0 {
			text += "; nobody gets the round for another " + words.Duration(left)
		}
		return text
	case Twin:
		return fmt.Sprintf("round %s: another process is called %q too, and took term %d; if a state directory was copied, give each machine one of its own", n.Round, r.Holder, r.Term)
	default:
		return fmt.Sprintf("round %s: %q reports term %d, which is far above any known; it is ignored", n.Round, n.Member, n.Term)
	}
}

func show(t time.Time) string { return t.UTC().Format(time.RFC3339) }
