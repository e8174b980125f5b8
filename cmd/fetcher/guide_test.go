package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/piecelease/fetcher/internal/rig"
)

// reader is a person who does what the guide says, in one shell after another.
type reader struct {
	t      *testing.T
	home   string
	port   string
	ticket string
	said   string // by commands that set a variable of the shell
	ctrlC  func() // ends what serves
}

func (r *reader) command(line string) *exec.Cmd {
	line = strings.ReplaceAll(strings.ReplaceAll(line, "TICKET", r.ticket), "4820", r.port)
	cmd := exec.CommandContext(r.t.Context(), "bash", "-euc", r.said+"exec 3>&1; "+line)
	cmd.Dir = r.home
	cmd.Env = append(os.Environ(), "HOME="+r.home, "XDG_DATA_HOME=", "FETCHER_LISTEN=127.0.0.1:0", "PATH="+filepath.Dir(built(r.t))+":"+os.Getenv("PATH"))
	return cmd
}

// serve runs what does not end until it serves, and reads the ticket of a share.
func (r *reader) serve(line, until string) {
	r.ctrlC()
	cmd := r.command("exec " + line + " --json")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	must(r.t, err)
	must(r.t, cmd.Start())
	r.ctrlC = sync.OnceFunc(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	r.t.Cleanup(r.ctrlC)
	sc := bufio.NewScanner(out)
	for sc.Scan() {
		var l struct{ Type, Ticket string }
		if json.Unmarshal(sc.Bytes(), &l) == nil && l.Type == until {
			r.ticket = l.Ticket
			return
		}
	}
	r.t.Fatalf("%s ended: %s", line, errs.String())
}

func (r *reader) run(line string) {
	if regexp.MustCompile(`^[A-Z]+=`).MatchString(line) {
		r.said += line + "\n"
		return
	}
	out, err := r.command(line).CombinedOutput()
	if err != nil {
		r.t.Fatalf("$ %s\n%s%v", line, out, err)
	}
	for l := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "fetcher add") && strings.HasPrefix(l, "share") {
			r.ticket = strings.TrimSpace(l)
		}
	}
	if strings.HasPrefix(line, "curl") && strings.Contains(string(out), `"code":`) {
		r.t.Errorf("$ %s\n%s", line, out)
	}
}

// The guide is true: whoever types its commands, one after the other, gets what it says.
func TestTheGuideWorks(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("its commands are for a Unix shell")
	}
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("NOT TESTED: the guide needs curl")
	}
	t.Parallel()
	text, err := os.ReadFile("../../docs/guide.md")
	must(t, err)
	r := &reader{t: t, home: t.TempDir(), port: fmt.Sprint(rig.FreePort(t)), ctrlC: func() {}}
	writeRandom(t, filepath.Join(r.home, "photos", "summer", "1.jpg"), 300_000, 1)
	writeRandom(t, filepath.Join(r.home, "photos", "winter", "2.jpg"), 300_000, 2)
	must(t, os.WriteFile(filepath.Join(r.home, "photos", "notes.txt"), []byte("some notes\n"), 0o600))
	blocks := regexp.MustCompile("(?s)```console\n(.*?)```").FindAllSubmatch(text, -1)
	n := 0
	for _, b := range blocks {
		for l := range strings.Lines(string(b[1])) {
			line, ok := strings.CutPrefix(strings.TrimSpace(l), "$ ")
			switch {
			case !ok:
				continue
			case strings.HasPrefix(line, "fetcher share "):
				r.serve(line, "share")
			case strings.HasPrefix(line, "fetcher node run"):
				r.serve(line, "node")
			default:
				r.run(line)
			}
			n++
		}
	}
	if n < 15 {
		t.Errorf("the guide has %d commands", n)
	}
	if got, want := fingerprint(t, filepath.Join(r.home, "received", "photos")), fingerprint(t, filepath.Join(r.home, "photos")); got != want {
		t.Errorf("received\n%s, not\n%s", got, want)
	}
	if _, err := os.Stat(filepath.Join(r.home, "some", "photos", "winter")); err == nil {
		t.Error("what was not chosen was fetched")
	}
}
