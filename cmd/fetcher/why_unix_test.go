//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/store"
)

// whyOf is what a fetch says on SIGUSR1 once it is stuck, without what differs
// from run to run, a line that is the same as the last left out, and how it ended. before is called first, as soon as some of it
// has come.
func whyOf(t *testing.T, before func(), ticket string, args ...string) (why []string, r result) {
	t.Helper()
	cmd := fetchCommand(t, ticket, t.TempDir(), append(args, "--stall", "10s")...)
	asked, begun := false, before == nil
	r = finish(t, cmd, func(l line) {
		if l.Type == "progress" && l.Verified > 2<<20 && !begun {
			begun = true
			before()
		}
		if l.Type == "stall" && begun && !asked {
			asked = true
			must(t, cmd.Process.Signal(syscall.SIGUSR1))
		}
	})
	_, after, _ := strings.Cut(r.stderr, "\nfetching: ")
	for s := range strings.Lines("fetching: " + after) {
		if s = strings.TrimSpace(s); !whyLine.MatchString(s) {
			break
		}
		t.Log(s)
		for _, x := range [][2]string{
			{`\b[0-9.]+ ?(ms|s)\b`, "TIME"}, {`^source \w{8}:`, "source PEER:"}, {`[0-9.]+ k?M?B in [0-9]+ pieces?`, "N bytes in N pieces"},
			{`\S+(?: to \S+)?, pieces? [0-9-]+:`, "pieces N:"}, {`\(.*\)`, "(WORD)"},
		} {
			s = regexp.MustCompile(x[0]).ReplaceAllString(s, x[1])
		}
		why = append(why, s)
	}
	return slices.Compact(why), r
}

var whyLine = regexp.MustCompile(`^(fetching:|source \w{8}:|\S+(?: to \S+)?, pieces? [0-9-]+:|disk full)`)

func sameWhy(t *testing.T, got []string, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("said\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		return
	}
	for i := range got {
		if !regexp.MustCompile("^" + want[i] + "$").MatchString(got[i]) {
			t.Errorf("line %d is\n%s\nwant\n%s", i, got[i], want[i])
		}
	}
}

const fetching = `; no byte for TIME: the fetch gives up in TIME unless one comes`

// lacking is what is said when no source has the rest: in short, until the plan was looked at.
const lacking = `fetching: (pieces N: wanted; 1 source is connected and does not have it; waits for one that does|connected to 1 source, and nothing is sent \(WORD\)|asked 1 source, and nothing has come yet)`

func TestWhyWhenAllSourcesAreGone(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "big.bin")
	rig.WriteRandom(t, src, 12<<20, 7)
	s := startSharing(t, shareCommand(t, src, "--limit-up", "2M"))
	why, r := whyOf(t, func() { s.cmd.Process.Kill(); s.cmd.Wait() }, s.ticket)
	if r.code != 4 && r.code != 6 {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
	sameWhy(t, why,
		`fetching: no connection to 1 source \(WORD\)`+fetching,
		`source PEER: (resting|connecting) for TIME, .*; trying again( in TIME)?; N bytes in N pieces`,
		`pieces N: wanted; no source is connected that has any piece; waits for one`)
}

func TestWhyWhenNobodyHasAPiece(t *testing.T) {
	t.Parallel()
	src := filepath.Join(t.TempDir(), "photos")
	for i := range 9 {
		rig.WriteRandom(t, filepath.Join(src, fmt.Sprint(i)), 512<<10, uint64(i))
	}
	origin := startShare(t, src)
	partial := holder(t, origin, "--skip", "7")
	origin.stop(t)
	why, r := whyOf(t, nil, origin.ticket, "--peer", partial)
	if r.code != 4 {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
	sameWhy(t, why,
		lacking+fetching,
		`source PEER: (resting|connecting) for TIME, .*; N bytes in N pieces`,
		`source PEER: active for TIME, it has none of the pieces this node lacks; N bytes in N pieces`,
		`pieces N: wanted; 1 source is connected and does not have it; waits for one that does`)
}

func TestWhyWhenTheOnlySourceIsBanned(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "photos")
	for i := range 9 {
		rig.WriteRandom(t, filepath.Join(src, fmt.Sprint(i)), 512<<10, uint64(i))
	}
	origin := startShare(t, src)
	partial := holder(t, origin, "--skip", "7")
	state := t.TempDir()
	st, err := store.OpenState(state)
	must(t, err)
	now := time.Now()
	record, err := json.Marshal([]peers.Record{{ID: peers.ID(originID(origin)), At: now, Integrity: 0.25, Speed: 0.5, Prompt: 1, Offences: 2, Until: now.Add(10 * time.Hour)}})
	must(t, err)
	must(t, st.SaveRanking(record))
	must(t, st.Close())

	// Alone it is not a source at all.
	r := finish(t, fetchCommand(t, origin.ticket, t.TempDir(), "--dir", state), nil)
	if r.code != 5 || !strings.Contains(r.stderr, "lied (") || !strings.Contains(r.stderr, "banned for ") {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
	// Beside one that lacks a piece, the fetch waits for that.
	why, r := whyOf(t, nil, origin.ticket, "--peer", partial, "--dir", state)
	if r.code != 4 {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
	sameWhy(t, why,
		lacking+fetching,
		`source PEER: banned for \d+ h: it lied before \(WORD\); N bytes in N pieces`,
		`source PEER: active for TIME, .*; N bytes in N pieces`,
		`pieces N: wanted; 1 source is connected and does not have it; waits for one that does`)
}

// holder starts a process that has fetched some of what origin shares and serves
// it, and returns its address.
func holder(t *testing.T, origin *sharing, args ...string) (addr string) {
	t.Helper()
	cmd := exec.Command(built(t), append([]string{"fetch", origin.ticket, "-o", t.TempDir(), "--seed", "--json", "--dir", t.TempDir(), "--listen", "/ip4/127.0.0.1/tcp/0"}, args...)...)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	lines := json.NewDecoder(out)
	for {
		var l line
		if err := lines.Decode(&l); err != nil {
			t.Fatal("the holder ended:", err)
		}
		if l.Type == "share" {
			go io.Copy(io.Discard, out) // ends with the process
			return l.Addrs[0]
		}
	}
}
