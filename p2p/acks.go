package p2p

import (
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
)

// acks closes TCP connections on which the machine of the peer acknowledges nothing. TCP tries
// again ever more rarely, for a quarter of an hour: when the path works again after a minute, it may be
// another minute until anything passes, while a new connection would be there at once. A machine whose
// program reads nothing does answer, and so does one at the end of a slow line; neither is meant.
type acks struct {
	h *Host

	mu   sync.Mutex
	open map[socket]time.Time // since when one is tried again in vain; zero: it is not
}

// socket is a TCP connection as the system has it.
type socket interface {
	syscall.Conn
	io.Closer
}

// watch has a connection watched until it ends.
func (a *acks) watch(c network.ConnMultiaddrs) {
	if e, ok := c.(*earlyConn); ok {
		c = e.Conn
	}
	s, ok := c.(socket)
	if _, tcp := inVain(s); !ok || !tcp {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open == nil && a.h.start(a.run) {
		a.open = map[socket]time.Time{}
	}
	if a.open != nil {
		a.open[s] = time.Time{}
	}
}

// run looks at all of them several times within Timeouts.Unacked, as long as there are any.
func (a *acks) run() {
	every := time.NewTicker(a.h.cfg.Timeouts.Unacked / 5)
	defer every.Stop()
	for {
		select {
		case now := <-every.C:
			if a.look(now) {
				return
			}
		case <-a.h.drain.Done():
			return
		}
	}
}

// look closes those that are to be closed, and says whether none is left.
func (a *acks) look(now time.Time) (none bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for s, since := range a.open {
		acked, open := inVain(s)
		switch {
		case !open:
			delete(a.open, s)
		case acked < 0:
			a.open[s] = time.Time{}
		case since.IsZero() || now.Add(-acked).After(since):
			a.open[s] = now
		case now.Sub(since) >= a.h.cfg.Timeouts.Unacked:
			a.h.log.Debug("a connection is closed: nothing was acknowledged", "since", since)
			delete(a.open, s)
			s.Close()
		}
	}
	if len(a.open) == 0 {
		a.open = nil
	}
	return a.open == nil
}
