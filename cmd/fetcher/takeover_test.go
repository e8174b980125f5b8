package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
)

// TestTakeovers is run by hand: TAKEOVERS=20 go test -run Takeovers -v -timeout 1h ./cmd/fetcher. It kills
// the coordinator of four processes that many times and prints how long it took until another
// was elected, and until that leased something. Each second time the one that was killed is
// back after a second; otherwise the next coordinator waits for it in vain.
func TestTakeovers(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("TAKEOVERS"))
	if n == 0 {
		t.Skip("TAKEOVERS=20: minutes")
	}
	src := filepath.Join(t.TempDir(), "big.bin")
	rig.WriteRandom(t, src, n<<24, 7)
	origin := startShare(t, src, "--limit-up", "1M")
	m := newMachines(t, 4)
	m.with = []string{"--log-level", "info"} // the usual heartbeat
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	must(t, err)
	defer log.Close()
	m.stderr = log
	for i := range m.runs {
		m.start(i)
	}
	if r := inDir(t, m.dirs[1], "fleet", "add", origin.ticket); r.code != 0 {
		t.Fatalf("add: %s", r.stderr)
	}
	said := func(what string, after uint64) (term uint64, at time.Time) { // the first line with a later term
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			b, err := os.ReadFile(log.Name())
			must(t, err)
			for line := range strings.Lines(string(b)) {
				if f := logged.FindStringSubmatch(line); f != nil && f[2] == what {
					if term, err = strconv.ParseUint(f[3], 10, 64); err == nil && term > after {
						at, err = time.Parse(time.RFC3339Nano, f[1])
						must(t, err)
						return term, at
					}
				}
			}
		}
		t.Fatalf("nobody %s in a term after %d", what, after)
		return 0, time.Time{}
	}
	const coordinates, leases = "coordinates", "begins to lease pieces"
	term, _ := said(leases, 0)
	var elected, back, away []time.Duration
	for i := range n {
		_, each := m.status()
		share, _ := m.status()
		victim := slices.IndexFunc([]string{"machinea", "machineb", "machinec", "machined"}, func(name string) bool { return each[name].Peer == share.Coordinator })
		if victim < 0 {
			t.Fatalf("%+v coordinates, none of %+v", share, each)
		}
		killed := time.Now()
		m.kill(victim)
		if i%2 == 0 {
			time.Sleep(time.Second)
			m.start(victim)
		}
		_, at := said(coordinates, term)
		elected = append(elected, at.Sub(killed))
		next, at := said(leases, term)
		if term = next; i%2 == 0 {
			back = append(back, at.Sub(killed))
		} else {
			away = append(away, at.Sub(killed))
			m.start(victim)
		}
		time.Sleep(3 * time.Second)
	}
	for _, x := range []struct {
		what string
		took []time.Duration
	}{{"another is elected", elected}, {"it leases, the old one is back after 1 s", back}, {"it leases, the old one is away", away}} {
		slices.Sort(x.took)
		if k := len(x.took); k > 0 {
			fmt.Printf("%-42s %2d times: from %.2f s, median %.2f s, to %.2f s\n", x.what, k, x.took[0].Seconds(), x.took[k/2].Seconds(), x.took[k-1].Seconds())
		}
	}
	if slices.Max(elected) > 4*time.Second {
		t.Error("a takeover takes at most two heartbeats of 2 s")
	}
}

var logged = regexp.MustCompile(`time=(\S+) level=INFO msg="?(coordinates|begins to lease pieces)"? .*term=(\d+)`)
