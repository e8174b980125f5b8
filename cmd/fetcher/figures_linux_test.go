package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/rig"
)

// cpu is the processor time that a node has used.
func cpu(t *testing.T, n *daemonProcess) time.Duration {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", n.cmd.Process.Pid))
	must(t, err)
	var all time.Duration
	for _, at := range tasks {
		if b, err := os.ReadFile(at); err == nil { // otherwise the thread has ended
			var ns int64
			fmt.Sscan(string(b), &ns)
			all += time.Duration(ns)
		}
	}
	return all
}

// fill makes a node serve a number of small folders.
func fill(t *testing.T, n *daemonProcess, entries int) {
	src := t.TempDir()
	for i := range entries {
		at := filepath.Join(src, fmt.Sprint("share", i))
		rig.WriteRandom(t, filepath.Join(at, "f"), 1000, uint64(i))
		_, err := n.client.Add(t.Context(), api.Add{Paths: []string{at}})
		must(t, err)
	}
}

// FIGURES=1: what an idle node with 1,000 entries costs.
func TestFiguresIdle(t *testing.T) {
	http := fmt.Sprint("127.0.0.1:", rig.FreePort(t))
	n := figures(t, "--http", http)
	const idle = time.Minute
	time.Sleep(idle / 4)
	before := cpu(t, n)
	time.Sleep(idle)
	used, f := cpu(t, n)-before, held(t, n, "http://"+http+"/metrics")
	t.Logf("idle with 1,000 entries: %.1f MiB anonymous, %.2f %% of a core, %d goroutines, %d descriptors", float64(f.anonymous)/(1<<20), 100*used.Seconds()/idle.Seconds(), f.goroutines, f.descriptors)
	if f.anonymous > 80<<20 || used > idle/200 {
		t.Errorf("it holds %d bytes and used %v in %v", f.anonymous, used, idle)
	}
}

// figures starts a node with 1,000 entries.
func figures(t *testing.T, args ...string) *daemonProcess {
	if os.Getenv("FIGURES") == "" {
		t.Skip("FIGURES is not set")
	}
	t.Setenv("GOGC", "") // as people run it
	n := startNode(t, t.TempDir(), args...)
	fill(t, n, 1000)
	return n
}

// FIGURES=1: how quickly a node with 1,000 entries answers while it fetches as fast as it can.
func TestFiguresBusy(t *testing.T) {
	n := figures(t)
	origin := startNode(t, t.TempDir())
	src := filepath.Join(t.TempDir(), "big")
	rig.WriteRandom(t, src, 3<<30, 1)
	e, err := origin.client.Add(t.Context(), api.Add{Paths: []string{src}})
	must(t, err)
	got, err := n.client.Add(t.Context(), api.Add{Ticket: e.Ticket, Dir: t.TempDir()})
	must(t, err)
	began, pace := time.Now(), time.NewTicker(5*time.Millisecond)
	defer pace.Stop()
	took := map[string][]time.Duration{}
	for i := 0; got.State != api.Served; i++ {
		<-pace.C
		asked, what := time.Now(), "an entry"
		switch i % 4 {
		case 0:
			_, err = n.client.Status(t.Context())
			what = "the status"
		case 1:
			priority := []string{"low", "high"}[i/4%2]
			_, err = n.client.Set(t.Context(), 1+int64(i)%1000, api.Set{Priority: &priority})
			what = "a change"
		default:
			got, err = n.client.Entry(t.Context(), got.ID)
		}
		must(t, err)
		took[what] = append(took[what], time.Since(asked))
	}
	t.Logf("3 GiB in %v", time.Since(began))
	for what, all := range took {
		slices.Sort(all)
		at := func(share float64) time.Duration { return all[int(float64(len(all)-1)*share)] }
		t.Logf("%s, %d times: %v at the median, %v at the 99th percentile, %v at most", what, len(all), at(0.5), at(0.99), at(1))
		if at(0.99) > 50*time.Millisecond {
			t.Errorf("%s: %v at the 99th percentile", what, at(0.99))
		}
	}
	if !strings.HasSuffix(got.Path, "big") {
		t.Errorf("fetched: %+v", got)
	}
}
