package discovery

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/zeroconf/v2"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
)

// Somebody on the network announces nodes without end, as fast as they are read. What is remembered and told
// has its bound, and the network is not listened to for a while; then it is again.
func TestAFloodOfAnnouncementsIsNotListenedTo(t *testing.T) {
	rig.Slow(t)
	synctest.Test(t, func(t *testing.T) {
		l := NewLAN(slog.New(slog.DiscardHandler))
		l.Quiet = true
		const each = 2 // over IPv4 and IPv6
		var begun, sent, told atomic.Int64
		l.hears = func(ctx context.Context, _ zeroconf.IPType, entries chan<- *zeroconf.ServiceEntry) error {
			defer close(entries)
			if begun.Add(1) > each {
				<-ctx.Done() // the flood is over
			}
			for ctx.Err() == nil {
				e := &zeroconf.ServiceEntry{ServiceRecord: zeroconf.ServiceRecord{Instance: fmt.Sprint("name", sent.Add(1))}}
				e.Text = record{peer: peers.ID(fmt.Sprint("peer", sent.Load())), addrs: []string{"/ip4/192.168.1.5/tcp/1"}, keys: []key{{1}}}.text()
				entries <- e
			}
			return nil
		}
		defer l.Close()
		l.table.begin(&find{key: key{1}, found: func(peers.Via, peers.Addr) { told.Add(1) }}, time.Now())
		l.Start(fetcher.Local{ID: "self"})
		for round := range int64(2) {
			time.Sleep(pause / 2)
			if got, want := begun.Load(), each*(round+1); got != want {
				t.Errorf("round %d: the network was listened to %d times, want %d", round, got, want)
			}
			if got, most := told.Load(), int64(each*tooMany); got > most || got < most/2 {
				t.Errorf("round %d: %d were told, of at most %d", round, got, most)
			}
			time.Sleep(pause / 2)
			synctest.Wait()
		}
		if n := len(l.Neighbours()); n > maxHeard {
			t.Errorf("%d are remembered", n)
		}
	})
}
