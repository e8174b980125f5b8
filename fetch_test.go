package fetcher

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
)

var loopback = []string{"/ip4/127.0.0.1/tcp/0"}

// openNode opens a node on loopback with a state of its own; the test closes it.
func openNode(t testing.TB, change ...func(*Config)) *Node {
	t.Helper()
	cfg := Config{Dir: t.TempDir(), Listen: loopback}
	for _, f := range change {
		f(&cfg)
	}
	n, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error("close:", err)
		}
	})
	return n
}

// shareOf serves path from a new node.
func shareOf(t testing.TB, path string, change ...func(*Config)) *Share {
	t.Helper()
	s, err := openNode(t, change...).Share(t.Context(), path, ShareOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// fetchInto fetches and waits.
func fetchInto(t testing.TB, n *Node, ticket, dir string, opt FetchOptions) (*Transfer, error) {
	t.Helper()
	opt.Dir = dir
	x, err := n.Fetch(t.Context(), ticket, opt)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return x, x.Wait(ctx)
}

// writeRandom makes a file of n seeded bytes, and returns them.
func writeRandom(t testing.TB, path string, n int, seed uint64) []byte {
	t.Helper()
	rig.WriteRandom(t, path, n, seed)
	b, err := os.ReadFile(path)
	must(t, err)
	return b
}

// makeTree makes a folder with everything that a share may hold.
func makeTree(t testing.TB, dir string) {
	t.Helper()
	for i, n := range []int{0, 1, 1023, 1024, 1025, 64<<10 - 1, 64 << 10, 64<<10 + 1, 1<<20 - 1, 1 << 20, 1<<20 + 1, 3<<20 + 17} {
		writeRandom(t, filepath.Join(dir, fmt.Sprintf("sizes/%d.bin", n)), n, uint64(i))
	}
	writeRandom(t, filepath.Join(dir, "Übergröße/日本語.txt"), 100, 90)
	writeRandom(t, filepath.Join(dir, "run.sh"), 50, 91)
	writeRandom(t, filepath.Join(dir, "readonly"), 50, 92)
	must(t, os.Chmod(filepath.Join(dir, "run.sh"), 0o755))
	must(t, os.Chmod(filepath.Join(dir, "readonly"), 0o444))
	must(t, os.MkdirAll(filepath.Join(dir, "empty/deep"), 0o755))
	must(t, os.Symlink("run.sh", filepath.Join(dir, "link")))
	must(t, os.Symlink("../run.sh", filepath.Join(dir, "sizes", "up")))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func sameTree(t testing.TB, a, b string) {
	t.Helper()
	if x, y := rig.Fingerprint(t, a), rig.Fingerprint(t, b); x != y {
		t.Errorf("%s and %s differ:\n%s\n--\n%s", a, b, x, y)
	}
}

func TestMain(m *testing.M) {
	system.Lean()
	rig.Together(8)
	rig.NoLeaks(m)
}

func TestAFolderArrivesByteForByte(t *testing.T) {
	t.Parallel()
	src := filepath.Join(t.TempDir(), "tree")
	makeTree(t, src)
	s := shareOf(t, src)
	dir := t.TempDir()
	x, err := fetchInto(t, openNode(t), s.Ticket(), dir, FetchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	sameTree(t, src, filepath.Join(dir, "tree"))
	p := x.Progress()
	if p.Verified != s.Manifest().Layout().Bytes() || p.Duplicate != 0 || p.State != Complete {
		t.Errorf("progress %+v", p)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.partial")); len(left) > 0 {
		t.Error("left behind:", left)
	}
}

func TestASingleFileArrives(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 64 << 10, 2<<20 + 3} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			src := filepath.Join(t.TempDir(), "one.bin")
			want := writeRandom(t, src, n, 7)
			s := shareOf(t, src)
			dir := t.TempDir()
			if _, err := fetchInto(t, openNode(t), s.Ticket(), dir, FetchOptions{}); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(filepath.Join(dir, "one.bin"))
			if err != nil || !bytes.Equal(got, want) {
				t.Fatal("content differs", err)
			}
		})
	}
}

func TestASecondFetchFindsEverythingThere(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "one.bin")
	writeRandom(t, src, 3<<20, 7)
	s := shareOf(t, src)
	dir := t.TempDir()
	n := openNode(t)
	if _, err := fetchInto(t, n, s.Ticket(), dir, FetchOptions{}); err != nil {
		t.Fatal(err)
	}
	x, err := fetchInto(t, n, s.Ticket(), dir, FetchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if p := x.Progress(); p.Hashed != 0 || p.State != Complete {
		t.Errorf("progress %+v", p)
	}
}

func TestATargetThatDiffersIsLeftAlone(t *testing.T) {
	t.Parallel()
	src := filepath.Join(t.TempDir(), "one.bin")
	writeRandom(t, src, 3<<20, 7)
	s := shareOf(t, src)
	dir := t.TempDir()
	mine := writeRandom(t, filepath.Join(dir, "one.bin"), 3<<20, 8)
	_, err := fetchInto(t, openNode(t), s.Ticket(), dir, FetchOptions{})
	if !errors.Is(err, share.ErrExists) {
		t.Errorf("got %v, want ErrExists", err)
	}
	if got, _ := os.ReadFile(filepath.Join(dir, "one.bin")); !bytes.Equal(got, mine) {
		t.Error("the file that was there has changed")
	}
}

func TestAnUnknownShareIsNotFound(t *testing.T) {
	t.Parallel()
	src := filepath.Join(t.TempDir(), "one.bin")
	writeRandom(t, src, 10, 7)
	s := shareOf(t, src)
	other := openNode(t) // it has nothing
	addrs := other.Addrs()
	_, err := fetchInto(t, openNode(t), s.ID().String(), t.TempDir(), FetchOptions{Peers: addrs})
	if !errors.Is(err, share.ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
}

func TestAnIDWithoutAPeerIsRefused(t *testing.T) {
	src := filepath.Join(t.TempDir(), "one.bin")
	writeRandom(t, src, 10, 7)
	s := shareOf(t, src)
	if _, err := openNode(t).Fetch(t.Context(), s.ID().String(), FetchOptions{Dir: t.TempDir()}); !errors.Is(err, ErrNoSource) {
		t.Errorf("got %v, want ErrNoSource", err)
	}
}

// An ID whose hash is all zeros names nothing. Whoever asked a peer for that share would panic.
func TestAnIDThatNamesNothingIsRefused(t *testing.T) {
	zeros := "bafyr4i" + strings.Repeat("a", 52)
	nobody := "/ip4/127.0.0.1/tcp/1/p2p/12D3KooWGRUVh2z7bWbXoYbF7TjJn9r8oPTP6Qo2sKZkHcSBFwZS"
	if _, err := openNode(t).Fetch(t.Context(), zeros, FetchOptions{Dir: t.TempDir(), Peers: []string{nobody}}); !errors.Is(err, share.ErrTicket) {
		t.Errorf("%q is fetched: %v", zeros, err)
	}
}

func TestAListenAddressThatIsTakenIsAnError(t *testing.T) {
	a := openNode(t)
	addr := strings.Split(a.Addrs()[0], "/p2p/")[0]
	_, err := Open(t.Context(), Config{Dir: t.TempDir(), Listen: []string{addr}})
	if !errors.Is(err, share.ErrNetwork) {
		t.Errorf("got %v, want ErrNetwork", err)
	}
}

func TestThreeSourcesShareTheWork(t *testing.T) {
	rig.OnlyLong(t)
	src := filepath.Join(t.TempDir(), "big.bin")
	writeRandom(t, src, 48<<20, 7)
	var peers []string
	var first *Share
	for range 3 {
		s := shareOf(t, src)
		first = s
		peers = append(peers, s.node.Addrs()...)
	}
	dir := t.TempDir()
	x, err := fetchInto(t, openNode(t), first.ID().String(), dir, FetchOptions{Peers: peers})
	if err != nil {
		t.Fatal(err)
	}
	p := x.Progress()
	for _, s := range p.Sources {
		if s.Bytes == 0 {
			t.Errorf("source %s sent nothing: %+v", s.Peer.Short(), s)
		}
		if s.BadBlocks > 0 {
			t.Errorf("honest source blamed: %+v", s)
		}
	}
	// The bound on hedging; usually it is far less, which is measured in virtual time.
	if p.Duplicate > 16<<20 {
		t.Errorf("%d of %d bytes came twice", p.Duplicate, p.Bytes)
	}
}

func TestLeasesCanBeWatched(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "f.bin")
	writeRandom(t, src, 8<<20, 1)
	s := shareOf(t, src)
	for _, watch := range []bool{false, true} {
		x, err := openNode(t).Fetch(t.Context(), s.Ticket(), FetchOptions{Dir: t.TempDir(), WatchLeases: watch})
		must(t, err)
		var granted, finished, bytes int64
		for e := range x.Events(t.Context()) {
			if e, ok := e.(LeaseEvent); ok {
				switch {
				case e.Source != s.node.ID() || e.Token == 0:
					t.Errorf("%+v", e)
				case e.End == LeaseGranted:
					granted++
				case e.End == LeaseFinished:
					finished++
					bytes += e.Bytes
				}
			}
		}
		must(t, x.Wait(t.Context()))
		if watch && (granted < 8 || finished != 8 || bytes != 8<<20) || !watch && granted+finished > 0 {
			t.Errorf("watched %t: %d granted, %d finished, %d bytes", watch, granted, finished, bytes)
		}
		if l := x.Progress().Leases; l.Finished != 8 || l.Granted < 8 {
			t.Errorf("%+v", l)
		}
	}
}

func TestAStoppedFetchResumesWithoutHashing(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "big.bin")
	want := writeRandom(t, src, 24<<20, 7)
	s := shareOf(t, src, func(c *Config) { c.UploadRate = 12e6 })
	dir := t.TempDir()
	a := openNode(t)
	x, err := a.Fetch(t.Context(), s.Ticket(), FetchOptions{Dir: dir})
	must(t, err)
	for e := range x.Events(t.Context()) {
		if p, ok := e.(Progress); ok && p.Verified > 8<<20 {
			must(t, x.Stop(t.Context()))
		}
	}
	if err := x.Wait(t.Context()); !errors.Is(err, ErrStopped) {
		t.Fatalf("got %v, want ErrStopped", err)
	}
	had := x.Progress().Done
	y, err := fetchInto(t, openNode(t), s.Ticket(), dir, FetchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p := y.Progress()
	if p.Resumed < int64(had)<<20 {
		t.Errorf("resumed %d bytes of %d pieces", p.Resumed, had)
	}
	if p.Hashed > p.Bytes-p.Resumed+1<<20 {
		t.Errorf("hashed %d bytes though %d were here", p.Hashed, p.Resumed)
	}
	if got, _ := os.ReadFile(filepath.Join(dir, "big.bin")); !bytes.Equal(got, want) {
		t.Error("content differs")
	}
}

// A chain: C knows only B, which is itself still fetching from A.
func TestAFetcherServesWhileItFetches(t *testing.T) {
	rig.OnlyLong(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "big.bin")
	want := writeRandom(t, src, 32<<20, 7)
	s := shareOf(t, src, func(c *Config) { c.UploadRate = 8e6 })
	b := openNode(t)
	bx, err := b.Fetch(t.Context(), s.Ticket(), FetchOptions{Dir: t.TempDir(), Keep: true})
	must(t, err)
	dir := t.TempDir()
	c := openNode(t)
	cx, err := c.Fetch(t.Context(), s.ID().String(), FetchOptions{Dir: dir, Peers: b.Addrs(), Anonymous: true})
	must(t, err)
	early := false
	for e := range cx.Events(t.Context()) {
		if p, ok := e.(Progress); ok && p.Done > 0 && !early {
			bp := bx.Progress()
			early = true
			if bp.Verified*2 > bp.Bytes {
				t.Errorf("C had its first piece when B had %d of %d bytes", bp.Verified, bp.Bytes)
			}
		}
	}
	must(t, cx.Wait(t.Context()))
	must(t, bx.Wait(t.Context()))
	if got, _ := os.ReadFile(filepath.Join(dir, "big.bin")); !bytes.Equal(got, want) {
		t.Error("content differs")
	}
}

func TestAFileThatIsEditedEndsItsShare(t *testing.T) {
	t.Parallel()
	src := filepath.Join(t.TempDir(), "big.bin")
	writeRandom(t, src, 8<<20, 7)
	s := shareOf(t, src)
	writeRandom(t, src, 8<<20+1, 8)
	dir := t.TempDir()
	x, err := fetchInto(t, openNode(t), s.Ticket(), dir, FetchOptions{Stall: 10 * time.Second})
	if err == nil {
		t.Fatal("fetched a file that is not there any more")
	}
	for _, src := range x.Progress().Sources {
		if src.BadBlocks > 0 || src.Banned {
			t.Errorf("an honest source was blamed: %+v", src)
		}
	}
	select {
	case <-s.Done():
	case <-time.After(30 * time.Second):
		t.Fatal("the share goes on")
	}
	if !errors.Is(s.Err(), share.ErrChanged) {
		t.Errorf("share ended with %v", s.Err())
	}
}

// B ends while C still fetches from it: B finishes what it was asked for and
// says goodbye, so C neither blames it nor waits for it, and goes on with A.
func TestAFetcherThatEndsSaysGoodbye(t *testing.T) {
	rig.OnlyLong(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "big.bin")
	writeRandom(t, src, 24<<20, 7)
	s := shareOf(t, src, func(c *Config) { c.UploadRate = 16 << 20 })
	b, err := Open(t.Context(), Config{Dir: t.TempDir(), Listen: loopback, UploadRate: 2 << 20})
	must(t, err)
	bx, err := b.Fetch(t.Context(), s.Ticket(), FetchOptions{Dir: t.TempDir()})
	must(t, err)
	c := openNode(t)
	cx, err := c.Fetch(t.Context(), s.ID().String(), FetchOptions{Dir: t.TempDir(), Peers: append(b.Addrs(), s.node.Addrs()...), Anonymous: true})
	must(t, err)
	must(t, bx.Wait(t.Context()))
	must(t, b.Close())
	must(t, cx.Wait(t.Context()))
	for _, x := range cx.Progress().Sources {
		if x.BadBlocks > 0 || x.Banned {
			t.Errorf("an honest source was blamed: %+v", x)
		}
	}
}

// How long no byte came is only said when that is a while.
func TestSilenceIsSaidWhenItLasts(t *testing.T) {
	now := time.Now()
	if got := headline(Progress{State: Finding, At: now, Moved: now}, "gives up"); got != "looking for a source" {
		t.Error(got)
	}
	if got := headline(Progress{State: Finding, Wait: ForBytes, Reason: "getting the list of files from a", At: now, Moved: now}, "gives up"); got != "getting the list of files from a" {
		t.Error(got)
	}
	for since, want := range map[time.Duration]string{0: "fetching", 999 * time.Millisecond: "fetching", 2 * time.Second: "fetching; no byte for 2 s: the fetch begins again in 58 s unless one comes"} {
		if got := headline(Progress{State: Fetching, At: now, Moved: now.Add(-since), GivesUp: now.Add(time.Minute - since)}, "begins again"); got != want {
			t.Errorf("after %v: %q, want %q", since, got, want)
		}
	}
}
