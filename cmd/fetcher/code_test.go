package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/internal/rig"
)

// Real processes: what each side is told of a code that is right, wrong, used, mistyped, or goes nowhere.
func TestAShareGoesByACode(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	file := filepath.Join(t.TempDir(), "film")
	rig.WriteRandom(t, file, 300_000, 1)
	b := startNode(t, t.TempDir(), "--beacon")
	st, err := b.client.Status(t.Context())
	must(t, err)
	at := []string{"--beacon-at", st.Addrs[0]}
	share := func() (code string, end func() string) {
		codes, ends := make(chan string, 1), make(chan string, 1)
		cmd := exec.Command(built(t), append([]string{"share", file, "--json", "--code", "--dir", t.TempDir(), "--listen", "/ip4/127.0.0.1/tcp/0"}, at...)...)
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		t.Cleanup(func() {
			cmd.Process.Kill()
			cmd.Wait()
		})
		go func() { // ends with the process
			for sc := bufio.NewScanner(out); sc.Scan(); {
				var l struct {
					Type, Words, Why string
					Used             bool
				}
				switch json.Unmarshal(sc.Bytes(), &l); l.Type {
				case "code":
					codes <- l.Words
				case "code_end":
					ends <- either(l.Used, "used", l.Why)
				}
			}
		}()
		wait := func(c chan string) string {
			select {
			case s := <-c:
				return s
			case <-time.After(30 * time.Second):
				t.Fatal("it says nothing")
				return ""
			}
		}
		return wait(codes), func() string { return wait(ends) }
	}
	fetch := func(code string, more ...string) (dir, says string, exit int) {
		t.Helper()
		dir = t.TempDir()
		r := finish(t, exec.Command(built(t), append(append([]string{"fetch", "--json", "--dir", t.TempDir(), "-o", dir, "--lan=false"}, strings.Fields(code)...), more...)...), nil)
		return dir, r.stderr, r.code
	}
	code, end := share()
	dir, says, exit := fetch(strings.ToUpper(strings.ReplaceAll(code, "-", " ")), at...)
	if exit != 0 || rig.Fingerprint(t, filepath.Join(dir, "film")) != rig.Fingerprint(t, file) || end() != "used" {
		t.Errorf("exit %d: %s", exit, says)
	}
	if _, says, exit := fetch(code, at...); exit != exitNotFound || !strings.Contains(says, "has been used") {
		t.Errorf("used: exit %d: %s", exit, says)
	}
	code, end = share()
	channel, _, _ := strings.Cut(code, "-")
	if _, says, exit := fetch(channel+"-marble-fossil", at...); exit != exitNotAllowed || !strings.Contains(says, "ask them for a new one") {
		t.Errorf("wrong: exit %d: %s", exit, says)
	}
	if why := end(); !strings.Contains(why, "other words") {
		t.Errorf("the sharer is told %q", why)
	}
	if _, says, exit := fetch("7-marbel-fossil", at...); exit != exitUsage || !strings.Contains(says, `did you mean "marble"?`) {
		t.Errorf("mistyped: exit %d: %s", exit, says)
	}
	if _, says, exit := fetch("7-marble-fossil"); exit != exitUsage || !strings.Contains(says, "--beacon-at ADDR") {
		t.Errorf("no beacon: exit %d: %s", exit, says)
	}
	other := startNode(t, t.TempDir())
	st, err = other.client.Status(t.Context())
	must(t, err)
	if _, says, exit := fetch("7-marble-fossil", "--beacon-at", st.Addrs[0]); exit != exitNetwork || !strings.Contains(says, "is not a beacon") {
		t.Errorf("a node that is not a beacon: exit %d: %s", exit, says)
	}
	if r := finish(t, exec.Command(built(t), "share", file, "--code", "--dir", t.TempDir()), nil); r.code != exitUsage || !strings.Contains(r.stderr, "FETCHER_BEACON_AT") {
		t.Errorf("share without a beacon: exit %d: %s", r.code, r.stderr)
	}
}

// A code that could not be made is not said to have been one.
func TestWhatBecameOfACodeIsSaid(t *testing.T) {
	away := errors.New("the beacon does not answer: nothing listens there")
	for _, c := range []struct {
		err  error
		said bool
		want string
	}{
		{away, false, "No code was made: the beacon does not answer: nothing listens there."},
		{away, true, "The code has become useless: the beacon does not answer: nothing listens there."},
		{fetcher.ErrWrongCode, true, "Somebody tried the code with other words, so it is used up; they learnt nothing."},
		{fetcher.ErrCodeGone, true, "Nobody used the code in time: it has expired."},
	} {
		if got := codeFailed(c.err, c.said); got != c.want {
			t.Errorf("%v, said %v: %s", c.err, c.said, got)
		}
	}
}
