package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/rounds/memkv"
)

// jobView is a member's view of the round of a job.
func jobView(t *testing.T, kv rounds.KV, j roundJob, who string) *rounds.Round {
	t.Helper()
	r, err := rounds.New(kv, rounds.Config{Name: j.name, Holder: who, Run: who + "'s run", Clock: rounds.ClockOf(time.Now)})
	must(t, err)
	return r
}

// Of three members one does the job in each round. A failure passes the round to another, and
// so does a holder that ends.
func TestOneMemberDoesAJobOfTheFleetInEachRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv := memkv.New()
		var mu sync.Mutex
		broken := "b"
		var done []uint64 // terms
		ends := map[string]context.CancelFunc{}
		for _, who := range []string{"a", "b", "c"} {
			j := roundJob{name: "job", every: time.Hour, retry: 10 * time.Minute, do: func(ctx context.Context, g *rounds.Guard) (string, error) {
				select {
				case <-time.After(time.Minute):
				case <-ctx.Done():
					return "", ctx.Err()
				}
				mu.Lock()
				defer mu.Unlock()
				if who == broken {
					return "", errors.New("it is broken")
				}
				done = append(done, g.Term())
				return "done by " + who, nil
			}}
			ctx, end := context.WithCancel(t.Context())
			ends[who] = end
			go j.loop(ctx, jobView(t, kv, j, who), slog.New(slog.DiscardHandler))
		}
		count := func() int {
			mu.Lock()
			defer mu.Unlock()
			return len(done)
		}
		time.Sleep(10 * time.Hour)
		if n := count(); n < 9 || n > 10 { // a failure delays the rounds after it
			t.Errorf("in 10 hours it was done %d times", n)
		}
		mu.Lock()
		for i, term := range done[1:] {
			if term <= done[i] {
				t.Errorf("term %d after %d", term, done[i])
			}
		}
		broken = ""
		mu.Unlock()

		rec, err := rounds.Current(t.Context(), kv, "job")
		for ; err == nil && rec.State != rounds.Running; rec, err = rounds.Current(t.Context(), kv, "job") {
			time.Sleep(10 * time.Second)
		}
		must(t, err)
		before := count()
		ends[rec.Holder]() // in the middle of its work
		time.Sleep(15 * time.Minute)
		if n := count() - before; n != 1 {
			t.Errorf("a holder ended, and within its round the job was done %d times, not once", n)
		}
		rec, err = rounds.Current(t.Context(), kv, "job")
		if err != nil || rec.State != rounds.Completed || !strings.HasPrefix(rec.Outcome, "done by ") {
			t.Errorf("%+v, %v", rec, err)
		}
		for _, end := range ends {
			end()
		}
	})
}

// The work ends with its round; while the store is away it is tried again and again, and a node that
// ends does not wait for the store for long.
func TestAJobOfTheFleetIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv := &awayKV{KV: memkv.New()}
		j := roundJob{name: "job", every: time.Hour, retry: time.Minute, do: func(ctx context.Context, _ *rounds.Guard) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}}
		r := jobView(t, kv, j, "a")
		begun := time.Now()
		_, again, err := j.once(t.Context(), r, nil)
		if took := time.Since(begun); !errors.Is(err, context.DeadlineExceeded) || took != time.Hour || again != time.Minute {
			t.Errorf("after %v: again in %v, %v", took, again, err)
		}
		kv.away = true
		if _, again, err := j.once(t.Context(), r, nil); !errors.Is(err, errAway) || again != time.Minute {
			t.Errorf("while the store is away: again in %v, %v", again, err)
		}
		kv.away = false
		ctx, end := context.WithCancel(t.Context())
		j.do = func(ctx context.Context, _ *rounds.Guard) (string, error) {
			kv.hangs = true
			end()
			return "", ctx.Err()
		}
		begun = time.Now()
		if _, _, err = j.once(ctx, r, nil); err == nil || time.Since(begun) > endRound {
			t.Errorf("it ended after %v: %v", time.Since(begun), err)
		}
	})
}

var errAway = errors.New("the store is away")

// awayKV is a store that may be away, or not answer.
type awayKV struct {
	*memkv.KV
	away, hangs bool
	back        time.Time // until then it is away, too
}

func (k *awayKV) Get(ctx context.Context, key string) (rounds.Entry, error) {
	if err := k.answer(ctx); err != nil {
		return rounds.Entry{}, err
	}
	return k.KV.Get(ctx, key)
}

func (k *awayKV) Update(ctx context.Context, key string, value []byte, rev uint64) (uint64, error) {
	if err := k.answer(ctx); err != nil {
		return 0, err
	}
	return k.KV.Update(ctx, key, value, rev)
}

func (k *awayKV) answer(ctx context.Context) error {
	switch {
	case k.hangs:
		<-ctx.Done()
		return fmt.Errorf("no answer: %w", ctx.Err())
	case k.away, time.Now().Before(k.back):
		return errAway
	}
	return nil
}

// A job fails because the store of the fleet is away for a minute. Then the store is back: the job, which is
// to be tried again after ten minutes, is done well before the next day.
func TestAJobThatFailedWhileTheStoreWasAwayIsDoneSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv := &awayKV{KV: memkv.New()}
		tries, done := 0, time.Time{}
		j := roundJob{name: "job", every: 24 * time.Hour, retry: 10 * time.Minute, do: func(context.Context, *rounds.Guard) (string, error) {
			if tries++; tries == 1 {
				kv.back = time.Now().Add(time.Minute)
				return "", errors.New("the store is away")
			}
			if done.IsZero() {
				done = time.Now()
			}
			return "done", nil
		}}
		ctx, end := context.WithCancel(t.Context())
		begun := time.Now()
		go j.loop(ctx, jobView(t, kv, j, "a"), slog.New(slog.DiscardHandler))
		time.Sleep(48 * time.Hour)
		end()
		synctest.Wait()
		if took := done.Sub(begun); done.IsZero() || took > time.Hour {
			t.Errorf("it was done after %v", took)
		}
	})
}
