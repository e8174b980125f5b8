package p2p

import (
	"cmp"
	"sync"
	"time"

	"github.com/piecelease/fetcher/share"
)

// lists are the lists of files that are coming. A source says how large one is, and takes its time over the end of it: many
// of them could fill the memory. So what is held of all together is bounded, and for one that grows another is given up: that which
// got nowhere for the longest time, or if all get somewhere, a large one of which least has come. So those that are ahead come to the end.
type lists struct {
	mu     sync.Mutex
	most   int // bytes; 0: mostListed
	held   int // bytes
	coming map[*coming]struct{}
}

const (
	mostListed = 4 * share.MaxManifest
	listStep   = 64 << 10         // bytes that get a list somewhere: fewer are sent to keep a place
	listWithin = 10 * time.Second // in which one that comes has a step; the slowest that is waited for does
	listFirst  = 1 << 20          // bytes for which there is room at once, until more have come
)

// coming is one of the lists.
type coming struct {
	in      *lists
	held    int       // bytes; like got, written by who reads the list, and with mu held
	got     int       // bytes, at the last step
	at      time.Time // of that
	stop    func()
	givenUp bool
	inTurn  bool // given up although it came: there was no room
}

// begin notes that a list comes; stop makes reading it fail.
func (l *lists) begin(stop func()) *coming {
	x := &coming{in: l, at: time.Now(), stop: stop}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.coming == nil {
		l.coming = map[*coming]struct{}{}
	}
	l.coming[x] = struct{}{}
	return x
}

// holds notes how many bytes of the list have come, and for how many there is room in memory now or in a moment.
func (x *coming) holds(got, room int) {
	if got < x.got+listStep && room == x.held {
		return
	}
	for _, over := range x.in.grow(x, got, room) {
		over.stop()
	}
}

func (l *lists) grow(x *coming, got, room int) (over []*coming) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if got >= x.got+listStep {
		x.got, x.at = got, time.Now()
	}
	if x.givenUp {
		return nil
	}
	l.held += room - x.held
	x.held = room
	for l.held > cmp.Or(l.most, mostListed) {
		over = append(over, l.giveUpOne())
	}
	return over
}

// giveUpOne gives up a list; mu is held.
func (l *lists) giveUpOne() (last *coming) {
	stands := time.Now().Add(-listWithin)
	for x := range l.coming {
		if last == nil || x.before(last, stands) {
			last = x
		}
	}
	last.givenUp, last.inTurn = true, !last.at.Before(stands)
	l.forget(last)
	return last
}

// before says whether x is given up rather than y. Those that had no step since a time stand still.
func (x *coming) before(y *coming, stands time.Time) bool {
	if x.at.Before(stands) || y.at.Before(stands) {
		return x.at.Before(y.at)
	}
	if small := x.held <= listFirst; small != (y.held <= listFirst) {
		return !small
	}
	return x.got < y.got
}

func (l *lists) forget(x *coming) {
	if _, ok := l.coming[x]; ok {
		delete(l.coming, x)
		l.held -= x.held
	}
}

// end notes that the list has come, or does not, and returns whether it was given up for others.
func (x *coming) end() (givenUp bool) {
	x.in.mu.Lock()
	defer x.in.mu.Unlock()
	x.in.forget(x)
	return x.givenUp
}
