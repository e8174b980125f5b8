package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/rig"
)

// footprint is what a process holds.
type footprint struct {
	anonymous, live         int64 // bytes of memory that no file backs, and of Go's heap after its last collection
	goroutines, descriptors int
}

// held is what a node holds now, by its metrics and its system.
func held(t *testing.T, n *daemonProcess, metrics string) (f footprint) {
	t.Helper()
	proc := fmt.Sprint("/proc/", n.cmd.Process.Pid)
	status, err := os.ReadFile(filepath.Join(proc, "status"))
	must(t, err)
	if m := regexp.MustCompile(`RssAnon:\s+(\d+) kB`).FindSubmatch(status); m != nil {
		kb, err := strconv.ParseInt(string(m[1]), 10, 64)
		must(t, err)
		f.anonymous = kb << 10
	}
	open, err := os.ReadDir(filepath.Join(proc, "fd"))
	must(t, err)
	f.descriptors = len(open)
	token, err := os.ReadFile(filepath.Join(n.dir, "token-read"))
	must(t, err)
	req, err := http.NewRequestWithContext(t.Context(), "GET", metrics, nil)
	must(t, err)
	req.Header.Set("Authorization", "Bearer "+string(token[:len(token)-1]))
	res, err := http.DefaultClient.Do(req)
	must(t, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	must(t, err)
	figure := func(name string) float64 {
		m := regexp.MustCompile(`(?m)^` + name + ` (\S+)`).FindSubmatch(b)
		if m == nil {
			t.Fatalf("no %s: %.200s", name, b)
		}
		v, err := strconv.ParseFloat(string(m[1]), 64)
		must(t, err)
		return v
	}
	f.goroutines = int(figure("go_goroutines"))
	f.live = int64(figure("go_memstats_next_gc_bytes") / (1 + figure("go_gc_gogc_percent")/100))
	return f
}

// worked has a node fetch a share from another, pause and resume it meanwhile, and forget
// it and its files.
func worked(t *testing.T, from, to *daemonProcess, src string) {
	t.Helper()
	served, err := from.client.Add(t.Context(), api.Add{Paths: []string{src}})
	must(t, err)
	e, err := to.client.Add(t.Context(), api.Add{Ticket: served.Ticket})
	must(t, err)
	for _, paused := range []bool{true, false} {
		_, err := to.client.Set(t.Context(), e.ID, api.Set{Paused: &paused, Rescan: !paused})
		must(t, err)
	}
	must(t, to.client.Events(t.Context(), "0-0", func(api.Event) bool {
		now, err := to.client.Entry(t.Context(), e.ID)
		must(t, err)
		return now.State == api.Served
	}))
	_, err = to.client.Remove(t.Context(), e.ID, true)
	must(t, err)
	_, err = from.client.Remove(t.Context(), served.ID, false)
	must(t, err)
}

// Two nodes at work for SOAK, such as 20m. In the last quarter they hold what they held in the one before: a leak shows as
// a slope. It takes some 400 rounds, 7 minutes, until what has a bound is full: mostly the 2,048 events that the API keeps.
func TestSoak(t *testing.T) {
	long, err := time.ParseDuration(os.Getenv("SOAK"))
	if err != nil {
		t.Skip("SOAK is not set to a time, such as 20m")
	}
	t.Setenv("GOGC", "") // as people run it: with that of TestMain all that is kept counts five times
	every := max(long/60, time.Second)
	src := t.TempDir()
	var nodes [2]*daemonProcess
	var metrics [2]string
	for i := range nodes {
		dir, at := t.TempDir(), fmt.Sprint("127.0.0.1:", rig.FreePort(t))
		nodes[i], metrics[i] = startNode(t, dir, "--http", at, "--into", filepath.Join(dir, "in")), "http://"+at+"/metrics"
	}
	var quarters [4][2][]footprint
	began := time.Now()
	next, rounds := began.Add(every), 0
	pace := time.NewTicker(time.Second) // a machine that is used for something else too
	defer pace.Stop()
	for ; time.Since(began) < long; <-pace.C {
		at := filepath.Join(src, fmt.Sprint("share", rounds))
		rig.WriteRandom(t, filepath.Join(at, "f"), 3_000_000, uint64(rounds))
		rig.WriteRandom(t, filepath.Join(at, "a", "g"), 1000, uint64(rounds))
		worked(t, nodes[rounds%2], nodes[1-rounds%2], at)
		must(t, os.RemoveAll(at))
		rounds++
		gone := time.Since(began)
		if time.Now().Before(next) || gone >= long {
			continue
		}
		next = time.Now().Add(every)
		for i, n := range nodes {
			f := held(t, n, metrics[i])
			t.Logf("%6.0f s, %d rounds, node %d: %v", gone.Seconds(), rounds, i, f)
			q := &quarters[4*gone/long][i]
			*q = append(*q, f)
		}
	}
	for i := range nodes {
		before, last := usual(quarters[2][i]), usual(quarters[3][i])
		t.Logf("node %d: %v, and in the last quarter %v", i, before, last)
		if last.anonymous > before.anonymous*21/20+1<<20 || last.goroutines > before.goroutines+5 || last.descriptors > before.descriptors+2 {
			t.Errorf("node %d holds more and more", i)
		}
	}
}

func (f footprint) String() string {
	return fmt.Sprintf("%.1f MiB anonymous, %.2f MiB live, %d goroutines, %d descriptors", float64(f.anonymous)/(1<<20), float64(f.live)/(1<<20), f.goroutines, f.descriptors)
}

// usual is the mean of what was held.
func usual(all []footprint) (f footprint) {
	for _, x := range all {
		f = footprint{f.anonymous + x.anonymous, f.live + x.live, f.goroutines + x.goroutines, f.descriptors + x.descriptors}
	}
	n := max(len(all), 1)
	return footprint{f.anonymous / int64(n), f.live / int64(n), f.goroutines / n, f.descriptors / n}
}
