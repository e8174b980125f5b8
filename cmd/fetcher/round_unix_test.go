//go:build unix

package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/rounds/kvurl"
)

// A command that does not end with its round is asked to, and then killed, with all the
// processes that it started.
func TestACommandIsStoppedWhenItsRoundIsOver(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	kv, dir := newStore(t), t.TempDir()
	script := `trap "echo asked >` + dir + `/asked" TERM; (sleep 30; echo late >` + dir + `/late) & while :; do wait; sleep 0.05; done`
	lines, stderr, code := roundCmd(t, kv, "run", "--name", "job", "--every", "16s", "--once", "--", "sh", "-c", script) // a tenth of it to do what it is asked
	if code != 1 || states(lines) != "won abandoned" || !strings.Contains(stderr, "the command was stopped, as its round was about to end") {
		t.Errorf("exit %d, %s: %s", code, states(lines), stderr)
	}
	if _, err := os.Stat(filepath.Join(dir, "asked")); err != nil {
		t.Errorf("it was not asked: %v", err)
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) { // who is killed runs until it has its turn
		pids, _ := exec.Command("pgrep", "-f", dir+"/late").Output()
		if len(bytes.TrimSpace(pids)) == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("it left processes running: %s", pids)
		}
	}
}

func TestCtrlCAbandonsTheRound(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	for _, args := range [][]string{{"--once"}, nil} {
		kv, started := newStore(t), filepath.Join(t.TempDir(), "started")
		cmd := exec.Command(built(t), append(append([]string{"round", "run", "--kv", kv, "--name", "job", "--every", everySoon()}, args...), "--", "sh", "-c", "echo >"+started+"; sleep 600")...)
		must(t, cmd.Start())
		waitFor(t, started)
		must(t, cmd.Process.Signal(syscall.SIGTERM))
		_ = cmd.Wait()
		want := 0
		if args != nil {
			want = exitInterrupted
		}
		if code := cmd.ProcessState.ExitCode(); code != want {
			t.Errorf("%q: exit %d, want %d", args, code, want)
		}
		if rec := show(t, kv, "job", "abandoned"); rec.Outcome != "interrupted" {
			t.Errorf("record %+v", rec)
		}
	}
}

// everySoon is a period in the first half of which we are, for some minutes yet.
func everySoon() string {
	now := time.Now()
	for every := time.Hour; ; every += time.Hour {
		if since := now.Sub(now.Truncate(every)); since < every/2-10*time.Minute {
			return every.String()
		}
	}
}

func waitFor(t *testing.T, path string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not come", path)
		}
	}
}

// ticking are the processes of TestManyProcessesRunOneJob.
type ticking struct {
	t       *testing.T
	kv, log string
	every   time.Duration
	live    map[int]*exec.Cmd
	kills   int
	killed  map[int]uint64 // the terms that they had just then
}

func (k *ticking) start() {
	k.t.Helper()
	cmd := exec.Command(built(k.t), "round", "run", "--kv", k.kv, "--name", "tick", "--every", k.every.String(), "--", "sh", "-c",
		`echo begin $FETCHER_ROUND_TERM $PPID $(date +%s%N) >>`+k.log+`; sleep 1; echo end $FETCHER_ROUND_TERM $PPID 0 >>`+k.log)
	must(k.t, cmd.Start())
	k.live[cmd.Process.Pid] = cmd
}

// kill ends a process as a power cut would.
func (k *ticking) kill(pid int) {
	for _, l := range k.ticks() {
		if l.pid == pid {
			k.killed[pid] = l.term
			if l.what == "end" {
				k.killed[pid] = 0
			}
		}
	}
	must(k.t, k.live[pid].Process.Kill())
	k.live[pid].Wait()
	delete(k.live, pid)
	k.kills++
}

// A tick is a line of the log: a command began or ended.
type tick struct {
	what string
	term uint64
	pid  int
	at   time.Time
}

func (k *ticking) ticks() (out []tick) {
	b, _ := os.ReadFile(k.log)
	for line := range strings.Lines(string(b)) {
		var l tick
		var nanos int64
		if n, _ := fmt.Sscan(line, &l.what, &l.term, &l.pid, &nanos); n == 4 && strings.HasSuffix(line, "\n") {
			l.at = time.Unix(0, nanos)
			out = append(out, l)
		}
	}
	return out
}

// Twenty processes have one job to do, and in each round one of them is killed: the
// one that does it, or any. ROUNDS_PERIODS is how many rounds that goes on.
func TestManyProcessesRunOneJob(t *testing.T) {
	rig.OnlyLong(t)
	t.Parallel()
	periods, want := 4, 0.25 // how busy the machine is must not decide
	if n, err := strconv.Atoi(os.Getenv("ROUNDS_PERIODS")); err == nil {
		periods, want = n, 0.75 // if a kill cost the next round, it would be a half
	}
	dir := t.TempDir()
	k := &ticking{t: t, kv: "sqlite:" + filepath.Join(dir, "rounds.db"), log: filepath.Join(dir, "log"), every: 2 * time.Second, live: map[int]*exec.Cmd{}, killed: map[int]uint64{}}
	defer func() {
		for pid := range k.live {
			k.kill(pid)
		}
	}()
	for range 20 {
		k.start()
	}
	for end := time.Now().Add(time.Minute); len(k.ticks()) == 0 && time.Now().Before(end); time.Sleep(50 * time.Millisecond) { // until they run
	}
	first := time.Now().Truncate(k.every).Add(k.every)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range periods {
		time.Sleep(time.Until(first.Add(time.Duration(i)*k.every + 200*time.Millisecond)))
		k.killOne(rng)
		k.start()
	}
	time.Sleep(time.Until(first.Add(time.Duration(periods) * k.every)))
	ran, terms := map[int64]bool{}, map[uint64]bool{}
	for _, l := range k.ticks() {
		if l.what == "end" && k.killed[l.pid] == l.term && runtime.GOOS == "linux" {
			t.Errorf("the command of term %d outlived its process", l.term)
		}
		if l.what == "begin" {
			if terms[l.term] {
				t.Errorf("term %d ran twice", l.term)
			}
			terms[l.term] = true
			if n := int64(l.at.Sub(first) / k.every); !l.at.Before(first) && n < int64(periods) {
				ran[n] = true
			}
		}
	}
	t.Logf("%d of %d rounds were run, with %d terms; %d processes were killed", len(ran), periods, len(terms), k.kills)
	if float64(len(ran)) < want*float64(periods) {
		t.Errorf("%d of %d rounds were run", len(ran), periods)
	}
}

// killOne kills the process whose command runs, or sometimes any.
func (k *ticking) killOne(rng *rand.Rand) {
	ticks := k.ticks()
	if n := len(ticks); n > 0 && ticks[n-1].what == "begin" && rng.IntN(4) > 0 && k.live[ticks[n-1].pid] != nil {
		k.kill(ticks[n-1].pid)
		return
	}
	for pid := range k.live {
		k.kill(pid)
		return
	}
}

// A machine whose clock is an hour ahead runs the job early: that is harmless, and it
// is named and counted.
func TestAnEarlyRoundIsNamedAndCounted(t *testing.T) {
	t.Parallel()
	built(t) // or no other machine has anybody to wait for
	kv, dir := newStore(t), t.TempDir()
	started, goOn := filepath.Join(dir, "started"), filepath.Join(dir, "go")
	var other sync.WaitGroup
	defer other.Wait()
	other.Go(func() {
		waitFor(t, started)
		s, err := kvurl.Open(t.Context(), kv)
		if err != nil {
			t.Error(err)
			return
		}
		defer s.Close()
		fast, err := rounds.New(s, rounds.Config{Name: "job", Holder: "fast", Run: "r", Clock: func() rounds.Now { return rounds.Now{Wall: time.Now().Add(time.Hour)} }})
		if err == nil {
			_, err = fast.TryAcquire(t.Context(), time.Hour)
		}
		if err != nil {
			t.Error(err)
		}
		must(t, os.WriteFile(goOn, nil, 0o600))
	})
	lines, stderr, code := roundCmd(t, kv, "run", "--name", "job", "--every", "1h", "--once", "--", "sh", "-c", "echo >"+started+"; until [ -e "+goOn+" ]; do sleep 0.01; done")
	if code != 0 || states(lines) != "won overtaken" || !strings.Contains(stderr, "fast") {
		t.Errorf("exit %d, %s: %s", code, states(lines), stderr)
	}
	if n := lines[len(lines)-1].Counts["overtaken"]; n != 1 {
		t.Errorf("counted %d times", n)
	}
	lines, stderr, code = roundCmd(t, kv, "run", "--name", "job", "--every", "1h", "--once", "--", "true")
	if code != 0 || states(lines) != "clock_ahead held" || !strings.Contains(stderr, "set the clock that is wrong") || lines[1].Holder != "fast" {
		t.Errorf("exit %d, %s: %s", code, states(lines), stderr)
	}
}
