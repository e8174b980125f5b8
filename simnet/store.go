package simnet

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/fleet"
	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/rounds/memkv"
	"github.com/piecelease/fetcher/wire"
)

// Store is a store of rounds in a world, by which nodes elect the coordinators of what
// they fetch; see NodeConfig.Store. Answers come at once; a node that cannot reach it
// is told so at once.
type Store struct {
	net   *Net
	kv    *memkv.KV
	down  bool
	cut   map[*Node]bool
	loses float64 // share of the answers
	rng   *rand.Rand
	terms []Term
}

// Term is an office that was won.
type Term struct {
	Term   uint64
	Holder *Node
	Seen   int // extensions
}

// FleetSecret is the secret of all fleets of a world that elect.
const FleetSecret = fleet.Secret("the secret of every fleet here")

// Store makes a store.
func (n *Net) Store() *Store {
	s := &Store{net: n, kv: memkv.New(), cut: map[*Node]bool{}, rng: n.Rand("store")}
	s.kv.Wrote = s.wrote
	return s
}

// wrote records which node takes an office.
func (s *Store) wrote(e rounds.Entry) {
	var rec struct {
		Term   uint64
		Holder string
		Office bool
	}
	if !strings.HasPrefix(e.Key, "round.") || json.Unmarshal(e.Value, &rec) != nil {
		return
	}
	if n := len(s.terms); n > 0 && s.terms[n-1].Term == rec.Term && string(s.terms[n-1].Holder.id) == rec.Holder {
		s.terms[n-1].Seen++
		return
	}
	i := slices.IndexFunc(s.net.nodes, func(x *Node) bool { return string(x.id) == rec.Holder })
	s.terms = append(s.terms, Term{Term: rec.Term, Holder: s.net.nodes[i]})
	what := "holds the round"
	if rec.Office {
		what = "is elected"
	}
	s.net.log.add(MarkNone, s.net.nodes[i].id, "%s, term %d", what, rec.Term)
}

// Terms returns the offices that were won so far, of any share.
func (s *Store) Terms() []Term { return s.terms }

// Holder is the node with the latest of them; nil: there was none yet.
func (s *Store) Holder() *Node {
	if len(s.terms) == 0 {
		return nil
	}
	return s.terms[len(s.terms)-1].Holder
}

// Stop makes the store answer no node, until Start.
func (s *Store) Stop()  { s.say("is down"); s.down = true }
func (s *Store) Start() { s.say("is up"); s.down = false }

// Cut separates some nodes from the store, and Heal lets all reach it.
func (s *Store) Cut(nodes ...*Node) {
	for _, x := range nodes {
		s.net.log.add(MarkNone, x.id, "cannot reach the store")
		s.cut[x] = true
	}
}
func (s *Store) Heal() { s.say("can be reached by all"); clear(s.cut) }

// Copy copies what the store has; restore sets it back to that.
func (s *Store) Copy() (restore func()) {
	back := s.kv.Copy()
	return func() { s.say("is restored from a copy"); back() }
}

// Lose loses a share of the answers from now on: the requests still take effect.
func (s *Store) Lose(often float64) { s.loses = often }

func (s *Store) say(what string) { s.net.log.Note("the store %s", what) }

// For is the store as seen by a node.
func (s *Store) For(x *Node) rounds.KV { return storeView{s, x} }

// elections is what a node needs to elect by the store.
func (s *Store) elections(x *Node) *actors.Elections {
	return &actors.Elections{KV: s.For(x), Secret: FleetSecret}
}

// Elect makes a node fetch content in the fleet that elects with its NodeConfig.Store.
func (x *Node) Elect(c *Content, opt FetchOptions, sources ...*Node) *Fetch {
	opt.Config.Fleet.Secret = FleetSecret
	return x.FetchWith(c, opt, sources...)
}

// OnLease calls f with the term of each answer by which a coordinator leases something.
func (n *Net) OnLease(f func(term uint64)) {
	observed := n.Observe
	n.Observe = func(d system.Delivery) {
		observed(d)
		if m, ok := d.Message.(wire.LeaseResponse); ok && m.Refused == (wire.Reason{}) && len(m.Leases) > 0 {
			f(uint64(m.Leases[0].Token >> 40))
		}
	}
}

type storeView struct {
	s *Store
	x *Node
}

var errAway = errors.New("no connection with the store")

// through makes a call, unless the store is out of reach, or its answer is lost. A deadline that has passed means nothing:
// it is by the machine's clock, and here an answer comes at once.
func through[T any](ctx context.Context, v storeView, call func(context.Context) (T, error)) (T, error) {
	var none T
	if v.s.down || v.s.cut[v.x] {
		return none, errAway
	}
	if !errors.Is(ctx.Err(), context.Canceled) {
		ctx = context.WithoutCancel(ctx)
	}
	out, err := call(ctx)
	if v.s.loses > 0 && v.s.rng.Float64() < v.s.loses {
		return none, errAway
	}
	return out, err
}

func (v storeView) Get(ctx context.Context, key string) (rounds.Entry, error) {
	return through(ctx, v, func(ctx context.Context) (rounds.Entry, error) { return v.s.kv.Get(ctx, key) })
}

func (v storeView) Create(ctx context.Context, key string, value []byte) (uint64, error) {
	return through(ctx, v, func(ctx context.Context) (uint64, error) { return v.s.kv.Create(ctx, key, value) })
}

func (v storeView) Update(ctx context.Context, key string, value []byte, rev uint64) (uint64, error) {
	return through(ctx, v, func(ctx context.Context) (uint64, error) { return v.s.kv.Update(ctx, key, value, rev) })
}

func (v storeView) Delete(ctx context.Context, key string, rev uint64) (uint64, error) {
	return through(ctx, v, func(ctx context.Context) (uint64, error) { return v.s.kv.Delete(ctx, key, rev) })
}

// Watch fails: a world has nobody that could wait.
func (v storeView) Watch(context.Context, string, func([]rounds.Entry)) error { return errAway }
