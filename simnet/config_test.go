package simnet

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/peers"
)

// anyValue sets some of the numbers of a configuration to values that a person might
// type, most of them not too far from what makes sense.
func anyValue(rng *rand.Rand, config any) {
	v := reflect.ValueOf(config).Elem()
	for i := range v.NumField() {
		if rng.IntN(8) > 0 {
			continue // keeps its default
		}
		size := math.Exp(rng.Float64()*18 - 6) // 0.0025 to 160,000
		switch f := v.Field(i); {
		case f.Type() == reflect.TypeFor[time.Duration]():
			f.SetInt(int64(size * float64(time.Second) / 20))
		case f.CanInt():
			f.SetInt(int64(size) + 1)
		case f.CanFloat():
			f.SetFloat(min(size, 1))
			if rng.IntN(20) == 0 {
				f.SetFloat(math.NaN())
			}
		}
		if rng.IntN(40) == 0 && v.Field(i).CanInt() {
			v.Field(i).SetInt(-v.Field(i).Int())
		}
	}
}

// A node has a name, and nobody else has it.
func TestANodeHasANameOfItsOwn(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "a"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a node was called %q", name)
				}
			}()
			net := New(1)
			net.Add(NodeConfig{Name: "a"})
			net.Add(NodeConfig{Name: name})
		}()
	}
}

// Whatever the numbers of the configuration are, they are refused or the transfer ends with
// the whole share.
func TestAnyConfigIsRefusedOrItsTransferEnds(t *testing.T) {
	t.Parallel()
	var ran, refused int
	for seed := range uint64(80) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var leases leasemgr.Config
		var ranking peers.RankingConfig
		var uploads peers.UploadConfig
		anyValue(rng, &leases)
		anyValue(rng, &ranking)
		anyValue(rng, &uploads)
		if leases.Validate() != nil || ranking.Validate() != nil || uploads.Validate() != nil {
			refused++
			continue
		}
		ran++
		net := New(seed)
		deps := func(d *actors.Deps) { d.Ranking, d.Uploads = ranking, uploads }
		c := net.File("file", 3<<20)
		a, b := net.Add(NodeConfig{Name: "a", Deps: deps}), net.Add(NodeConfig{Name: "b", Deps: deps, Acts: Liar(0.2)})
		x := net.Add(NodeConfig{Name: "x", Deps: deps})
		a.Seed(c)
		b.Seed(c)
		f := x.FetchWith(c, FetchOptions{Config: actors.TransferConfig{Verifiers: 2, Leases: leases, Stall: time.Hour}}, a, b)
		if done := net.Pass(func() bool { done, _ := f.Done(); return done }, 24*time.Hour); !done || f.Part() < 1 {
			t.Errorf("seed %d: not whole after a day with\n%+v\n%+v\n%+v", seed, leases, ranking, uploads)
		}
	}
	if ran < 15 || refused < 5 {
		t.Errorf("%d ran and %d were refused: the test does not try enough", ran, refused)
	}
}

// A source with a limit sends at that limit, however low: requests that were cancelled
// while they waited cost it nothing, and its silence is not treated as its end.
func TestLowUploadLimitsAreUsed(t *testing.T) {
	t.Parallel()
	for _, rate := range []int64{4000, 12000, 24000, 32000} {
		net := New(uint64(rate))
		c := net.File("file", 3<<20)
		a := net.Add(NodeConfig{Name: "a", Deps: func(d *actors.Deps) { d.Uploads.Rate = rate }})
		f := net.Add(NodeConfig{Name: "x"}).FetchWith(c, FetchOptions{Config: actors.TransferConfig{Verifiers: 2, Stall: time.Hour}}, a.Seed(c))
		net.Pass(func() bool { done, _ := f.Done(); return done }, time.Hour)
		if ideal := time.Duration(c.Bytes() / rate * int64(time.Second)); f.Part() < 1 || f.Took() > ideal*11/10 {
			t.Errorf("%d B/s: %.2f of it after %v, want all after %v", rate, f.Part(), f.Took(), ideal)
		}
	}
}
