package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
)

// parts cuts half of the members, with the coordinator, off from the others and from the store. It goes on there, and the
// others elect another: each part fetches. When they reach each other again, nothing enters that any of them has.
func (f *trial) parts() {
	began := time.Now()
	f.until(0.15)
	i, term := f.coordinator()
	away, stay := []string{}, []string{"e1"} // the store's
	for k := range f.members {
		end := fmt.Sprint("e", (i+k)%f.members+2)
		if k < f.members/2 {
			away = append(away, end)
		} else {
			stay = append(stay, end)
		}
	}
	lan := f.ns + "lan"
	rules := filepath.Join(f.dir, "rules")
	here, there := strings.Join(stay, ", "), strings.Join(away, ", ")
	must(f.t, os.WriteFile(rules, fmt.Appendf(nil, "table bridge parts {\nchain c {\ntype filter hook forward priority 0\niifname { %[1]s } oifname { %[2]s } drop\niifname { %[2]s } oifname { %[1]s } drop\n}\n}\n", here, there), 0o600))
	rig.Sh(f.t, "ip netns exec %s nft -f %s", lan, rules)
	cut := f.entered()
	f.t.Logf("at %2.0f %%: %d members, with the coordinator of term %d, were cut off from the others and the store", 100*cut, len(away), term)
	f.elected(term)
	f.until(cut + 0.6)
	had, healed := f.union(), f.entered()
	rig.Sh(f.t, "ip netns exec %s nft delete table bridge parts", lan)
	f.t.Logf("after %.0f s they reach each other again: %.4f copies entered in all, together they have %.1f %%", time.Since(began).Seconds(), healed, 100*had)
	f.finish(began, 2)
	after := f.entered() - healed
	f.t.Logf("since then %.4f copies entered, of which %.4f nobody had", after, 1-had)
	if after > 1-had+0.03 { // pieces under way when they met, one a member and part, and framing
		f.t.Error("pieces entered that a member had")
	}
}

// union is what part of the share the members have together on their disks.
func (f *trial) union() float64 {
	want, err := os.ReadFile(filepath.Join(f.dir, "big.bin"))
	must(f.t, err)
	const block = 256 << 10
	has := make([]bool, len(want)/block)
	for i := range f.runs {
		must(f.t, filepath.WalkDir(filepath.Join(f.dir, fmt.Sprint("out-", i)), func(path string, e os.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) { // a member replaces files while we look
				return nil
			}
			if err != nil || e.IsDir() {
				return err
			}
			b, err := os.ReadFile(path)
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			for k := range has {
				at, end := k*block, (k+1)*block
				has[k] = has[k] || len(b) >= end && bytes.Equal(b[at:end], want[at:end])
			}
			return err
		}))
	}
	n := 0
	for _, yes := range has {
		if yes {
			n++
		}
	}
	return float64(n) / float64(len(has))
}

// paused stops the coordinator, twice, until another leases, and lets it go on: two think that they coordinate.
func (f *trial) paused() {
	began := time.Now()
	for _, part := range []float64{0.15, 0.5} {
		f.until(part)
		i, term := f.coordinator()
		must(f.t, f.runs[i].Process.Signal(syscall.SIGSTOP))
		f.t.Logf("at %2.0f %%: member%d, which coordinates in term %d, is stopped", 100*f.entered(), i, term)
		f.elected(term)
		f.until(f.entered() + 0.05)
		must(f.t, f.runs[i].Process.Signal(syscall.SIGCONT))
		now, next := f.coordinator()
		f.t.Logf("at %2.0f %%: it goes on, and member%d coordinates in term %d", 100*f.entered(), now, next)
		time.Sleep(6 * time.Second)
		if again, term := f.coordinator(); again != now || term != next {
			f.t.Errorf("member%d coordinates in term %d", again, term)
		}
	}
	f.finish(began, 1.02)
}

// clock has member0's clock an hour ahead. It takes no office from a live coordinator; a job it runs early, and the
// others are told so.
func (f *trial) clock() {
	began := time.Now()
	f.until(0.1)
	if i, _ := f.coordinator(); i == 0 {
		f.killed()
	}
	i, term := f.coordinator()
	f.t.Logf("member%d coordinates in term %d, and member0's clock is an hour ahead", i, term)
	f.until(0.5)
	if now, is := f.coordinator(); i == 0 || now != i || is != term {
		f.t.Errorf("member%d coordinates in term %d, and member%d did in term %d", now, is, i, term)
	}
	f.killed()
	job := func(program, want string) {
		out, _ := f.in(1, program, "round", "run", "--json", "--kv", "nats://"+f.addr(1)+":4222/trial", "--name", "job", "--every", "1h", "--once", "--", "true").CombinedOutput()
		if !strings.Contains(string(out), want) {
			f.t.Errorf("no %s: %s", want, out)
		}
	}
	job(built(f.t), `"won"`)
	job(f.ahead, `"won"`)
	job(built(f.t), `"clock_ahead"`)
	f.finish(began, 1.02)
}

// anHourAhead builds a fetcher whose wall clock is an hour ahead, for rounds and whatever actors store.
func anHourAhead(t *testing.T) string {
	root, err := filepath.Abs("../..")
	must(t, err)
	dir, replace := t.TempDir(), map[string]string{}
	for _, x := range []struct{ file, old, new string }{
		{"rounds/decide.go", "return Now{t, t.Sub(start)}", "return Now{t.Add(time.Hour), t.Sub(start)}"},
		{"actors/system/runtime.go", "return r.Now().UTC().Round(0)", "return r.Now().Add(time.Hour).UTC().Round(0)"},
	} {
		real, edited := filepath.Join(root, x.file), filepath.Join(dir, filepath.Base(x.file))
		b, err := os.ReadFile(real)
		must(t, err)
		if strings.Count(string(b), x.old) != 1 {
			t.Fatalf("%s has not one %q", x.file, x.old)
		}
		must(t, os.WriteFile(edited, []byte(strings.Replace(string(b), x.old, x.new, 1)), 0o600))
		replace[real] = edited
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	must(t, err)
	overlay, out := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "fetcher-ahead")
	must(t, os.WriteFile(overlay, list, 0o600))
	if said, err := exec.Command("go", "build", "-overlay", overlay, "-o", out, root+"/cmd/fetcher").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	return out
}
