//go:build linux

package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	gib       = 1 << 30
	smallSize = 100 << 10
)

// benchmark is the state that the transfers of one benchmark share.
type benchmark struct {
	*testing.B
	dir    string // for output; removed at the end
	src    string // what is fetched
	size   int64  // its bytes
	warmth *ballast
	rows   rows
	keep   bool // outputs stay until the end, as many deleted files slow down making new ones
	n      int  // of outputs so far
}

// begin prints the heading. src is where the caller makes what is to be fetched.
func begin(b *testing.B, size int64, title string) *benchmark {
	b.Helper()
	dir, err := os.MkdirTemp(scratch, "")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	fmt.Printf("\n%s\n", title)
	return &benchmark{B: b, dir: dir, src: filepath.Join(dir, "source"), size: size}
}

// bin is the command to measure; without one, the benchmark goes without its rows.
func (b *benchmark) bin() string {
	bin, err := fetcherBinary()
	if err != nil {
		fmt.Printf("  no fetcher to measure: %v\n", err)
	}
	return bin
}

// scratchDir is a new directory.
func (b *benchmark) scratchDir(what string) string {
	b.n++
	d := filepath.Join(b.dir, fmt.Sprintf("%s-%d", what, b.n))
	if err := os.Mkdir(d, 0o755); err != nil {
		b.Fatal(err)
	}
	return d
}

// receive measures one receiver, from its start to its end, and the sources
// it fetches from, which it stops. out is removed, unless b.keep is set.
func (b *benchmark) receive(row, out string, sources []*proc, receiver func() *proc, check func(*proc)) {
	b.Helper()
	r := run{payload: b.size}
	var cpu []time.Duration
	for _, s := range sources {
		cpu = append(cpu, s.cpu())
		r.wire -= s.wrote()
	}
	p := receiver()
	stop := func() {}
	if out != "" {
		stop = b.warmth.feed(p)
	}
	u := p.wait()
	stop()
	if u.code != 0 {
		b.Fatalf("%s ended with code %d: %s\n%s", row, u.code, p.last, p.said.String())
	}
	r.wall, r.recv, r.recvMem = u.wall, u.cpu, u.anon
	for i, s := range sources {
		r.wire += s.wrote()
		u := s.stop()
		r.send += u.cpu - cpu[i]
		r.sendMem = max(r.sendMem, u.anon)
	}
	if check != nil {
		check(p)
	}
	if out != "" {
		if !b.keep {
			if err := os.RemoveAll(out); err != nil {
				b.Fatal(err)
			}
		}
		b.warmth.fill()
	}
	b.rows.add(row, r)
}

// fetcherRow measures fetcher itself from n sources with the given state directories.
func (b *benchmark) fetcherRow(bin string, states []string) summary {
	b.Helper()
	if err := warm(b.src); err != nil {
		b.Fatal(err)
	}
	out := b.scratchDir("out")
	var procs []*proc
	var peers []string
	ticket := ""
	for _, st := range states {
		s := share(b.B, bin, b.src, st)
		procs = append(procs, s.proc)
		if ticket == "" {
			ticket = s.ticket
		} else {
			peers = append(peers, "--peer", s.addr())
		}
	}
	state := b.scratchDir("state")
	defer os.RemoveAll(state)
	var sum summary
	b.receive("fetcher", out, procs, func() *proc { return fetch(b.B, bin, ticket, out, state, peers...) }, func(p *proc) {
		sum = summarize(b.B, p)
		same(b.B, b.src, filepath.Join(out, filepath.Base(b.src)))
	})
	return sum
}

// ceilingRow measures the bare libp2p stream from n sources.
func (b *benchmark) ceilingRow(n int) {
	b.Helper()
	var procs []*proc
	var addrs []string
	for range n {
		p := child(b.B, "ceiling-serve")
		procs, addrs = append(procs, p), append(addrs, p.line())
	}
	out := b.scratchDir("out")
	b.receive("ceiling", out, procs, func() *proc {
		return child(b.B, "ceiling-fetch", strings.Join(addrs, ","), filepath.Join(out, "file"), strconv.FormatInt(b.size, 10))
	}, nil)
}

// tlsRow measures a bare TLS stream whose bytes are discarded.
func (b *benchmark) tlsRow() {
	b.Helper()
	s := child(b.B, "tls-serve")
	addr := s.line()
	b.receive("bare TLS", "", []*proc{s}, func() *proc {
		return child(b.B, "tls-fetch", addr, strconv.FormatInt(b.size, 10))
	}, nil)
}

var (
	cpuBoth = func(r run) float64 { return (r.recv + r.send).Seconds() }
	cpuRecv = func(r run) float64 { return r.recv.Seconds() }
	cpuSend = func(r run) float64 { return r.send.Seconds() }
	seconds = func(r run) float64 { return r.wall.Seconds() }
)

// large is a fetch of one file from n sources beside the ceiling and bare TLS.
func large(tb *testing.B, sources int, size int64) {
	size = cfg.sizeOr(size)
	rounds := cfg.roundsOr(7)
	b := begin(tb, size, fmt.Sprintf("fetch of %d MiB from %d source(s), %d interleaved rounds", size>>20, sources, rounds))
	bin := b.bin()
	var states []string
	if bin != "" {
		makeFile(tb, b.src, size)
		for range sources {
			states = append(states, b.scratchDir("state"))
		}
	}
	b.warmth = newBallast(tb, size)
	var last summary
	for range rounds {
		b.ceilingRow(sources)
		if bin != "" {
			last = b.fetcherRow(bin, states)
		}
		b.tlsRow()
	}
	b.rows.print(os.Stdout)
	toTLS := b.rows.ratio("ceiling", "bare TLS", run.mbps)
	fmt.Printf("  ceiling/bare TLS MB/s %s in one round; best round against best round %.2f (0.7 is asked of the best)\n",
		toTLS.text("%.2f"), spreadOf(each(b.rows.runs["ceiling"], run.mbps)).max/spreadOf(each(b.rows.runs["bare TLS"], run.mbps)).max)
	tb.ReportMetric(0, "ns/op")
	tb.ReportMetric(toTLS.max, "ceiling/TLS")
	if bin == "" {
		return
	}
	rate, cpu := b.rows.ratio("fetcher", "ceiling", run.mbps), b.rows.ratio("fetcher", "ceiling", cpuBoth)
	fmt.Println("  fetcher/ceiling, medians of the ratios of each round:")
	goal(os.Stdout, "MB/s", rate, false, 0.8)
	goal(os.Stdout, "CPU, both ends", cpu, true, 1.3)
	goal(os.Stdout, "CPU, receiver", b.rows.ratio("fetcher", "ceiling", cpuRecv), true, 1.3)
	goal(os.Stdout, "CPU, sources", b.rows.ratio("fetcher", "ceiling", cpuSend), true, 1.3)
	fmt.Println("  fetcher:")
	mem := func(of func(run) int64) spread {
		s := spreadOf(each(b.rows.runs["fetcher"], func(r run) float64 { return float64(of(r)) / (1 << 20) }))
		s.median = s.max // the goal is for the peak
		return s
	}
	goal(os.Stdout, "peak anonymous MiB, receiver", mem(func(r run) int64 { return r.recvMem }), true, 96)
	goal(os.Stdout, "peak anonymous MiB, source", mem(func(r run) int64 { return r.sendMem }), true, 96)
	goal(os.Stdout, "bytes on the wire / payload", spreadOf(each(b.rows.runs["fetcher"], func(r run) float64 { return float64(r.wire) / float64(r.payload) })), true, 1.02)
	fmt.Printf("  its own summary of the last round: wire_bytes/bytes %.4f, duplicate_bytes %d, seconds %.2f\n",
		float64(last.Wire)/float64(last.Bytes), last.Duplicate, last.Seconds)
	tb.ReportMetric(rate.median, "MB/s-ratio")
	tb.ReportMetric(cpu.median, "CPU-ratio")
}

func BenchmarkOneSource(b *testing.B) { large(b, 1, 4*gib) }

func BenchmarkFourSources(b *testing.B) { large(b, 4, 2*gib) }

func BenchmarkImport(tb *testing.B) {
	size := cfg.sizeOr(gib)
	rounds := cfg.roundsOr(7)
	b := begin(tb, size, fmt.Sprintf("import of %d MiB until the ticket is there, %d interleaved rounds; \"recv\" is the importer", size>>20, rounds))
	bin := b.bin()
	makeFile(tb, b.src, size)
	for range rounds {
		if err := warm(b.src); err != nil {
			tb.Fatal(err)
		}
		b.receive("BLAKE3", "", nil, func() *proc { return child(tb, "hash", b.src) }, nil)
		if bin == "" {
			continue
		}
		state := b.scratchDir("state")
		s := share(tb, bin, b.src, state)
		r := run{payload: size, wall: time.Since(s.began), recv: s.cpu()}
		r.recvMem = s.stop().anon
		b.rows.add("fetcher", r)
		os.RemoveAll(state)
	}
	b.rows.print(os.Stdout)
	tb.ReportMetric(0, "ns/op")
	if bin != "" {
		t := b.rows.ratio("fetcher", "BLAKE3", seconds)
		fmt.Printf("  fetcher/BLAKE3: time %s, CPU %s\n", t.text("%.2f"), b.rows.ratio("fetcher", "BLAKE3", cpuBoth).text("%.2f"))
		tb.ReportMetric(t.median, "time-ratio")
	}
}

func BenchmarkSmallFiles(tb *testing.B) {
	size := int64(cfg.files) * smallSize
	rounds := cfg.roundsOr(5)
	b := begin(tb, size, fmt.Sprintf("%d files of %d KiB from one source, %d interleaved rounds; raw is writing them from memory, with one sync", cfg.files, smallSize>>10, rounds))
	b.keep = true
	bin := b.bin()
	var states []string
	if bin != "" {
		if err := writeFiles(b.src, cfg.files, smallSize); err != nil {
			tb.Fatal(err)
		}
		states = append(states, b.scratchDir("state"))
	}
	b.warmth = newBallast(tb, size)
	var last summary
	for range rounds {
		out := b.scratchDir("raw")
		b.receive("raw", out, nil, func() *proc {
			return child(tb, "write", out, strconv.Itoa(cfg.files), strconv.Itoa(smallSize))
		}, nil)
		if bin != "" {
			last = b.fetcherRow(bin, states)
		}
	}
	b.rows.print(os.Stdout)
	tb.ReportMetric(0, "ns/op")
	if bin != "" {
		t := b.rows.ratio("fetcher", "raw", seconds)
		goal(os.Stdout, "time, fetcher/raw", t, true, 2.5)
		fmt.Printf("  its own summary of the last round: wire_bytes/bytes %.4f, duplicate_bytes %d, seconds %.2f\n",
			float64(last.Wire)/float64(last.Bytes), last.Duplicate, last.Seconds)
		tb.ReportMetric(t.median, "time-ratio")
	}
}

func BenchmarkResume(tb *testing.B) {
	size := cfg.sizeOr(gib)
	rounds := cfg.roundsOr(5)
	b := begin(tb, size, fmt.Sprintf("kill -9 at half of %d MiB, then the same command again, %d rounds", size>>20, rounds))
	bin := b.bin()
	if bin == "" {
		tb.Skip("nothing to resume")
	}
	makeFile(tb, b.src, size)
	shareState := b.scratchDir("state")
	b.warmth = newBallast(tb, size)
	b.fetcherRow(bin, []string{shareState}) // what an undisturbed fetch costs on the wire
	clean := b.rows.runs["fetcher"][0].wire
	var twice, lost, first, hashed, rest []float64
	for range rounds {
		if err := warm(b.src); err != nil {
			tb.Fatal(err)
		}
		s := share(tb, bin, b.src, shareState)
		out, state := b.scratchDir("out"), b.scratchDir("state")
		before := s.wrote()
		p := fetch(tb, bin, s.ticket, out, state)
		stop := b.warmth.feed(p)
		killed := killAt(p, size/2)
		stop()
		p.kill()
		middle := s.wrote()

		p = fetch(tb, bin, s.ticket, out, state)
		flowing := make(chan time.Duration, 1)
		go func() {
			for s.wrote() < middle+64<<10 && time.Since(p.began) < time.Minute {
				time.Sleep(time.Millisecond)
			}
			flowing <- time.Since(p.began)
		}()
		u := p.mustWait()
		sum := summarize(tb, p)
		same(tb, b.src, filepath.Join(out, filepath.Base(b.src)))
		twice = append(twice, float64(s.wrote()-before-clean)/(1<<20))
		first = append(first, float64((<-flowing).Milliseconds()))
		again := sum.Hashed - (sum.Bytes - sum.Resumed)
		hashed = append(hashed, float64(again))
		lost = append(lost, float64(killed-sum.Resumed)/(1<<20))
		rest = append(rest, u.wall.Seconds())
		fmt.Printf("  killed at %d MiB verified; resumed with %d MiB, %d bytes hashed again, %d duplicate\n", killed>>20, sum.Resumed>>20, again, sum.Duplicate)
		s.stop()
		os.RemoveAll(out)
		os.RemoveAll(state)
		b.warmth.fill()
	}
	t := spreadOf(twice)
	t.median = t.max // the goal is for each time
	goal(os.Stdout, "MiB fetched twice, at worst", t, true, 16)
	fmt.Printf("  of these, verified and not yet durable %s MiB; the rest was under way\n", spreadOf(lost).text("%.0f"))
	goal(os.Stdout, "bytes hashed again", spreadOf(hashed), true, 0)
	fmt.Printf("  from the start to the first new 64 KiB %s ms; to the end %s s\n", spreadOf(first).text("%.0f"), spreadOf(rest).text("%.2f"))
	tb.ReportMetric(0, "ns/op")
	tb.ReportMetric(t.max, "MiB-twice")
	tb.ReportMetric(slices.Max(first), "ms-to-first-byte")
}

// killAt kills a fetch once it says that n bytes are verified, and returns how many it had then.
func killAt(p *proc, n int64) int64 {
	p.tb.Helper()
	for s := range p.lines {
		var l summary
		if json.Unmarshal([]byte(s), &l) == nil && l.Type == "progress" && l.Verified >= n {
			p.cmd.Process.Kill()
			return l.Verified
		}
	}
	p.wait()
	p.tb.Fatalf("the fetch ended with code %d before it said that half was there:\n%s", p.used.code, p.said.String())
	return 0
}
