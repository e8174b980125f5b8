package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	actorsystem "github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/internal/rig"
)

// The tests of this file run the command as a person would, in processes of its own, over
// loopback.

// binary is the command: this program under another name, which TestMain knows. To build and link
// it once more would take as long as a tenth of these tests.
var binary string

func TestMain(m *testing.M) {
	if strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe") == "fetcher" {
		main()
	}
	dir, err := os.MkdirTemp("", "fetcher-e2e")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "fetcher")
	if runtime.GOOS == "windows" {
		binary += ".exe"
	}
	if err := linked(binary); err != nil {
		panic(err)
	}
	actorsystem.Lean()
	rig.Together(8)
	if signal.Ignored(syscall.SIGHUP) { // as under nohup: the commands do not inherit what we catch
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	os.Setenv("FETCHER_LAN", "false") // except for the tests that say otherwise
	if os.Getenv("GOGC") == "" {      // hundreds of processes that end soon: an eighth of their time went into collections
		os.Setenv("GOGC", "400")
		debug.SetGCPercent(400)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// built is the path of the command. It skips the test under the race detector, which does not
// watch other processes: such tests prove nothing more with it.
func built(t testing.TB) string {
	t.Helper()
	if rig.Raced {
		t.Skip("in another process")
	}
	return binary
}

// linked makes a file that is this program.
func linked(at string) error {
	self, err := os.Executable()
	if err == nil && os.Link(self, at) != nil {
		err = os.Symlink(self, at) // on another disk
	}
	return err
}

// line is one line of --json.
type line struct {
	V        int    `json:"v"`
	Type     string `json:"type"`
	Seq      int    `json:"seq"`
	Ticket   string `json:"ticket"`
	Share    string `json:"share"`
	Bytes    int64  `json:"bytes"`
	Verified int64  `json:"verified_bytes"`
	Resumed  int64  `json:"resumed_bytes"`
	Hashed   int64  `json:"hashed_bytes"`
	Wire     int64  `json:"wire_bytes"`
	Dup      int64  `json:"duplicate_bytes"`
	Code     int    `json:"code"`
	Name     string `json:"name"`
	Message  string `json:"message"`
	Exit     int    `json:"exit"`
	Reason   string `json:"reason"`
	Why      any    `json:"why"`
	Sources  any    `json:"sources"`
	Peer     string `json:"peer"`
	Root     string `json:"root"`
	Path     string `json:"path"`
	Kind     string `json:"kind"`
	Addrs    []string
	Warnings []string
	Signal   string
	Way      string
	Via      string
	Reach    string
	State    string
	Addr     string
	Seconds  float64
	Replaces []string

	Files      int `json:"files"`
	ShareFiles int `json:"share_files"`
}

// sharing is a running share command.
type sharing struct {
	cmd    *exec.Cmd    // nil in this process
	end    func() error // asks it to end, and waits
	ticket string
	addrs  []string
	id     string
	reach  string
	stderr *buffer
}

// startShare serves path in this process, and ends it with the test.
func startShare(t testing.TB, path string, args ...string) *sharing {
	t.Helper()
	args = shareCommand(t, path, args...).Args[1:]
	ctx, cancel := context.WithCancelCause(context.Background())
	r, w := io.Pipe()
	s, code := &sharing{stderr: new(buffer)}, make(chan int, 1)
	go func() {
		code <- run(args, strings.NewReader(""), w, s.stderr, ctx)
		w.Close()
	}()
	s.end = sync.OnceValue(func() error {
		cancel(signalled{syscall.SIGTERM})
		if c := <-code; c != exitOK {
			return fmt.Errorf("exit %d", c)
		}
		return nil
	})
	s.begun(t, r)
	return s
}

// shareCommand serves path in a process of its own.
func shareCommand(t testing.TB, path string, args ...string) *exec.Cmd {
	t.Helper()
	if !slices.Contains(args, "--listen") {
		args = append(args, "--listen", "/ip4/127.0.0.1/tcp/0")
	}
	return exec.Command(built(t), append([]string{"share", path, "--json", "--dir", t.TempDir()}, args...)...)
}

// startSharing starts a share command with --json, and ends it with the test.
func startSharing(t testing.TB, cmd *exec.Cmd) *sharing {
	t.Helper()
	s := &sharing{cmd: cmd, stderr: new(buffer)}
	cmd.Stderr = s.stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	s.end = func() error {
		if cmd.ProcessState != nil {
			return nil
		}
		cmd.Process.Signal(syscall.SIGTERM)
		return cmd.Wait()
	}
	s.begun(t, out)
	return s
}

// begun waits until it says its ticket.
func (s *sharing) begun(t testing.TB, stdout io.Reader) {
	t.Helper()
	t.Cleanup(func() { s.stop(t) })
	r := bufio.NewReader(stdout)
	for s.ticket == "" {
		b, err := r.ReadBytes('\n')
		if err != nil {
			t.Fatalf("share ended: %v\n%s", err, s.stderr)
		}
		var l line
		if err := json.Unmarshal(b, &l); err != nil {
			t.Fatalf("%q: %v", b, err)
		}
		if l.Type == "share" {
			s.ticket, s.addrs, s.id, s.reach = l.Ticket, l.Addrs, l.Share, l.Reach
		}
	}
	go io.Copy(io.Discard, r) // ends with the share
}

func TestWhatIsServedOnHasATicketOfItsOwn(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	file := filepath.Join(t.TempDir(), "film")
	rig.WriteRandom(t, file, 300_000, 1)
	origin := startShare(t, file)
	serve := func(args ...string) *bufio.Reader {
		cmd := exec.Command(built(t), append([]string{"fetch", origin.ticket, "-o", t.TempDir(), "--dir", t.TempDir(), "--seed", "--listen", "/ip4/127.0.0.1/tcp/0"}, args...)...)
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		t.Cleanup(func() {
			cmd.Process.Kill()
			cmd.Wait()
		})
		return bufio.NewReader(out)
	}
	plain, err := serve().ReadString('\n')
	if err != nil || !strings.HasPrefix(plain, "share") {
		t.Errorf("the first line is %q, %v", plain, err)
	}
	var l line
	for sc := bufio.NewScanner(serve("--json")); l.Type != "share" && sc.Scan(); {
		l = line{}
		must(t, json.Unmarshal(sc.Bytes(), &l))
	}
	if l.Ticket == origin.ticket || l.Share != origin.id || l.Bytes != 300_000 || len(l.Addrs) != 1 || !strings.HasSuffix(l.Addrs[0], "/p2p/"+l.Peer) {
		t.Errorf("says %+v", l)
	}
	origin.stop(t)
	for _, ticket := range []string{strings.TrimSpace(plain), l.Ticket} {
		if r := finish(t, fetchCommand(t, ticket, t.TempDir()), nil); r.code != 0 {
			t.Errorf("exit %d: %+v\n%s", r.code, r.summary(), r.stderr)
		}
	}
}

// stop asks the share to end, which it must do with code 0.
func (s *sharing) stop(t testing.TB) {
	if err := s.end(); err != nil {
		t.Errorf("share ended with %v", err)
	}
}

// result is the result of a command.
type result struct {
	code   int
	lines  []line
	stderr string
}

func (r result) summary() line { return r.lines[len(r.lines)-1] }

// command runs the command with --json to its end, and a node in a process of its own.
func command(t testing.TB, args ...string) result {
	t.Helper()
	args = append(args, "--json", "--dir", t.TempDir())
	if args[0] == "node" {
		return finish(t, exec.Command(built(t), args...), nil)
	}
	stdout, stderr, code := inside(args...)
	return result{code, linesOf(t, stdout), stderr}
}

// inside runs a command to its end, for two minutes at most, in this process: to start one costs
// more than most commands do.
func inside(args ...string) (stdout, stderr string, code int) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var out, errs buffer
	code = run(args, strings.NewReader(""), &out, &errs, ctx)
	return out.String(), errs.String(), code
}

// isPlain says that a command is ours, with nothing of its own that a process has: neither files nor a folder nor variables.
func isPlain(cmd *exec.Cmd) bool {
	return cmd.Path == binary && cmd.Stdin == nil && cmd.Stdout == nil && cmd.Stderr == nil && cmd.Dir == "" && cmd.Env == nil
}

// buffer is what several have written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (w *buffer) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(b)
}

func (w *buffer) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

func linesOf(t testing.TB, text string) (out []line) {
	t.Helper()
	for s := range strings.Lines(text) {
		var l line
		if err := json.Unmarshal([]byte(s), &l); err != nil {
			t.Errorf("not JSON: %q", s)
			continue
		}
		out = append(out, l)
	}
	return out
}

// fetchCommand is a fetch into dir, not yet started.
func fetchCommand(t testing.TB, ticket, dir string, args ...string) *exec.Cmd {
	return exec.Command(built(t), append([]string{"fetch", ticket, "-o", dir, "--json", "--listen", "none", "--dir", t.TempDir()}, args...)...)
}

// finish starts a command, shows each line to see, and waits. One that nobody looks at runs in this process.
func finish(t testing.TB, cmd *exec.Cmd, see func(line)) result {
	t.Helper()
	if see == nil && isPlain(cmd) && cmd.Args[1] != "node" {
		stdout, stderr, code := inside(cmd.Args[1:]...)
		return result{code, linesOf(t, stdout), stderr}
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	killer := time.AfterFunc(2*time.Minute, func() { cmd.Process.Kill() })
	defer killer.Stop()
	var res result
	sc := bufio.NewScanner(out)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		var l line
		if err := json.Unmarshal(sc.Bytes(), &l); err != nil {
			t.Errorf("not JSON: %q", sc.Text())
			continue
		}
		res.lines = append(res.lines, l)
		if see != nil {
			see(l)
		}
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	res.code, res.stderr = cmd.ProcessState.ExitCode(), stderr.String()
	return res
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// copyTree copies the Go sources under GOROOT and adds what a share may hold besides.
func copyTree(t testing.TB, to string, parts ...string) {
	t.Helper()
	root := strings.TrimSpace(output(t, "go", "env", "GOROOT"))
	for _, part := range parts {
		must(t, os.CopyFS(filepath.Join(to, part), os.DirFS(filepath.Join(root, "src", part))))
	}
	rig.WriteRandom(t, filepath.Join(to, "Übergröße", "日本語.txt"), 100, 90)
	rig.WriteRandom(t, filepath.Join(to, "run.sh"), 50, 91)
	rig.WriteRandom(t, filepath.Join(to, "big.bin"), 9<<20+12345, 93)
	must(t, os.Chmod(filepath.Join(to, "run.sh"), 0o755))
	rig.WriteRandom(t, filepath.Join(to, "readonly"), 50, 92)
	must(t, os.Chmod(filepath.Join(to, "readonly"), 0o444))
	rig.WriteRandom(t, filepath.Join(to, "nothing"), 0, 0)
	must(t, os.MkdirAll(filepath.Join(to, "empty", "deep"), 0o755))
	must(t, os.Symlink("run.sh", filepath.Join(to, "link")))
	must(t, os.Symlink("../run.sh", filepath.Join(to, "empty", "up")))
}

func output(t testing.TB, name string, args ...string) string {
	t.Helper()
	if name == binary {
		stdout, stderr, code := inside(args...)
		if code != exitOK {
			t.Fatalf("exit %d: %s", code, stderr)
		}
		return stdout
	}
	b, err := exec.Command(name, args...).Output()
	must(t, err)
	return string(b)
}

func TestAFolderOfRealFilesArrives(t *testing.T) {
	rig.OnlyLong(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "tree")
	copyTree(t, src, "go")
	want := rig.Fingerprint(t, src)
	if n := strings.Count(want, "\n") - strings.Count(want, "/\n"); n < 500 {
		t.Fatalf("only %d files", n)
	}
	one := startShare(t, src)

	dir := t.TempDir()
	r := command(t, "fetch", one.ticket, "-o", dir, "--listen", "none")
	if r.code != 0 {
		t.Fatalf("exit %d: %s", r.code, r.stderr)
	}
	if rig.Fingerprint(t, filepath.Join(dir, "tree")) != want {
		t.Error("the copy from one source differs")
	}

	elsewhere := filepath.Join(t.TempDir(), "tree")
	must(t, os.Rename(filepath.Join(dir, "tree"), elsewhere))
	two, three := startShare(t, elsewhere), startShare(t, src)
	if two.id != one.id {
		t.Errorf("the copy has share ID %s, the original %s", two.id, one.id)
	}
	r = command(t, "fetch", one.ticket, "-o", dir, "--listen", "none", "--peer", two.addrs[0], "--peer", three.addrs[0])
	if r.code != 0 {
		t.Fatalf("exit %d: %s", r.code, r.stderr)
	}
	if rig.Fingerprint(t, filepath.Join(dir, "tree")) != want {
		t.Error("the copy from three sources differs")
	}
}

func TestLsPrintsWhatB3sumPrints(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	b3sum, err := exec.LookPath("b3sum")
	if err != nil {
		t.Skip("b3sum is not installed")
	}
	src := filepath.Join(t.TempDir(), "tree")
	copyTree(t, src, "net")
	s := startShare(t, src)
	for _, what := range []string{s.ticket, src} {
		r := command(t, "ls", what)
		if r.code != 0 {
			t.Fatalf("exit %d: %s", r.code, r.stderr)
		}
		files := 0
		var args []string
		roots := map[string]string{}
		for _, l := range r.lines {
			if l.Type == "file" && l.Kind == "file" {
				path := filepath.Join(filepath.Dir(src), filepath.FromSlash(l.Path))
				roots[path] = l.Root
				args = append(args, path)
				files++
			}
		}
		for sum := range strings.Lines(output(t, b3sum, args...)) {
			f := strings.SplitN(strings.TrimSpace(sum), "  ", 2)
			if roots[f[1]] != f[0] {
				t.Errorf("%s: ls says %s, b3sum %s", f[1], roots[f[1]], f[0])
			}
		}
		if files < 100 {
			t.Errorf("only %d files listed", files)
		}
	}
}

// Killed at 5, 15, ... 85 % of one fetch, and at 95 % of one that was never killed
// before: what was verified is not fetched again, and not hashed again.
func TestKilledFetchesResume(t *testing.T) {
	rig.OnlyLong(t)
	t.Parallel()
	total := int64(rig.Most(64<<20, 24<<20))
	src := filepath.Join(t.TempDir(), "big.bin")
	rig.WriteRandom(t, src, int(total), 7)
	s, dir := startShare(t, src), t.TempDir()
	for i, percent := range []int64{20, 70, 45, 90} {
		if i == rig.Most(4, 2) {
			break
		}
		had := killed(t, s.ticket, dir, total, percent)
		sum := interrupted(t, s.ticket, dir, 1<<20).summary()
		t.Logf("%d %%: killed at %d, resumed %d, then verified %d and hashed %d", percent, had, sum.Resumed, sum.Verified-sum.Resumed, sum.Hashed)
		if sum.Resumed < had-8<<20 {
			t.Errorf("%d %%: %d bytes were verified, and %d resumed", percent, had, sum.Resumed)
		}
		if sum.Hashed > sum.Verified-sum.Resumed {
			t.Errorf("%d %%: hashed %d bytes though only %d were missing", percent, sum.Hashed, sum.Verified-sum.Resumed)
		}
	}
	r := command(t, "fetch", s.ticket, "-o", dir, "--listen", "none")
	if sum := r.summary(); r.code != 0 || sum.Hashed > total-sum.Resumed {
		t.Errorf("exit %d, hashed %d bytes though %d were here: %s", r.code, sum.Hashed, sum.Resumed, r.stderr)
	}
	if rig.Fingerprint(t, filepath.Join(dir, "big.bin")) != rig.Fingerprint(t, src) {
		t.Error("other bytes")
	}
}

// killed kills a fetch into dir once it has a percentage of the bytes, and returns how many it had verified, as far as it
// said. It is so slow that the rest would take 1.5 s; where it has ended before this process noticed, it is tried more slowly.
func killed(t *testing.T, ticket, dir string, total, percent int64) (had int64) {
	t.Helper()
	var r result
	for slower := int64(1); slower <= 16; slower *= 4 {
		cmd := fetchCommand(t, ticket, dir, "--limit-down", fmt.Sprint(total*(100-percent)/150/slower))
		r = finish(t, cmd, func(l line) {
			if l.Type == "progress" && l.Bytes > 0 { // 0 before the plan
				had = l.Verified
				if l.Verified*100 >= percent*l.Bytes {
					cmd.Process.Kill()
				}
			}
		})
		if r.code == -1 {
			return had
		}
		must(t, os.RemoveAll(filepath.Join(dir, "big.bin")))
	}
	t.Fatalf("%d %%: it was not killed: exit %d: %s", percent, r.code, r.stderr)
	return 0
}

// Somebody changes four bytes of the fetched files, after a kill -9 or while they are
// fetched: in the end the bytes are right, and what is shared is the original.
func TestAnEditedPartialEndsRight(t *testing.T) {
	rig.OnlyLong(t)
	t.Parallel()
	const total = 16 << 20
	src := filepath.Join(t.TempDir(), "big.bin")
	rig.WriteRandom(t, src, total, 8)
	want := rig.Fingerprint(t, src)
	edit := func(dir string, done int) {
		f, err := os.OpenFile(filepath.Join(dir, "big.bin.partial", "data"), os.O_RDWR, 0)
		if done > 0 && errors.Is(err, os.ErrNotExist) {
			return // it has ended
		}
		must(t, err)
		defer f.Close()
		b := make([]byte, 4)
		_, err = f.ReadAt(b, 1<<20)
		must(t, err)
		_, err = f.WriteAt([]byte{b[0] + 1, b[1] + 1, b[2] + 1, b[3] + 1}, 1<<20)
		must(t, err)
	}
	for name, fetch := range map[string]func(t *testing.T, ticket, dir string) result{
		"between two runs": func(t *testing.T, ticket, dir string) result {
			killed(t, ticket, dir, total, 60)
			edit(dir, 0)
			return command(t, "fetch", ticket, "-o", dir, "--listen", "none")
		},
		"while it runs": func(t *testing.T, ticket, dir string) result {
			edits := 0 // several, since one that coincides with a write of the fetch goes unnoticed
			return finish(t, fetchCommand(t, ticket, dir, "--limit-down", "4M"), func(l line) {
				if l.Type == "progress" && l.Verified > total/4 && edits < 5 {
					edit(dir, edits)
					edits++
				}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, dir := startShare(t, src), t.TempDir()
			if r := fetch(t, s.ticket, dir); r.code != 0 {
				t.Errorf("exit %d: %s", r.code, r.stderr)
			}
			if rig.Fingerprint(t, filepath.Join(dir, "big.bin")) != want {
				t.Error("other bytes")
			}
			if again := startShare(t, filepath.Join(dir, "big.bin")); again.id != s.id {
				t.Error("it is another share")
			}
		})
	}
}

// interrupted interrupts a fetch once it has verified some bytes more than it resumed with.
func interrupted(t *testing.T, ticket, dir string, more int64) result {
	t.Helper()
	cmd := fetchCommand(t, ticket, dir, "--limit-down", "1M")
	resumed, sent := int64(-1), false
	r := finish(t, cmd, func(l line) {
		if l.Type == "plan" {
			resumed = l.Resumed
		}
		if l.Type == "progress" && resumed >= 0 && l.Verified >= resumed+more && !sent {
			sent = true
			cmd.Process.Signal(os.Interrupt)
		}
	})
	if r.code != exitInterrupted || r.summary().Type != "summary" {
		t.Fatalf("exit %d, last %+v: %s", r.code, r.summary(), r.stderr)
	}
	return r
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	src := filepath.Join(t.TempDir(), "one.bin")
	rig.WriteRandom(t, src, 3<<20, 7)
	s := startShare(t, src)
	differs := t.TempDir()
	rig.WriteRandom(t, filepath.Join(differs, "one.bin"), 10, 8)
	same := t.TempDir()
	rig.WriteRandom(t, filepath.Join(same, "one.bin"), 3<<20, 7)
	other := startShare(t, filepath.Join(differs, "one.bin"))
	fullPeer := strings.Replace(s.addrs[0], "127.0.0.1/tcp/", "127.0.0.1/tcp/1", 1) // nobody listens there
	fullPeer = fullPeer[:strings.Index(fullPeer, "/tcp/")] + "/tcp/1" + fullPeer[strings.Index(fullPeer, "/p2p/"):]
	for name, c := range map[string]struct {
		args []string
		code int
		name string
	}{
		"no command":        {[]string{"frobnicate"}, 2, "usage"},
		"no ticket":         {[]string{"fetch"}, 2, "usage"},
		"unknown flag":      {[]string{"fetch", s.ticket, "--frob"}, 2, "usage"},
		"garbled ticket":    {[]string{"fetch", s.ticket[:len(s.ticket)-3] + "aaa"}, 2, "usage"},
		"cut ticket":        {[]string{"fetch", s.ticket[:30]}, 2, "usage"},
		"ID without a peer": {[]string{"fetch", s.id}, 2, "usage"},
		"differs":           {[]string{"fetch", s.ticket, "-o", differs}, 13, "exists"},
		"same":              {[]string{"fetch", s.ticket, "-o", same}, 0, ""},
		"nobody there":      {[]string{"fetch", s.id, "--peer", fullPeer, "-o", t.TempDir()}, 6, "network"},
		"listen":            {[]string{"fetch", s.ticket, "--listen", strings.Split(s.addrs[0], "/p2p/")[0], "-o", t.TempDir()}, 6, "network"},
		"unknown share":     {[]string{"fetch", s.id, "--peer", other.addrs[0], "-o", t.TempDir()}, 3, "not_found"},
		"device":            {[]string{"share", os.DevNull}, 2, "usage"},
		"missing":           {[]string{"share", filepath.Join(differs, "nowhere")}, 2, "usage"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := command(t, c.args...)
			if r.code != c.code {
				t.Errorf("exit %d, want %d: %s", r.code, c.code, r.stderr)
			}
			if len(r.lines) < 2 || r.lines[0].Type != "hello" || r.summary().Type != "summary" || r.summary().Exit != c.code {
				t.Fatalf("lines: %+v", r.lines)
			}
			for i, l := range r.lines {
				if l.Seq != i || l.V != 1 {
					t.Errorf("line %d has seq %d, v %d", i, l.Seq, l.V)
				}
			}
			if c.code != 0 {
				if e := r.lines[len(r.lines)-2]; e.Type != "error" || e.Name != c.name || e.Code != c.code || e.Message == "" {
					t.Errorf("error line: %+v", e)
				}
				t.Log(strings.TrimSpace(r.stderr))
			}
		})
	}
}

func TestInterruptedFetchSaysHowToResume(t *testing.T) {
	t.Parallel()
	src := filepath.Join(t.TempDir(), "big.bin")
	rig.WriteRandom(t, src, 24<<20, 7)
	s := startShare(t, src, "--limit-up", "4M")
	dir := t.TempDir()
	cmd := fetchCommand(t, s.ticket, dir)
	sent := false
	r := finish(t, cmd, func(l line) {
		if l.Type == "progress" && l.Verified > 4<<20 && !sent { // seconds before its end
			sent = true
			cmd.Process.Signal(os.Interrupt)
		}
	})
	if r.code != 130 {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
	if !strings.Contains(r.stderr, "fetcher fetch "+s.ticket+" -o "+dir) {
		t.Errorf("no command to resume in %q", r.stderr)
	}
	if sum := r.summary(); sum.Verified < 4<<20 {
		t.Errorf("summary %+v", sum)
	}
}

func TestTwoFetchesOfOneTargetDoNotMix(t *testing.T) {
	rig.OnlyLong(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "big.bin")
	rig.WriteRandom(t, src, 16<<20, 7)
	s := startShare(t, src, "--limit-up", "4M")
	dir := t.TempDir()
	cmd := fetchCommand(t, s.ticket, dir)
	var second result
	r := finish(t, cmd, func(l line) {
		if l.Type == "progress" && l.Verified > 0 && second.lines == nil {
			second = command(t, "fetch", s.ticket, "-o", dir, "--listen", "none")
		}
	})
	if r.code != 0 || second.code != 11 {
		t.Errorf("exits %d and %d, want 0 and 11: %s", r.code, second.code, second.stderr)
	}
}

func TestTicketFromStdinAndFlagsFromTheEnvironment(t *testing.T) {
	t.Parallel()
	src := filepath.Join(t.TempDir(), "one.bin")
	rig.WriteRandom(t, src, 1000, 7)
	s := startShare(t, src)
	dir := t.TempDir()
	cmd := exec.Command(built(t), "fetch", "-")
	cmd.Stdin = strings.NewReader("\n " + s.ticket + "\n")
	cmd.Env = append(os.Environ(), "FETCHER_OUT="+dir, "FETCHER_JSON=1", "FETCHER_LISTEN=none", "FETCHER_DIR="+t.TempDir())
	if r := finish(t, cmd, nil); r.code != 0 {
		t.Fatalf("exit %d: %s", r.code, r.stderr)
	}
	if _, err := os.Stat(filepath.Join(dir, "one.bin")); err != nil {
		t.Error(err)
	}
}

func TestSharePrintsTheTicketAloneFirst(t *testing.T) {
	t.Parallel()
	src := filepath.Join(t.TempDir(), "one.bin")
	rig.WriteRandom(t, src, 1000, 7)
	cmd := exec.Command(built(t), "share", src, "--listen", "/ip4/127.0.0.1/tcp/0", "--dir", t.TempDir())
	out, err := cmd.StdoutPipe()
	must(t, err)
	errs, err := cmd.StderrPipe()
	must(t, err)
	must(t, cmd.Start())
	killer := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	defer killer.Stop()
	first, err := bufio.NewReader(out).ReadString('\n')
	must(t, err)
	ticket := strings.TrimSpace(first)
	if !strings.HasPrefix(ticket, "share") || strings.ContainsAny(ticket, " \t") {
		t.Errorf("first line %q", first)
	}
	said, lacks := "", func(said string) (all []string) {
		for _, want := range []string{"fetcher fetch " + ticket, "one.bin", "this machine only", "/p2p/"} {
			if !strings.Contains(said, want) {
				all = append(all, want)
			}
		}
		return all
	}
	asked := false // twice would end it at once
	for sc := bufio.NewScanner(errs); sc.Scan(); {
		if said += sc.Text() + "\n"; !asked && len(lacks(said)) == 0 {
			asked = true
			cmd.Process.Signal(os.Interrupt)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("share ended with %v", err)
	}
	if l := lacks(said); len(l) > 0 {
		t.Errorf("stderr lacks %q:\n%s", l, said)
	}
}

func TestSIGUSR1PrintsWhy(t *testing.T) {
	rig.OnlyLong(t)
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("no SIGUSR1")
	}
	src := filepath.Join(t.TempDir(), "big.bin")
	rig.WriteRandom(t, src, 16<<20, 7)
	s := startShare(t, src, "--limit-up", "3M")
	cmd := fetchCommand(t, s.ticket, t.TempDir())
	sent := false
	r := finish(t, cmd, func(l line) {
		if l.Type == "progress" && l.Verified > 1<<20 && !sent { // seconds before its end
			sent = true
			cmd.Process.Signal(syscall.Signal(10)) // SIGUSR1
		}
	})
	if r.code != 0 || !strings.Contains(r.stderr, "source ") || !strings.Contains(r.stderr, "piece") {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
	t.Log(r.stderr)
}

func TestLimitDownSlowsFetchAndCat(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "f.bin")
	rig.WriteRandom(t, src, 2<<20, 7)
	s := startShare(t, src)
	began := time.Now()
	r := finish(t, fetchCommand(t, s.ticket, t.TempDir(), "--limit-down", "2M"), nil)
	if took := time.Since(began); r.code != 0 || took < 700*time.Millisecond {
		t.Errorf("2 MiB at 2 MB/s took %v, exit %d: %s", took, r.code, r.stderr)
	}
	began = time.Now()
	out := output(t, built(t), "cat", s.ticket, "--dir", t.TempDir(), "--listen", "none", "--limit-down", "2M")
	if took := time.Since(began); len(out) != 2<<20 || took < 700*time.Millisecond {
		t.Errorf("2 MiB at 2 MB/s took %v, %d bytes", took, len(out))
	}
	for _, c := range []string{"fetch", "cat"} {
		for _, flag := range []string{"--limit-down", "--limit-up"} {
			if out, says, code := inside(c, s.ticket, flag, "fast"); code != exitUsage || !strings.Contains(out+says, flag) {
				t.Errorf("%s %s fast: exit %d: %s%s", c, flag, code, out, says)
			}
		}
	}
}
