package daemon

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/multiformats/go-multiaddr"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/rounds/memkv"
	"github.com/piecelease/fetcher/share"
)

// far is a store that is a continent away.
type far struct{ rounds.KV }

func (f far) Get(ctx context.Context, key string) (rounds.Entry, error) {
	time.Sleep(80 * time.Millisecond)
	return f.KV.Get(ctx, key)
}

func (f far) Watch(ctx context.Context, key string, news func([]rounds.Entry)) error {
	time.Sleep(80 * time.Millisecond)
	return f.KV.Watch(ctx, key, news)
}

// How a fleet with many shares is, a node can read from a store that is far away.
func TestAFleetWithManySharesIsReadFromAfar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fetcher.FleetStore{KV: memkv.New(), Secret: "the secret of a fleet"}
		for i := range 200 {
			ticket, err := share.NewTicket(share.IDOf([]byte(fmt.Sprint(i))), []multiaddr.Multiaddr{multiaddr.StringCast("/ip4/127.0.0.1/tcp/1/p2p/" + peerA)})
			must(t, err)
			_, err = s.Add(t.Context(), ticket.String())
			must(t, err)
		}
		s.KV = far{s.KV}
		ctx, cancel := context.WithTimeout(t.Context(), fleetTime)
		defer cancel()
		if r, err := s.Rollout(ctx); err != nil || len(r.Shares) != 200 {
			t.Errorf("%d shares, %v", len(r.Shares), err)
		}
	})
}
