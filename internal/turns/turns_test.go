package turns

import (
	"context"
	"errors"
	"sync"
	"testing"
)

func TestTurnsOfOneThingComeOneAfterTheOther(t *testing.T) {
	t.Parallel()
	var turns Turns[int]
	leave, err := turns.Take(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	other, err := turns.Take(t.Context(), 3)
	if err != nil {
		t.Fatal(err)
	}
	other()
	if _, ok := turns.Try(2); ok {
		t.Error("a turn that is taken was taken")
	}
	if other, ok := turns.Try(3); !ok {
		t.Error("a turn that is free was not taken")
	} else {
		other()
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := turns.Take(ended, 2); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	var n int
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if leave, err := turns.Take(t.Context(), 2); err == nil {
				n++
				leave()
			}
		})
	}
	n++
	leave()
	if all.Wait(); n != 9 || len(turns.taken) != 0 {
		t.Error(n, turns.taken)
	}
}
