package kvtest

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/piecelease/fetcher/rounds"
)

// A mutant is a store that breaks one rule, whatever engine is below it, and the test
// that must find out.
type mutant struct {
	caught string // by this test of [Run]
	server bool   // whether the test needs a connection that can be lost
	broken func(rounds.KV) rounds.KV
}

// mutants maps each rule to its mutant.
var mutants = map[string]mutant{
	"create over what is there": {caught: "CreateOnly", broken: func(kv rounds.KV) rounds.KV { return overwrites{KV: kv, create: true} }},
	"update of any revision":    {caught: "CompareAndSet", broken: func(kv rounds.KV) rounds.KV { return overwrites{KV: kv, update: true} }},
	"delete of any revision":    {caught: "CompareAndSet", broken: func(kv rounds.KV) rounds.KV { return overwrites{KV: kv, remove: true} }},
	"revision 0 creates":        {caught: "CompareAndSet", broken: func(kv rounds.KV) rounds.KV { return zeroCreates{kv} }},
	"tombstones are not shown":  {caught: "Tombstones", broken: func(kv rounds.KV) rounds.KV { return forgetful{kv} }},
	"create over a tombstone":   {caught: "Tombstones", broken: func(kv rounds.KV) rounds.KV { return overwrites{KV: kv, graves: true} }},
	"revisions fall":            {caught: "Revisions", broken: func(kv rounds.KV) rounds.KV { return falling{kv} }},
	"large values are cut":      {caught: "Bounds", broken: func(kv rounds.KV) rounds.KV { return lax{kv} }},
	"calls go on when given up": {caught: "Context", broken: func(kv rounds.KV) rounds.KV { return stubborn{kv} }},
	"watches hide tombstones":   {caught: "Watch", broken: func(kv rounds.KV) rounds.KV { return blind{KV: kv, graves: true} }},
	"watches begin with none":   {caught: "Watch", broken: func(kv rounds.KV) rounds.KV { return blind{KV: kv, past: true} }},
	"watches repeat":            {caught: "Watch", broken: func(kv rounds.KV) rounds.KV { return blind{KV: kv, twice: true} }},
	"watches begin with a gap":  {caught: "Watch", broken: func(kv rounds.KV) rounds.KV { return blind{KV: kv, gap: true} }},
	"watches begin late":        {caught: "WatchWhileOthersWrite", broken: func(kv rounds.KV) rounds.KV { return blind{KV: kv, late: true} }},
	"a watch is not kept up":    {caught: "WatchWithoutGaps", server: true, broken: func(kv rounds.KV) rounds.KV { return blind{KV: kv, deaf: true} }},
	"lost is taken for refused": {caught: "LostConnection", server: true, broken: func(kv rounds.KV) rounds.KV { return certain{kv} }},
	"reads are old":             {caught: "Linearizable", broken: func(kv rounds.KV) rounds.KV { return &old{KV: kv, read: map[string]rounds.Entry{}} }},
	"two may win":               {caught: "Rounds", broken: func(kv rounds.KV) rounds.KV { return overwrites{KV: kv, create: true, update: true} }},
}

// mutantVar names the mutant that [Run] tests instead of the engine.
const mutantVar = "KV_MUTANT"

// mutated is the engine, or its mutant if one was asked for.
func (e Engine) mutated() Engine {
	m, ok := mutants[os.Getenv(mutantVar)]
	if !ok {
		return e
	}
	long = 3 * time.Second // there is no use in waiting for what a mutant does not do
	open := e.Open
	e.Open = func(t testing.TB, addr string) rounds.KV { return m.broken(open(t, addr)) }
	return e
}

// Mutants breaks each rule on an engine, and fails unless the test of that rule, a part of
// the test that calls [Run], finds out. Each mutant runs in a process of this test binary,
// which starts what the engine needs. Mutants runs only if KV_MUTANTS is set.
func Mutants(t *testing.T, test string, server bool) {
	if os.Getenv("KV_MUTANTS") == "" {
		t.Skip("only with KV_MUTANTS=1: takes seconds, and starts a process for each mutant")
	}
	for _, name := range slices.Sorted(maps.Keys(mutants)) {
		m := mutants[name]
		if m.server && !server {
			continue
		}
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+test+"$/^"+m.caught+"$", "-test.timeout", "2m")
			cmd.Env = append(os.Environ(), mutantVar+"="+name, "KV_OPS=60")
			out, err := cmd.CombinedOutput()
			if !errors.As(err, new(*exec.ExitError)) || !bytes.Contains(out, []byte("--- FAIL: "+test+"/"+m.caught)) {
				t.Errorf("%s of %s does not detect the mutant: %v\n%s", m.caught, test, err, out)
			}
		})
	}
}

// overwrites replaces values that it should not.
type overwrites struct {
	rounds.KV
	create, update, remove, graves bool
}

func (k overwrites) Create(ctx context.Context, key string, value []byte) (uint64, error) {
	rev, err := k.KV.Create(ctx, key, value)
	if errors.Is(err, rounds.ErrExists) {
		if e, err := k.Get(ctx, key); err == nil && (k.create || k.graves && len(e.Value) == 0) {
			return k.KV.Update(ctx, key, value, e.Rev)
		}
	}
	return rev, err
}

func (k overwrites) Update(ctx context.Context, key string, value []byte, rev uint64) (uint64, error) {
	if e, err := k.Get(ctx, key); err == nil && k.update {
		rev = e.Rev
	}
	return k.KV.Update(ctx, key, value, rev)
}

func (k overwrites) Delete(ctx context.Context, key string, rev uint64) (uint64, error) {
	if e, err := k.Get(ctx, key); err == nil && k.remove {
		rev = e.Rev
	}
	return k.KV.Delete(ctx, key, rev)
}

// zeroCreates takes an update of revision 0 for a create, as NATS and etcd do.
type zeroCreates struct{ rounds.KV }

func (k zeroCreates) Update(ctx context.Context, key string, value []byte, rev uint64) (uint64, error) {
	if rev == 0 {
		return k.Create(ctx, key, value)
	}
	return k.KV.Update(ctx, key, value, rev)
}

// forgetful shows nothing of a key after a delete.
type forgetful struct{ rounds.KV }

func (k forgetful) Get(ctx context.Context, key string) (rounds.Entry, error) {
	e, err := k.KV.Get(ctx, key)
	if err == nil && len(e.Value) == 0 {
		return rounds.Entry{}, rounds.ErrNotFound
	}
	return e, err
}

// falling has revisions that go down.
type falling struct{ rounds.KV }

const top = 1 << 60

func (k falling) Create(ctx context.Context, key string, value []byte) (uint64, error) {
	rev, err := k.KV.Create(ctx, key, value)
	return top - rev, err
}

func (k falling) Update(ctx context.Context, key string, value []byte, rev uint64) (uint64, error) {
	rev, err := k.KV.Update(ctx, key, value, top-rev)
	return top - rev, err
}

// lax truncates large values.
type lax struct{ rounds.KV }

func (k lax) Create(ctx context.Context, key string, value []byte) (uint64, error) {
	return k.KV.Create(ctx, key, value[:min(len(value), rounds.MaxValue)])
}

// stubborn goes on with calls that were given up.
type stubborn struct{ rounds.KV }

func (k stubborn) Create(ctx context.Context, key string, value []byte) (uint64, error) {
	return k.KV.Create(context.WithoutCancel(ctx), key, value)
}

// blind has watches that miss some changes, or report some twice.
type blind struct {
	rounds.KV
	graves, past, twice, gap, late, deaf bool
}

// aWhile is longer than the writes of a test take, and than a mutant is waited for.
const aWhile = 10 * time.Second

func (k blind) Watch(ctx context.Context, key string, f func([]rounds.Entry)) error {
	first, began := true, time.Now()
	see := func(es []rounds.Entry) {
		if k.graves {
			es = slices.DeleteFunc(es, func(e rounds.Entry) bool { return len(e.Value) == 0 })
		}
		if first && k.past || k.late && time.Since(began) < aWhile {
			es = nil
		}
		if !k.deaf || first {
			f(es)
		}
		if k.twice && len(es) > 0 {
			f(es)
		}
		first = false
	}
	if !k.gap {
		return k.KV.Watch(ctx, key, see)
	}
	once, cancel := context.WithCancel(ctx)
	k.KV.Watch(once, key, func(es []rounds.Entry) {
		if first {
			see(es)
		}
		cancel()
	})
	select {
	case <-time.After(aWhile):
	case <-ctx.Done():
	}
	skipped := false
	return k.KV.Watch(ctx, key, func(es []rounds.Entry) {
		if skipped {
			see(es)
		}
		skipped = true
	})
}

// certain reports a write that got no answer as refused.
type certain struct{ rounds.KV }

func (k certain) Update(ctx context.Context, key string, value []byte, rev uint64) (uint64, error) {
	rev, err := k.KV.Update(ctx, key, value, rev)
	if err != nil {
		err = rounds.ErrConflict
	}
	return rev, err
}

// old reads a key once, and keeps to that answer.
type old struct {
	rounds.KV
	mu   sync.Mutex
	read map[string]rounds.Entry
}

func (k *old) Get(ctx context.Context, key string) (rounds.Entry, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e, ok := k.read[key]; ok {
		return e, nil
	}
	e, err := k.KV.Get(ctx, key)
	if err == nil {
		k.read[key] = e
	}
	return e, err
}
