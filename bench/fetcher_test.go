//go:build linux

package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// fetcherBinary builds the command, once. Empty: the build failed.
var fetcherBinary = sync.OnceValues(func() (string, error) {
	if cfg.fetcher != "" {
		return filepath.Abs(cfg.fetcher)
	}
	bin := filepath.Join(scratch, "fetcher")
	cmd := exec.Command("go", "build", "-o", bin, "./cmd/fetcher")
	cmd.Dir = ".." // the module's root; tests run in their package's directory
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./cmd/fetcher: %w\n%s", err, out)
	}
	return bin, nil
})

// source is one running fetcher share.
type source struct {
	*proc
	ticket string
}

// share runs fetcher share until it prints its ticket. state is its state
// directory: with one that has seen path, nothing is hashed.
func share(tb testing.TB, bin, path, state string) source {
	tb.Helper()
	p := start(tb, nil, bin, "share", path, "--listen", "/ip4/127.0.0.1/tcp/0", "--dir", state)
	return source{p, p.line()}
}

var address = regexp.MustCompile(`(/ip4/127\.0\.0\.1/tcp/\d+)\s+peer\s+(/p2p/\w+)`)

// addr is the source's address, as printed for people.
func (s source) addr() string {
	s.tb.Helper()
	for range 100 {
		if m := address.FindStringSubmatch(s.said.String()); m != nil {
			return m[1] + m[2]
		}
		time.Sleep(20 * time.Millisecond)
	}
	s.tb.Fatalf("fetcher share names no address:\n%s", s.said.String())
	return ""
}

// fetch starts fetcher fetch.
func fetch(tb testing.TB, bin, ticket, into, state string, more ...string) *proc {
	tb.Helper()
	args := append([]string{"fetch", ticket, "-o", into, "--json", "--listen", "none", "--dir", state}, more...)
	return start(tb, nil, bin, args...)
}

// summary is the last line of fetcher fetch --json.
type summary struct {
	Type      string
	Bytes     int64
	Verified  int64   `json:"verified_bytes"`
	Wire      int64   `json:"wire_bytes"`
	Duplicate int64   `json:"duplicate_bytes"`
	Resumed   int64   `json:"resumed_bytes"`
	Hashed    int64   `json:"hashed_bytes"`
	Seconds   float64 `json:"seconds"`
	Exit      int     `json:"exit"`
}

// summarize reads the last line of a fetch that succeeded.
func summarize(tb testing.TB, p *proc) summary {
	tb.Helper()
	var s summary
	if err := json.Unmarshal([]byte(p.last), &s); err != nil || s.Type != "summary" || s.Exit != 0 {
		tb.Fatalf("the last line is no summary of a success (%v): %s", err, p.last)
	}
	return s
}

// makeFile writes size random bytes.
func makeFile(tb testing.TB, path string, size int64) {
	tb.Helper()
	f, err := os.Create(path)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	from := rand.NewChaCha8([32]byte([]byte(fmt.Sprintf("%-32.32s", filepath.Base(path)))))
	if _, err := io.CopyBuffer(f, io.LimitReader(from, size), make([]byte, 1<<20)); err != nil {
		tb.Fatal(err)
	}
}

// same fails if two files, or two trees, differ. A benchmark of wrong bytes is worthless.
func same(tb testing.TB, a, b string) {
	tb.Helper()
	x, y := make([]byte, 1<<20), make([]byte, 1<<20)
	files := 0
	err := filepath.WalkDir(a, func(p string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		files++
		return sameFile(p, b+strings.TrimPrefix(p, a), x, y)
	})
	if err == nil {
		err = filepath.WalkDir(b, func(_ string, e os.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				files--
			}
			return err
		})
	}
	if err == nil && files != 0 {
		err = fmt.Errorf("%s and %s do not hold the same number of files", a, b)
	}
	if err != nil {
		tb.Fatal(err)
	}
}

func sameFile(a, b string, x, y []byte) error {
	f, err := os.Open(a)
	if err != nil {
		return err
	}
	defer f.Close()
	g, err := os.Open(b)
	if err != nil {
		return err
	}
	defer g.Close()
	for {
		n, err := io.ReadFull(f, x)
		m, errB := io.ReadFull(g, y)
		if n != m || !bytes.Equal(x[:n], y[:m]) {
			return fmt.Errorf("%s and %s differ", a, b)
		}
		if err != nil || errB != nil {
			if (err == io.EOF || err == io.ErrUnexpectedEOF) && err == errB {
				return nil
			}
			return fmt.Errorf("compare %s: %w, %w", a, err, errB)
		}
	}
}
