//go:build linux

package bench

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// uneven is fetches from sources that differ: the cost of a slow, a stopped or an
// odd one. The sources have limits, so that the machine is not the bottleneck.
type uneven struct {
	*benchmark
	bin    string
	states []string // of the sources
	dup    []float64
}

func beginUneven(tb *testing.B, sources int, size int64, title string) *uneven {
	b := &uneven{benchmark: begin(tb, size, title)}
	if b.bin = b.benchmark.bin(); b.bin == "" {
		tb.Skip("nothing to measure")
	}
	makeFile(tb, b.src, size)
	for range sources {
		b.states = append(b.states, b.scratchDir("state"))
	}
	b.warmth = newBallast(tb, size)
	return b
}

// moment is the state of a fetch at a time.
type moment struct {
	at       time.Time
	verified int64
}

// fetchFrom fetches from a source for each rate in bytes per second, and returns
// its progress. during, if not nil, is called with the sources when the
// fetch has begun.
func (b *uneven) fetchFrom(row string, rates []int64, during func([]*proc)) (history []moment, total time.Duration) {
	b.Helper()
	if err := warm(b.src); err != nil {
		b.Fatal(err)
	}
	var procs []*proc
	var peers []string
	ticket := ""
	for i, rate := range rates {
		p := start(b, nil, b.bin, "share", b.src, "--listen", "/ip4/127.0.0.1/tcp/0", "--dir", b.states[i], "--limit-up", strconv.FormatInt(rate, 10))
		s := source{p, p.line()}
		procs = append(procs, p)
		if i == 0 {
			ticket = s.ticket
		} else {
			peers = append(peers, "--peer", s.addr())
		}
	}
	out, state := b.scratchDir("out"), b.scratchDir("state")
	defer os.RemoveAll(state)
	b.receive(row, out, procs, func() *proc {
		p := fetch(b, b.bin, ticket, out, state, peers...)
		if during != nil {
			during(procs)
		}
		p.see = func(s string) {
			var l struct {
				Type     string
				T        time.Time
				Verified int64 `json:"verified_bytes"`
			}
			if json.Unmarshal([]byte(s), &l) == nil && (l.Type == "progress" || l.Type == "summary") {
				history = append(history, moment{l.T, l.Verified})
			}
			if l.Type == "summary" {
				for _, s := range procs {
					s.cmd.Process.Signal(syscall.SIGCONT) // so that it can end
				}
			}
		}
		return p
	}, func(p *proc) {
		sum := summarize(b, p)
		b.dup = append(b.dup, float64(sum.Duplicate)/float64(sum.Bytes))
		total = p.used.wall
		same(b, b.src, filepath.Join(out, filepath.Base(b.src)))
	})
	return history, total
}

func (b *uneven) reportDuplicates() {
	d := spreadOf(b.dup)
	d.median = d.max // the goal is for each time
	goal(os.Stdout, "bytes that came twice / bytes, at worst", d, true, 0.01)
}

const fast = 100e6 // bytes per second of the fast source

// A source of 1 MB/s beside one of 100 MB/s must not hold up the end.
func BenchmarkSlowSourceBesideAFastOne(tb *testing.B) {
	size, rounds := cfg.sizeOr(gib), cfg.roundsOr(5)
	b := beginUneven(tb, 2, size, fmt.Sprintf("fetch of %d MiB from a source of 100 MB/s, alone and beside one of 1 MB/s, %d interleaved rounds", size>>20, rounds))
	for range rounds {
		b.fetchFrom("alone", []int64{fast}, nil)
		b.fetchFrom("with the slow one", []int64{fast, 1e6}, nil)
	}
	b.rows.print(os.Stdout)
	t := b.rows.ratio("with the slow one", "alone", seconds)
	goal(os.Stdout, "time, with the slow one / alone", t, true, 1.1)
	b.reportDuplicates()
	tb.ReportMetric(0, "ns/op")
	tb.ReportMetric(t.median, "time-ratio")
}

// A source that is stopped, as a machine that freezes, at a random moment: its
// connection stays up and nothing more comes.
func BenchmarkStoppedSource(tb *testing.B) {
	size, rounds := cfg.sizeOr(gib), cfg.roundsOr(7)
	b := beginUneven(tb, 2, size, fmt.Sprintf("fetch of %d MiB from a source of 100 MB/s, alone and beside one of 50 MB/s that is stopped at a random moment, %d interleaved rounds", size>>20, rounds))
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	for range rounds {
		_, alone := b.fetchFrom("alone", []int64{fast}, nil)
		wait := time.Duration(rng.Float64() * 0.7 * float64(alone)) // together they take two thirds
		_, took := b.fetchFrom("one is stopped", []int64{fast, fast / 2}, func(sources []*proc) {
			time.AfterFunc(wait, func() { sources[1].cmd.Process.Signal(syscall.SIGSTOP) })
		})
		fmt.Printf("  stopped after %.2f s: %.2f s, alone %.2f s, %.4f came twice\n", wait.Seconds(), took.Seconds(), alone.Seconds(), b.dup[len(b.dup)-1])
	}
	b.rows.print(os.Stdout)
	t := b.rows.ratio("one is stopped", "alone", seconds)
	goal(os.Stdout, "time, one stopped / alone", t, true, 1.15)
	b.reportDuplicates()
	tb.ReportMetric(0, "ns/op")
	tb.ReportMetric(t.median, "time-ratio")
}

// The last hundredth of a fetch from sources of random rates must not wait for the
// slowest of them.
func BenchmarkLastHundredth(tb *testing.B) {
	size, rounds := cfg.sizeOr(gib/2), cfg.roundsOr(7)
	b := beginUneven(tb, 5, size, fmt.Sprintf("fetch of %d MiB from 5 sources of 1 to 30 MB/s, %d rounds", size>>20, rounds))
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	var last, ended []float64
	for range rounds {
		var rates []int64
		for range 5 {
			rates = append(rates, 1e6+rng.Int64N(29e6))
		}
		history, took := b.fetchFrom("five", rates, nil)
		tail, end := tailOf(history, size)
		last, ended = append(last, tail.Seconds()/took.Seconds()), append(ended, (tail+end).Seconds()/took.Seconds())
		fmt.Printf("  rates %v: %.2f s, the last hundredth %.2f s and %.2f s to the end, %.4f came twice\n", rates, took.Seconds(), tail.Seconds(), end.Seconds(), b.dup[len(b.dup)-1])
	}
	b.rows.print(os.Stdout)
	t := spreadOf(last)
	goal(os.Stdout, "time of the last hundredth / time", t, true, 0.03)
	fmt.Printf("  with the last sync and the rename %s\n", spreadOf(ended).text("%.3f"))
	b.reportDuplicates()
	tb.ReportMetric(0, "ns/op")
	tb.ReportMetric(t.median, "last-hundredth")
}

// tailOf is the time from 99 % of size to all of it, and from there to the end.
func tailOf(history []moment, size int64) (tail, end time.Duration) {
	var before, all moment
	var from time.Time
	edge := size - size/100
	for _, m := range history {
		if m.verified >= edge && from.IsZero() {
			from = m.at
			if before.verified > 0 { // between two lines
				part := float64(edge-before.verified) / float64(m.verified-before.verified)
				from = before.at.Add(time.Duration(part * float64(m.at.Sub(before.at))))
			}
		}
		if m.verified == size {
			all = m
			break
		}
		before = m
	}
	if all.at.IsZero() {
		return 0, 0
	}
	return all.at.Sub(from), history[len(history)-1].at.Sub(all.at)
}
