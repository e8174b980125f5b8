package p2p

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

func TestMain(m *testing.M) {
	if e := os.Getenv(errandEnv); e != "" {
		runErrand(e)
		return
	}
	LogLibraries(slog.DiscardHandler)
	rig.NoLeaks(m)
}

// errandEnv makes this binary run an errand in place of its tests: the processes that
// tests need are this binary again.
const errandEnv = "P2P_TEST_ERRAND"

// seedKey returns a key that is always the same.
func seedKey(n byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize))
}

func peerOf(key ed25519.PrivateKey) peers.ID { return peers.ID(hostID(key).String()) }

func hostID(key ed25519.PrivateKey) peer.ID {
	k, err := crypto.UnmarshalEd25519PrivateKey(key)
	if err != nil {
		panic(err)
	}
	id, err := peer.IDFromPrivateKey(k)
	if err != nil {
		panic(err)
	}
	return id
}

// local is a listener without the cost of IPv6 and QUIC.
var local = []string{"/ip4/127.0.0.1/tcp/0"}

func newHost(t testing.TB, cfg Config) *Host {
	t.Helper()
	if cfg.Listen == nil {
		cfg.Listen = local
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(strict{t})
	}
	h, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error("close:", err)
		}
	})
	return h
}

// strict is a log handler that fails the test on an error record.
type strict struct{ testing.TB }

func (strict) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelError }
func (s strict) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool { s.Log(a); return true })
	s.Errorf("logged: %s", r.Message)
	return nil
}
func (s strict) WithAttrs([]slog.Attr) slog.Handler { return s }
func (s strict) WithGroup(string) slog.Handler      { return s }

// addr returns where h can be reached.
func addr(h *Host) peers.Addr {
	return peers.Addr{ID: h.ID(), Addrs: h.Addrs()}
}

// toAll serves the same to every child.
func toAll(b Blocks) func(peers.ID) Blocks { return func(peers.ID) Blocks { return b } }

// memory is a share in memory, as Blocks.
type memory struct {
	m      *share.Manifest
	pieces [][]byte
	proofs [][]share.Hash

	check func(p share.Piece) wire.Reply                // nil: OK
	read  func(p share.Piece, b share.Block) wire.Reply // nil: OK
	runs  atomic.Int64
}

var made sync.Map // size -> *memory, because hashing takes a while

// newMemory is a share of files of these sizes, filled from a seed.
func newMemory(t testing.TB, sizes ...int) *memory {
	key := fmt.Sprint(sizes)
	if m, ok := made.Load(key); ok {
		m := m.(*memory)
		return &memory{m: m.m, pieces: m.pieces, proofs: m.proofs}
	}
	x := &memory{}
	rng := rand.NewChaCha8([32]byte{1})
	var entries []share.Entry
	for i, size := range sizes {
		data := make([]byte, size)
		rng.Read(data)
		exp := share.PieceExp(int64(size))
		var values []share.Hash
		whole := size <= 1<<exp
		for at := 0; at < size; at += 1 << exp {
			piece := data[at:min(at+1<<exp, size)]
			proof, v := share.HashPiece(nil, piece, int64(at), whole)
			x.pieces, x.proofs = append(x.pieces, piece), append(x.proofs, proof)
			values = append(values, v)
		}
		e := share.Entry{Path: fmt.Sprintf("f%04d", i), Kind: share.File, Size: int64(size), Root: share.FileRoot(values)}
		if len(values) > 1 {
			e.Pieces = values
		}
		entries = append(entries, e)
	}
	m, err := share.NewManifest("dir", entries)
	if err != nil {
		t.Fatal(err)
	}
	x.m = m
	made.Store(key, x)
	return &memory{m: x.m, pieces: x.pieces, proofs: x.proofs}
}

var notFound = wire.Reply{Status: wire.NotFound}

func (x *memory) Manifest(id share.ID) ([]byte, wire.Reply) {
	if id != x.m.ID() {
		return nil, notFound
	}
	return x.m.Bytes(), wire.Reply{}
}

func (x *memory) Check(id share.ID, p share.Piece, first share.Block, n int) (int, wire.Reply) {
	if id != x.m.ID() || !x.m.Layout().ValidRun(p, first, n) {
		return 0, notFound
	}
	if x.check != nil {
		if r := x.check(p); r.Status != wire.OK {
			return 0, r
		}
	}
	return x.m.Layout().RunSpan(p, first, n).Len, wire.Reply{}
}

func (x *memory) Proof(_ share.ID, p share.Piece) ([]share.Hash, wire.Reply) {
	return x.proofs[p], wire.Reply{}
}

func (x *memory) ReadRun(_ share.ID, p share.Piece, first share.Block, n int, dst []byte) (int, wire.Reply) {
	x.runs.Add(1)
	if x.read != nil {
		if r := x.read(p, first); r.Status != wire.OK {
			return 0, r
		}
	}
	return copy(dst, x.pieces[p][int(first)*share.BlockSize:][:len(dst)]), wire.Reply{}
}

// everybody admits everybody at once.
type everybody struct{}

func (everybody) Admit(context.Context, peers.ID, share.ID, wire.PieceRequest, int) (func(int), func(int), wire.Reply) {
	return func(int) {}, func(int) {}, wire.Reply{}
}

// admitFunc is Admit as a function.
type admitFunc func(context.Context, peers.ID, share.Piece, int) (func(), wire.Reply)

func (f admitFunc) Admit(ctx context.Context, c peers.ID, _ share.ID, q wire.PieceRequest, n int) (func(int), func(int), wire.Reply) {
	done, r := f(ctx, c, q.Piece, n)
	if done == nil {
		return nil, nil, r
	}
	return func(int) { done() }, func(int) {}, r
}

// catcher is a Sink that keeps what it is told.
type catcher struct {
	up       chan time.Duration
	down     chan error
	finished chan uint64
	statuses chan status
	progress chan int

	mu     sync.Mutex
	data   map[uint64][]byte
	proofs map[uint64][]share.Hash
	keep   bool // do not release; kept has the releases
	kept   []func()
	waits  []string
	after  bool // Down was called
	late   int  // calls after Down
}

type status struct {
	req uint64
	r   wire.Reply
}

func newCatcher() *catcher {
	return &catcher{
		up: make(chan time.Duration, 1), down: make(chan error, 1), finished: make(chan uint64, 8192),
		statuses: make(chan status, 8192), progress: make(chan int, 8192),
		data: map[uint64][]byte{}, proofs: map[uint64][]share.Hash{},
	}
}

func (c *catcher) lock() func() {
	c.mu.Lock()
	if c.after {
		c.late++
	}
	return c.mu.Unlock
}

func (c *catcher) Waits(why string)     { defer c.lock()(); c.waits = append(c.waits, why) }
func (c *catcher) Up(rtt time.Duration) { defer c.lock()(); c.up <- rtt }
func (c *catcher) Proof(req uint64, values []share.Hash) {
	defer c.lock()()
	c.proofs[req] = values
}
func (c *catcher) Blocks(req uint64, first share.Block, data []byte, release func()) {
	defer c.lock()()
	c.data[req] = append(c.data[req], data...)
	if c.keep {
		c.kept = append(c.kept, release)
		return
	}
	release()
}
func (c *catcher) Progress(_ uint64, n int)        { defer c.lock()(); c.progress <- n }
func (c *catcher) Finished(req uint64)             { defer c.lock()(); c.finished <- req }
func (c *catcher) Status(req uint64, r wire.Reply) { defer c.lock()(); c.statuses <- status{req, r} }
func (c *catcher) Down(err error)                  { defer c.lock()(); c.after = true; c.down <- err }
func (c *catcher) got(req uint64) []byte           { c.mu.Lock(); defer c.mu.Unlock(); return c.data[req] }
func (c *catcher) proof(req uint64) []share.Hash {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.proofs[req]
}

// patience bounds every wait of a test; none should come near it.
const patience = 45 * time.Second

func recv[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("waited in vain for %s", what)
	}
	panic("unreachable")
}

// whole asks for all of p, with or without the proof.
func whole(x *memory, id uint64, p share.Piece, proof bool) wire.PieceRequest {
	return wire.PieceRequest{ID: id, Piece: p, Count: x.m.Layout().Blocks(p), Proof: proof}
}

// fetchAll fetches every piece over l and checks the bytes.
func fetchAll(t testing.TB, x *memory, l *Link, c *catcher) {
	t.Helper()
	n := x.m.Layout().Pieces()
	for p := range n {
		if !l.Request(whole(x, uint64(p), share.Piece(p), true)) {
			t.Fatal("request refused", p)
		}
	}
	for range n {
		select {
		case p := <-c.finished:
			if !bytes.Equal(c.got(p), x.pieces[p]) {
				t.Fatal("piece", p, "has the wrong bytes")
			}
			if err := x.m.CheckProof(share.Piece(p), c.proof(p)); err != nil {
				t.Fatal(err)
			}
		case err := <-c.down:
			t.Fatal("down:", err)
		case s := <-c.statuses:
			t.Fatal("status:", s)
		case <-time.After(patience):
			t.Fatal("a piece did not come")
		}
	}
}

// rawStream connects h to src and opens a bare stream: for those who do not
// keep to the protocol.
func rawStream(t testing.TB, h, src *Host, protocol string) network.Stream {
	t.Helper()
	if _, err := h.connect(t.Context(), addr(src)); err != nil {
		t.Fatal(err)
	}
	s, err := h.host.NewStream(t.Context(), src.host.ID(), protoID(protocol))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Reset() })
	return s
}

// readEnd reads a stream to its end, and returns what came, and how it ended.
func readEnd(t testing.TB, s network.Stream) ([]byte, error) {
	t.Helper()
	s.SetReadDeadline(time.Now().Add(patience))
	b, err := io.ReadAll(s)
	if timedOut(err) {
		t.Fatal("the stream did not end")
	}
	return b, err
}

// queued returns how many requests of a child are read ahead or being answered.
func (k *kids) queued(id peers.ID) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.each[id]
	if c == nil {
		return 0
	}
	free := 0
	for c.queue.TryAcquire(1) {
		free++
	}
	c.queue.Release(int64(free))
	return childPipeline - free
}

// eventually waits for something that has no event to wait for.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("waited in vain for", what)
		}
	}
}

func textLog(b *rig.Buffer) *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }
