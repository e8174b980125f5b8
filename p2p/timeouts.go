package p2p

import (
	"time"

	"github.com/piecelease/fetcher/internal/bounds"
)

// Timeouts is the table of every time-out of this package. A zero field takes
// its default. There is one more wait that has no entry: Admit's, which its
// implementation bounds, and which must stay below the asker's Reply.
type Timeouts struct {
	// Dial bounds one attempt to reach a peer: every address of it, until a
	// connection is secured. Default 10 s.
	Dial time.Duration

	// Accept bounds how long an incoming connection may take to be secured.
	// Default 5 s.
	Accept time.Duration

	// Handshake bounds, on an open connection, the exchange of supported
	// protocols and the opening of one stream. Default 10 s.
	Handshake time.Duration

	// Manifest bounds the wait for the first byte of a manifest's answer, and
	// is the grace that ManifestRate is counted with. Default 10 s.
	Manifest time.Duration

	// ManifestRate is the lowest average rate at which a manifest may arrive, in bytes
	// per second. Default 16 KiB/s: the largest takes 70 minutes.
	ManifestRate int

	// Reply is how long a source that owes us bytes may send nothing
	// before its link is lost. It is the backstop behind the deadlines of
	// requests, which are the pool's, and longer than any of them. Default 30 s.
	Reply time.Duration

	// Request is how long a frame may take from its first byte to its last.
	// Default 10 s.
	Request time.Duration

	// Idle is how long a child's stream may stay without a request before it
	// is closed. Its link opens another when it needs one. Default 10 min.
	Idle time.Duration

	// Stall is how long a peer may take none of the bytes we write to it
	// before the stream is reset, or the connection if it takes none on any
	// stream. Default 30 s.
	Stall time.Duration

	// Unacked is how long the machine of a peer may acknowledge nothing of what TCP sends it again
	// and again, before the connection is closed; noticed within a fifth more. Only on Linux: elsewhere it takes yamux a
	// minute. Default 10 s.
	Unacked time.Duration

	// Park is how long a child may take next to none of the bytes we write to it (less than 1 KiB) before its
	// turn goes to others. Nothing is cut: the reply goes on when the child takes some.
	// It is noticed within twice that time. Default 2 s.
	Park time.Duration

	// Farewell is how long the last messages of a closing host may take to be
	// noticed by a peer. A peer that is frozen or cut off is not waited for: the end of
	// the connection tells it the same. Nor is the answer of one that is more than a tenth
	// of this away: the wait is a twenty-fifth then. Default 500 ms.
	Farewell time.Duration

	// Shutdown bounds Host.Close: first the replies and messages under way,
	// then everything. Default 5 s.
	Shutdown time.Duration
}

var defaultTimeouts = Timeouts{
	Dial:         10 * time.Second,
	Accept:       5 * time.Second,
	Handshake:    10 * time.Second,
	Manifest:     10 * time.Second,
	ManifestRate: 16 << 10,
	Reply:        30 * time.Second,
	Request:      10 * time.Second,
	Idle:         10 * time.Minute,
	Stall:        30 * time.Second,
	Unacked:      10 * time.Second,
	Park:         2 * time.Second,
	Farewell:     500 * time.Millisecond,
	Shutdown:     5 * time.Second,
}

func (t Timeouts) withDefaults() Timeouts {
	d := defaultTimeouts
	bounds.Default(&t.Dial, d.Dial)
	bounds.Default(&t.Accept, d.Accept)
	bounds.Default(&t.Handshake, d.Handshake)
	bounds.Default(&t.Manifest, d.Manifest)
	bounds.Default(&t.ManifestRate, d.ManifestRate)
	bounds.Default(&t.Reply, d.Reply)
	bounds.Default(&t.Request, d.Request)
	bounds.Default(&t.Idle, d.Idle)
	bounds.Default(&t.Stall, d.Stall)
	bounds.Default(&t.Unacked, d.Unacked)
	bounds.Default(&t.Park, d.Park)
	bounds.Default(&t.Farewell, d.Farewell)
	bounds.Default(&t.Shutdown, d.Shutdown)
	return t
}

func (t Timeouts) check(f *bounds.Fields) {
	for _, field := range []struct {
		name string
		v    time.Duration
	}{{"Dial", t.Dial}, {"Accept", t.Accept}, {"Handshake", t.Handshake}, {"Manifest", t.Manifest}, {"Reply", t.Reply}, {"Request", t.Request}, {"Idle", t.Idle}, {"Stall", t.Stall}, {"Unacked", t.Unacked}, {"Park", t.Park}, {"Farewell", t.Farewell}, {"Shutdown", t.Shutdown}} {
		bounds.In(f, "Timeouts."+field.name, field.v, time.Millisecond, 24*time.Hour)
	}
	bounds.In(f, "Timeouts.ManifestRate", t.ManifestRate, 1, 1<<40)
}
