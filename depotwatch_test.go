package fetcher_test

import (
	"context"
	"errors"
	"testing"

	"github.com/piecelease/fetcher"
)

// Watchers stay: one too many is refused, and none of the others is dropped.
func TestTooManyWhoWatchAreRefused(t *testing.T) {
	t.Parallel()
	k, owner := newKeeper(t), client(t)
	k.account(owner, 1<<30)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const most = 16
	over := make(chan error, most+1)
	for range most + 1 {
		go func() { over <- k.at(owner).Watch(ctx, func(fetcher.Holding) {}) }()
	}
	var refused *fetcher.HoldRefused
	if err := <-over; !errors.As(err, &refused) || refused.Reason != fetcher.HoldTooManyRequests {
		t.Error(err)
	}
	cancel()
	for range most {
		if err := <-over; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}
