//go:build linux

package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// config is the BENCH_* environment; doc.go says what each means.
type config struct {
	size    int64 // 0: each benchmark's own
	rounds  int   // 0: each benchmark's own
	files   int
	dir     string
	hot     bool
	fetcher string
	peers   string // the binary that bench/peers builds; empty: do without
	ceiling ceiling
}

var (
	cfg     config
	self    string // this binary
	scratch string // everything that is written lies below; removed at the end
)

func TestMain(m *testing.M) {
	var err error
	if cfg, err = configFrom(os.Getenv); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if role := os.Getenv("BENCH_ROLE"); role != "" {
		if err := play(role, os.Args[1:]); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", role, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if self, err = os.Executable(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if scratch, err = os.MkdirTemp(cfg.dir, "fetcher-bench-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-interrupted
		os.RemoveAll(scratch) // the children end with us
		os.Exit(130)
	}()
	code := m.Run()
	os.RemoveAll(scratch)
	os.Exit(code)
}

// child starts this binary in a role.
func child(tb testing.TB, role string, args ...string) *proc {
	tb.Helper()
	return start(tb, []string{"BENCH_ROLE=" + role}, self, args...)
}

// play does what this binary does as a child of itself.
func play(role string, args []string) error {
	num := func(i int) int64 {
		n, err := strconv.ParseInt(args[i], 10, 64)
		if err != nil {
			panic(err) // we wrote it
		}
		return n
	}
	switch role {
	case "ceiling-serve":
		return cfg.ceiling.serve()
	case "ceiling-fetch": // ADDR,ADDR... FILE BYTES
		return cfg.ceiling.fetch(strings.Split(args[0], ","), args[1], num(2))
	case "tls-serve":
		return bareTLSServe()
	case "tls-fetch": // ADDR BYTES
		return bareTLSFetch(args[0], num(1))
	case "http-serve": // FILE
		return httpServe(args[0])
	case "http-fetch": // URL FILE
		return httpFetch(args[0], args[1])
	case "https-serve": // ADDR FILE
		return httpsServe(args[0], args[1])
	case "hash": // FILE
		return hashFile(args[0])
	case "write": // DIR FILES BYTES
		return writeFiles(args[0], int(num(1)), int(num(2)))
	}
	return errors.New("no such role")
}

func configFrom(env func(string) string) (config, error) {
	c := config{files: 10_000, dir: env("BENCH_DIR"), hot: env("BENCH_HOT") == "1", fetcher: env("BENCH_FETCHER"), peers: env("BENCH_PEERS"), ceiling: best}
	if c.dir == "" {
		c.dir = os.TempDir()
	}
	var err error
	if s := env("BENCH_SIZE"); s != "" {
		if c.size, err = parseSize(s); err != nil {
			return c, fmt.Errorf("BENCH_SIZE: %w", err)
		}
	}
	for name, to := range map[string]*int{"BENCH_ROUNDS": &c.rounds, "BENCH_FILES": &c.files} {
		if s := env(name); s != "" {
			if *to, err = strconv.Atoi(s); err != nil || *to < 1 {
				return c, fmt.Errorf("%s: %q is not a number from 1 up", name, s)
			}
		}
	}
	if s := env("BENCH_CEILING"); s != "" {
		if err := json.Unmarshal([]byte(s), &c.ceiling); err != nil {
			return c, fmt.Errorf("BENCH_CEILING: %w", err)
		}
	}
	return c, nil
}

// sizeStep is what every size is rounded up to, so that it divides evenly.
const sizeStep = 64 << 20

// parseSize reads "512MiB", "4GiB" or plain bytes.
func parseSize(s string) (int64, error) {
	num, shift := s, 0
	for unit, by := range map[string]int{"KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40} {
		if n, ok := strings.CutSuffix(s, unit); ok {
			num, shift = n, by
		}
	}
	n, err := strconv.ParseInt(num, 10, 64)
	if err != nil || n < 1 || n > 1<<44>>shift {
		return 0, fmt.Errorf("%q is not a size such as 512MiB", s)
	}
	return (n<<shift + sizeStep - 1) / sizeStep * sizeStep, nil
}

func (c config) sizeOr(n int64) int64 {
	if c.size > 0 {
		return c.size
	}
	return n
}

func (c config) roundsOr(n int) int {
	if c.rounds > 0 {
		return c.rounds
	}
	return n
}
