package discovery

import (
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/piecelease/fetcher/share"
)

// What is no longer announced is taken back at once, also just after something was
// announced; something new is announced when others have had time.
func TestAnAnnouncementIsTakenBackAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := ids(2)
		var mu sync.Mutex
		shares, live := all, map[key]bool{}
		l := NewLAN(slog.New(slog.DiscardHandler))
		l.register = func(r record) (func(), error) {
			mu.Lock()
			defer mu.Unlock()
			for _, k := range r.keys {
				live[k] = true
			}
			return func() {
				mu.Lock()
				defer mu.Unlock()
				for _, k := range r.keys {
					delete(live, k)
				}
			}, nil
		}
		l.running.Go(func() {
			l.announce("peer", func() []string { return []string{"/ip4/192.168.1.5/tcp/1"} }, func() []share.ID {
				mu.Lock()
				defer mu.Unlock()
				return shares
			})
		})
		become := func(s []share.ID) {
			mu.Lock()
			shares = s
			mu.Unlock()
			l.Changed()
			synctest.Wait()
		}
		says := func(what string, want ...share.ID) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			keys := map[key]bool{}
			for _, id := range want {
				keys[keyOf(id)] = true
			}
			if !maps.Equal(live, keys) {
				t.Errorf("%s: announced are %v, want %v", what, slices.Collect(maps.Keys(live)), slices.Collect(maps.Keys(keys)))
			}
		}
		time.Sleep(2 * settles)
		synctest.Wait()
		says("begun", all...)
		become(all[:1])
		says("one is private, just after it was announced")
		time.Sleep(soonest + settles)
		synctest.Wait()
		says("the other", all[0])
		become(all)
		says("just after", all[0])
		time.Sleep(time.Minute)
		says("both again", all...)
		become(nil)
		says("all are private")
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}

// One of several announcements could not be made. It is made later, although nothing has changed, and the other stays.
func TestAnAnnouncementThatFailedIsMadeLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := ids(keysInRecord + 1)
		live, calls, ended := map[key]bool{}, 0, 0
		l := NewLAN(slog.New(slog.DiscardHandler))
		l.register = func(r record) (func(), error) {
			if calls++; calls == 2 {
				return nil, errors.New("too many open files")
			}
			for _, k := range r.keys {
				live[k] = true
			}
			return func() { ended++ }, nil
		}
		l.running.Go(func() {
			l.announce("peer", func() []string { return []string{"/ip4/192.168.1.5/tcp/1"} }, func() []share.ID { return all })
		})
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(live) != len(all) || calls != 3 || ended > 0 {
			t.Errorf("%d of %d shares are announced, after %d attempts; %d announcements were taken back", len(live), len(all), calls, ended)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}
