package sqlitekv_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/rounds/sqlitekv"
)

// Processes of one machine share a file.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "rounds")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	kv, err := sqlitekv.Open(ctx, filepath.Join(dir, "rounds.db"))
	if err != nil {
		panic(err)
	}
	defer kv.Close()

	round, err := rounds.New(kv, rounds.Config{Name: "backup", Holder: "this-machine", Run: "1", Clock: rounds.ClockOf(time.Now)})
	if err != nil {
		panic(err)
	}
	guard, err := round.TryAcquire(ctx, time.Hour)
	if err != nil {
		panic(err)
	}
	if err := guard.Complete(ctx, "12 files"); err != nil {
		panic(err)
	}
	_, err = round.TryAcquire(ctx, time.Hour)
	fmt.Println("again:", err != nil)
	// Output: again: true
}
