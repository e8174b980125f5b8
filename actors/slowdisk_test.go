package actors

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// prompt is the network of a node whose sources have everything, and send each block 10 ms after it was asked for.
type prompt struct {
	*simNode
	m       *share.Manifest
	content []byte
	sent    atomic.Int64 // bytes
}

func (*prompt) Send(peers.ID, []byte) bool                        { return true }
func (*prompt) Traffic(peers.ID) (in, out int64)                  { return 0, 0 }
func (*prompt) Where(peers.ID) (p peers.Endpoint, connected bool) { return p, true }

func (n *prompt) FetchManifest(_ peers.Addr, _ share.ID, _ bool, _ int, _ func(bytes, size int), done func([]byte, wire.Reply, error)) (cancel func()) {
	go done(n.m.Bytes(), wire.Reply{Whole: true}, nil)
	return func() {}
}

func (n *prompt) Open(_ peers.Addr, _ share.ID, _ *share.Layout, k Sink) Link {
	go func() {
		k.Up(10 * time.Millisecond)
		time.Sleep(10 * time.Millisecond)
		to := k.(*sink)
		to.s.Send(to.pool, wire.SubscribeResult{Share: n.m.ID(), Accepted: true})
		to.s.Send(to.pool, wire.HaveMap{Share: n.m.ID(), Pieces: n.m.Layout().Pieces(), Bits: share.FullSet(n.m.Layout().Pieces()).Bytes()})
	}()
	l := &promptLink{n: n, sink: k, asked: make(chan wire.PieceRequest, 1<<10), over: map[uint64]bool{}}
	go l.serve()
	return l
}

type promptLink struct {
	n    *prompt
	sink Sink

	asked chan wire.PieceRequest

	mu   sync.Mutex
	over map[uint64]bool
}

func (l *promptLink) Request(r wire.PieceRequest) bool {
	l.asked <- r
	return true
}

// serve answers requests in the order in which they came.
func (l *promptLink) serve() {
	for r := range l.asked {
		time.Sleep(time.Millisecond)
		l.answer(r)
	}
}

func (l *promptLink) answer(r wire.PieceRequest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over[r.ID] {
		return
	}
	if r.Proof {
		l.sink.Proof(r.ID, blockHashes[l.n.m.ID()][r.Piece])
	}
	s := l.n.m.Layout().RunSpan(r.Piece, r.First, r.Count)
	data := slices.Clone(l.n.content[s.Offset:][:s.Len])
	for first := r.First; len(data) > 0; first += wire.MaxRun / share.BlockSize {
		n := min(len(data), wire.MaxRun)
		l.n.sent.Add(int64(n))
		l.sink.Blocks(r.ID, first, data[:n:n], func() {})
		data = data[n:]
	}
	l.sink.Finished(r.ID)
}

func (l *promptLink) Cancel(req uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over[req] = true
}

func (l *promptLink) Close() { close(l.asked) }

// sleeper is a disk that takes a while for one write.
type sleeper struct {
	*memTarget
	once sync.Once
	long time.Duration
}

func (d *sleeper) Open(context.Context, *share.Manifest, []bool) (Target, error) { return d, nil }

func (d *sleeper) Write(p share.Piece, first share.Block, data []byte) error {
	d.once.Do(func() { time.Sleep(d.long) })
	return d.memTarget.Write(p, first, data)
}

// What has come and waits for a slow disk is neither late nor asked for again.
func TestWhatWaitsForASlowDiskIsNotLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, content := testShare(t, 4<<20)
		n := &prompt{simNode: &simNode{id: "self"}, m: m, content: content}
		ended := make(chan Ended, 1)
		p := Start(Deps{Runtime: system.Real(nil), Network: n, Catalog: simCatalog{}})
		d := &sleeper{memTarget: newMemTarget(n.simNode, m), long: 8 * time.Second}
		err := p.Fetch(t.Context(), FetchShare{Handle: Handle{Share: m.ID()}, Sources: []peers.Addr{{ID: "a"}}, Config: TransferConfig{Verifiers: 1}, Disk: d, Notify: func(e Event) {
			if e, ok := e.(Ended); ok {
				ended <- e
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		e := <-ended
		if e.Err != nil {
			t.Error(e.Err)
		}
		for _, src := range e.Last.Sources {
			if src.Failures.Late > 0 {
				t.Errorf("%s was late %d times", src.Peer, src.Failures.Late)
			}
		}
		if twice := n.sent.Load() - int64(len(content)); twice > 0 {
			t.Errorf("%d bytes came twice", twice)
		}
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
