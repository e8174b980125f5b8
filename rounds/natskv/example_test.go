package natskv_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/rounds/natskv"
)

// Machines share a bucket of a NATS server; here it runs in this process.
func Example() {
	dir, err := os.MkdirTemp("", "rounds")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true})
	if err != nil {
		panic(err)
	}
	s.Start()
	defer s.WaitForShutdown()
	defer s.Shutdown()
	s.ReadyForConnections(30 * time.Second)

	ctx := context.Background()
	for _, machine := range []string{"machine-1", "machine-2"} {
		kv, err := natskv.Open(ctx, natskv.Config{URL: "nats://" + s.Addr().String(), Bucket: "ours"})
		if err != nil {
			panic(err)
		}
		defer kv.Close()
		round, err := rounds.New(kv, rounds.Config{Name: "nightly-report", Holder: machine, Run: "1", Clock: rounds.ClockOf(time.Now)})
		if err != nil {
			panic(err)
		}
		guard, err := round.TryAcquire(ctx, time.Hour)
		if held, ok := errors.AsType[*rounds.HeldError](err); ok {
			fmt.Printf("%s leaves it to %s\n", machine, held.Record.Holder)
			continue
		}
		if err != nil {
			panic(err)
		}
		defer guard.Close()
		fmt.Printf("%s does it in term %d\n", machine, guard.Term())
	}
	// Output:
	// machine-1 does it in term 1
	// machine-2 leaves it to machine-1
}
