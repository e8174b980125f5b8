package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/daemon"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

func TestRatesAreReadWholeOrNotAtAll(t *testing.T) {
	for s, want := range map[string]int64{"": 0, "5000": 5000, "0": 0, "500K": 500e3, "10M": 10e6, "1.5g": 1.5e9} {
		if got, err := parseRate("--limit-up", s); got != want || err != nil {
			t.Errorf("%q: %d, %v", s, got, err)
		}
	}
	for _, s := range []string{"10MB", "10 M", "10KiB", "5KM", "M", "x", "1", "1023", "0.5", "-1", "nan", "inf", "1e300", "1M/s"} {
		if got, err := parseRate("--limit-up", s); err == nil {
			t.Errorf("%q is taken as %d", s, got)
		}
	}
}

// Each error says what is wrong, with what, and what can be done about it.
func TestErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	src := filepath.Join(t.TempDir(), "photos")
	rig.WriteRandom(t, filepath.Join(src, "sub", "a.jpg"), 1000, 1)
	s := startShare(t, src)
	differs, foreign := t.TempDir(), t.TempDir()
	rig.WriteRandom(t, filepath.Join(differs, "photos", "sub", "a.jpg"), 1000, 2)
	rig.WriteRandom(t, filepath.Join(foreign, "photos.partial", "mine"), 10, 3)
	file := filepath.Join(t.TempDir(), "file")
	rig.WriteRandom(t, file, 10, 4)
	nobody := "/ip4/127.0.0.1/tcp/1" + s.addrs[0][strings.Index(s.addrs[0], "/p2p/"):]
	for name, c := range map[string]struct {
		args []string
		code int
		says []string
	}{
		"unfound":        {[]string{"fetch", s.id, "--stall", "1s", "--lan", "-o", t.TempDir()}, 2, []string{"--visible lan", "--peer", "only an ID was given"}},
		"unfound to cat": {[]string{"cat", s.id, "--stall", "2s", "--lan"}, 2, []string{"--visible lan", "only an ID was given"}},
		"differs":        {[]string{"fetch", s.ticket, "-o", differs}, 13, []string{differs, `"sub/a.jpg"`, "-o"}},
		"not ours":       {[]string{"fetch", s.ticket, "-o", foreign}, 13, []string{foreign, `"mine"`, "not touched"}},
		"nobody":         {[]string{"ls", s.id, "--peer", nobody}, 6, []string{"refused", "still being served", "--peer"}},
		"no proxy":       {[]string{"ls", s.id, "--peer", nobody, "--proxy", "socks5://127.0.0.1:1"}, 6, []string{"proxy 127.0.0.1:1 cannot be reached", "--proxy names a proxy that runs"}},
		"no TCP address": {[]string{"ls", s.id, "--peer", strings.Replace(nobody, "/tcp/1", "/udp/1/quic-v1", 1), "--proxy", "socks5://127.0.0.1:1"}, 6, []string{"it has no TCP address", "\nAsk whoever shares it for a ticket with a TCP address", "--proxy"}},
		"state":          {[]string{"ls", s.ticket, "--dir", filepath.Join(file, "x")}, 1, []string{file, "--dir", "FETCHER_DIR"}},
		"state of ls":    {[]string{"ls", src, "--dir", filepath.Join(file, "x")}, 1, []string{file, "--dir", "FETCHER_DIR"}},
		"no address":     {[]string{"ls", s.ticket, "--listen", "foo"}, 2, []string{`"foo"`, "to listen on", "/ip4/"}},
		"no announce":    {[]string{"share", src, "--announce", "foo"}, 2, []string{`"foo"`, "to announce"}},
		"taken address":  {[]string{"share", src, "--listen", s.addrs[0][:strings.Index(s.addrs[0], "/p2p/")]}, 6, []string{"cannot listen", "--listen"}},
		"seed":           {[]string{"fetch", s.ticket, "--seed", "30m"}, 2, []string{"--seed=30m"}},
		"two tickets":    {[]string{"fetch", s.ticket, "--seed", s.ticket}, 2, []string{"takes one TICKET"}},
		"folder to cat":  {[]string{"cat", s.ticket, "photos/sub"}, 2, []string{"is a folder"}},
		"folder to cat/": {[]string{"cat", s.ticket, "sub/"}, 2, []string{"is a folder"}},
		"nothing":        {[]string{"fetch", s.ticket, "--only", "x*", "-o", t.TempDir()}, 2, []string{`"x*"`, "nothing"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := c.args
			if !strings.Contains(name, "state") {
				args = append(args, "--dir", t.TempDir())
			}
			stdout, stderr, code := inside(args...)
			out := stdout + stderr
			if code != c.code {
				t.Errorf("exit %d, want %d", code, c.code)
			}
			for _, want := range c.says {
				if !strings.Contains(out, want) {
					t.Errorf("%q is not in:\n%s", want, out)
				}
			}
			if strings.Contains(out, keptText) { // nothing was fetched
				t.Errorf("it speaks of what is kept:\n%s", out)
			}
			t.Logf("%s", out)
		})
	}
}

// The summary of a fetch that got nowhere has no name that is empty and no time that never was.
func TestASummaryHasOnlyWhatIsKnown(t *testing.T) {
	t.Parallel()
	nobody := "/ip4/127.0.0.1/tcp/1/p2p/12D3KooWGRUVh2z7bWbXoYbF7TjJn9r8oPTP6Qo2sKZkHcSBFwZS"
	stdout, _, code := inside("fetch", "bafyr4ibxrg7vul2qwzzo3jvdxkcg22ggqjjze65jz72yktaxgogxt4y7hi", "--peer", nobody, "--json", "--stall", "1s", "--lan=false", "--dir", t.TempDir(), "-o", t.TempDir())
	sum := objects(t, stdout)["summary"][0]
	sources, _ := sum["sources"].([]any)
	if _, named := sum["name"]; code != exitNetwork || named || len(sources) != 1 || strings.Contains(stdout, "0001-01-01") {
		t.Errorf("exit %d, %v", code, sum)
	}
}

// A failure to write to stdout is reported once, and is not a success.
func TestAFullStdoutIsSaid(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("no /dev/full")
	}
	src := filepath.Join(t.TempDir(), "photos")
	for _, name := range []string{"a", "b", "c"} {
		rig.WriteRandom(t, filepath.Join(src, name), 10, 1)
	}
	for _, args := range [][]string{{"ls", src}, {"share", src, "--listen", "none"}, {"ls", src, "--json"}, {"version", "--json"}, {"sim", "list"}, {"sim", "list", "--json"}} {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		must(t, err)
		defer full.Close()
		cmd := exec.Command(built(t), append(args, "--dir", t.TempDir())...)
		var stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = full, &stderr
		err = cmd.Run()
		if cmd.ProcessState.ExitCode() != 9 || stderr.String() != "fetcher: stdout cannot be written to: disk full\nMake room and run the same command again.\n" || strings.Contains(stderr.String(), "no space left") {
			t.Errorf("%s: %v: %s", args[0], err, &stderr)
		}
	}
}

// Another state directory is another node, and no way out where there is no room.
func TestAFullDiskOfAStateDirectoryWantsRoom(t *testing.T) {
	err := fmt.Errorf("%w: %w", fetcher.ErrStateDir, &fs.PathError{Op: "write", Path: "/d/catalog.db", Err: syscall.ENOSPC})
	if got := advice(err); exitCode(err) != exitDiskFull || got != "Make room and run the same command again." {
		t.Errorf("exit code %d, %q", exitCode(err), got)
	}
}

// In a process, too, an error has one line for what is wrong and one for what to do.
func TestAdviceFollowsTheError(t *testing.T) {
	var stdout, stderr bytes.Buffer
	file := filepath.Join(t.TempDir(), "file")
	rig.WriteRandom(t, file, 10, 1)
	code := run([]string{"ls", "--dir", filepath.Join(file, "x"), "."}, strings.NewReader(""), &stdout, &stderr, context.Background())
	lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
	if code != exitOther || len(lines) != 2 || !strings.HasPrefix(lines[0], "fetcher: the state directory") || stdout.Len() > 0 {
		t.Errorf("exit %d: %s%s", code, &stdout, &stderr)
	}
	_, said, code := inside("node", "run", "--dir", t.TempDir(), "--listen", "none", "--socket", filepath.Join(t.TempDir(), "nowhere", "x"))
	if code != exitUsage || !strings.HasSuffix(said, "set socket to another path, in node.toml or as a flag\n") {
		t.Errorf("exit %d: %s", code, said)
	}
	locked := fmt.Errorf("%w: %w", fetcher.ErrStateDir, fs.ErrPermission)
	if s := advice(locked); !strings.Contains(s, "the user who owns it") {
		t.Errorf("the state directory of another user: %q", s)
	}
	if s := advice(fmt.Errorf("%w: %w", daemon.ErrNoSnapshot, share.ErrStalled)); strings.Contains(s, "ticket") || !strings.Contains(s, "a machine of the fleet") {
		t.Errorf("the leases that the fleet keeps: %q", s)
	}
	if s := advice(errors.New("anything")) + advice(io.EOF); s != "" {
		t.Error(s)
	}
}

// A share whose file is edited ends, and reports which file, once, and what to do.
func TestAShareThatIsEditedEndsAndSaysSo(t *testing.T) {
	t.Parallel()
	src := filepath.Join(t.TempDir(), "one.bin")
	rig.WriteRandom(t, src, 100_000, 1)
	s := startSharing(t, shareCommand(t, src))
	rig.WriteRandom(t, src, 100_001, 2)
	if r := command(t, "fetch", s.ticket, "-o", t.TempDir(), "--listen", "none", "--stall", "1s"); r.code == 0 {
		t.Error("it was fetched all the same")
	}
	var exit *exec.ExitError
	if err := s.cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("share ended with %v", err)
	}
	said := s.stderr.String()
	said = said[strings.Index(said, "fetcher:"):]
	if strings.Count(said, "one.bin") != 1 || strings.Count(said, "changed") != 1 || !strings.Contains(said, "again") {
		t.Errorf("it said: %s", said)
	}
}

// What is wrong with a proxy, or with what is behind it, has advice of its own.
func TestTheAdviceAboutAProxyIsForWhatItDoes(t *testing.T) {
	for is, want := range map[error]string{
		peers.ErrNoProxy: "Check that --proxy names", peers.ErrProxyUser: "Put USER:PASSWORD@", peers.ErrProxyRule: "Check that the proxy lets", peers.ErrProxy: "Check that the share",
	} {
		if got := advice(errors.Join(share.ErrNetwork, is)); !strings.HasPrefix(got, want) || !strings.HasSuffix(got, sharedText) {
			t.Errorf("%v: %q", is, got)
		}
	}
}

// A command that leaves nothing out says which does, where something can be left out.
func TestWhatCannotBeSharedIsLeftOutFirst(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a")
	rig.WriteRandom(t, file, 10, 1)
	part := &api.Problem{Detail: "cannot be shared", Unshared: []api.Unshared{{Path: "p", Why: "it is a named pipe"}}}
	for at, first := range map[string]bool{dir: true, file: false, filepath.Join(dir, "none"): false} {
		err := restFirst(part, at, "fetcher hold")
		if strings.Contains(sentence(err), "To leave it out, first run fetcher add with --exclude PATTERN, then fetcher hold") != first || !errors.As(err, new(*api.Problem)) {
			t.Errorf("%s: %v", at, err)
		}
	}
	if err := restFirst(fs.ErrNotExist, dir, ""); err != fs.ErrNotExist {
		t.Error(err)
	}
}
