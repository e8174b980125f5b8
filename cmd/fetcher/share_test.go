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
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
)

// shareRun is a running share command of which every line is seen.
type shareRun struct {
	cmd    *exec.Cmd
	lines  *json.Decoder
	stderr bytes.Buffer // to be read when it has ended
}

// runShare begins to share. The process ends with the test, and after a minute at the
// latest.
func runShare(t *testing.T, stdin io.Reader, args ...string) *shareRun {
	t.Helper()
	r := &shareRun{cmd: exec.Command(built(t), append([]string{"share", "--json", "--dir", t.TempDir(), "--listen", "/ip4/127.0.0.1/tcp/0"}, args...)...)}
	r.cmd.Stdin, r.cmd.Stderr = stdin, &r.stderr
	out, err := r.cmd.StdoutPipe()
	must(t, err)
	r.lines = json.NewDecoder(out)
	must(t, r.cmd.Start())
	limit := time.AfterFunc(time.Minute, func() { r.cmd.Process.Kill() })
	t.Cleanup(func() {
		limit.Stop()
		r.cmd.Process.Kill()
		r.cmd.Wait()
	})
	return r
}

// next is the next line of a type.
func (r *shareRun) next(t *testing.T, typ string) line {
	t.Helper()
	for {
		var l line
		if err := r.lines.Decode(&l); err != nil {
			r.cmd.Wait()
			t.Fatalf("no line %q: %v\n%s", typ, err, &r.stderr)
		}
		if l.Type == typ {
			return l
		}
	}
}

// end is how it ends.
func (r *shareRun) end() int {
	io.Copy(io.Discard, r.lines.Buffered())
	var exit *exec.ExitError
	if err := r.cmd.Wait(); errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return 0
}

func TestShareServesOnWhenAnotherFileChanges(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for i, name := range []string{"a.bin", "b.bin", "c.bin"} {
		rig.WriteRandom(t, at(name), 100_000, uint64(i))
	}
	r := runShare(t, nil, at("a.bin"), at("b.bin"), at("c.bin"))
	a, b, c := r.next(t, "share"), r.next(t, "share"), r.next(t, "share")
	if a.Name != "a.bin" || b.Name != "b.bin" || c.Name != "c.bin" {
		t.Fatalf("shares %q, %q, %q", a.Name, b.Name, c.Name)
	}
	fetch := func(ticket string) int {
		return command(t, "fetch", ticket, "-o", t.TempDir(), "--listen", "none", "--stall", "30s").code
	}
	rig.WriteRandom(t, at("a.bin"), 100_001, 7)
	if fetch(a.Ticket) == 0 {
		t.Error("a file that was changed was fetched all the same")
	}
	if gone := r.next(t, "gone"); gone.Share != a.Share || gone.Name != "a.bin" || !strings.Contains(fmt.Sprint(gone.Why), "a.bin: file changed") {
		t.Errorf("it said %+v", gone)
	}
	if code := fetch(b.Ticket); code != 0 {
		t.Errorf("the other ended with it: exit %d", code)
	}
	must(t, os.Remove(at("c.bin"))) // nobody asks for it
	if gone := r.next(t, "gone"); gone.Share != c.Share {
		t.Errorf("it said %+v", gone)
	}
	rig.WriteRandom(t, at("b.bin"), 100_001, 8)
	r.next(t, "error")
	if code := r.end(); code != 1 {
		t.Errorf("exit %d", code)
	}
	for _, want := range []string{
		"a.bin is not shared any more: a.bin: file changed on disk\n2 other shares are still served.\n",
		"c.bin is not shared any more: c.bin: it is not there any more\n1 other share is still served.\n",
		"fetcher: b.bin: file changed on disk\nWhen the files are as they should be",
	} {
		if !strings.Contains(r.stderr.String(), want) {
			t.Errorf("%q is not in\n%s", want, &r.stderr)
		}
	}
}

// Whoever asks for the only share just when its file has changed is told so, and does not wait for a node that is gone.
func TestALoneShareTellsThatItHasChanged(t *testing.T) {
	rig.Slow(t)
	was := parting
	parting = time.Minute
	defer func() { parting = was }()
	src := filepath.Join(t.TempDir(), "a.bin")
	rig.WriteRandom(t, src, 100_000, 1)
	ctx, stop := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- run([]string{"share", src, "--dir", t.TempDir(), "--listen", "127.0.0.1:0"}, strings.NewReader(""), in, io.Discard, ctx)
	}()
	ticket, err := bufio.NewReader(out).ReadString('\n')
	must(t, err)
	rig.WriteRandom(t, src, 100_001, 2)
	for range 2 { // the first may have it noticed
		if r := command(t, "fetch", strings.TrimSpace(ticket), "-o", t.TempDir(), "--listen", "none"); r.code != exitNotFound || !strings.Contains(r.stderr, "a file of it has changed") {
			t.Errorf("exit %d: %s", r.code, r.stderr)
		}
	}
	stop()
	if code := <-ended; code != exitOther {
		t.Errorf("share: exit %d", code)
	}
}

// Two files that are the same make one share, and that is said.
func TestShareSaysWhichPathsAreTheSame(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	dir := t.TempDir()
	x, y := filepath.Join(dir, "x", "f"), filepath.Join(dir, "y", "f")
	rig.WriteRandom(t, x, 1000, 1)
	rig.WriteRandom(t, y, 1000, 1)
	r := runShare(t, nil, x, y)
	if one, two := r.next(t, "share"), r.next(t, "share"); one.Ticket != two.Ticket {
		t.Errorf("%+v and %+v", one, two)
	}
	must(t, os.Remove(y))
	r.next(t, "error")
	if code := r.end(); code != 1 || !strings.Contains(r.stderr.String(), "warning: it is the same as "+x+": both have the same ticket, and what was given last is served\n") {
		t.Errorf("exit %d: %s", code, &r.stderr)
	}
}

// A disk that does not answer does not keep share from ending.
func TestLookingAtFilesHoldsNothingUp(t *testing.T) {
	t.Parallel()
	looks, answers := make(chan bool), make(chan bool)
	stop := looking(time.Millisecond, func() {
		looks <- true
		<-answers
	})
	<-looks
	answers <- true
	<-looks // and again
	stop()
	close(answers)
	stop = looking(time.Hour, func() { t.Error("it looks too soon") })
	stop()
}

// Two names of one file are two files, unless one is a symlink to the other.
func TestAPathIsGivenOnce(t *testing.T) {
	dir := t.TempDir()
	a, hard, soft := filepath.Join(dir, "a"), filepath.Join(dir, "hard"), filepath.Join(dir, "soft")
	must(t, errors.Join(os.WriteFile(a, []byte("x"), 0o600), os.Link(a, hard), os.Symlink(a, soft)))
	if err := eachOnce([]string{a, hard, filepath.Join(dir, "gone"), "-", filepath.Join(dir, "gone")}); err != nil {
		t.Error(err)
	}
	if err := eachOnce([]string{hard, a, soft}); exitCode(err) != exitUsage {
		t.Error(err)
	}
}

func TestShareMakesOneFolderOfSeveralPaths(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	dir, want := t.TempDir(), filepath.Join(t.TempDir(), "trip")
	for i, name := range []string{"photos/1.jpg", "photos/2.jpg", "notes.txt"} {
		rig.WriteRandom(t, filepath.Join(dir, name), 2<<20+i, uint64(i))
	}
	must(t, os.CopyFS(want, os.DirFS(dir)))
	s := startShare(t, filepath.Join(dir, "photos"), filepath.Join(dir, "notes.txt"), "--name", "trip")
	to := t.TempDir()
	if r := command(t, "fetch", s.ticket, "-o", to, "--listen", "none"); r.code != 0 {
		t.Fatalf("exit %d: %s", r.code, r.stderr)
	}
	if got, want := rig.Fingerprint(t, filepath.Join(to, "trip")), rig.Fingerprint(t, want); got != want {
		t.Errorf("fetched\n%swant\n%s", got, want)
	}
	one := startShare(t, filepath.Join(dir, "notes.txt"), "--name", "read.me")
	if r := command(t, "ls", one.ticket); len(r.lines) != 3 || r.lines[1].Path != "read.me" {
		t.Errorf("%+v", r.lines)
	}
	for says, args := range map[string][]string{
		"both be":         {dir, filepath.Join(t.TempDir(), filepath.Base(dir)), "--name", "x"},
		"was given twice": {dir, filepath.Join(dir, "..", filepath.Base(dir)), "--name", "x"},
		"PATH is empty":   {dir, ""},
		"needs a PATH":    nil,
		"/":               {dir, "--name", "a/b"},
		"not a pattern":   {dir, "--exclude", "["},
		"nothing is left": {dir, "--exclude", "*"},
	} {
		if says == "both be" {
			must(t, os.Mkdir(args[1], 0o700))
		}
		r := command(t, append([]string{"share"}, args...)...)
		if r.code != exitUsage && says != "both be" || r.code == 0 || !strings.Contains(r.stderr, says) {
			t.Errorf("%q: exit %d: %s", says, r.code, r.stderr)
		}
	}
}

func TestShareServesStdin(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	rig.WriteRandom(t, file, 3<<20, 7)
	in, err := os.Open(file)
	must(t, err)
	defer in.Close()
	state := t.TempDir()
	r := runShare(t, in, "-", "--name", "dump.sql", "--dir", state)
	to := t.TempDir()
	if f := command(t, "fetch", r.next(t, "share").Ticket, "-o", to, "--listen", "none"); f.code != 0 {
		t.Fatalf("exit %d: %s", f.code, f.stderr)
	}
	got, err := os.ReadFile(filepath.Join(to, "dump.sql"))
	must(t, err)
	if want, _ := os.ReadFile(file); !bytes.Equal(got, want) {
		t.Errorf("%d other bytes", len(got))
	}
	r.cmd.Process.Signal(syscall.SIGTERM)
	r.next(t, "summary")
	if code := r.end(); code != 0 {
		t.Errorf("exit %d: %s", code, &r.stderr)
	}
	for _, left := range []string{"scratch-*", "imports/*", "hashes/*"} {
		if names, _ := filepath.Glob(filepath.Join(state, left)); len(names) > 0 {
			t.Errorf("left behind: %v", names)
		}
	}
	for says, args := range map[string][]string{"needs a --name": {"-"}, "share of its own": {"-", ".", "--name", "x"}, "--exclude": {"-", "--name", "x", "--exclude", "y"}, "--name \"a/b\" holds a /": {"-", "--name", "a/b"}, "--name \"..\"": {".", "--name", ".."}} {
		if r := command(t, append([]string{"share"}, args...)...); r.code != exitUsage || !strings.Contains(r.stderr, says) {
			t.Errorf("%v: exit %d: %s", args, r.code, r.stderr)
		}
	}
}

// Interrupted while it reads a stdin that nobody closes, it ends and leaves nothing.
func TestShareOfAnOpenStdinCanBeInterrupted(t *testing.T) {
	in, w := io.Pipe()
	state := t.TempDir()
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() {
		w.Write([]byte("some"))
		cancel(signalled{os.Interrupt})
	}()
	var stderr bytes.Buffer
	code := run([]string{"share", "-", "--name", "x", "--listen", "none", "--dir", state}, in, io.Discard, &stderr, ctx)
	w.Close()
	if left, _ := filepath.Glob(filepath.Join(state, "scratch-*")); code != exitInterrupted || len(left) > 0 {
		t.Errorf("exit %d, left %v: %s", code, left, &stderr)
	}
}

// A sharer sees which peers fetch, how much, and how it ended.
func TestShareSeesWhoFetches(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "big.bin")
	rig.WriteRandom(t, src, 4<<20, 7)
	r := runShare(t, nil, src, "--limit-up", "4M")
	s := r.next(t, "share")
	cmd := fetchCommand(t, s.Ticket, t.TempDir())
	f := finish(t, cmd, nil)
	if f.code != 0 {
		t.Fatalf("exit %d: %s", f.code, f.stderr)
	}
	began, done := r.next(t, "child"), r.next(t, "child")
	if began.State != "takes" || began.Peer == "" || began.Share != s.Share || !strings.HasPrefix(began.Addr, "/ip4/127.0.0.1/") {
		t.Errorf("it began with %+v", began)
	}
	if done.State != "done" || done.Peer != began.Peer || done.Bytes != 4<<20 || done.Name != "big.bin" || done.Seconds < 0.5 {
		t.Errorf("it ended with %+v", done)
	}
	cmd, stopped := fetchCommand(t, s.Ticket, t.TempDir(), "--limit-down", "500K"), false // it is interrupted long before its end
	finish(t, cmd, func(l line) {
		if l.Type == "progress" && l.Verified > 1<<20 && !stopped {
			stopped = true
			cmd.Process.Signal(os.Interrupt)
		}
	})
	r.next(t, "child")
	if left := r.next(t, "child"); left.State != "left" || left.Bytes < 1<<20 || left.Bytes >= 4<<20 {
		t.Errorf("the one that was interrupted ended with %+v", left)
	}
	r.cmd.Process.Signal(syscall.SIGTERM)
	r.next(t, "summary")
	r.end()
	for _, want := range []string{`127\.0\.0\.1 \(\w{8}\) fetches big.bin\n`, `has all of big.bin, 4.19 MB in [0-9.]+ m?s, [0-9.]+ MB/s\n`, `no longer fetches big.bin; it took [0-9.]+ MB in `} {
		if !regexp.MustCompile(want).MatchString(r.stderr.String()) {
			t.Errorf("%s is not in\n%s", want, &r.stderr)
		}
	}
}

func TestChildrenAreDrawnOnALineEach(t *testing.T) {
	var b bytes.Buffer
	a := &app{stderr: &terminal{w: &b, columns: func() int { return 60 }}, out: newReporter(io.Discard, false)}
	x := newAudience(a)
	m, err := share.NewManifest("movie/", []share.Entry{{Path: "a", Size: 1 << 20, Root: share.Hash{1}}})
	must(t, err)
	x.shares[m.ID()] = m
	began := time.Now()
	c := fetcher.Child{Share: m.ID(), Peer: "12D3KooWabcdefgh", Addr: "/ip6/2001:db8::1/tcp/4001", Bytes: 500_000, Since: began, At: began.Add(2 * time.Second)}
	if got, want := x.row(c), "2001:db8::1 (abcdefgh): 500 kB of 1.05 MB of movie, 250 kB/s"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	x.before = map[child]fetcher.Child{{string(c.Peer), c.Share}: c}
	c.Bytes, c.At = 600_000, c.At.Add(time.Second)
	if got, want := x.row(c), "2001:db8::1 (abcdefgh): 600 kB of 1.05 MB of movie, 100 kB/s"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	c.State, c.Addr = fetcher.ChildDone, ""
	x.tell(c)
	if got, want := b.String(), "peer abcdefgh has what it wanted of movie; 600 kB came from\n  here in 3 s, 200 kB/s\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	b.Reset()
	for range 100 { // it comes and goes as fast as it can
		x.tell(c)
	}
	if n := strings.Count(b.String(), "has what it wanted"); n != childLines-1 {
		t.Errorf("%d lines in a minute, want %d", n, childLines-1)
	}
	b.Reset()
	c.At = c.At.Add(time.Minute)
	x.tell(c)
	if got, want := strings.Join(strings.Fields(b.String()), " "), "peer abcdefgh: 95 more lines left out peer abcdefgh has what"; !strings.Contains(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	b.Reset()
	for range childLines {
		x.tell(c)
	}
	c.At = c.At.Add(2 * time.Minute)
	b.Reset()
	x.tell(c)
	if got := strings.Join(strings.Fields(b.String()), " "); !strings.Contains(got, "peer abcdefgh: 1 more line left out peer") {
		t.Errorf("%q", got)
	}
	for range 300 {
		x.heard(c) // and nobody takes them
	}
}

// Of a share that is announced and has a secret, share and add say that its ticket is needed all the same.
func TestASecretThatIsAnnouncedIsExplained(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src, says := filepath.Join(t.TempDir(), "film"), "but only those who have its ticket"
	rig.WriteRandom(t, src, 3000, 1)
	n := startNode(t, t.TempDir(), "--dht", "own")
	for _, secret := range []bool{true, false} {
		args := []string{src, "--visible", "public", fmt.Sprintf("--secret=%v", secret)}
		s := startSharing(t, exec.Command(built(t), slices.Concat([]string{"share", "--json", "--dir", t.TempDir(), "--lan=false", "--listen", "/ip4/127.0.0.1/tcp/0", "--dht", "own"}, args)...))
		s.stop(t)
		if text := s.stderr.String(); strings.Contains(text, says) != secret {
			t.Errorf("share with a secret: %v: %s", secret, text)
		}
		if r := inDir(t, n.dir, slices.Concat([]string{"add"}, args)...); r.code != 0 || strings.Contains(r.stderr, says) != secret {
			t.Errorf("add with a secret: %v: exit %d: %s", secret, r.code, r.stderr)
		}
		src = filepath.Join(t.TempDir(), "other")
		rig.WriteRandom(t, src, 3000, 2)
	}
	for _, x := range []struct{ entry, says string }{{"1", "whoever has the ticket finds it there too"}, {"2", "whoever finds it there is served"}, {"1", ""}} {
		if r := inDir(t, n.dir, "set", x.entry, "--visible", "private"); r.code != 0 || strings.Contains(r.stderr, "stays in the hash table for up to an hour") != (x.says != "") || !strings.Contains(r.stderr, x.says) {
			t.Errorf("private, public before: %q: exit %d: %s", x.says, r.code, r.stderr)
		}
	}
}

// Where the ID alone is enough, share says so, and how others fetch by it.
func TestShareSaysWhereItsIDIsEnough(t *testing.T) {
	for name, c := range map[string]struct {
		opt            fetcher.ShareOptions
		reach          reachFlags
		from           string
		found, inTable string
	}{
		"private":     {fetcher.ShareOptions{}, reachFlags{lan: true}, "anywhere", "", ""},
		"lan":         {fetcher.ShareOptions{Visible: fetcher.VisibleLAN}, reachFlags{lan: true}, "anywhere", "on this network, with", ""},
		"lan, not on": {fetcher.ShareOptions{Visible: fetcher.VisibleLAN}, reachFlags{}, "anywhere", "", ""},
		"IPFS":        {fetcher.ShareOptions{Visible: fetcher.Public}, reachFlags{dht: []string{"public"}}, "anywhere", "wherever the same hash table is used, with", " --dht public"},
		"a table":     {fetcher.ShareOptions{Visible: fetcher.Public}, reachFlags{dht: []string{"own", "B"}}, "anywhere", "wherever the same hash table is used, with", " --dht B"},
		"ours":        {fetcher.ShareOptions{Visible: fetcher.Public}, reachFlags{dht: []string{"own"}}, "anywhere", "wherever the same hash table is used, with", " --dht A"},
		"a secret":    {fetcher.ShareOptions{Visible: fetcher.Public, Secret: true}, reachFlags{dht: []string{"own"}}, "anywhere", "", " --dht A"},
		"on loopback": {fetcher.ShareOptions{Visible: fetcher.VisibleLAN}, reachFlags{lan: true}, "machine", "", ""},
		"nowhere":     {fetcher.ShareOptions{Visible: fetcher.VisibleLAN}, reachFlags{lan: true}, "nowhere", "", ""},
		"our machine": {fetcher.ShareOptions{Visible: fetcher.Public}, reachFlags{dht: []string{"own"}}, "machine", "on this machine, wherever the same hash table is used, with", " --dht A"},
		"our network": {fetcher.ShareOptions{Visible: fetcher.Public}, reachFlags{dht: []string{"own"}}, "network", "on this network, wherever the same hash table is used, with", " --dht A"},
		"no machine":  {fetcher.ShareOptions{Visible: fetcher.Public}, reachFlags{dht: []string{"own"}}, "nowhere", "", " --dht A"},
	} {
		s := &sharer{opt: c.opt, reach: c.reach}
		if found, table := s.foundBy(c.from), s.inTable([]string{"A"}); found != c.found || table != c.inTable {
			t.Errorf("%s: %q, %q", name, found, table)
		}
	}
}

// What was fetched and is served on says that it has changed as well, and does not go on serving nothing.
func TestWhatIsServedOnTellsThatItHasChanged(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src, to := filepath.Join(t.TempDir(), "a.bin"), t.TempDir()
	rig.WriteRandom(t, src, 100_000, 1)
	origin := startShare(t, src)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out, in := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- run([]string{"fetch", origin.ticket, "-o", to, "--seed", "--dir", t.TempDir(), "--listen", "127.0.0.1:0"}, strings.NewReader(""), in, io.Discard, ctx)
	}()
	ticket, err := bufio.NewReader(out).ReadString('\n')
	must(t, err)
	origin.stop(t)
	rig.WriteRandom(t, filepath.Join(to, "a.bin"), 100_001, 2)
	if r := command(t, "fetch", strings.TrimSpace(ticket), "-o", t.TempDir(), "--listen", "none"); r.code != exitNotFound {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
	select {
	case code := <-ended:
		if code == exitOK {
			t.Error("exit 0")
		}
	case <-time.After(15 * time.Second):
		t.Error("it goes on")
	}
}
