package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/peers"
)

// A source that listens nowhere is told by the ticket of whoever fetches where to connect to.
func TestASourceConnectsToWhoeverFetches(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src, dir := filepath.Join(t.TempDir(), "film"), t.TempDir()
	rig.WriteRandom(t, src, 300_000, 1)
	first := startSharing(t, exec.Command(built(t), "share", src, "--json", "--dir", t.TempDir(), "--lan=false", "--listen", "none"))
	cmd := exec.Command(built(t), "fetch", first.ticket, "--listen-for-source", "-o", dir, "--json", "--dir", t.TempDir(), "--listen", "/ip4/127.0.0.1/tcp/0")
	awaits := ""
	res := finish(t, cmd, func(l line) {
		if l.Type == "await" {
			awaits = l.Ticket
			startSharing(t, exec.Command(built(t), "share", src, "--json", "--dir", t.TempDir(), "--lan=false", "--listen", "none", "--to", l.Ticket))
		}
	})
	if res.code != 0 || awaits == "" {
		t.Fatalf("exit %d: %s", res.code, res.stderr)
	}
	if rig.Fingerprint(t, filepath.Join(dir, "film")) != rig.Fingerprint(t, src) {
		t.Error("other bytes")
	}
	if !strings.Contains(res.stderr, "fetcher share PATH --to "+awaits) {
		t.Errorf("it does not say what to run there: %s", res.stderr)
	}

	other := filepath.Join(t.TempDir(), "other")
	rig.WriteRandom(t, other, 3000, 2)
	res = finish(t, exec.Command(built(t), "share", other, "--json", "--dir", t.TempDir(), "--lan=false", "--listen", "none", "--to", awaits), nil)
	if res.code != 2 || !strings.Contains(res.stderr, "for share "+shortly(first.id)+", and other is share") {
		t.Errorf("another file for that ticket: exit %d: %s", res.code, res.stderr)
	}
	own := t.TempDir()
	mine := startSharing(t, exec.Command(built(t), "share", src, "--json", "--dir", own, "--lan=false", "--listen", "/ip4/127.0.0.1/tcp/0"))
	mine.stop(t)
	res = finish(t, exec.Command(built(t), "share", src, "--json", "--dir", own, "--lan=false", "--listen", "none", "--to", mine.ticket), nil)
	if res.code != 2 || !strings.Contains(res.stderr, "fetch --listen-for-source prints on the other machine: the ticket leads to this node itself") {
		t.Errorf("a ticket of its own: exit %d: %s", res.code, res.stderr)
	}
	for to, want := range map[string]string{"nonsense": "--to: ", first.id: "and not an ID"} {
		res = finish(t, exec.Command(built(t), "share", other, "--json", "--dir", t.TempDir(), "--to", to), nil)
		if res.code != 2 || !strings.Contains(res.stderr, want) {
			t.Errorf("--to %s: exit %d: %s", to, res.code, res.stderr)
		}
	}
}

// A share --to whose ticket leads to a source, or to nobody, says so at once.
func TestATicketThatLeadsToASourceIsSaidToBeNone(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "film")
	rig.WriteRandom(t, src, 1000, 1)
	source := startSharing(t, exec.Command(built(t), "share", src, "--json", "--dir", t.TempDir(), "--lan=false", "--listen", "/ip4/127.0.0.1/tcp/0"))
	said := func(listen, want string) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var all strings.Builder
		run([]string{"share", src, "--dir", t.TempDir(), "--lan=false", "--listen", listen, "--to", source.ticket}, strings.NewReader(""), io.Discard, writer(func(b []byte) {
			if all.Write(b); strings.Contains(all.String(), want) {
				cancel()
			}
		}), ctx)
		if !strings.Contains(all.String(), want) {
			t.Errorf("it does not say %q: %s", want, all.String())
		}
	}
	const whole = "does not fetch from here: it has all that it wants of the share. With --to, give the ticket that fetch --listen-for-source prints there"
	said("none", whole)
	said("none", "warning: only whoever made the ticket of --to can fetch from this node: it listens nowhere")
	said("/ip4/127.0.0.1/tcp/0", whole)
	source.stop(t)
	said("none", "does not fetch from here: refused: nothing listens there")
}

// What a source says of a fetcher that refuses, and names no reason, is a whole sentence.
func TestARefusalThatNamesNoReasonIsAWholeSentence(t *testing.T) {
	var b bytes.Buffer
	s := &sharer{app: &app{stderr: &terminal{w: &b, columns: func() int { return 0 }}}, answered: map[peers.ID]string{}}
	s.tellCall(answer{"them", words.Error(fetcher.ErrUnwanted, "it does not say why")})
	const want = "them, to which the ticket of --to leads, does not fetch from here: it does not say why. With --to, give the ticket that fetch --listen-for-source prints there; that fetch must still be running\n"
	if b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

// writer is a function that gets what is written.
type writer func([]byte)

func (w writer) Write(b []byte) (int, error) {
	w(b)
	return len(b), nil
}

// The node waits for a source that connects to it, and says how; over a restart, too.
func TestTheNodeWaitsForItsSource(t *testing.T) {
	rig.OnlyLong(t)
	t.Parallel()
	src, dir, home := filepath.Join(t.TempDir(), "film"), t.TempDir(), t.TempDir()
	rig.WriteRandom(t, src, 300_000, 1)
	first := startSharing(t, exec.Command(built(t), "share", src, "--json", "--dir", t.TempDir(), "--lan=false", "--listen", "none"))
	n := startNode(t, home)
	cmd := exec.Command(built(t), "add", first.id, "--listen-for-source", "-o", dir, "--dir", home)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	ticket := strings.TrimSpace(string(out))
	if err != nil || !strings.HasPrefix(ticket, "share") || !strings.Contains(errs.String(), "fetcher share PATH --to "+ticket) {
		t.Fatalf("%v: %q\n%s", err, out, errs.String())
	}
	n.end(os.Interrupt)
	n = startNode(t, home)
	now, err := n.client.Entries(t.Context()) // it has another port
	must(t, err)
	startSharing(t, exec.Command(built(t), "share", src, "--json", "--dir", t.TempDir(), "--lan=false", "--listen", "none", "--to", now[0].Ticket))
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		all, err := n.client.Entries(t.Context())
		must(t, err)
		if len(all) == 1 && all[0].State == api.Served {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%+v", all)
		}
	}
	if rig.Fingerprint(t, filepath.Join(dir, "film")) != rig.Fingerprint(t, src) {
		t.Error("other bytes")
	}
}

// When nobody comes it ends, and says what is to be done.
func TestAFetchThatNobodyComesToEnds(t *testing.T) {
	t.Parallel()
	src := filepath.Join(t.TempDir(), "film")
	rig.WriteRandom(t, src, 3000, 1)
	s := startSharing(t, exec.Command(built(t), "share", src, "--json", "--dir", t.TempDir(), "--lan=false", "--listen", "none"))
	fetch := func(listen string) result {
		return finish(t, exec.Command(built(t), "fetch", s.ticket, "--listen-for-source", "--stall", "300ms", "-o", t.TempDir(), "--json", "--dir", t.TempDir(), "--listen", listen), nil)
	}
	if res := fetch("/ip4/127.0.0.1/tcp/0"); res.code != 4 && res.code != 6 || !strings.Contains(res.stderr, "run on the other machine the command that it prints") {
		t.Errorf("exit %d: %s", res.code, res.stderr)
	}
	if res := fetch("none"); res.code != 2 || !strings.Contains(res.stderr, "it listens nowhere") {
		t.Errorf("without an address: exit %d: %s", res.code, res.stderr)
	}
}
