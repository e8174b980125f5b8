package actors

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/piecelease/fetcher/fleet"
	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/rounds/memkv"
	"github.com/piecelease/fetcher/share"
)

// The secret of a fleet is another for a while, and then it is as before: the coordinator, which gave its office up, holds it
// again, or follows whoever does.
func TestACoordinatorThatGaveItsOfficeUpAsksForItAgain(t *testing.T) {
	t.Parallel()
	const secret, other = fleet.Secret("the secret of a fleet"), fleet.Secret("another secret of it")
	kv, now := memkv.New(), time.Unix(1e9, 0)
	mark := func(by fleet.Secret) { kv.Overwrite(fleet.MarkKey, by.Seal(fleet.MarkKey, struct{}{})) }
	id := share.IDOf([]byte("film"))
	b := &ballot{kv: kv, secret: secret, self: "a", ttl: 3 * time.Second, within: 2 * time.Second, name: fleet.RoundName(id), wall: time.Now, log: slog.New(slog.DiscardHandler)}
	start := now
	var err error
	b.round, err = rounds.New(kv, rounds.Config{Name: b.name, Office: true, Holder: "a", Run: "a", Clock: func() rounds.Now { return rounds.Now{Wall: now, Mono: now.Sub(start)} }})
	if err != nil {
		t.Fatal(err)
	}
	o := fleet.NewOffice(fleet.OfficeConfig{Share: id, Self: "a", Secret: secret}, now)
	lives := func(d time.Duration) {
		for end := now.Add(d); now.Before(end); {
			todo := o.Next(now)
			if todo.Call != fleet.NoCall {
				o.Answer(b.call(context.Background(), todo.Call, todo.Heard, nil), now)
				continue
			}
			now = todo.Wake
		}
	}
	mark(secret)
	lives(time.Minute)
	mark(other)
	lives(time.Minute)
	mark(secret)
	lives(time.Minute)
	if rec, err := rounds.Current(t.Context(), kv, b.name); err != nil || rec.State != rounds.Running {
		seat, ours := o.Seat()
		t.Errorf("after a minute the office is %v (%v); the node goes by %v, its own: %v, and says %q", rec.State, err, seat, ours, o.Why())
	}
}
