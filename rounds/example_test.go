package rounds_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/rounds/memkv"
)

// Every process that may do a job asks for its round. One gets it.
func Example() {
	ctx := context.Background()
	kv := memkv.New() // or sqlitekv.Open, natskv.Open, etcdkv.Open
	round, err := rounds.New(kv, rounds.Config{
		Name:   "nightly-report",
		Holder: "machine-1",
		Run:    rand.Text(),
		Clock:  rounds.ClockOf(time.Now),
		Notice: func(n rounds.Notice) { fmt.Println(n) },
	})
	if err != nil {
		panic(err)
	}
	guard, err := round.TryAcquire(ctx, time.Hour)
	if held, ok := errors.AsType[*rounds.HeldError](err); ok {
		fmt.Println("ask again in", held.Again)
		return
	}
	if err != nil {
		panic(err)
	}
	defer guard.Close()

	result := writeReport(guard.Term(), guard.Left())
	if err := guard.Complete(ctx, result); err != nil {
		panic(err)
	}
	record, _ := rounds.Current(ctx, kv, "nightly-report")
	fmt.Printf("term %d was %v by %s: %s\n", record.Term, record.State, record.Holder, record.Outcome)
	// Output: term 1 was completed by machine-1: 42 lines
}

func writeReport(term uint64, within time.Duration) string { return "42 lines" }

// A result is published with the term of its round: a holder that was paused for
// too long cannot replace a newer result with its old one.
func ExamplePointer() {
	ctx := context.Background()
	latest, err := rounds.NewPointer(memkv.New(), "nightly-report")
	if err != nil {
		panic(err)
	}
	fmt.Println(latest.Publish(ctx, rounds.Target{Term: 2, Value: "report-2.txt"}))
	fmt.Println(latest.Publish(ctx, rounds.Target{Term: 1, Value: "report-1.txt"}))
	target, _ := latest.Get(ctx)
	fmt.Println(target.Value)
	// Output:
	// <nil>
	// pointer nightly-report is at term 2, sequence 0; it does not go back
	// report-2.txt
}

// An office is held by extending it, and passes to somebody else when its holder
// is silent for its ttl.
func ExampleGuard_Extend() {
	ctx, cancel := context.WithTimeout(context.Background(), 250*time.Millisecond)
	defer cancel()
	const ttl = 15 * time.Second
	office, err := rounds.New(memkv.New(), rounds.Config{
		Name: "coordinator", Office: true, Holder: "machine-1", Run: rand.Text(), Data: "192.0.2.1:4001", Clock: rounds.ClockOf(time.Now),
	})
	if err != nil {
		panic(err)
	}
	guard, err := office.TryAcquire(ctx, ttl)
	if err != nil {
		panic(err)
	}
	beat := time.NewTicker(rounds.Heartbeat(ttl))
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			fmt.Println(guard.Abandon(context.Background(), "stopped"))
			return
		case <-beat.C:
			if err := guard.Extend(ctx); errors.As(err, new(*rounds.LostError)) {
				return // somebody else coordinates now
			}
		}
	}
	// Output: <nil>
}
