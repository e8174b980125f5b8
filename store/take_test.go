package store_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	testrig "github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/storetest"
)

// takeFrom opens a fetch for what lies at original, with an older version in like, and
// returns how many pieces are missing then.
func takeFrom(t *testing.T, original string, opt store.PartialOptions) (p *store.Partial, missing []string) {
	t.Helper()
	im := importDir(t, original, store.ImportOptions{})
	p = openPart(t, t.TempDir(), im.Manifest, opt)
	l := im.Manifest.Layout()
	for piece := range share.FullSet(l.Pieces()).Minus(p.Verified()).All() {
		s := l.PieceSpan(piece)
		missing = append(missing, fmt.Sprintf("%s@%d", im.Manifest.Entry(s.Entry).Path, s.Offset/share.MinPiece))
	}
	copyAll(t, p, im.Tree)
	at, err := p.Finish(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	sameOnDisk(t, at, original)
	return p, missing
}

func TestEqualPiecesAreTakenFromAnOlderVersion(t *testing.T) {
	now, old := filepath.Join(t.TempDir(), "stuff"), filepath.Join(t.TempDir(), "v1")
	tr := tree{
		"same": random(2*share.MinPiece + 5), "changed": random(3*share.MinPiece + 5), "grown": random(2 * share.MinPiece), "cut": random(share.MinPiece),
		"renamed": random(share.BlockSize + 1), "twice/1": "x", "new": random(70_000), "shifted": random(share.MinPiece + 9), "run*": random(10), "empty": "",
	}
	tr["twice/2"], tr["twice/3"] = tr["same"], tr["same"]
	tr.make(t, now)
	changed := []byte(tr["changed"])
	changed[share.MinPiece] ^= 1
	tree{
		"same": tr["same"], "changed": string(changed), "grown": tr["grown"][:share.MinPiece], "cut": tr["cut"] + random(10),
		"was/another": tr["renamed"], "x": "x", "shifted": "+" + tr["shifted"], "run": tr["run*"], "gone": random(70_000), "deep/a/b": random(10),
	}.make(t, old)
	// What must not get in the way: a loop, links, a socket.
	for from, to := range map[string]string{"loop": ".", "out": "/", "dead": "nowhere"} {
		if err := os.Symlink(to, filepath.Join(old, from)); err != nil {
			t.Fatal(err)
		}
	}
	listen(t, filepath.Join(old, "socket"))
	var mu sync.Mutex // there are several workers
	looked := map[string]bool{}
	_, missing := takeFrom(t, now, store.PartialOptions{Like: []string{old}, Workers: 2, Taking: func(path string, read int64) {
		if read < 0 {
			t.Errorf("%d bytes read", read)
		}
		mu.Lock()
		defer mu.Unlock()
		looked[filepath.Base(path)] = true
	}})
	if got, want := strings.Join(missing, " "), "changed@1 grown@1 new@0 shifted@0 shifted@1"; got != want {
		t.Errorf("missing are %s, want %s", got, want)
	}
	if looked["b"] { // of what is missing only run has 10 bytes, and that was found by then
		t.Logf("looked into %v", looked)
	}
	if !looked["another"] || looked["socket"] || looked["dead"] {
		t.Errorf("looked into %v", looked)
	}
}

func TestAFileCanBeTheOlderVersion(t *testing.T) {
	testrig.Slow(t)
	dir := t.TempDir()
	tr := tree{"a": random(3*share.MinPiece + 5)}
	tr.make(t, dir)
	old := filepath.Join(t.TempDir(), "b")
	if err := os.WriteFile(old, []byte(tr["a"][:share.MinPiece]+random(2*share.MinPiece)+tr["a"][3*share.MinPiece:]), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, missing := takeFrom(t, filepath.Join(dir, "a"), store.PartialOptions{Like: []string{old}}); strings.Join(missing, " ") != "a@1 a@2" {
		t.Errorf("missing are %v", missing)
	}
	if _, err := store.OpenPartial(context.Background(), t.TempDir(), importDir(t, filepath.Join(dir, "a"), store.ImportOptions{}).Manifest,
		store.PartialOptions{Like: []string{filepath.Join(dir, "nowhere")}}); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("an older version that is not there: %v", err)
	}
}

// What is found is taken only if it is wanted, and is durable at once.
func TestWhatIsTakenIsWantedAndDurable(t *testing.T) {
	r := newRig(t, tree{"a": random(share.MinPiece + 5), "b": random(100), "c": random(200)})
	d := storetest.New(1 << 30)
	r.tree.fill(t, d.FS(), "old")
	var reads []string
	d.Fault = func(op storetest.Op) error {
		if op.Kind == "open" && strings.HasPrefix(op.Name, "old/") {
			reads = append(reads, op.Name)
		}
		return nil
	}
	p, err := store.OpenPartialIn(context.Background(), d.FS(), r.m, store.PartialOptions{Workers: 1, Like: []string{"old"}, FS: d.FS(), Wanted: []bool{true, false, true}})
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Verified().Count(); got != 3 || len(reads) != 2 {
		t.Errorf("%d pieces were taken, of %v", got, reads)
	}
	d.Fault = nil
	d.CutPower()
	d.Restart(1)
	if p, err = store.OpenPartialIn(context.Background(), d.FS(), r.m, store.PartialOptions{Workers: 1}); err != nil || p.Verified().Count() != 3 {
		t.Fatalf("after the power was cut %v", err)
	}
	p.Close()
}

// If the disk fills up, the error says what to free; what cannot be read is told of and passed over; and a
// file that fails in the middle has contributed what came before.
func TestTroublesOfTaking(t *testing.T) {
	testrig.Slow(t)
	r := newRig(t, tree{"a": random(3 * share.MinPiece), "b": random(100)})
	fill := func() *storetest.Disk {
		d := storetest.New(1 << 30)
		r.tree.fill(t, d.FS(), "old")
		return d
	}
	var unread []string
	open := func(d *storetest.Disk) (*store.Partial, error) {
		return store.OpenPartialIn(context.Background(), d.FS(), r.m, store.PartialOptions{Workers: 1, Like: []string{"old"}, FS: d.FS(), Unread: func(path string, err error) {
			if errors.Is(err, fs.ErrPermission) {
				unread = append(unread, path)
			}
		}})
	}
	d := fill()
	d.Resize(2 << 20)
	if _, err := open(d); !errors.Is(err, share.ErrDiskFull) || strings.Count(err.Error(), "disk full") != 1 {
		t.Errorf("on a small disk: %v", err)
	}
	d = fill()
	d.Fault = func(op storetest.Op) error {
		if op.Kind == "open" && op.Name == "old/b" {
			return fs.ErrPermission
		}
		return nil
	}
	if p, err := open(d); err != nil || p.Verified().Count() != 3 {
		t.Errorf("with a file that cannot be read: %v", err)
	}
	if got := strings.Join(unread, " "); got != "old/b" {
		t.Errorf("told of as not readable: %s", got)
	}
	d, reads := fill(), 0
	d.Fault = func(op storetest.Op) error {
		if op.Kind == "read" && op.Name == "old/a" {
			if reads++; reads == 2 {
				return errDisk
			}
		}
		return nil
	}
	if p, err := open(d); err != nil || p.Verified().Count() != 3 {
		t.Errorf("with a piece that cannot be read: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := store.OpenPartialIn(ctx, fill().FS(), r.m, store.PartialOptions{Like: []string{"old"}, FS: fill().FS()}); !errors.Is(err, context.Canceled) {
		t.Errorf("after it was told to end: %v", err)
	}
	if open, _ := d.Open(); open > 20 {
		t.Errorf("%d files are open", open)
	}
}

// Bytes that files share are compared with those whose hash was right.
func TestSharedBytesAreChecked(t *testing.T) {
	r := newRig(t, tree{"a": random(3 * share.MinPiece), "b": random(100)})
	d := storetest.New(1 << 30)
	r.tree.fill(t, d.FS(), "old")
	cloned := 0
	d.Clone = func(b []byte) {
		if cloned++; cloned == 2 {
			b[len(b)-1] ^= 1 // somebody has just changed the older version
		}
	}
	p, err := store.OpenPartialIn(context.Background(), d.FS(), r.m, store.PartialOptions{Workers: 1, Like: []string{"old"}, FS: d.FS()})
	if err != nil || cloned != 3 {
		t.Fatalf("%d pieces were cloned: %v", cloned, err)
	}
	p.Close()
	if err := r.checkVerified(d); err != nil {
		t.Error(err)
	}
	if p, err := store.OpenPartialIn(context.Background(), d.FS(), r.m, store.PartialOptions{}); err != nil || p.Verified().Count() != 4 {
		t.Error("not all was taken:", err)
	}
}

// The whole hash counts, not only its beginning, by which pieces are looked up.
func TestAPieceWithNearlyTheSameHashIsNotTaken(t *testing.T) {
	r := newRig(t, tree{"a": random(2 * share.MinPiece)})
	e := r.m.Entry(0)
	e.Pieces = []share.Hash{e.Pieces[0], e.Pieces[1]}
	e.Pieces[1][31] ^= 1
	e.Root = share.FileRoot(e.Pieces)
	m, err := share.NewManifest("stuff/", []share.Entry{e})
	if err != nil {
		t.Fatal(err)
	}
	d := storetest.New(1 << 30)
	r.tree.fill(t, d.FS(), "old")
	p, err := store.OpenPartialIn(context.Background(), d.FS(), m, store.PartialOptions{Workers: 1, Like: []string{"old"}, FS: d.FS()})
	if err != nil || p.Verified().Count() != 1 {
		t.Errorf("%d pieces were taken: %v", p.Verified().Count(), err)
	}
}
