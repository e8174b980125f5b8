//go:build linux

package bench

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
)

// httpsServe prints a URL at an address and serves a file below it until standard
// input ends.
func httpsServe(addr, file string) error {
	signal.Ignore(syscall.SIGTERM) // to ip, which started it, that is another program's
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, file) }))
	s.Listener.Close()
	s.Listener, s.TLS = l, &tls.Config{MinVersion: tls.VersionTLS13}
	s.StartTLS()
	defer s.Close()
	fmt.Println(s.URL)
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// A source 100 ms away: the round trips of one byte, and 48 MiB at 100 Mbit/s beside curl.
func BenchmarkFarAway(tb *testing.B) {
	const trip = 100 * time.Millisecond
	size, rounds := cfg.sizeOr(48<<20), cfg.roundsOr(5)
	b := begin(tb, size, fmt.Sprintf("fetch of 1 byte and of %d MiB at 100 Mbit/s and %v, %d interleaved rounds", size>>20, trip, rounds))
	bin := b.bin()
	if bin == "" {
		tb.Skip("nothing to measure")
	}
	makeFile(tb, b.src, size)
	one := filepath.Join(b.scratchDir("one"), "f")
	makeFile(tb, one, 1)
	b.warmth = newBallast(tb, size)
	r := rig.New(tb, rig.Path{Mbit: 100, Delay: trip / 2, Queue: 200 * time.Millisecond, MTU: 1500})
	at := func(end int, name string, args ...string) *proc {
		return start(tb, []string{"BENCH_ROLE=https-serve"}, "ip", append([]string{"netns", "exec", r.Ends[end], name}, args...)...)
	}
	far := func(row, src, listen string) {
		s := at(1, bin, "share", src, "--listen", listen, "--dir", b.scratchDir("state"))
		ticket := s.line()
		out, state := b.scratchDir("out"), b.scratchDir("state")
		b.receive(row, out, []*proc{s}, func() *proc {
			return at(0, bin, "fetch", ticket, "-o", out, "--json", "--listen", "none", "--dir", state)
		}, func(p *proc) {
			summarize(tb, p)
			same(b, src, filepath.Join(out, filepath.Base(src)))
		})
	}
	rows := []func(){
		func() { far("1 byte, TCP", one, "/ip4/10.77.0.2/tcp/4001") },
		func() { far("1 byte, QUIC", one, "/ip4/10.77.0.2/udp/4001/quic-v1") },
		func() { far("fetcher", b.src, "/ip4/10.77.0.2/tcp/4001") },
	}
	if _, err := exec.LookPath("curl"); err == nil {
		rows = append(rows, func() {
			b.peersRow("curl, TLS", func() *proc { return at(1, self, "10.77.0.2:4002", b.src) }, func(url, out string) *proc {
				return at(0, "curl", "-sSk", "-o", filepath.Join(out, "f"), url)
			})
		})
	}
	for i := range rounds {
		for k := range rows {
			rows[(i+k)%len(rows)]()
		}
	}
	b.rows.print(os.Stdout)
	for _, row := range []string{"1 byte, TCP", "1 byte, QUIC"} {
		fmt.Printf("  %s: %s round trips\n", row, spreadOf(each(b.rows.runs[row], func(r run) float64 { return seconds(r) / trip.Seconds() })).text("%.1f"))
	}
	if b.rows.runs["curl, TLS"] != nil {
		goal(os.Stdout, "time, fetcher / curl", b.rows.ratio("fetcher", "curl, TLS", seconds), true, 1.05)
	}
	tb.ReportMetric(0, "ns/op")
}
