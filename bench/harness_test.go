//go:build linux

package bench

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
)

func TestRowsRunAndAreMeasured(t *testing.T) {
	const size = 8 << 20
	out := filepath.Join(t.TempDir(), "out")
	s := child(t, "ceiling-serve")
	addr := s.line()
	before := s.wrote()
	u := child(t, "ceiling-fetch", addr, out, strconv.Itoa(size)).mustWait()
	if sent := s.wrote() - before; sent < size || sent > size+size/10 {
		t.Errorf("a source that sent %d bytes wrote %d to its sockets", size, sent)
	}
	if u.cpu == 0 || u.wall == 0 || u.anon == 0 {
		t.Errorf("the receiver used nothing: %+v", u)
	}
	if info, err := os.Stat(out); err != nil || info.Size() != size {
		t.Errorf("the file: %v, %v", info, err)
	}
	if u := s.stop(); u.cpu == 0 {
		t.Errorf("the source used nothing: %+v", u)
	}
	s = child(t, "tls-serve")
	child(t, "tls-fetch", s.line(), strconv.Itoa(size)).mustWait()
	s.stop()
}

func TestCeilingTakesFromSeveralSources(t *testing.T) {
	rig.Slow(t)
	var addrs []string
	for range 4 {
		addrs = append(addrs, child(t, "ceiling-serve").line())
	}
	child(t, "ceiling-fetch", strings.Join(addrs, ","), filepath.Join(t.TempDir(), "out"), "4194304").mustWait()
}

func TestMadeTreeIsCompared(t *testing.T) {
	rig.Slow(t)
	a, b := t.TempDir(), t.TempDir()
	for _, d := range []string{a, b} {
		child(t, "write", d, "150", "5000").mustWait()
	}
	x, y := make([]byte, 4096), make([]byte, 4096)
	same(t, a, b)
	one := filepath.Join(b, smallFile(149))
	if err := os.WriteFile(one, make([]byte, 5000), 0o644); err != nil {
		t.Fatal(err)
	}
	if sameFile(filepath.Join(a, smallFile(149)), one, x, y) == nil {
		t.Error("a changed file passed")
	}
	if err := os.Truncate(one, 4096); err != nil {
		t.Fatal(err)
	}
	if sameFile(filepath.Join(a, smallFile(149)), one, x, y) == nil {
		t.Error("a cut file passed")
	}
}

func TestProcessThatFailsIsNoticed(t *testing.T) {
	p := child(t, "tls-fetch", "127.0.0.1:1", "1")
	if u := p.wait(); u.code != 1 || !strings.Contains(p.said.String(), "refused") {
		t.Errorf("got %+v, %q", u, p.said.String())
	}
}

func TestBallastLetsGoOfWhatIsAskedAndNoMore(t *testing.T) {
	b := &ballast{}
	b.take(t, 6*releaseStep)
	for _, c := range []struct{ total, held int64 }{{0, 6}, {releaseStep - 1, 6}, {releaseStep, 5}, {3*releaseStep + 5, 3}, {2 * releaseStep, 3}, {99 * releaseStep, 0}} {
		b.release(c.total)
		if want := int(c.held * releaseStep); b.held != want {
			t.Errorf("after %d: %d held, not %d", c.total, b.held, want)
		}
	}
}

func TestConfigReadsTheEnvironment(t *testing.T) {
	env := func(kv ...string) func(string) string {
		return func(k string) string {
			for i := 0; i < len(kv); i += 2 {
				if kv[i] == k {
					return kv[i+1]
				}
			}
			return ""
		}
	}
	c, err := configFrom(env())
	if err != nil || c.sizeOr(5) != 5 || c.roundsOr(7) != 7 || c.files != 10_000 || c.hot || c.dir != os.TempDir() || c.ceiling != best {
		t.Errorf("nothing set: %+v, %v", c, err)
	}
	c, err = configFrom(env("BENCH_SIZE", "512MiB", "BENCH_ROUNDS", "3", "BENCH_FILES", "20", "BENCH_DIR", "/x",
		"BENCH_HOT", "1", "BENCH_FETCHER", "/y", "BENCH_CEILING", `{"Procs":2}`))
	want := best
	want.Procs = 2
	if err != nil || c.sizeOr(5) != 512<<20 || c.roundsOr(7) != 3 || c.files != 20 || !c.hot || c.dir != "/x" || c.fetcher != "/y" || c.ceiling != want {
		t.Errorf("all set: %+v, %v", c, err)
	}
	for _, kv := range [][]string{{"BENCH_SIZE", "x"}, {"BENCH_SIZE", "0"}, {"BENCH_SIZE", "-1GiB"}, {"BENCH_SIZE", "99999TiB"},
		{"BENCH_ROUNDS", "0"}, {"BENCH_FILES", "many"}, {"BENCH_CEILING", "{"}} {
		if _, err := configFrom(env(kv...)); err == nil || !strings.Contains(err.Error(), kv[0]) {
			t.Errorf("%v: %v", kv, err)
		}
	}
	if n, _ := parseSize("1"); n != sizeStep {
		t.Errorf("1 byte became %d", n)
	}
}

func TestMediansAndRatios(t *testing.T) {
	if got := spreadOf([]float64{5, 1, 3}); got != (spread{3, 1, 5}) {
		t.Error(got)
	}
	if got := spreadOf([]float64{4, 1, 3, 2}).text("%.1f"); got != "2.5 (1.0-4.0)" {
		t.Error(got)
	}
	var rs rows
	for i := range 3 {
		rs.add("a", run{payload: gib, wall: time.Duration(i+1) * time.Second, recv: 2 * time.Second, send: time.Second})
		rs.add("b", run{payload: gib, wall: 2 * time.Second, recv: time.Second, send: 5 * time.Second})
	}
	if got := rs.ratio("a", "b", seconds); got != (spread{1, 0.5, 1.5}) {
		t.Error(got)
	}
	if got := rs.ratio("a", "b", cpuBoth).median; got != 0.5 {
		t.Error(got)
	}
	var out strings.Builder
	rs.print(&out)
	goal(&out, "x", spread{1, 1, 1}, true, 1)
	goal(&out, "y", spread{1, 1, 1}, false, 2)
	for _, want := range []string{"1074", "3.00", "x  ", ": met", ": MISSED"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}
