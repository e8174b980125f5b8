package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"strconv"
	"strings"
	"testing"

	"github.com/zeebo/blake3"

	testrig "github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/storetest"
	"github.com/piecelease/fetcher/store/vfs"
)

// fill writes a tree to a disk.
func (tr tree) fill(t testing.TB, d vfs.FS, root string) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil && !errors.Is(err, fs.ErrExist) {
			t.Fatal(err)
		}
	}
	check(d.Mkdir(root))
	for name, content := range tr {
		at := root
		parts := strings.Split(name, "/")
		for _, p := range parts[:len(parts)-1] {
			at += "/" + p
			check(d.Mkdir(at))
		}
		base := parts[len(parts)-1]
		if base == "" {
			continue
		}
		if target, ok := strings.CutPrefix(content, "-> "); ok {
			check(d.Symlink(target, at+"/"+base))
			continue
		}
		f, err := d.Create(at+"/"+strings.TrimSuffix(base, "*"), strings.HasSuffix(base, "*"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.WriteAt([]byte(content), 0)
		check(err)
		check(f.Close())
	}
}

// small is a sample that is quick to copy hundreds of times.
func small() tree {
	return tree{
		"a/b/deep":  random(70_000),
		"a/one":     random(10),
		"a/x*":      random(100),
		"big":       random(share.MinPiece + 70_000),
		"s/1":       random(1),
		"s/2":       random(2),
		"s/3":       random(3),
		"s/4":       random(4),
		"c/d/e/two": random(share.BlockSize),
		"empty":     "",
		"link":      "-> a/one",
		"none/":     "",
		"a/none/":   "",
	}
}

// rig is a share on one disk, to be fetched to others.
type rig struct {
	tree tree
	im   *store.Imported
	m    *share.Manifest
}

func newRig(t testing.TB, tr tree) rig {
	t.Helper()
	d := storetest.New(1 << 30).FS()
	tr.fill(t, d, "stuff")
	im, err := store.Import(context.Background(), "stuff", store.ImportOptions{FS: d, Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range im.Manifest.Entries() {
		if want := tr.file(e); e.Kind == share.File && blake3.Sum256([]byte(want)) != e.Root {
			t.Fatalf("%s: the manifest is wrong", e.Path)
		}
	}
	return rig{tr, im, im.Manifest}
}

// file returns the content of an entry's file.
func (tr tree) file(e share.Entry) string {
	if e.Exec {
		return tr[e.Path+"*"]
	}
	return tr[e.Path]
}

// fetch does what a caller that does not give up does: it opens, copies, syncs
// after every few pieces, and finishes. The power may fail meanwhile. durable is
// how many pieces it was told are safe.
func (r rig) fetch(d vfs.FS, every int) (durable int, _ error) {
	var p *store.Partial
	var err error
	for range 3 {
		if p, err = store.OpenPartialIn(context.Background(), d, r.m, store.PartialOptions{MaxOpen: 2, Workers: 1}); err == nil {
			break
		}
	}
	if err != nil {
		return durable, err
	}
	defer p.Close()
	for range 5 {
		n := 0
		for piece := range share.FullSet(r.m.Layout().Pieces()).Minus(p.Verified()).All() {
			if err = copyPiece(p, r.im.Tree, piece, 5); errors.Is(err, storetest.ErrPower) {
				return durable, err
			}
			if n++; n%every == 0 {
				var n int
				if n, err = p.Sync(); errors.Is(err, storetest.ErrPower) {
					return durable, err
				} else if err == nil {
					durable = n
				}
			}
		}
		if _, err = p.Finish(context.Background()); err == nil || errors.Is(err, storetest.ErrPower) {
			return durable, err
		}
	}
	return durable, err
}

// content returns the bytes of a file on a disk.
func content(d vfs.FS, name string) ([]byte, error) {
	return part(d, name, 0, -1)
}

// part returns n bytes of a file on a disk, from off, or as many as there are; all with n < 0.
func part(d vfs.FS, name string, off, n int64) ([]byte, error) {
	f, err := d.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if n < 0 {
		info, err := f.Stat()
		if err != nil {
			return nil, err
		}
		n = info.Size
	}
	b := make([]byte, n)
	k, err := f.ReadAt(b, off)
	if err == io.EOF {
		err = nil
	}
	return b[:k], err
}

// checkBits fails if a bit on the disk is set and the bytes of its piece are not all
// there, or if fewer than durable are set. Of the package it knows only where the
// files are.
func (r rig) checkBits(d vfs.FS, durable int) error {
	if _, err := d.Lstat(r.m.Name); err == nil {
		return nil // finished: the bits are about what lies there, see checkDone
	}
	stage := store.Staging(r.m)
	bits := store.RawBits(d, stage+"/bits", r.m)
	if bits == nil {
		bits = share.NewSet(r.m.Layout().Pieces())
	}
	if bits.Count() < durable {
		return fmt.Errorf("%d pieces are verified, and %d were safe", bits.Count(), durable)
	}
	for p := range bits.All() {
		s := r.m.Layout().PieceSpan(p)
		e := r.m.Entry(s.Entry)
		got, err := part(d, stage+"/data/"+e.Path, s.Offset, int64(s.Len))
		if err != nil {
			return fmt.Errorf("piece %d counts as verified: %w", p, err)
		}
		if string(got) != r.tree.file(e)[s.Offset:s.Offset+int64(s.Len)] {
			return fmt.Errorf("piece %d of %s counts as verified, and its bytes are wrong", p, e.Path)
		}
	}
	return nil
}

// checkDone fails unless the whole share lies at its target, and nothing else does.
func (r rig) checkDone(d vfs.FS) error {
	for i, e := range r.m.Entries() {
		at := path.Join(r.m.Name, e.Path)
		info, err := d.Lstat(at)
		if err != nil {
			return err
		}
		switch e.Kind {
		case share.File:
			got, err := content(d, at)
			if err != nil || blake3.Sum256(got) != e.Root || info.Exec != e.Exec {
				return fmt.Errorf("%s differs (%v)", e.Path, err)
			}
		case share.Dir:
			if !info.Type.IsDir() {
				return fmt.Errorf("%s is not a folder", e.Path)
			}
		case share.Symlink:
			if target, err := d.Readlink(at); target != e.Target {
				return fmt.Errorf("%s -> %q (%v)", e.Path, target, err)
			}
		}
		_ = i
	}
	list, err := d.ReadDir(".")
	if len(list) != 1 {
		return fmt.Errorf("left over: %v %v", list, err)
	}
	return nil
}

// stride is how many operations lie between two at which something fails: with LONG=1
// something fails at each. It is odd, so that whatever alternates gets its turn.
var stride = func() int {
	if testrig.Raced {
		return 9
	}
	return testrig.Most(1, 3)
}()

// checkFinished fails unless the whole share lies at its place, as after a Finish that
// succeeded. What is left of NAME.partial is removed.
func (r rig) checkFinished(d vfs.FS) error {
	p, err := store.OpenPartialIn(context.Background(), d, r.m, store.PartialOptions{Workers: 1, Repair: true})
	if err != nil {
		return err
	}
	defer p.Close()
	if _, done := p.Done(); !done {
		return errors.New("what was finished is not at its place")
	}
	return nil
}

// nth fails with err at the n-th of the chosen operations, counted from 0.
func nth(n int, chosen func(storetest.Op) bool, err error) (fault func(storetest.Op) error, count *int) {
	count = new(int)
	return func(op storetest.Op) error {
		if !chosen(op) {
			return nil
		}
		*count++
		if *count-1 == n {
			return err
		}
		return nil
	}, count
}

var errDisk = errors.New("injected")

// disks runs f with a disk that can sync everything at once, in batches large enough for
// that, and with one that cannot.
func disks(t *testing.T, f func(t *testing.T, r rig, noSyncAll bool, every int)) {
	tr := small()
	t.Run("each", func(t *testing.T) { t.Parallel(); f(t, newRig(t, tr), true, 2) })
	many := maps.Clone(tr)
	delete(many, "big")
	t.Run("all", func(t *testing.T) { t.Parallel(); f(t, newRig(t, many), false, 6) })
}

// A single error of any operation, at any moment, is overcome without reopening,
// and what is then finished survives a power cut.
func TestEachFaultIsOvercome(t *testing.T) {
	disks(t, func(t *testing.T, r rig, noSyncAll bool, every int) {
		for n := 0; ; n += stride {
			d := storetest.New(1 << 30)
			d.NoSyncAll = noSyncAll
			fault, count := nth(n, storetest.Op.Changes, errDisk)
			d.Fault = fault
			if _, err := r.fetch(d.FS(), every); err != nil {
				t.Fatalf("fault %d: %v", n, err)
			}
			d.Fault = nil
			d.CutPower()
			d.Restart(uint64(n))
			if err := r.checkDone(d.FS()); err != nil {
				// A leftover NAME.partial is removed by the next run.
				_, err := r.fetch(d.FS(), every)
				if err := errors.Join(err, r.checkDone(d.FS())); err != nil {
					t.Fatalf("after fault %d: %v", n, err)
				}
			}
			if *count <= n {
				t.Logf("%d operations", n)
				return
			}
		}
	})
}

// The power may fail before any operation: every bit on the disk is true then, and
// the next run completes the share.
func TestEachPowerCutIsSurvived(t *testing.T) {
	disks(t, func(t *testing.T, r rig, noSyncAll bool, every int) {
		for n := 0; ; n += stride {
			d := storetest.New(1 << 30)
			d.NoSyncAll = noSyncAll
			fault, count := nth(n, storetest.Op.Changes, storetest.ErrPower)
			d.Fault = func(op storetest.Op) error {
				err := fault(op)
				if *count > n {
					return storetest.ErrPower
				}
				return err
			}
			durable, err := r.fetch(d.FS(), every)
			if *count > n && !errors.Is(err, storetest.ErrPower) {
				// The last thing a transfer does is tidying, whose errors may be ignored.
				t.Logf("cut %d: %v", n, err)
			}
			d.Fault = nil
			d.Restart(uint64(n))
			if err := r.checkBits(d.FS(), durable); err != nil {
				t.Fatalf("cut %d: %v", n, err)
			}
			if _, err := r.fetch(d.FS(), every); err != nil {
				t.Fatalf("cut %d, resumed: %v", n, err)
			}
			if err := r.checkDone(d.FS()); err != nil {
				t.Fatalf("cut %d, resumed: %v", n, err)
			}
			if *count <= n {
				t.Logf("%d operations", n)
				return
			}
		}
	})
}

// Faults, kills and power cuts in any order: no bit is ever wrong, and nothing of ours is taken for somebody else's.
//
//	BIT_SEEDS=1000  so many seeds; default 24
func TestNoBitLiesAfterManyTroubles(t *testing.T) {
	testrig.Slow(t)
	r := newRig(t, small())
	seeds, err := strconv.ParseUint(os.Getenv("BIT_SEEDS"), 10, 64)
	if err != nil {
		seeds = 24
	}
	for seed := range seeds {
		rnd := rand.New(rand.NewPCG(seed, 1))
		d := storetest.New(1 << 30)
		d.NoSyncAll = seed%2 == 0
		every := 1 + int(seed)%8
		for round := 0; ; round++ {
			if round > 30 {
				t.Fatalf("seed %d: no end", seed)
			}
			quiet := round > 10
			left := rnd.IntN(150)
			d.Fault = func(op storetest.Op) error {
				if quiet {
					return nil
				}
				if left--; left < 0 {
					return storetest.ErrPower
				}
				if rnd.IntN(20) == 0 && op.Changes() {
					return errDisk
				}
				return nil
			}
			durable, err := r.fetch(d.FS(), every)
			d.Fault = nil
			if rnd.IntN(3) == 0 {
				d.Kill()
			} else {
				d.Restart(rnd.Uint64())
			}
			if e := r.checkBits(d.FS(), durable); e != nil {
				t.Fatalf("seed %d, round %d: %v", seed, round, e)
			}
			if err == nil {
				break
			}
		}
		err := r.dropTorn(d.FS())
		if err == nil {
			_, err = r.fetch(d.FS(), every)
		}
		if err := errors.Join(err, r.checkDone(d.FS())); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// onePage is how much a write makes as a whole or not at all, unless the disk fails.
const onePage = 4 << 10

// dropTorn removes what was set aside and cannot be told from a file of somebody else's: the beginning of a file of up
// to onePage bytes, left by a write that failed in the middle, if the process was killed before that was noted. There is no mark
// before such a write, and what is there is not the share's.
func (r rig) dropTorn(d vfs.FS) error {
	others := store.Staging(r.m) + "/others"
	numbers, _ := d.ReadDir(others) // mostly there is none
	for _, n := range numbers {
		list, err := d.ReadDir(path.Join(others, n.Name))
		if err != nil {
			return err
		}
		for _, f := range list {
			at := path.Join(others, n.Name, f.Name)
			got, err := content(d, at)
			if err != nil {
				return err
			}
			torn := false
			for _, e := range r.m.Entries() {
				torn = torn || e.Kind == share.File && path.Base(e.Path) == f.Name && e.Size <= onePage &&
					int64(len(got)) < e.Size && strings.HasPrefix(r.tree.file(e), string(got))
			}
			if !torn {
				return fmt.Errorf("%s, of %d bytes, was set aside", at, len(got))
			}
			if err := d.Remove(at); err != nil {
				return err
			}
		}
	}
	return nil
}
