package daemon

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/renewal"
	"github.com/piecelease/fetcher/share"
)

// A depot that for two months does not get a share, or has lost some of it and does not get that again, though its lease is renewed
// each time, keeps nothing for the owner: the status warns of it after some days, for which a depot may take.
func TestTheStatusSaysThatADepotHasALeaseAndNoShare(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for state, says := range map[renewal.State]string{renewal.Coming: "does not have all of the share yet", renewal.Corrupt: "lost there"} {
		s, begun := renewal.New(renewal.Config{}, 1), time.Unix(1_000_000_000, 0)
		id, end, now := share.IDOf([]byte("x")), begun, begun
		s.Want(renewal.Want{ID: 1, Share: id, Bytes: 1, Name: "film", Depots: []peers.ID{"12D3KooWJcge8xRZ5k8JqvEmhYiX4BRtBjinpdRf5jNBvhX5ycZN"}}, now)
		d := &depots{Daemon: &Daemon{log: slog.New(slog.DiscardHandler)}}
		until := func(last time.Time, is renewal.State) []string {
			for ; now.Before(last); now = s.Wake() {
				for _, at := range s.Due(now) {
					var said []renewal.Heard
					if end.After(now) {
						said = append(said, renewal.Heard{Share: id, State: is, Bytes: 1, Left: end.Sub(now)})
					}
					for _, x := range s.Visited(at, said, now) {
						added := renewal.Added(end, now.Add(x.Length), now)
						if end = end.Add(added); end.Before(now) {
							end = now.Add(x.Length)
						}
						s.Renewed(at, renewal.Heard{Share: id, State: is, Bytes: 1, Left: end.Sub(now), Added: added}, now)
					}
				}
			}
			return d.holdWarnings(fetcher.HoldList{Wants: s.Wants(), Holds: s.Holds(last)})
		}
		if w := until(begun.Add(2*day), state); len(w) > 0 {
			t.Errorf("%v for two days: %q", state, w)
		}
		for _, days := range []time.Duration{4, 60} {
			w := until(begun.Add(days*day), state)
			if len(w) != 1 || !strings.Contains(w[0], "film") || !strings.Contains(w[0], says) || !strings.Contains(w[0], "for "+words.Duration(days*day)) {
				t.Errorf("%v for %d days: %q", state, days, w)
			}
		}
		if w := until(begun.Add(70*day), renewal.Stable); len(w) > 0 {
			t.Errorf("it is there: %q", w)
		}
	}
}
