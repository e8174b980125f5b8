package fetcher

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/p2p"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

func TestTheStateDirectoryIsTheUsersUnlessSaid(t *testing.T) {
	t.Setenv("XDG_DATA_HOME", "/some/where")
	if dir, err := DefaultDir(); err != nil || dir != filepath.FromSlash("/some/where/fetcher") {
		t.Error(dir, err)
	}
	t.Setenv("XDG_DATA_HOME", "relative") // not allowed by the XDG specification
	if dir, err := DefaultDir(); err != nil || strings.Contains(dir, "relative") {
		t.Error(dir, err)
	}
}

func TestIdentityIsStoredUnlessFresh(t *testing.T) {
	dir := t.TempDir()
	id := func(fresh bool) peers.ID {
		n, err := Open(t.Context(), Config{Dir: dir, Listen: loopback, FreshIdentity: fresh})
		must(t, err)
		defer n.Close()
		return n.ID()
	}
	first := id(false)
	if id(false) != first {
		t.Error("the stored identity was not used")
	}
	if id(true) == first {
		t.Error("a fresh identity is the stored one")
	}
}

func TestTwoNodesOfOneDirAreTwoPeers(t *testing.T) {
	dir := t.TempDir()
	a := openNode(t, func(c *Config) { c.Dir = dir })
	b := openNode(t, func(c *Config) { c.Dir = dir })
	if a.ID() == b.ID() {
		t.Error("both have the identity", a.ID())
	}
}

func TestListenNoneListensNowhere(t *testing.T) {
	n := openNode(t, func(c *Config) { c.Listen = []string{"none"} })
	if a := n.Addrs(); len(a) > 0 {
		t.Error("listens on", a)
	}
}

func TestThePortOfLastTimeIsTakenAgain(t *testing.T) {
	dir := keptPort(t)
	ports := func() (out []string) {
		n, err := Open(t.Context(), Config{Dir: dir})
		must(t, err)
		defer n.Close()
		for _, a := range n.Addrs() {
			if f := strings.Split(a, "/"); len(f) > 4 && f[3] == "tcp" {
				out = append(out, f[4])
			}
		}
		return out
	}
	first, second := ports(), ports()
	if len(first) == 0 || len(second) == 0 || first[0] != second[0] {
		t.Errorf("listened on %v, then on %v", first, second)
	}
}

func TestAnnouncedAddressesComeFirst(t *testing.T) {
	n := openNode(t, func(c *Config) { c.Announce = []string{"/dns4/example.org/tcp/4001"} })
	if a := n.Addrs(); len(a) == 0 || !strings.HasPrefix(a[0], "/dns4/example.org/tcp/4001/p2p/") {
		t.Error(a)
	}
}

func TestNegativeLimitsAreRefused(t *testing.T) {
	for _, c := range []Config{{InFlight: -1}, {Buffers: -1}, {UploadRate: -1}, {DownloadRate: -1}} {
		c.Dir, c.Listen = t.TempDir(), loopback
		if n, err := Open(t.Context(), c); err == nil {
			n.Close()
			t.Errorf("%+v was taken", c)
		}
	}
}

// Every number of the configuration has a range, and a value outside it is refused
// with the name of the field.
func TestEveryFieldHasARange(t *testing.T) {
	var walk func(path string, index []int, typ reflect.Type)
	fields := 0
	try := func(path string, index []int, set func(reflect.Value)) {
		var c Config
		set(reflect.ValueOf(&c).Elem().FieldByIndex(index))
		err := c.Validate()
		if err == nil {
			t.Errorf("%s: nonsense is taken", path)
		} else if name := path[strings.LastIndex(path, ".")+1:]; !strings.Contains(err.Error(), name+" is ") {
			t.Errorf("%s: the error does not name it: %v", path, err)
		}
	}
	walk = func(path string, index []int, typ reflect.Type) {
		for i := range typ.NumField() {
			f := typ.Field(i)
			path, index := path+f.Name, append(slices.Clone(index), i)
			switch f.Type.Kind() {
			case reflect.Struct:
				if f.Name != "Simulation" {
					walk(path+".", index, f.Type)
				}
			case reflect.Int, reflect.Int64:
				fields++
				try(path, index, func(v reflect.Value) { v.SetInt(math.MaxInt64) })
			case reflect.Float64:
				fields++
				try(path, index, func(v reflect.Value) { v.SetFloat(math.NaN()) })
				try(path, index, func(v reflect.Value) { v.SetFloat(math.Inf(1)) })
			}
		}
	}
	walk("", nil, reflect.TypeFor[Config]())
	if fields < 50 {
		t.Errorf("only %d fields were looked at", fields)
	}
	for _, c := range []Config{{Leases: leasemgr.Config{LeaseDuration: -time.Second}}, {Ranking: peers.RankingConfig{RankingDecay: -1}}, {Uploads: peers.UploadConfig{Slots: -1}}, {P2P: p2p.Config{Streams: -1}}, {Fleet: Fleet{Settle: -1}}} {
		if c.Validate() == nil {
			t.Errorf("a negative value is taken: %+v", c)
		}
	}
	if err := (FetchOptions{Stall: -time.Second}).validate(); err == nil || !strings.Contains(err.Error(), "Stall is -1s: it must be from 1 ms to 366 d") {
		t.Error(err)
	}
	if err := (FetchOptions{Stall: 366*24*time.Hour + time.Minute}).validate(); err == nil || !strings.Contains(err.Error(), "Stall is 8784h1m0s: ") {
		t.Error(err) // in words it would be the longest that is taken
	}
}

func TestASmallBudgetSlowsButDoesNotStop(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "f.bin")
	writeRandom(t, src, 8<<20, 1)
	s := shareOf(t, src)
	for _, n := range []*Node{
		openNode(t, func(c *Config) { c.InFlight = 128 << 10 }),
		openNode(t, func(c *Config) { c.Buffers = 2 }),
	} {
		if _, err := fetchInto(t, n, s.Ticket(), t.TempDir(), FetchOptions{Verifiers: 1}); err != nil {
			t.Error(err)
		}
	}
}

func TestUploadRateHolds(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "f.bin")
	writeRandom(t, src, 4<<20, 1)
	s := shareOf(t, src, func(c *Config) { c.UploadRate = 4 << 20 })
	began := time.Now()
	if _, err := fetchInto(t, openNode(t), s.Ticket(), t.TempDir(), FetchOptions{}); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 500*time.Millisecond {
		t.Errorf("4 MiB at 4 MiB/s took %v", took)
	}
	s.node.SetUploadRate(0)
	began = time.Now()
	if _, err := fetchInto(t, openNode(t), s.Ticket(), t.TempDir(), FetchOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Logf("without a limit: %v", time.Since(began))
}

// What may be set while the node runs is what Config may have.
func TestUploadRatesAreNeverTooLow(t *testing.T) {
	for rate, want := range map[int64]int64{-5: 0, 0: 0, 1: 1024, 1023: 1024, 1025: 1025} {
		if got := uploadRate(rate); got != want || (Config{UploadRate: got}).Validate() != nil {
			t.Errorf("%d is %d, want %d", rate, got, want)
		}
	}
}

func TestDownloadRateHolds(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "f.bin")
	writeRandom(t, src, 4<<20, 1)
	s := shareOf(t, src)
	slow := openNode(t, func(c *Config) { c.DownloadRate = 4 << 20 })
	began := time.Now()
	if _, err := fetchInto(t, slow, s.Ticket(), t.TempDir(), FetchOptions{}); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 700*time.Millisecond {
		t.Errorf("4 MiB at 4 MiB/s took %v", took)
	}
	slow.SetDownloadRate(1 << 20)
	tr, err := slow.Fetch(t.Context(), s.Ticket(), FetchOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	began = time.Now()
	time.AfterFunc(700*time.Millisecond, func() { slow.SetDownloadRate(0) })
	if err := tr.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 700*time.Millisecond {
		t.Errorf("4 MiB at 1 MiB/s took %v", took)
	}
}

func TestStallEndsAFetch(t *testing.T) {
	t.Parallel()
	n := openNode(t)
	began := time.Now()
	// A peer that exists and never answers: a listener that is not a libp2p host.
	dead := silentPeer(t)
	_, err := fetchInto(t, n, someID(t), t.TempDir(), FetchOptions{Peers: []string{dead}, Stall: time.Second})
	if !errors.Is(err, share.ErrNetwork) && !errors.Is(err, share.ErrStalled) {
		t.Errorf("got %v", err)
	}
	if took := time.Since(began); took > 30*time.Second { // the default is a minute
		t.Errorf("took %v", took)
	}
}

func TestKeepServesWhatWasFetched(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "f.bin")
	writeRandom(t, src, 2<<20, 1)
	s := shareOf(t, src)
	b := openNode(t)
	_, err := fetchInto(t, b, s.Ticket(), t.TempDir(), FetchOptions{Keep: true})
	must(t, err)
	must(t, s.Stop(t.Context()))
	if _, err := fetchInto(t, openNode(t), s.ID().String(), t.TempDir(), FetchOptions{Peers: b.Addrs()}); err != nil {
		t.Error("with Keep:", err)
	}
	if _, err := b.StopSharing(t.Context(), s.ID()); err != nil {
		t.Error(err)
	}
	if _, err := fetchInto(t, openNode(t), s.ID().String(), t.TempDir(), FetchOptions{Peers: b.Addrs()}); !errors.Is(err, share.ErrNotFound) {
		t.Errorf("after StopSharing: %v", err)
	}
}

func TestAnonymousFetchersAreNotNamed(t *testing.T) {
	rig.OnlyLong(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "f.bin")
	writeRandom(t, src, 16<<20, 1)
	for _, anonymous := range []bool{false, true} {
		t.Run(fmt.Sprint(anonymous), func(t *testing.T) {
			t.Parallel()
			s := shareOf(t, src, func(c *Config) { c.UploadRate = 8 << 20 })
			b := openNode(t)
			bx, err := b.Fetch(t.Context(), s.Ticket(), FetchOptions{Dir: t.TempDir(), Anonymous: anonymous})
			must(t, err)
			for e := range bx.Events(t.Context()) {
				if p, ok := e.(Progress); ok && p.Done > 0 {
					break
				}
			}
			x, err := fetchInto(t, openNode(t), s.Ticket(), t.TempDir(), FetchOptions{Anonymous: true})
			must(t, err)
			if named := len(x.Progress().Sources) > 1; named == anonymous {
				t.Errorf("sources %+v", x.Progress().Sources)
			}
			must(t, bx.Wait(t.Context()))
		})
	}
}

func TestMaxSourcesHolds(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "f.bin")
	writeRandom(t, src, 4<<20, 1)
	a, b := shareOf(t, src), shareOf(t, src)
	x, err := fetchInto(t, openNode(t), a.ID().String(), t.TempDir(),
		FetchOptions{Peers: append(a.node.Addrs(), b.node.Addrs()...), MaxSources: 1})
	must(t, err)
	used := 0
	for _, s := range x.Progress().Sources {
		if s.Bytes > 0 {
			used++
		}
	}
	if used != 1 {
		t.Errorf("%d sources were used", used)
	}
}

func TestTheLoggerIsUsed(t *testing.T) {
	t.Parallel()
	src := filepath.Join(t.TempDir(), "f.bin")
	writeRandom(t, src, 1<<20, 1)
	var b rig.Buffer
	s := shareOf(t, src, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&b, nil)) })
	writeRandom(t, src, 1<<20+1, 2)
	_, err := openNode(t).Fetch(t.Context(), s.Ticket(), FetchOptions{Dir: t.TempDir()})
	must(t, err)
	<-s.Done() // as soon as it was asked for a block
	if !strings.Contains(b.String(), "no longer offered") {
		t.Errorf("log: %q", b.String())
	}
}
