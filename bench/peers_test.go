//go:build linux

package bench

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// httpServe prints a URL and serves a file below it until standard input ends.
func httpServe(file string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	sum, err := hashOf(file)
	if err != nil {
		return err
	}
	fmt.Printf("http://%s/%x\n", l.Addr(), sum)
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, file) }))
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func hashOf(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.CopyBuffer(struct{ io.Writer }{h}, f, make([]byte, 1<<20))
	return h.Sum(nil), err
}

// httpFetch fetches a URL that ends in the SHA-256 of its content into a new
// file, hashing it on the way, without a sync.
func httpFetch(url, file string) error {
	r, err := http.Get(url)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.CopyBuffer(struct{ io.Writer }{io.MultiWriter(f, h)}, r.Body, make([]byte, 256<<10)); err != nil {
		return err
	}
	if want := url[strings.LastIndexByte(url, '/')+1:]; fmt.Sprintf("%x", h.Sum(nil)) != want {
		return fmt.Errorf("the bytes are wrong")
	}
	return nil
}

func TestHTTPRowFetchesAndVerifies(t *testing.T) {
	src, out := filepath.Join(t.TempDir(), "f"), filepath.Join(t.TempDir(), "g")
	if err := os.WriteFile(src, bytes.Repeat([]byte("x"), 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	s := child(t, "http-serve", src)
	url := s.line()
	child(t, "http-fetch", url, out).mustWait()
	if a, b := make([]byte, 4096), make([]byte, 4096); sameFile(src, out, a, b) != nil {
		t.Error("other bytes came")
	}
	if u := child(t, "http-fetch", url[:len(url)-1]+"x", out).wait(); u.code == 0 {
		t.Error("wrong bytes passed")
	}
	s.stop()
}

// peersRow measures another program. serve starts its source; fetch is the
// receiver's command for what the source printed.
func (b *benchmark) peersRow(row string, serve func() *proc, fetch func(said, out string) *proc) {
	b.Helper()
	if err := warm(b.src); err != nil {
		b.Fatal(err)
	}
	out := b.scratchDir("out")
	s := serve()
	said := s.line()
	b.receive(row, out, []*proc{s}, func() *proc { return fetch(said, out) }, func(*proc) {
		list, err := os.ReadDir(out)
		if err != nil || len(list) != 1 {
			b.Fatalf("%s left %d files, %v", row, len(list), err)
		}
		same(b.B, b.src, filepath.Join(out, list[0].Name()))
	})
}

func BenchmarkPeers(tb *testing.B) {
	size := cfg.sizeOr(gib)
	rounds := cfg.roundsOr(7)
	b := begin(tb, size, fmt.Sprintf("fetch of %d MiB beside others, %d interleaved rounds", size>>20, rounds))
	makeFile(tb, b.src, size)
	b.warmth = newBallast(tb, size)
	web := func() *proc { return child(tb, "http-serve", b.src) }
	others := map[string]func(){
		"HTTP, SHA-256": func() {
			b.peersRow("HTTP, SHA-256", web, func(url, out string) *proc { return child(tb, "http-fetch", url, filepath.Join(out, "f")) })
		},
		"curl": func() {
			b.peersRow("curl", web, func(url, out string) *proc { return start(tb, nil, "curl", "-sS", "-o", filepath.Join(out, "f"), url) })
		},
		"aria2c": func() {
			b.peersRow("aria2c", web, func(url, out string) *proc {
				sum := "sha-256=" + filepath.Base(url)
				return start(tb, nil, "aria2c", "--no-conf", "-q", "-x4", "-s4", "-k1M", "--file-allocation=none", "--checksum="+sum, "-d", out, "-o", "f", url)
			})
		},
		"anacrolix": func() {
			b.peersRow("anacrolix", func() *proc { return start(tb, nil, cfg.peers, "seed", b.src) }, func(said, out string) *proc {
				torrent, addr, _ := strings.Cut(said, " ")
				return start(tb, nil, cfg.peers, "fetch", torrent, addr, out)
			})
		},
	}
	for _, tool := range []string{"curl", "aria2c"} {
		if _, err := exec.LookPath(tool); err != nil {
			fmt.Printf("  no %s here: %v\n", tool, err)
			delete(others, tool)
		}
	}
	if cfg.peers == "" {
		fmt.Println("  no anacrolix/torrent: BENCH_PEERS is not set (make bench-peers)")
		delete(others, "anacrolix")
	}
	bin, states := b.bin(), []string{b.scratchDir("state")}
	for range rounds {
		b.ceilingRow(1)
		if bin != "" {
			b.fetcherRow(bin, states)
		}
		for _, row := range []string{"HTTP, SHA-256", "curl", "aria2c", "anacrolix"} {
			if f := others[row]; f != nil {
				f()
			}
		}
	}
	b.rows.print(os.Stdout)
	fmt.Println("  over the ceiling of the same round: seconds, CPU of both ends")
	for _, row := range b.rows.names {
		fmt.Printf("  %-14s %-18s %s\n", row, b.rows.ratio(row, "ceiling", seconds).text("%.2f"), b.rows.ratio(row, "ceiling", cpuBoth).text("%.2f"))
	}
	tb.ReportMetric(0, "ns/op")
}
