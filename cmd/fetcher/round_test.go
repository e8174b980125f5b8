package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/rounds/kvurl"
)

func TestPeriods(t *testing.T) {
	at := func(clock string) time.Time {
		now, err := time.Parse(time.DateTime, clock)
		must(t, err)
		return now
	}
	for _, c := range []struct {
		now   string
		every time.Duration
		lasts time.Duration
		next  string
	}{
		{"2026-11-22 10:00:00", time.Hour, 57 * time.Minute, "2026-11-22 11:00:00"},
		{"2026-11-22 10:10:00", time.Hour, 47 * time.Minute, "2026-11-22 11:00:00"},
		{"2026-11-22 10:30:00", time.Hour, 0, "2026-11-22 11:00:00"},
		{"2026-11-22 10:59:59", time.Hour, 0, "2026-11-22 11:00:00"},
		{"2026-11-22 11:59:59", 24 * time.Hour, 12*time.Hour + time.Second - 72*time.Minute, "2026-11-23 00:00:00"},
		{"2026-11-22 10:00:00", 7 * 24 * time.Hour, 0, "2026-11-23 00:00:00"}, // a Monday
	} {
		lasts, next := period(at(c.now), c.every)
		if lasts != c.lasts || !next.Equal(at(c.next)) {
			t.Errorf("%s every %v: %v, %v", c.now, c.every, lasts, next)
		}
	}
}

// Whoever begins in the second half of a period reads when a round is first asked for.
func TestARoundSaysFromWhen(t *testing.T) {
	fl := roundFlags{name: "job", every: time.Hour}
	began := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	for after, want := range map[time.Duration]string{
		10 * time.Minute: "round job every 60 min, until Ctrl-C",
		56 * time.Minute: "round job every 60 min, from " + stamp(began.Add(time.Hour)) + " on, until Ctrl-C",
	} {
		if got := fl.begun(began.Add(after)); got != want {
			t.Errorf("%v: %q, want %q", after, got, want)
		}
	}
}

// A roundLine is one line of --json of round run and show.
type roundLine struct {
	Type, State, Holder, Outcome, Text, Target string
	Term                                       uint64
	Acquired, Ends                             time.Time
	Counts                                     map[string]int
	Code                                       int
}

// roundCmd runs a command of round, and returns its lines, what it wrote to stderr,
// and its exit code.
func roundCmd(t *testing.T, kv string, args ...string) (lines []roundLine, stderr string, code int) {
	t.Helper()
	stdout, stderr, code := inside(append([]string{"round", args[0], "--json", "--kv", kv}, args[1:]...)...)
	for line := range strings.Lines(stdout) {
		var l roundLine
		must(t, json.Unmarshal([]byte(line), &l))
		lines = append(lines, l)
	}
	return lines, stderr, code
}

func states(lines []roundLine) string {
	var out []string
	for _, l := range lines {
		if l.Type == "round" {
			out = append(out, l.State)
		}
	}
	return strings.Join(out, " ")
}

func newStore(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "rounds.db") }

// show fails unless the round is in that state.
func show(t *testing.T, kv, name, state string) roundLine {
	t.Helper()
	lines, stderr, code := roundCmd(t, kv, "show", name)
	if code != map[bool]int{true: exitNotFound}[state == "never"] || states(lines) != state {
		t.Fatalf("show: exit %d, %+v, want %s: %s", code, lines, state, stderr)
	}
	return lines[1]
}

func TestARoundOnce(t *testing.T) {
	t.Parallel()
	kv := newStore(t)
	script := `echo $FETCHER_ROUND_NAME $FETCHER_ROUND_TERM $FETCHER_ROUND_TOKEN >&2`
	lines, stderr, code := roundCmd(t, kv, "run", "--name", "job", "--every", "1h", "--once", "--holder", "me", "--", "sh", "-c", script)
	if code != 0 || states(lines) != "won completed" || !strings.HasPrefix(stderr, "job 1 0000000000000001-") {
		t.Errorf("exit %d, %s: %s", code, states(lines), stderr)
	}
	show(t, kv, "another", "never")
	rec := show(t, kv, "job", "completed")
	if rec.Term != 1 || rec.Holder != "me" || !strings.HasPrefix(rec.Outcome, "exit status 0") || rec.Ends.Sub(rec.Acquired) != 57*time.Minute {
		t.Errorf("record %+v", rec)
	}
	lines, stderr, code = roundCmd(t, kv, "run", "--name", "job", "--every", "1h", "--once", "--", "sh", "-c", script)
	if code != 0 || states(lines) != "held" || stderr != "" {
		t.Errorf("exit %d, %s: %s", code, states(lines), stderr) // silent, for cron
	}

	for term := uint64(1); term <= 2; term++ { // abandoned, so it is free at once
		lines, stderr, code = roundCmd(t, kv, "run", "--name", "failing", "--every", "1h", "--once", "--", "sh", "-c", "exit 3")
		if code != 1 || states(lines) != "won abandoned" || !strings.Contains(stderr, "sh: exit status 3; the round was abandoned") {
			t.Errorf("exit %d, %s: %s", code, states(lines), stderr)
		}
		if rec := show(t, kv, "failing", "abandoned"); rec.Term != term || rec.Outcome != "sh: exit status 3" {
			t.Errorf("record %+v", rec)
		}
	}
}

func TestRoundShowOnPaper(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	kv := newStore(t)
	s, err := kvurl.Open(t.Context(), kv)
	must(t, err)
	defer s.Close()
	for key, value := range map[string]string{
		"round.v1.running":   `{"term":7,"holder":"a\u001b[31m","run":"r","ttl_ms":3600000,"acquired":"2200-01-01T00:00:00Z"}`,
		"round.v1.late":      `{"term":7,"holder":"a","run":"r","ttl_ms":1000,"acquired":"2020-01-01T00:00:00Z"}`,
		"round.v1.office":    `{"term":7,"holder":"a","run":"r","ttl_ms":1000,"office":true,"acquired":"2020-01-01T00:00:00Z"}`,
		"round.v1.left":      `{"term":7,"holder":"a","run":"r","ttl_ms":1000,"office":true,"acquired":"2020-01-01T00:00:00Z","abandoned":"2020-01-01T00:00:09Z"}`,
		"round.v1.corrupt":   "garbage",
		"pointer.v1.running": `{"term":6,"seq":1,"target":"report-6"}`,
		"pointer.v1.late":    "garbage",
	} {
		_, err := s.Create(t.Context(), key, []byte(value))
		must(t, err)
	}
	for name, says := range map[string][]string{
		"running": {"state     running\n", "a?[31m", "term      7", "latest    report-6 (term 6, sequence 1)"},
		"late":    {"running, but its time is over", "latest    pointer late: what is stored is damaged"},
		"office":  {"state     running, for as long as its holder extends it\n"},
		"left":    {"state     abandoned: whoever asks next gets the round\n"},
		"corrupt": {"corrupt: ", "whoever asks next gets the round"},
	} {
		out := output(t, built(t), "round", "show", name, "--kv", kv)
		for _, want := range says {
			if !strings.Contains(out, want) {
				t.Errorf("%s: no %q in\n%s", name, want, out)
			}
		}
	}
	never := exec.Command(built(t), "round", "show", "never", "--kv", kv)
	if out, err := never.CombinedOutput(); never.ProcessState.ExitCode() != exitNotFound || !strings.Contains(string(out), "nobody has held") {
		t.Errorf("a round that nobody has held: %v, %s", err, out)
	}
	if r := command(t, "round", "list"); r.code != exitNoNode || !strings.Contains(r.stderr, "--kv") {
		t.Errorf("no store was named: exit %d: %s", r.code, r.stderr)
	}
	if out := output(t, built(t), "round", "list", "--kv", kv); !strings.Contains(out, "  corrupt\n") || !strings.Contains(out, "\nover       7 ") || !strings.Contains(out, "  late\n") || !strings.Contains(out, "with its holder ") || !strings.Contains(out, "\nrunning    7 ") {
		t.Errorf("the list of rounds:\n%s", out)
	}
	if rec := show(t, kv, "corrupt", "corrupt"); !strings.Contains(rec.Text, "damaged") {
		t.Errorf("record %+v", rec)
	}
	if lines, _, _ := roundCmd(t, kv, "show", "running"); len(lines) != 4 || lines[2].Type != "pointer" || lines[2].Target != "report-6" {
		t.Errorf("got %+v", lines)
	}
}

func TestRoundMistakes(t *testing.T) {
	t.Parallel()
	kv := newStore(t)
	for want, args := range map[string][]string{
		"--kv":                          {"run", "--name", "x", "--every", "1h", "--", "true"},
		"nats://":                       {"run", "--kv", "http://x/y", "--name", "x", "--every", "1h", "--", "true"},
		"--name":                        {"run", "--kv", kv, "--every", "1h", "--", "true"},
		`not a name: "a/b"; a name has`: {"run", "--kv", kv, "--name", "a/b", "--every", "1h", "--", "true"},
		"--every must be given":         {"run", "--kv", kv, "--name", "x", "--", "true"},
		"--every: it must be from 1 s to 32 d, not 1000h": {"run", "--kv", kv, "--name", "x", "--every", "1000h", "--", "true"},
		"round run needs a command after --":              {"run", "--kv", kv, "--name", "x", "--every", "1h"},
		"no-such-command":                                 {"run", "--kv", kv, "--name", "x", "--every", "1h", "--", "no-such-command"},
		"needs a NAME":                                    {"show", "--kv", kv},
		"there is no command":                             {"stop"},
		`not a name: "a b"; a name`:                       {"show", "--kv", kv, "a b"},
	} {
		if out, says, code := inside(append([]string{"round"}, args...)...); code != exitUsage || !strings.Contains(out+says, want) {
			t.Errorf("%q: exit %d, no %q in %s%s", args, code, want, out, says)
		}
	}
	file := strings.TrimPrefix(kv, "sqlite:")
	for _, reads := range [][]string{{"show", "x"}, {"list"}} {
		if _, stderr, code := roundCmd(t, kv, reads...); code != exitUsage || !strings.Contains(stderr, "there is no store") {
			t.Errorf("%q of no store: exit %d, %s", reads, code, stderr)
		}
		if _, err := os.Stat(file); !os.IsNotExist(err) {
			t.Errorf("%q made a store: %v", reads, err)
		}
	}
	if _, stderr, code := roundCmd(t, kv, "run", "--name", "other", "--every", "1h", "--once", "--", "true"); code != 0 {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	cmd := exec.Command(built(t), "round", "show", "x")
	cmd.Env = append(os.Environ(), "FETCHER_ROUND_KV="+kv)
	if out, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != exitNotFound { // no mistake: the store is found
		t.Errorf("%v: %s", err, out)
	}
}

// A machine that starts before its store waits for that, and for nothing else.
func TestRoundsBeginOnceTheStoreIsThere(t *testing.T) {
	away := fmt.Errorf("%w: no server", rounds.ErrAway)
	for name, c := range map[string]struct {
		says  []error // of each attempt, after the first
		takes time.Duration
		want  error
	}{
		"it comes":           {[]error{away, away, nil}, 3 * askStore, nil},
		"it is another":      {[]error{away, rounds.ErrUnfit}, 2 * askStore, rounds.ErrUnfit},
		"somebody has ended": {[]error{away, away, away, away}, 35 * time.Second, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, end := context.WithCancel(t.Context())
				time.AfterFunc(35*time.Second, end)
				var said bytes.Buffer
				began := time.Now()
				_, err := onceThere(ctx, slog.New(slog.NewTextHandler(&said, nil)), away, func() (kvurl.Store, error) {
					err := c.says[0]
					c.says = c.says[1:]
					return nil, err
				})
				if took := time.Since(began); !errors.Is(err, c.want) || took != c.takes {
					t.Errorf("%v after %v", err, took)
				}
				if n := strings.Count(said.String(), "no round is run here until the store answers"); n != int((c.takes+askStore-1)/askStore) {
					t.Errorf("said %d times:\n%s", n, said.String())
				}
			})
		})
	}
}

// Whoever waits for the store ends as a round that runs does; and a mistake that the store has no part in is not waited with.
func TestARoundThatWaitsEndsWell(t *testing.T) {
	t.Parallel()
	args := []string{"round", "run", "--json", "--kv", fmt.Sprintf("nats://127.0.0.1:%d/rounds", rig.FreePort(t)), "--every", "1h", "--name", "job"}
	for name, c := range map[string]struct {
		more []string
		code int
		says string
	}{
		"it is ended":            {nil, exitOK, `"counts":{},"exit":0,"round":"job","seq":1,"signal":"SIGTERM"`},
		"it does not wait":       {[]string{"--once"}, exitNetwork, "no NATS server answers"},
		"a holder is too long":   {[]string{"--holder", strings.Repeat("x", rounds.MaxHolder+1)}, exitUsage, "the holder needs a name"},
		"the name is too long":   {[]string{"--name", strings.Repeat("x", 129)}, exitUsage, "a name has 1 to 128"},
		"the holder just fits":   {[]string{"--holder", strings.Repeat("x", rounds.MaxHolder)}, exitOK, `"exit":0`},
		"the URL is none at all": {[]string{"--kv", "nats://127.0.0.1"}, exitUsage, "the name of the store"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			var out, says buffer
			ended := make(chan int, 1)
			go func() {
				ended <- run(append(append(slices.Clone(args), c.more...), "--", "true"), strings.NewReader(""), &out, &says, ctx)
			}()
			code := -1
			for waits := false; code < 0; time.Sleep(10 * time.Millisecond) {
				if !waits && strings.Contains(says.String(), "no round is run here until the store answers") {
					waits = true
					cancel(signalled{syscall.SIGTERM})
				}
				select {
				case code = <-ended:
				default:
				}
			}
			if code != c.code || !strings.Contains(out.String()+says.String(), c.says) {
				t.Errorf("exit %d, %s%s", code, out.String(), says.String())
			}
		})
	}
}
