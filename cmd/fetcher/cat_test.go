package main

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
)

// catCommand is cat with a state directory of its own, which is returned.
func catCommand(t testing.TB, args ...string) (cmd *exec.Cmd, state string) {
	state = t.TempDir()
	return exec.Command(built(t), append([]string{"cat", "--listen", "none", "--dir", state}, args...)...), state
}

// cat runs it to its end.
func cat(t testing.TB, args ...string) (stdout, stderr []byte, code int, state string) {
	t.Helper()
	cmd, state := catCommand(t, args...)
	out, errs, code := inside(cmd.Args[1:]...)
	return []byte(out), []byte(errs), code, state
}

// leftovers are scratch folders that were not removed.
func leftovers(t testing.TB, state string) []string {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(state, "scratch-*"))
	must(t, err)
	return left
}

func TestCatWritesOneFile(t *testing.T) {
	t.Parallel()
	src := filepath.Join(t.TempDir(), "tree")
	rig.WriteRandom(t, filepath.Join(src, "a", "big.bin"), rig.Most(9, 1)<<20+5, 1)
	rig.WriteRandom(t, filepath.Join(src, "b.bin"), rig.Most(3, 1)<<20, 2)
	rig.WriteRandom(t, filepath.Join(src, "empty"), 0, 3)
	s := startShare(t, src)
	single := startShare(t, filepath.Join(src, "b.bin"))
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{s.ticket, "a/big.bin"}, "a/big.bin"},
		{[]string{s.ticket, "tree/a/big.bin"}, "a/big.bin"}, // as ls prints it
		{[]string{s.id, "b.bin", "--peer", s.addrs[0]}, "b.bin"},
		{[]string{s.ticket, "empty"}, "empty"},
		{[]string{single.ticket}, "b.bin"},
		{[]string{single.ticket, "b.bin"}, "b.bin"},
	} {
		out, errs, code, state := cat(t, c.args...)
		want, err := os.ReadFile(filepath.Join(src, c.want))
		must(t, err)
		if code != 0 || !bytes.Equal(out, want) || len(errs) > 0 {
			t.Errorf("%v: exit %d, %d bytes of %d: %s", c.args[1:], code, len(out), len(want), errs)
		}
		if left := leftovers(t, state); len(left) > 0 {
			t.Errorf("%v: left behind %v", c.args[1:], left)
		}
	}

	dir := t.TempDir()
	out, errs, code, _ := cat(t, s.ticket, "a/big.bin", "-o", dir)
	want, _ := os.ReadFile(filepath.Join(src, "a/big.bin"))
	kept, err := os.ReadFile(filepath.Join(dir, "tree/a/big.bin"))
	if code != 0 || !bytes.Equal(out, want) || !bytes.Equal(kept, want) || !strings.Contains(string(errs), filepath.Join(dir, "tree/a/big.bin")) {
		t.Errorf("-o: exit %d, %d bytes, kept %d, %v: %s", code, len(out), len(kept), err, errs)
	}
	if _, err := os.Lstat(filepath.Join(dir, "tree/b.bin")); err == nil {
		t.Error("another file was fetched as well")
	}
}

func TestCatSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	src := filepath.Join(t.TempDir(), "tree")
	rig.WriteRandom(t, filepath.Join(src, "a", "big.bin"), 100, 1)
	must(t, os.Symlink("a/big.bin", filepath.Join(src, "link")))
	must(t, os.Symlink("../link", filepath.Join(src, "a", "up")))
	s := startShare(t, src)
	nobody := s.addrs[0][:strings.Index(s.addrs[0], "/tcp/")] + "/tcp/1" + s.addrs[0][strings.Index(s.addrs[0], "/p2p/"):]
	dir := t.TempDir()
	rig.WriteRandom(t, filepath.Join(dir, "tree", "a", "big.bin"), 100, 2)
	for _, c := range []struct {
		args []string
		code int
		say  string
	}{
		{[]string{s.ticket, "a/big.bin", "-o", dir}, exitExists, "use fetcher fetch --repair; or"},
		{nil, 2, "TICKET"},
		{[]string{s.ticket}, 2, "folder"},
		{[]string{s.ticket, "nowhere"}, 2, "nowhere"},
		{[]string{s.ticket, "a"}, 2, "is a folder"},
		{[]string{s.ticket, "link"}, 2, "a/big.bin"},
		{[]string{s.ticket, "a/up"}, 2, `to "link"; name that`},
		{[]string{s.ticket, "a/big.bin", "--json"}, 2, "--json"},
		{[]string{s.ticket, "a/big.bin", "--stall", "0"}, 2, "--stall"},
		{[]string{s.ticket[:20], "a/big.bin"}, 2, "ticket"},
		{[]string{s.id, "a/big.bin"}, 2, "peer"},
		{[]string{s.id, "a/big.bin", "--peer", nobody}, 6, "no connection"},
	} {
		out, errs, code, state := cat(t, c.args...)
		if code != c.code || !strings.Contains(string(errs), c.say) {
			t.Errorf("%v: exit %d, want %d: %s", c.args, code, c.code, errs)
		}
		if len(out) > 0 && !strings.Contains(strings.Join(c.args, " "), "--json") {
			t.Errorf("%v: wrote %q", c.args, out)
		}
		if left := leftovers(t, state); len(left) > 0 {
			t.Errorf("%v: left behind %v", c.args, left)
		}
	}
}

// A reader that reads only the beginning ends the transfer, and nothing is left of it.
// The reason why stdout cannot be written to is said once, and is no name of ours.
func TestAFullStdoutIsSaidOnce(t *testing.T) {
	for errno, want := range map[syscall.Errno]string{syscall.ENOSPC: "stdout cannot be written to: disk full", syscall.EIO: "stdout cannot be written to: " + syscall.EIO.Error()} {
		w := sink{writes(func([]byte) (int, error) { return 0, &fs.PathError{Op: "write", Path: "/dev/stdout", Err: errno} })}
		_, err := w.Write([]byte("x"))
		if sentence(err) != want || (exitCode(err) == exitDiskFull) != (errno == syscall.ENOSPC) {
			t.Errorf("%v: %q, exit %d", errno, sentence(err), exitCode(err))
		}
	}
}

type writes func(b []byte) (int, error)

func (f writes) Write(b []byte) (int, error) { return f(b) }

func TestCatEndsWhenNobodyReads(t *testing.T) {
	rig.Slow(t)
	if runtime.GOOS == "windows" {
		t.Skip("no SIGPIPE")
	}
	t.Parallel()
	src := filepath.Join(t.TempDir(), "big.bin")
	rig.WriteRandom(t, src, 32<<20, 1)
	s := startShare(t, src, "--limit-up", "1M")
	cmd, state := catCommand(t, s.ticket)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	began := time.Now()
	b := make([]byte, 100)
	_, err = io.ReadFull(out, b)
	must(t, err)
	must(t, out.Close())
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 141 || errs.Len() > 0 {
		t.Errorf("exit %d: %s", code, &errs)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("took %v; the whole file takes 33 s", took)
	}
	if left := leftovers(t, state); len(left) > 0 {
		t.Errorf("left behind %v", left)
	}
}

func TestCatCanBeInterrupted(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "big.bin")
	rig.WriteRandom(t, src, 32<<20, 1)
	s := startShare(t, src, "--limit-up", "8M")
	cmd, state := catCommand(t, s.ticket)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	_, err = io.ReadFull(out, make([]byte, 100))
	must(t, err)
	must(t, cmd.Process.Signal(os.Interrupt))
	io.Copy(io.Discard, out)
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit %d", code)
	}
	if left := leftovers(t, state); len(left) > 0 {
		t.Errorf("left behind %v", left)
	}
}

// Files that a killed cat left are removed by the next, and those that another uses are not.
func TestScratchesOfTheDeadAreRemoved(t *testing.T) {
	state := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(state, "scratch-dead", "x.partial"), 0o700))
	must(t, os.WriteFile(filepath.Join(state, "scratch-dead", scratchLock), nil, 0o600))
	must(t, os.Mkdir(filepath.Join(state, "scratch-3141592653"), 0o700))
	a, err := newScratch(state)
	must(t, err)
	b, err := newScratch(state)
	must(t, err)
	if left := leftovers(t, state); len(left) != 2 {
		t.Errorf("there are %v", left)
	}
	a.remove()
	b.remove()
	if left := leftovers(t, state); len(left) > 0 {
		t.Errorf("left behind %v", left)
	}
}

func TestOnlyAndSkipFetchWhatTheySay(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "tree")
	for i, name := range []string{"docs/a.md", "docs/b.txt", "src/a.md", "src/x.go"} {
		rig.WriteRandom(t, filepath.Join(src, name), 1000+i, uint64(i))
	}
	s := startShare(t, src)
	dir := t.TempDir()
	r := command(t, "fetch", s.ticket, "-o", dir, "--listen", "none", "--only", "**/*.md", "--only", "docs", "--skip", "src")
	if r.code != 0 {
		t.Fatalf("exit %d: %s", r.code, r.stderr)
	}
	if sum := r.summary(); sum.Bytes != 1000+1001 || sum.Verified != sum.Bytes || sum.Path != filepath.Join(dir, "tree") {
		t.Errorf("summary %+v", sum)
	}
	for _, l := range r.lines {
		if l.Type == "plan" && (l.Bytes != 2001 || l.Files != 2 || l.ShareFiles != 4) {
			t.Errorf("plan %+v", l)
		}
	}
	if !strings.Contains(r.stderr, "2 files, of") || !strings.Contains(r.stderr, filepath.Join(dir, "tree.partial")+" stays") {
		t.Errorf("stderr: %s", r.stderr)
	}
	for _, name := range []string{"src/a.md", "src/x.go"} {
		if _, err := os.Lstat(filepath.Join(dir, "tree", name)); err == nil {
			t.Error(name, "was made")
		}
	}
	for _, args := range [][]string{{"--only", "*.md"}, {"--skip", "**"}, {"--only", "["}} {
		r := command(t, append([]string{"fetch", s.ticket, "-o", dir, "--listen", "none"}, args...)...)
		if r.code != 2 || !strings.Contains(r.stderr, args[1]) {
			t.Errorf("%v: exit %d: %s", args, r.code, r.stderr)
		}
	}
	if r := command(t, "fetch", s.ticket, "-o", dir, "--listen", "none"); r.code != 0 {
		t.Fatalf("exit %d: %s", r.code, r.stderr)
	}
	if rig.Fingerprint(t, filepath.Join(dir, "tree")) != rig.Fingerprint(t, src) {
		t.Error("the whole differs")
	}
}

func TestTheCommandToResumeChoosesTheSame(t *testing.T) {
	for given, want := range map[string]string{
		"":       "-o .",
		"-o it,": "-o 'it,'",
		"--skip x --peer /p2p/x --only *.go --only a,b":             "-o . --only '*.go' --only 'a,b' --peer /p2p/x --skip x",
		"--stall 5s --limit-down 1M --seed --identity":              "-o . --identity --limit-down 1M --seed --stall 5s",
		"--seed=30m --listen none --lease-from /x --alone-after 1m": "-o . --alone-after 1m --lease-from /x --listen none --seed=30m",
	} {
		cmd := new(app).fetchCommand()
		if err := cmd.ParseFlags(strings.Fields(given)); err != nil {
			t.Fatal(err)
		}
		out, _ := cmd.Flags().GetString("out")
		if got := again(cmd, "TICKET", out); got != "fetch TICKET "+want {
			t.Errorf("%s\ngot  %s\nwant fetch TICKET %s", given, got, want)
		}
	}
}

// What cat writes is verified, though its reader is slow and the file that it keeps is edited meanwhile.
func TestCatWritesNothingThatWasEditedMeanwhile(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src, dir := filepath.Join(t.TempDir(), "big.bin"), t.TempDir()
	rig.WriteRandom(t, src, 8<<20, 1)
	s := startShare(t, src)
	cmd, _ := catCommand(t, s.ticket, "-o", dir)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	kept := filepath.Join(dir, "big.bin")
	for _, err = os.Stat(kept); err != nil; _, err = os.Stat(kept) {
		time.Sleep(10 * time.Millisecond)
	}
	f, err := os.OpenFile(kept, os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteAt([]byte("edited"), 7<<20)
	must(t, err)
	must(t, f.Close())
	got, err := io.ReadAll(out)
	must(t, err)
	cmd.Wait()
	want, err := os.ReadFile(src)
	must(t, err)
	if code := cmd.ProcessState.ExitCode(); !bytes.HasPrefix(want, got) || code == 0 && len(got) < len(want) {
		t.Errorf("exit %d, and of %d bytes some are not the share's: %v", code, len(got), !bytes.HasPrefix(want, got))
	}
}
