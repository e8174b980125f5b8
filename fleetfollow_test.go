package fetcher

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/piecelease/fetcher/fleet"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/rounds/memkv"
	"github.com/piecelease/fetcher/share"
)

const fleetSecret = "the secret of a fleet"

// following is a set of nodes that follow the list of a fleet.
type following struct {
	t     *testing.T
	store FleetStore
	nodes []*Node
	dirs  []string

	mu     sync.Mutex
	events map[string]int
}

func followFleet(t *testing.T, n int) *following {
	return followStore(t, n, FleetStore{memkv.New(), fleetSecret})
}

func followStore(t *testing.T, n int, store FleetStore) *following {
	f := &following{t: t, store: store, events: map[string]int{}}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range n {
		node := openNode(t, func(c *Config) { c.Fleet.Store, c.Fleet.Heartbeat = f.store, 200*time.Millisecond })
		f.nodes, f.dirs = append(f.nodes, node), append(f.dirs, t.TempDir())
		wg.Go(func() {
			err := node.FollowFleet(ctx, FollowOptions{Dir: f.dirs[i], Name: fmt.Sprint("machine", i), Told: func(e FollowEvent) {
				f.mu.Lock()
				defer f.mu.Unlock()
				f.events[e.What]++
			}})
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	return f
}

// until waits until the rollout is as wanted.
func (f *following) until(what string, is func(Rollout) bool) (last Rollout) {
	f.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		var err error
		if last, err = f.store.Rollout(f.t.Context()); err != nil {
			f.t.Fatal(err)
		}
		if is(last) {
			return last
		}
	}
	f.t.Fatalf("no %s: %+v", what, last)
	return last
}

// fileShared is a share of a new file, and what is in it.
func fileShared(t *testing.T, name string, n int, change ...func(*Config)) (*Share, []byte) {
	t.Helper()
	src := filepath.Join(t.TempDir(), name)
	content := writeRandom(t, src, n, 1)
	return shareOf(t, src, change...), content
}

func TestEveryMemberGetsWhatIsOnTheListOnce(t *testing.T) {
	rig.OnlyLong(t)
	t.Parallel()
	f := followFleet(t, 3)
	s, content := fileShared(t, "big.bin", 6<<20, func(c *Config) { c.UploadRate = 4 << 20 })
	id, err := f.store.Add(t.Context(), s.Ticket())
	must(t, err)
	r := f.until("copy on all machines", func(r Rollout) bool { return len(r.Shares) == 1 && r.Shares[0].Done == 3 })
	x := r.Shares[0]
	if x.ID != id || x.Name != "big.bin" || x.Term == 0 || !f.has(x.Coordinator) || len(r.Members) != 3 || r.Members[2].Name != "machine2" {
		t.Errorf("%+v", r)
	}
	if m, ok := r.Members[1].ByShare()[id.String()]; !ok || m.Bytes != int64(len(content)) || m.Verified != m.Bytes || m.Waits != "" {
		t.Errorf("%+v", m)
	}
	for _, dir := range f.dirs {
		if got, err := os.ReadFile(filepath.Join(dir, "big.bin")); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%s differs: %v", dir, err)
		}
	}
	if _, out := s.node.Traffic(); float64(out) > 1.1*float64(len(content)) {
		t.Errorf("%d bytes left the source, of %d", out, len(content))
	}

	must(t, f.store.Remove(t.Context(), id))
	f.until("end", func(r Rollout) bool { return len(r.Shares) == 0 && len(r.Members[0].Shares) == 0 })
	if err := f.store.Remove(t.Context(), id); !errors.Is(err, ErrNotListed) {
		t.Errorf("removed again: %v", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.events["begun"] != 3 || f.events["done"] != 3 || f.events["failed"] != 0 {
		t.Errorf("%v", f.events)
	}
}

func (f *following) has(id peers.ID) bool {
	for _, n := range f.nodes {
		if n.ID() == id {
			return true
		}
	}
	return false
}

func TestTheListOfAFleetHoldsWhatMembersWrote(t *testing.T) {
	s := FleetStore{memkv.New(), fleetSecret}
	if _, err := s.Add(t.Context(), "nonsense"); !errors.Is(err, share.ErrTicket) {
		t.Errorf("nonsense: %v", err)
	}
	id := share.IDOf([]byte("a share"))
	if _, err := s.Add(t.Context(), id.String()); !errors.Is(err, ErrNoSource) {
		t.Errorf("without a source: %v", err)
	}
	listed, _ := fileShared(t, "f", 1000)
	ticket := listed.Ticket()
	stranger := FleetStore{s.KV, "the secret of another fleet"}
	if _, err := stranger.Add(t.Context(), ticket); err != nil {
		t.Fatal(err)
	}
	other := listKey + id.String()
	_, err := s.KV.Create(t.Context(), other, fleet.Secret(fleetSecret).Seal(other, ListedShare{Ticket: ticket}))
	must(t, err)
	must(t, s.put(t.Context(), statusKey+"somebody", MemberReport{Peer: "somebody else"}))
	r, err := s.Rollout(t.Context())
	if err != nil || len(r.Shares) != 0 || len(r.Members) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := s.Add(t.Context(), ticket); err != nil {
		t.Fatal(err)
	}
	if r, err = s.Rollout(t.Context()); err != nil || len(r.Shares) != 1 || r.Shares[0].Coordinator != "" {
		t.Errorf("%+v, %v", r, err)
	}
}

// With the wrong secret a fleet does not look empty, and what another fleet wrote is not replaced.
func TestAStoreOfAnotherFleetIsRefused(t *testing.T) {
	t.Parallel()
	listed, _ := fileShared(t, "f", 1000)
	ticket := listed.Ticket()
	s := FleetStore{memkv.New(), fleetSecret}
	if r, err := s.Rollout(t.Context()); err != nil || len(r.Shares) != 0 {
		t.Errorf("a store without entries: %+v, %v", r, err)
	}
	id, err := s.Add(t.Context(), ticket)
	must(t, err)
	wrong := FleetStore{s.KV, "the secret of another fleet"}
	if _, err := wrong.Rollout(t.Context()); !errors.Is(err, ErrOtherFleet) {
		t.Errorf("read with another secret: %v", err)
	}
	if _, err := wrong.Add(t.Context(), ticket); !errors.Is(err, ErrOtherFleet) {
		t.Errorf("added with another secret: %v", err)
	}
	if r, err := s.Rollout(t.Context()); err != nil || len(r.Shares) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	must(t, s.Remove(t.Context(), id))
	if _, err := wrong.Rollout(t.Context()); err != nil {
		t.Errorf("a store with tombstones alone: %v", err)
	}
	for range 2 {
		must(t, s.Claim(t.Context()))
	}
	if err := wrong.Claim(t.Context()); !errors.Is(err, ErrOtherFleet) {
		t.Errorf("claimed with another secret: %v", err)
	}
	if _, err := wrong.Rollout(t.Context()); !errors.Is(err, ErrOtherFleet) {
		t.Errorf("the list of a fleet that has nothing yet, with another secret: %v", err)
	}
}

func TestAFleetNeedsASecretAndOneWayToFindItsCoordinator(t *testing.T) {
	kv := memkv.New()
	for name, f := range map[string]Fleet{
		"Secret":      {Store: FleetStore{kv, "too short"}},
		"Coordinator": {Store: FleetStore{kv, fleetSecret}, Coordinator: "/ip4/192.0.2.1/tcp/1/p2p/12D3KooWD3eckifWpRn9wQpMG9R9hX3sD158z7EqHWmweQAJU5SA"},
		"Heartbeat":   {Store: FleetStore{kv, fleetSecret}, Heartbeat: time.Millisecond},
	} {
		if err := (Config{Fleet: f}).Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := (Config{Fleet: Fleet{Store: FleetStore{kv, fleetSecret}}}).Validate(); err != nil {
		t.Error(err)
	}
	n := openNode(t)
	if err := n.FollowFleet(t.Context(), FollowOptions{}); err == nil {
		t.Error("a node without a store follows a list")
	}
}

func TestReportsAreClipped(t *testing.T) {
	for in, want := range map[string]string{"": "", "short": "short", "abcdefgh": "abcde", "abcdé": "abcd", "ééé": "éé"} {
		if got := clip(in, 5); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
}

// A share that was taken off the list and put on it again is on it, also if a node learns of
// both at once; and one that was put on it and taken off is not.
func TestOfAShareTheLastChangeCounts(t *testing.T) {
	s := FleetStore{memkv.New(), fleetSecret}
	x, _ := fileShared(t, "f", 1000)
	id, err := s.Add(t.Context(), x.Ticket())
	must(t, err)
	added, err := s.KV.Get(t.Context(), listKey+id.String())
	must(t, err)
	f := &follower{store: s, log: x.node.log}
	taken, again := added, added
	taken.Rev, taken.Value, again.Rev = added.Rev+1, nil, added.Rev+2
	if listed, gone := f.read([]rounds.Entry{taken, again}); len(listed) != 1 || len(gone) != 0 {
		t.Errorf("put onto the list again: %v are listed, %v are gone", listed, gone)
	}
	if listed, gone := f.read([]rounds.Entry{added, taken}); len(listed) != 0 || len(gone) != 1 {
		t.Errorf("taken from the list: %v are listed, %v are gone", listed, gone)
	}
}

// The store is wiped while all run: nothing is removed, what runs goes on, and what enters enters about once; another term
// is later than those before, and what is put on the list again is there.
func TestAFleetOutlivesTheWipingOfItsStore(t *testing.T) {
	rig.OnlyLong(t)
	t.Parallel()
	kv := memkv.New()
	f := followStore(t, 2, FleetStore{kv, fleetSecret})
	must(t, f.store.Claim(t.Context()))
	s, content := fileShared(t, "big.bin", 6<<20, func(c *Config) { c.UploadRate = 2 << 20 })
	_, err := f.store.Add(t.Context(), s.Ticket())
	must(t, err)
	was := f.until("third of it", func(r Rollout) bool {
		n := int64(0)
		for _, m := range r.Members {
			for _, x := range m.Shares {
				n += x.Verified
			}
		}
		return len(r.Shares) == 1 && r.Shares[0].Term > 0 && n > int64(len(content))/3
	})
	kv.Wipe()
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		whole := 0
		for _, dir := range f.dirs {
			if got, err := os.ReadFile(filepath.Join(dir, "big.bin")); err == nil && bytes.Equal(got, content) {
				whole++
			}
		}
		if whole == 2 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d of 2 have it", whole)
		}
	}
	if _, out := s.node.Traffic(); float64(out) > 1.2*float64(len(content)) {
		t.Errorf("%d bytes left the source, of %d", out, len(content))
	}
	_, err = f.store.Add(t.Context(), s.Ticket())
	must(t, err)
	f.until("list with later terms", func(r Rollout) bool {
		return len(r.Shares) == 1 && r.Shares[0].Done == 2 && r.Shares[0].Term > was.Shares[0].Term && f.has(r.Shares[0].Coordinator)
	})
}

// While the members with the old secret run, one with the new secret finds the list, is elected, and has the share.
func TestAFleetWithAnotherSecretElectsItsOwn(t *testing.T) {
	rig.OnlyLong(t)
	t.Parallel()
	kv := memkv.New()
	old := followStore(t, 2, FleetStore{kv, fleetSecret})
	must(t, old.store.Claim(t.Context()))
	s, content := fileShared(t, "film.bin", 1<<20)
	_, err := old.store.Add(t.Context(), s.Ticket())
	must(t, err)
	old.until("copy on both", func(r Rollout) bool {
		return len(r.Shares) == 1 && r.Shares[0].Done == 2 && r.Shares[0].Coordinator != ""
	})
	must(t, old.store.ChangeSecret(t.Context(), nextSecret))
	f := followStore(t, 1, FleetStore{kv, nextSecret})
	f.until("fleet of its own", func(r Rollout) bool {
		return len(r.Members) == 1 && len(r.Shares) == 1 && r.Shares[0].Done == 1 && f.has(r.Shares[0].Coordinator)
	})
	if got, err := os.ReadFile(filepath.Join(f.dirs[0], "film.bin")); err != nil || !bytes.Equal(got, content) {
		t.Errorf("it differs: %v", err)
	}
}

func TestWhatIsWrongWithTheDepotsOfAListedShareIsSaid(t *testing.T) {
	at := "/ip4/192.0.2.1/tcp/1/p2p/12D3KooWD3eckifWpRn9wQpMG9R9hX3sD158z7EqHWmweQAJU5SA"
	for _, c := range []struct {
		depots, copies int
		length         time.Duration
		want           string
	}{
		{MaxListedDepots, 1, MinHoldLength, ""},
		{MaxListedDepots + 1, 1, 0, "have 65 addresses together, and the fleet's list has room for 64"},
		{1, 2, 0, "no more copies than depots, and leases of"},
		{1, 1, MinHoldLength - 1, "no more copies than depots, and leases of"},
		{0, 0, 0, "no more copies than depots, and leases of"},
	} {
		h := ListedHold{Depots: slices.Repeat([]string{at}, c.depots), Copies: c.copies, Length: c.length}
		if err := h.check(); c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
