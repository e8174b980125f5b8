package kvtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/piecelease/fetcher/rounds"
)

// An op is one call of a history. Every value is written once, so a value stands
// for its revision.
type op struct {
	key      string
	old, new string // a write replaces old by new
	get      bool
}

// A result of an op.
type result struct {
	value   string // what get returned; "" if the key had no value
	happens verdict
}

type verdict int

const (
	yes verdict = iota
	no
	unknown
)

// register models one key: the value that it has.
var register = (&porcupine.NondeterministicModel{
	Partition: func(history []porcupine.Operation) (parts [][]porcupine.Operation) {
		at := map[string]int{}
		for _, o := range history {
			key := o.Input.(op).key
			if _, ok := at[key]; !ok {
				at[key], parts = len(parts), append(parts, nil)
			}
			parts[at[key]] = append(parts[at[key]], o)
		}
		return parts
	},
	Init: func() []any { return []any{""} },
	Step: func(state, input, output any) []any {
		is, in, out := state.(string), input.(op), output.(result)
		may := is == in.old
		switch {
		case in.get:
			may = out.happens == unknown || is == out.value
		case out.happens == yes && may:
			return []any{in.new}
		case out.happens == unknown && may:
			return []any{is, in.new}
		case out.happens == yes:
			return nil
		case out.happens == no:
			may = !may
		default:
			may = true
		}
		if !may {
			return nil
		}
		return []any{is}
	},
}).ToModel()

// ops is how many calls each client makes in a history.
func ops() int {
	if n, err := strconv.Atoi(os.Getenv("KV_OPS")); err == nil {
		return n
	}
	return 15
}

// linearizable has clients read and write two keys while they lose their connections,
// and looks for an order of all calls that explains every answer.
func linearizable(t *testing.T, e Engine) {
	const clients = 4
	base := newKey()
	var mu sync.Mutex
	var history []porcupine.Operation
	var wg sync.WaitGroup
	began := time.Now()
	for c := range clients {
		h := &client{id: c, base: base, rng: rand.New(rand.NewPCG(1, uint64(c))), revs: map[string]rounds.Entry{}}
		if e.Addr == "" {
			h.kv = e.open(t)
		} else {
			h.link = NewLink(t, e.Addr)
			h.kv = e.Open(t, h.link.Addr)
		}
		wg.Go(func() {
			for range ops() {
				o := porcupine.Operation{ClientId: c, Call: int64(time.Since(began))}
				in, out := h.step(t)
				o.Input, o.Output, o.Return = in, out, int64(time.Since(began))
				if out.happens == unknown {
					o.Return = 1 << 62 // it may happen later
				}
				mu.Lock()
				history = append(history, o)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	switch porcupine.CheckOperationsTimeout(register, history, long) {
	case porcupine.Illegal:
		for _, o := range history {
			t.Logf("%d [%d %d] %+v %+v", o.ClientId, o.Call, o.Return, o.Input, o.Output)
		}
		t.Error("no order of these calls explains their answers")
	case porcupine.Unknown:
		t.Log("the history is too long to be checked")
	}
}

// A client makes the calls of a history.
type client struct {
	id   int
	n    int
	base string
	kv   rounds.KV
	link *Link
	lost bool // the link loses something
	rng  *rand.Rand
	revs map[string]rounds.Entry // what it last read
}

func (c *client) step(t *testing.T) (op, result) {
	if c.link != nil {
		switch c.rng.IntN(8) {
		case 0:
			c.link.Lose(Loss(1 + c.rng.IntN(3)))
			c.lost = true
		case 1, 2:
			c.link.Lose(Nothing)
			c.lost = false
		}
	}
	patience := time.Second // on a busy machine answers take their time, and without any nothing is found out
	if c.lost {
		patience = 50 * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	key := fmt.Sprintf("%s.h%d", c.base, c.rng.IntN(2))
	known, ok := c.revs[key]
	if !ok || c.rng.IntN(2) == 0 {
		return c.get(ctx, key)
	}
	c.n++
	in := op{key: key, old: string(known.Value), new: fmt.Sprintf("c%d-%d", c.id, c.n)}
	var err error
	if known.Rev == 0 {
		known.Rev, err = c.kv.Create(ctx, key, []byte(in.new))
	} else {
		known.Rev, err = c.kv.Update(ctx, key, []byte(in.new), known.Rev)
	}
	switch {
	case err == nil:
		c.revs[key] = rounds.Entry{Value: []byte(in.new), Rev: known.Rev}
		return in, result{happens: yes}
	case errors.Is(err, rounds.ErrConflict), errors.Is(err, rounds.ErrExists):
		return in, result{happens: no}
	}
	return in, result{happens: unknown}
}

func (c *client) get(ctx context.Context, key string) (op, result) {
	e, err := c.kv.Get(ctx, key)
	if err != nil && !errors.Is(err, rounds.ErrNotFound) {
		return op{key: key, get: true}, result{happens: unknown}
	}
	c.revs[key] = e
	return op{key: key, get: true}, result{value: string(e.Value)}
}
