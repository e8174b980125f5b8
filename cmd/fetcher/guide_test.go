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

// reader is a person who does what the guide says, in one shell after another, at one of several
// machines.
type reader struct {
	t      *testing.T
	home   string
	port   string
	ticket string
	said   string            // by commands that set a variable of the shell
	words  map[string]string // placeholders for what only a run can say; of all machines
	ctrlC  func()            // ends what serves
}

func (r *reader) command(line string) *exec.Cmd {
	line = strings.ReplaceAll(strings.ReplaceAll(line, "TICKET", r.ticket), "4820", r.port)
	for word, is := range r.words {
		line = strings.ReplaceAll(line, word, is)
	}
	cmd := exec.CommandContext(r.t.Context(), "bash", "-euc", r.said+"exec 3>&1; "+line)
	cmd.Dir = r.home
	cmd.Env = append(os.Environ(), "HOME="+r.home, "XDG_DATA_HOME=", "FETCHER_LISTEN=127.0.0.1:0", "FETCHER_LAN=true", "PATH="+filepath.Dir(built(r.t))+":"+os.Getenv("PATH"))
	return cmd
}

// serve runs what does not end until it serves, and reads the ticket of a share, or the
// addresses of a node.
func (r *reader) serve(line, until string) (peer string, addrs []string) {
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
		var l struct {
			Type, Ticket, Peer, Words string
			Addrs                     []string
		}
		if json.Unmarshal(sc.Bytes(), &l) == nil && l.Type == until {
			r.ticket, r.words["7-marble-fossil"] = l.Ticket, l.Words
			return l.Peer, l.Addrs
		}
	}
	r.t.Fatalf("%s ended: %s", line, errs.String())
	return "", nil
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

// do does what a line says, at the machine of that name.
func (r *reader) do(name, line string) {
	switch {
	case strings.HasPrefix(line, "fetcher share ") && strings.Contains(line, "--code"):
		r.serve(line, "code")
	case strings.HasPrefix(line, "fetcher share "):
		r.serve(line, "share")
	case strings.HasPrefix(line, "fetcher node run"):
		if peer, addrs := r.serve(line, "node"); name == "" {
			r.words["PEER"] = peer
		} else {
			r.words[strings.ToUpper(name)] = addrs[0]
		}
	case strings.HasPrefix(line, "fetcher depot voucher "):
		code, err := r.command(line).Output()
		must(r.t, err)
		if name == "depot" {
			r.words["CODE"] = strings.TrimSpace(string(code))
		}
	default:
		r.run(line)
	}
}

// The guide is true: whoever types its commands, one after another, gets the output that it shows.
func TestTheGuideWorks(t *testing.T) {
	rig.OnlyLong(t)
	if runtime.GOOS == "windows" {
		t.Skip("its commands are for a Unix shell")
	}
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("NOT TESTED: the guide needs curl")
	}
	t.Parallel()
	text, err := os.ReadFile("../../docs/guide.md")
	must(t, err)
	r, words := &reader{t: t, home: t.TempDir(), port: fmt.Sprint(rig.FreePort(t)), ctrlC: func() {}}, map[string]string{}
	machines := map[string]*reader{"": r}
	for _, name := range []string{"depot", "other", "beacon", "desk", "laptop"} {
		machines[name] = &reader{t: t, home: t.TempDir(), ctrlC: func() {}}
	}
	for _, m := range machines {
		m.words = words
	}
	rig.WriteRandom(t, filepath.Join(r.home, "photos", "summer", "1.jpg"), 300_000, 1)
	rig.WriteRandom(t, filepath.Join(r.home, "photos", "winter", "2.jpg"), 300_000, 2)
	must(t, os.WriteFile(filepath.Join(r.home, "photos", "notes.txt"), []byte("some notes\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(machines["desk"].home, "notes.txt"), []byte("some notes\n"), 0o600))
	blocks := regexp.MustCompile("(?s)```console\n(.*?)```").FindAllSubmatch(text, -1)
	n := 0
	for _, b := range blocks {
		for l := range strings.Lines(string(b[1])) {
			at, line, ok := strings.Cut(strings.TrimSpace(l), "$ ")
			if !ok {
				continue
			}
			for name, m := range machines { // both depots are set up in the same way
				if name == at || at == "depot" && name == "other" {
					m.do(name, line)
				}
			}
			n++
		}
	}
	if n < 15 {
		t.Errorf("the guide has %d commands", n)
	}
	if got, want := rig.Fingerprint(t, filepath.Join(r.home, "received", "photos")), rig.Fingerprint(t, filepath.Join(r.home, "photos")); got != want {
		t.Errorf("received\n%s, not\n%s", got, want)
	}
	if got, want := rig.Fingerprint(t, filepath.Join(machines["laptop"].home, "notes.txt")), rig.Fingerprint(t, filepath.Join(r.home, "photos", "notes.txt")); got != want {
		t.Errorf("by a code came\n%s, not\n%s", got, want)
	}
	if got, want := rig.Fingerprint(t, filepath.Join(r.home, "rescued", "photos")), rig.Fingerprint(t, filepath.Join(r.home, "photos")); got != want {
		t.Errorf("rescued\n%s, not\n%s", got, want)
	}
	if _, err := os.Stat(filepath.Join(r.home, "some", "photos", "winter")); err == nil {
		t.Error("what was not chosen was fetched")
	}
}
