package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/rig"
)

// Two machines that have the same folder add it to their fleet at once: it is one share, and all serve it.
func TestTwoMachinesAddTheSamePath(t *testing.T) {
	rig.OnlyLong(t)
	t.Parallel()
	m := newMachines(t, 3)
	var paths []string
	var nodes []*daemonProcess
	for i, dir := range m.dirs {
		nodes = append(nodes, startNode(t, dir, "--into", m.outs[i]))
		path := filepath.Join(t.TempDir(), "photos")
		must(t, os.Mkdir(path, 0o700))
		for k, name := range []string{"a.bin", "b.bin"} {
			rig.WriteRandom(t, filepath.Join(path, name), 1<<20, uint64(k))
		}
		paths = append(paths, path)
	}
	var adding sync.WaitGroup
	for i := range 2 {
		adding.Go(func() {
			if out, err := exec.Command(built(t), "fleet", "add", paths[i], "--dir", m.dirs[i]).CombinedOutput(); err != nil {
				t.Errorf("add: %v, %s", err, out)
			}
		})
	}
	adding.Wait()
	m.until("copy on all three", func(share rolledOut, _ map[string]rolledOut) bool { return share.Done == 3.0 })
	for _, name := range []string{"a.bin", "b.bin"} {
		if rig.Fingerprint(t, filepath.Join(m.outs[2], "photos", name)) != rig.Fingerprint(t, filepath.Join(paths[0], name)) {
			t.Errorf("%s differs", name)
		}
	}
	for i, x := range nodes { // a machine that hears of the other's before its own is read may have fetched a copy, too
		all, err := x.client.Entries(t.Context())
		must(t, err)
		for _, e := range all {
			if e.State != api.Served || e.Share != all[0].Share {
				t.Errorf("machine %d: %+v", i, e)
			}
		}
	}
}

// A machine is copied with its state directory, so that two have one key, and nobody can tell them apart. Either the others get what they
// are to have, or the log of a copy says what is wrong.
func TestACopiedMachineIsNamedOrHoldsNobodyUp(t *testing.T) {
	rig.OnlyLong(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "film.bin")
	rig.WriteRandom(t, src, 8<<20, 5)
	origin := startShare(t, src, "--limit-up", "4M")
	m := newMachines(t, 3)
	m.start(1) // makes its key
	m.kill(1)
	dir := filepath.Join(t.TempDir(), "copy")
	must(t, os.CopyFS(dir, os.DirFS(m.dirs[1])))
	m.dirs[2] = dir
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	must(t, err)
	defer log.Close()
	m.stderr = log
	for i := range m.runs {
		m.start(i)
	}
	if r := inDir(t, m.dirs[0], "fleet", "add", origin.ticket); r.code != 0 {
		t.Fatalf("add: %s", r.stderr)
	}
	want := rig.Fingerprint(t, src)
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		have := 0
		for _, out := range m.outs {
			path := filepath.Join(out, "film.bin")
			if _, err := os.Stat(path); err == nil && rig.Fingerprint(t, path) == want {
				have++
			}
		}
		said, err := os.ReadFile(log.Name())
		must(t, err)
		if have == len(m.outs) || strings.Contains(string(said), "if a state directory was copied") {
			t.Logf("%d have it, and the log has %d bytes", have, len(said))
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d have it, and nobody says why: %s", have, m.says())
		}
	}
}
