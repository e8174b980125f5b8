package cores

import (
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
)

var (
	many  = flag.Int("peers", 0, "peers in TestManyPeers; 0: it is not run")
	seeds = flag.Uint64("seeds", 1, "seeds of each swarm in TestSwarmsBecomeWhole")
)

// TestSwarmsBecomeWhole requires that every surviving peer becomes whole, without a fault, and soon.
func TestSwarmsBecomeWhole(t *testing.T) {
	for name, cfg := range map[string]Config{
		"all at once":      {Peers: 60, PerSecond: 10_000},
		"one by one":       {Peers: 100},
		"one piece":        {Peers: 100, Content: NewContent(100 << 10)},
		"half of them lie": {Peers: 80, Liars: 50},
		"many die":         {Peers: 150, Deaths: 50},
		"nobody stays":     {Peers: 150, Leavers: 100},
		"all of it":        {Peers: 200, Liars: 10, Deaths: 20, Leavers: 50},
	} {
		t.Run(name, func(t *testing.T) {
			if cfg.Peers >= 150 {
				rig.Slow(t)
			}
			t.Parallel()
			for cfg.Seed = range *seeds {
				holds(t, cfg, Run(cfg))
			}
		})
	}
}

func TestSameSeedSameSwarm(t *testing.T) {
	rig.Slow(t)
	cfg := Config{Peers: 100, Liars: 10, Deaths: 20, Leavers: 50}
	a, b := Run(cfg), Run(cfg)
	if a.Digest != b.Digest {
		t.Errorf("two runs of one seed: %+v, and %+v", a, b)
	}
	cfg.Seed++
	if c := Run(cfg); c.Digest == a.Digest {
		t.Errorf("another seed: %+v", c)
	}
}

func TestWhoIsNotWholeInTimeIsAFault(t *testing.T) {
	r := Run(Config{Peers: 5, Limit: 300 * time.Millisecond})
	if len(r.Faults) == 0 || !strings.Contains(r.Faults[0], "peer000001 is not whole after 3") || !strings.Contains(r.Faults[0], "peer000000: ready, fetching") {
		t.Errorf("%q", r.Faults)
	}
}

func TestPeersStayForAWhile(t *testing.T) {
	rig.Slow(t)
	short, long := Run(Config{Peers: 100, Stay: time.Second / 10}), Run(Config{Peers: 100, Stay: time.Minute})
	if long.MostAtOne != 101 || short.MostAtOne >= 101 {
		t.Errorf("up to %d at a time, and %d", short.MostAtOne, long.MostAtOne)
	}
}

// TestManyPeers is for the command line: go test ./simnet/cores -run ManyPeers -peers 100000 -v
func TestManyPeers(t *testing.T) {
	if *many == 0 {
		t.Skip("how many: -peers")
	}
	cfg := Config{Peers: *many, Seed: 1, Liars: 5, Deaths: 10, Leavers: 30, Content: NewContent(92<<10, 40<<10, 40<<10, 40<<10)}
	began := time.Now()
	r := Run(cfg)
	holds(t, cfg, r)
	t.Logf("S0: %d peers came in %v, up to %d at a time, in %.0f s: %d events; %d were whole after %v on average, %v at most; %d died; %.2f%% came twice; the source sent %.0f copies",
		cfg.Peers, r.Virtual, r.MostAtOne, time.Since(began).Seconds(), r.Events, r.Whole, r.Mean.Round(time.Millisecond), r.Slowest.Round(time.Millisecond),
		r.Died, 100*r.Twice, r.Copies)
}

func holds(t *testing.T, cfg Config, r Result) {
	t.Helper()
	for _, f := range r.Faults {
		t.Errorf("seed %d: %s", cfg.Seed, f)
	}
	if r.Whole+r.Died != cfg.Peers {
		t.Errorf("seed %d: of %d peers %d are whole and %d died", cfg.Seed, cfg.Peers, r.Whole, r.Died)
	}
	if r.Slowest > time.Minute {
		t.Errorf("seed %d: a peer took %v, the others %v", cfg.Seed, r.Slowest, r.Mean)
	}
	if r.Twice > 0.1 {
		t.Errorf("seed %d: %.1f%% came twice", cfg.Seed, 100*r.Twice)
	}
}
