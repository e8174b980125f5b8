//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/depot/archive"
	"github.com/piecelease/fetcher/internal/rig"
)

// An export that cannot be written, or not from where it is said, is refused as a mistake.
func TestMistakesInAnExportAreExplained(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	rig.WriteRandom(t, file, 10, 1)
	for at, want := range map[string]string{filepath.Join(file+"s", "a.tar"): "there is no folder", filepath.Join(file, "a.tar"): "is not a folder", file: "exists: name another file"} {
		if err := (depots{asker{&app{}}}).export(strings.NewReader(""), at); !errors.As(err, new(usageError)) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", at, err, want)
		}
	}
	rest := filepath.Join(t.TempDir(), "rest.tar")
	if err := (depots{asker{&app{}}}).export(strings.NewReader("no archive"), rest); err == nil || err.Error() != "the export was cut short" {
		t.Errorf("what is no archive was exported: %v", err)
	}
	if _, err := os.Stat(rest); err == nil {
		t.Error("a file in which no share is whole is left")
	}
	if _, stderr, code := inside("depot", "export", "-", "--after", "6xfm7vza", "--dir", t.TempDir()); code != exitUsage || !strings.Contains(stderr, "not the whole ID of a share; fetcher") {
		t.Errorf("after a short ID: exit %d, %s", code, stderr)
	}
}

// A node that is killed while it sends the last bytes of an export has cut it short, too.
func TestAnExportThatIsCutInItsEndIsCutShort(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	w, err := archive.NewWriter(&b, "d", time.Now(), nil)
	must(t, err)
	must(t, w.Close(0))
	cut := io.MultiReader(bytes.NewReader(b.Bytes()[:b.Len()-1000]), broken{})
	if err := (depots{asker{&app{}}}).export(cut, filepath.Join(t.TempDir(), "a.tar")); err == nil || err.Error() != "the export was cut short" {
		t.Errorf("%v", err)
	}
}

// broken is the body of an answer whose connection has ended.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// One depot exports to another, and goes away; whoever had it keep a folder fetches it from the other, and
// holds it there.
func TestADepotMovesToAnother(t *testing.T) {
	t.Parallel()
	if !rig.Long() {
		t.Skip("it starts three processes: LONG")
	}
	src := filepath.Join(t.TempDir(), "photos")
	for i := range 3 {
		rig.WriteRandom(t, filepath.Join(src, fmt.Sprint(i)), 700_000, uint64(i))
	}
	first := startNode(t, t.TempDir(), "--depot", t.TempDir())
	second := startNode(t, t.TempDir(), "--depot", t.TempDir())
	owner := startNode(t, t.TempDir())
	first.sure("depot", "account", "add", owner.status().Peer, "--quota", "100M", "--name", "owner")
	owner.sure("hold", src, "--on", first.status().Addrs[0], "--wait")
	entry, err := owner.client.Entry(t.Context(), 1)
	must(t, err)
	file := filepath.Join(t.TempDir(), "depot.tar")
	if r := first.sure("depot", "export", file); !strings.Contains(r.stderr, "1 share written") {
		t.Error(r.stderr)
	}
	if r := first.on("depot", "export", file); r.code != exitUsage {
		t.Errorf("over a file that exists: exit %d, %s", r.code, r.stderr)
	}
	first.end(os.Kill)
	owner.end(os.Kill)
	b, err := os.ReadFile(file)
	must(t, err)
	half := filepath.Join(t.TempDir(), "half.tar")
	must(t, os.WriteFile(half, b[:len(b)/2], 0o600))
	if r := second.on("depot", "import", half); r.code == 0 || !strings.Contains(r.stderr, "cut short") {
		t.Errorf("half an export: exit %d, %s", r.code, r.stderr)
	}
	for _, want := range []string{"1 share imported", "already here: 1"} {
		if r := second.sure("depot", "import", file); !strings.Contains(r.stderr, want) {
			t.Error(r.stderr)
		}
	}
	to := t.TempDir()
	got := finish(t, fetchCommand(t, entry.Share, to, "--peer", second.status().Addrs[0]), nil)
	if got.code != 0 || rig.Fingerprint(t, filepath.Join(to, "photos")) != rig.Fingerprint(t, src) {
		t.Fatalf("fetched from the other: exit %d, %s", got.code, got.stderr)
	}
	leases, err := second.client.Leases(t.Context(), "owner")
	if err != nil || len(leases) != 1 || leases[0].State != "stable" {
		t.Errorf("%+v, %v", leases, err)
	}
}

func TestWhatADepotLeavesFree(t *testing.T) {
	for want, d := range map[string]api.Depot{"": {Free: 5}, ", of which 3.00 kB is kept free": {Free: 5e3, Reserve: 3e3}, ", less than the 9.00 kB that is to stay free": {Free: 5e3, Reserve: 9e3}} {
		if got := reserveText(d); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
