//go:build linux

package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// proc is one measured process. It is killed when its benchmark ends, or when
// this process does.
type proc struct {
	tb    testing.TB
	cmd   *exec.Cmd
	began time.Time
	stdin io.Closer
	lines chan string  // of standard output; closed at its end
	last  string       // the last line, once wait has returned
	see   func(string) // called by wait with each line; may be nil
	said  output       // standard error

	ended   chan struct{} // closed once it is reaped
	sampled chan int64    // the peak, once the sampler has ended
	used    usage         // once ended
}

// usage is what a process used in its whole life.
type usage struct {
	wall time.Duration
	cpu  time.Duration // user and system
	anon int64         // peak of anonymous memory, in bytes
	code int           // exit code; -1 if a signal ended it
}

// start runs a command. Its standard input stays open as long as it lives.
func start(tb testing.TB, env []string, name string, args ...string) *proc {
	tb.Helper()
	p := &proc{
		tb: tb, cmd: exec.Command(name, args...),
		lines: make(chan string, 1024), ended: make(chan struct{}), sampled: make(chan int64, 1),
	}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stderr = &p.said
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	p.stdin = stdin
	r, w, err := os.Pipe() // unlike StdoutPipe, it may be read after Wait
	if err != nil {
		tb.Fatal(err)
	}
	p.cmd.Stdout = w
	p.began = time.Now()
	err = p.cmd.Start()
	w.Close()
	if err != nil {
		r.Close()
		tb.Fatal(err)
	}
	go func() {
		defer r.Close()
		defer close(p.lines)
		for s := bufio.NewScanner(r); s.Scan(); {
			p.lines <- s.Text()
		}
	}()
	go p.sample()
	tb.Cleanup(p.kill)
	return p
}

// sample follows the process's anonymous memory, twenty times a second.
func (p *proc) sample() {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var peak int64
	for {
		kib, _ := procNumber(p.cmd.Process.Pid, "status", "RssAnon:")
		peak = max(peak, kib<<10)
		select {
		case <-p.ended:
			p.sampled <- peak
			return
		case <-tick.C:
		}
	}
}

// line returns the next line of standard output.
func (p *proc) line() string {
	p.tb.Helper()
	select {
	case s, ok := <-p.lines:
		if ok {
			return s
		}
		p.wait()
		p.tb.Fatalf("%v ended with code %d before it said what was awaited:\n%s", p.cmd, p.used.code, p.said.String())
	case <-time.After(5 * time.Minute):
		p.tb.Fatalf("%v said nothing for five minutes:\n%s", p.cmd, p.said.String())
	}
	return ""
}

// wait waits for the process to end by itself, and reads its output.
func (p *proc) wait() usage {
	for s := range p.lines {
		p.last = s
		if p.see != nil {
			p.see(s)
		}
	}
	select {
	case <-p.ended:
		return p.used
	default:
	}
	p.cmd.Wait() // the error says what the exit code says
	p.used.wall = time.Since(p.began)
	close(p.ended)
	s := p.cmd.ProcessState
	p.used.cpu, p.used.code = s.UserTime()+s.SystemTime(), s.ExitCode()
	p.used.anon = <-p.sampled
	return p.used
}

// mustWait is wait for a process that must succeed.
func (p *proc) mustWait() usage {
	p.tb.Helper()
	u := p.wait()
	if u.code != 0 {
		p.tb.Fatalf("%v ended with code %d:\n%s\n%s", p.cmd, u.code, p.last, p.said.String())
	}
	return u
}

// stop asks the process to end, and waits until it has. Our own children end
// when their standard input does, others by SIGTERM.
func (p *proc) stop() usage {
	p.tb.Helper()
	p.stdin.Close()
	if p.cmd.Path != self {
		p.cmd.Process.Signal(syscall.SIGTERM)
	}
	hard := time.AfterFunc(20*time.Second, func() { p.cmd.Process.Kill() })
	defer hard.Stop()
	return p.mustWait()
}

// kill ends the process without asking.
func (p *proc) kill() {
	select {
	case <-p.ended:
	default:
		p.cmd.Process.Kill()
		p.wait()
	}
}

// cpu returns what a running process has used so far, to 10 ms.
func (p *proc) cpu() time.Duration {
	p.tb.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		p.tb.Fatal(err)
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+2:])) // from field 3 on
	var ticks int64
	for _, s := range f[11:13] { // utime, stime
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			p.tb.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * (time.Second / 100) // USER_HZ
}

// wrote returns how many bytes a running process has passed to write(2) so far: to files,
// pipes and sockets.
func (p *proc) wrote() int64 {
	n, err := procNumber(p.cmd.Process.Pid, "io", "wchar:")
	if err != nil {
		p.tb.Error(err)
	}
	return n
}

// dirtied returns how many bytes of files it has changed in the page cache; 0 once it has ended.
func (p *proc) dirtied() int64 {
	n, _ := procNumber(p.cmd.Process.Pid, "io", "\nwrite_bytes:")
	return n
}

// procNumber returns the number after name in /proc/PID/file.
func procNumber(pid int, file, name string) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(b), name)
	f := strings.Fields(rest)
	if len(f) == 0 {
		return 0, fmt.Errorf("no %q in /proc/PID/%s", name, file)
	}
	return strconv.ParseInt(f[0], 10, 64)
}

// output is what a process writes, readable while it runs.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}
