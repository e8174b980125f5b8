package store_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	testrig "github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/storetest"
	"github.com/piecelease/fetcher/store/vfs"
)

// mended is a share in a folder, and its copy in another, which a test damages.
type mended struct {
	t        *testing.T
	tree     tree
	im       *store.Imported
	dir      string // holds the copy
	at       string // the copy
	original string
}

func newMended(t *testing.T, tr tree) *mended {
	x := &mended{t: t, tree: tr, original: filepath.Join(t.TempDir(), "stuff"), dir: t.TempDir()}
	x.at = filepath.Join(x.dir, "stuff")
	tr.make(t, x.original)
	tr.make(t, x.at)
	x.im = importDir(t, x.original, store.ImportOptions{})
	return x
}

func (x *mended) must(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatal(err)
	}
}

// path returns where something of the copy lies.
func (x *mended) path(name string) string { return filepath.Join(x.at, filepath.FromSlash(name)) }

// write replaces a file of the copy in place.
func (x *mended) write(name, content string) {
	x.t.Helper()
	x.must(os.WriteFile(x.path(name), []byte(content), 0o666))
}

// open opens the copy to be repaired.
func (x *mended) open(opt store.PartialOptions) (*store.Partial, error) {
	opt.Repair = true
	p, err := store.OpenPartial(context.Background(), x.dir, x.im.Manifest, opt)
	if err == nil {
		x.t.Cleanup(func() { p.Close() })
	}
	return p, err
}

// repair repairs the copy, and returns how many pieces were fetched for that, and what
// was replaced.
func (x *mended) repair(opt store.PartialOptions) (fetched int, replaced []string) {
	x.t.Helper()
	p, err := x.open(opt)
	x.must(err)
	replaced = p.Replaces()
	l := x.im.Manifest.Layout()
	for piece := range share.FullSet(l.Pieces()).Minus(p.Verified()).All() {
		if opt.Wanted != nil && !opt.Wanted[l.PieceSpan(piece).Entry] {
			continue
		}
		x.must(copyPiece(p, x.im.Tree, piece, 4))
		fetched++
	}
	_, err = p.Finish(context.Background())
	x.must(err)
	x.must(p.Close())
	return fetched, replaced
}

// check fails unless the copy equals the share, apart from the given additional names.
func (x *mended) check(further ...string) {
	x.t.Helper()
	for _, name := range further {
		x.must(os.RemoveAll(x.path(name)))
	}
	sameOnDisk(x.t, x.at, x.original)
	list, err := os.ReadDir(x.dir)
	if err != nil || len(list) != 1 {
		x.t.Errorf("left over: %v %v", list, err)
	}
}

func TestWhatIsMissingOrWrongIsRepaired(t *testing.T) {
	x := newMended(t, sample())
	big := []byte(x.tree["big"])
	big[share.MinPiece+5] ^= 1 // one piece of four
	x.write("big", string(big))
	x.write("a/piece+1", x.tree["a/piece+1"][:share.MinPiece+1-1]) // cut: what is left is its first piece
	x.write("a/block", x.tree["a/block"]+"more")
	x.must(os.Remove(x.path("many/1")))
	x.must(os.RemoveAll(x.path("a/b")))
	x.must(os.Remove(x.path("empty")))
	x.must(os.Remove(x.path("none")))
	x.must(os.Remove(x.path("link")))
	x.must(os.Symlink("elsewhere", x.path("link")))
	x.must(os.Chmod(x.path("run"), 0o644))
	x.write("mine", "not of the share")
	before, _ := os.Stat(x.path("a/block+1"))

	_, err := store.OpenPartial(context.Background(), x.dir, x.im.Manifest, store.PartialOptions{})
	if !errors.Is(err, share.ErrExists) || !errors.Is(err, store.ErrRepairable) {
		t.Errorf("without being asked: %v", err)
	}
	fetched, replaced := x.repair(store.PartialOptions{})
	if want := []string{"a/block", "a/piece+1", "big", "link", "run"}; !slices.Equal(replaced, want) {
		t.Errorf("replaced %q, want %q", replaced, want)
	}
	// A piece of big; many/1, a/b/c/deep, a/block; the last of a/piece+1.
	if fetched != 5 {
		t.Errorf("%d pieces were fetched", fetched)
	}
	if after, _ := os.Stat(x.path("a/block+1")); !os.SameFile(before, after) || !after.ModTime().Equal(before.ModTime()) {
		t.Error("a file that was right was touched")
	}
	if got, _ := os.ReadFile(x.path("mine")); string(got) != "not of the share" {
		t.Errorf("a file that is not of the share holds %q", got)
	}
	if fetched, replaced := x.repair(store.PartialOptions{}); fetched+len(replaced) > 0 {
		t.Errorf("once more %d pieces were fetched, and %q replaced", fetched, replaced)
	}
	x.check("mine")
}

func TestASingleFileIsRepaired(t *testing.T) {
	testrig.Slow(t)
	for name, damage := range map[string]func(x *mended, at string){
		"changed": func(x *mended, at string) {
			b, _ := os.ReadFile(at)
			b[share.MinPiece] ^= 1
			x.must(os.WriteFile(at, b, 0o644))
		},
		"cut":       func(x *mended, at string) { x.must(os.Truncate(at, share.MinPiece+5)) },
		"read-only": func(x *mended, at string) { x.must(os.Truncate(at, share.MinPiece+5)); x.must(os.Chmod(at, 0o444)) },
		"a link": func(x *mended, at string) {
			x.must(os.Remove(at))
			x.must(os.Symlink("../theirs", at))
		},
	} {
		t.Run(name, func(t *testing.T) {
			src, x := t.TempDir(), &mended{t: t, dir: t.TempDir()}
			tr := tree{"f": random(3*share.MinPiece + 5)}
			tr.make(t, src)
			tr.make(t, x.dir)
			theirs := filepath.Join(filepath.Dir(x.dir), "theirs")
			x.must(os.WriteFile(theirs, []byte("theirs"), 0o600))
			defer os.Remove(theirs)
			x.at, x.original = filepath.Join(x.dir, "f"), filepath.Join(src, "f")
			x.im = importDir(t, x.original, store.ImportOptions{})
			damage(x, x.at)
			if p, err := store.OpenPartial(context.Background(), x.dir, x.im.Manifest, store.PartialOptions{}); !errors.Is(err, store.ErrRepairable) {
				t.Errorf("%v, %v: it is not said that it can be repaired", p, err)
			}
			fetched, replaced := x.repair(store.PartialOptions{})
			if want := map[string]int{"changed": 1, "cut": 3, "read-only": 3, "a link": 4}[name]; fetched != want || !slices.Equal(replaced, []string{"f"}) {
				t.Errorf("%d pieces were fetched, want %d; replaced %q", fetched, want, replaced)
			}
			x.check()
			if got, _ := os.ReadFile(theirs); string(got) != "theirs" {
				t.Errorf("what the link led to holds %q", got)
			}
		})
	}
	x := &mended{t: t, dir: t.TempDir()}
	tree{"f/mine": "mine"}.make(t, x.dir)
	src := t.TempDir()
	tree{"f": "x"}.make(t, src)
	x.im = importDir(t, filepath.Join(src, "f"), store.ImportOptions{})
	if _, err := x.open(store.PartialOptions{}); !errors.Is(err, share.ErrExists) || errors.Is(err, store.ErrRepairable) {
		t.Errorf("a folder in its where: %v", err)
	}
}

// A file that a link leads to, or that shares its bytes with the copy's, is not touched.
func TestRepairDoesNotReachElsewhere(t *testing.T) {
	x := newMended(t, tree{"a": random(100), "b": random(share.MinPiece + 5), "c": random(10), "l": "-> a"})
	elsewhere := t.TempDir()
	tree{"linked": x.tree["b"][:share.MinPiece] + "XXXXX", "led": "led"}.make(t, elsewhere)
	for name, make := range map[string]func(at string) error{
		"a": func(at string) error { return os.Symlink(filepath.Join(elsewhere, "led"), at) },
		"b": func(at string) error { return os.Link(filepath.Join(elsewhere, "linked"), at) },
		"l": func(at string) error { return os.Symlink(filepath.Join(elsewhere, "led"), at) },
	} {
		x.must(os.Remove(x.path(name)))
		x.must(make(x.path(name)))
	}
	fetched, replaced := x.repair(store.PartialOptions{})
	if fetched != 2 || !slices.Equal(replaced, []string{"a", "b", "l"}) {
		t.Errorf("%d pieces were fetched, %q replaced", fetched, replaced)
	}
	x.check()
	for name, want := range map[string]string{"linked": x.tree["b"][:share.MinPiece] + "XXXXX", "led": "led"} {
		if got, _ := os.ReadFile(filepath.Join(elsewhere, name)); string(got) != want {
			t.Errorf("%s was changed", name)
		}
	}
}

// Something of another kind is not ours to remove; nothing is changed then.
func TestRepairRefusesWhatItMayNotReplace(t *testing.T) {
	testrig.Slow(t)
	for name, c := range map[string]struct {
		damage func(x *mended)
		says   string
	}{
		"a folder for a file":     {func(x *mended) { x.must(os.MkdirAll(x.path("a/mine"), 0o777)) }, `"a" is a folder here, but a file in the share`},
		"an empty folder":         {func(x *mended) { x.must(os.Mkdir(x.path("a"), 0o777)) }, `"a" is a folder here, but a file in the share`},
		"a socket for a file":     {func(x *mended) { listen(x.t, x.path("a")) }, `"a" is a socket here, but a file in the share`},
		"a file for a link":       {func(x *mended) { x.must(os.Remove(x.path("l"))); x.write("l", "mine") }, `"l" is a file here, but a symlink in the share`},
		"a file for a folder":     {func(x *mended) { x.must(os.Remove(x.path("none"))); x.write("none", "mine") }, `"none" is a file here, but a folder in the share`},
		"a file above":            {func(x *mended) { x.must(os.RemoveAll(x.path("d"))); x.write("d", "mine") }, `"d/e" lies below something that is not a folder`},
		"a link above":            {func(x *mended) { x.must(os.RemoveAll(x.path("d"))); x.must(os.Symlink("none", x.path("d"))) }, `"d/e" lies below `},
		"a link for all of it":    {func(x *mended) { x.must(os.Rename(x.at, x.at+"2")); x.must(os.Symlink("stuff2", x.at)) }, "stuff is a symlink here, but a folder in the share"},
		"another transfer's name": {func(x *mended) { tree{"stuff.partial/mine": "mine"}.make(x.t, x.dir) }, `it holds "mine"`},
	} {
		t.Run(name, func(t *testing.T) {
			x := newMended(t, tree{"a": random(100), "b": random(10), "d/e": random(10), "l": "-> b", "none/": ""})
			x.write("b", "wrong")
			x.must(os.Remove(x.path("a")))
			c.damage(x)
			before := listing(t, x.dir)
			_, err := x.open(store.PartialOptions{})
			_, plain := store.OpenPartial(t.Context(), x.dir, x.im.Manifest, store.PartialOptions{}) // says nothing of a repair
			for _, err := range []error{err, plain} {
				if !errors.Is(err, share.ErrExists) || errors.Is(err, store.ErrRepairable) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%v, want %q", err, c.says)
				}
			}
			if after := listing(t, x.dir); after != before {
				t.Errorf("before\n%safter\n%s", before, after)
			}
		})
	}
}

// What lies behind a symlinked folder may be another file of the share, which is right, or none of it.
func TestNothingIsReplacedThroughALinkedFolder(t *testing.T) {
	for name, wanted := range map[string][]string{"all of it": nil, "the part behind the link": {"docs"}} {
		t.Run(name, func(t *testing.T) {
			x := newMended(t, tree{"docs/a": random(100), "photos/a": random(200), "docs/sub/b": random(10)})
			x.must(os.RemoveAll(x.path("docs")))
			x.must(os.Symlink("photos", x.path("docs")))
			tree{"photos/sub/b": "mine"}.make(t, x.at)
			before := listing(t, x.dir)
			var opt store.PartialOptions
			if wanted != nil {
				opt.Wanted = only(x.im.Manifest, wanted...)
			}
			_, err := x.open(opt)
			if want := `"docs/sub/b" lies below "docs", which is a symlink here, and not a folder`; !errors.Is(err, share.ErrExists) || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
			if after := listing(t, x.dir); after != before {
				t.Errorf("before\n%safter\n%s", before, after)
			}
		})
	}
}

// The same, if the folder gives way to a symlink while the right bytes are fetched.
func TestNothingIsMovedThroughALinkThatCameMeanwhile(t *testing.T) {
	x := newMended(t, tree{"docs/a": random(100), "photos/b": random(200)})
	x.must(os.Remove(x.path("docs/a")))
	p, err := x.open(store.PartialOptions{})
	x.must(err)
	copyAll(t, p, x.im.Tree)
	x.must(os.Remove(x.path("docs")))
	x.must(os.Symlink("photos", x.path("docs")))
	before := listing(t, x.at)
	if _, err := p.Finish(context.Background()); !errors.Is(err, share.ErrExists) {
		t.Errorf("got %v", err)
	}
	if after := listing(t, x.at); after != before {
		t.Errorf("before\n%safter\n%s", before, after)
	}
	x.must(p.Close())
	x.must(os.Remove(x.path("docs")))
	if fetched, _ := x.repair(store.PartialOptions{}); fetched != 0 {
		t.Errorf("%d pieces were fetched again", fetched)
	}
	x.check()
}

// listing returns all names below a folder, with their kinds.
func listing(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			t.Fatal(err)
		}
		content, _ := os.ReadFile(p)
		target, _ := os.Readlink(p)
		fmt.Fprintf(&b, "%s %v %q %q\n", p, d.Type(), content, target)
		return nil
	})
	return b.String()
}

// A file that is edited while the right one is fetched is the user's, and stays.
func TestWhatChangesDuringARepairIsNotReplaced(t *testing.T) {
	testrig.Slow(t)
	for name, change := range map[string]func(x *mended){
		"edited":   func(x *mended) { x.write("a", "edited again, and longer") },
		"put back": func(x *mended) { x.must(os.Remove(x.path("a"))); x.write("a", "wrong") },
		"a link":   func(x *mended) { x.must(os.Remove(x.path("a"))); x.must(os.Symlink("b", x.path("a"))) },
		"made":     func(x *mended) { x.write("missing", "mine by now") },
	} {
		t.Run(name, func(t *testing.T) {
			x := newMended(t, tree{"a": random(100), "b": random(10), "missing": random(10)})
			x.write("a", "wrong")
			x.must(os.Remove(x.path("missing")))
			p, err := x.open(store.PartialOptions{})
			x.must(err)
			copyAll(t, p, x.im.Tree)
			change(x)
			before := listing(t, x.at)
			if _, err := p.Finish(context.Background()); !errors.Is(err, share.ErrExists) {
				t.Errorf("got %v", err)
			}
			x.must(p.Close())
			if after := listing(t, x.at); after != before {
				t.Errorf("before\n%safter\n%s", before, after)
			}
			if fetched, _ := x.repair(store.PartialOptions{}); fetched != 0 { // when it is asked again, it is repaired
				t.Errorf("%d pieces were fetched again", fetched)
			}
			x.check()
		})
	}
}

func TestASingleFileThatChangesDuringARepairIsNotReplaced(t *testing.T) {
	src, x := t.TempDir(), &mended{t: t, dir: t.TempDir()}
	tree{"f": random(100)}.make(t, src)
	tree{"f": "wrong"}.make(t, x.dir)
	x.at, x.original = filepath.Join(x.dir, "f"), filepath.Join(src, "f")
	x.im = importDir(t, x.original, store.ImportOptions{})
	p, err := x.open(store.PartialOptions{})
	x.must(err)
	copyAll(t, p, x.im.Tree)
	x.must(os.WriteFile(x.at, []byte("edited again"), 0o600))
	if _, err := p.Finish(context.Background()); !errors.Is(err, share.ErrExists) {
		t.Errorf("got %v", err)
	}
	if got, _ := os.ReadFile(x.at); string(got) != "edited again" {
		t.Errorf("it holds %q", got)
	}
	x.must(p.Close())
	x.repair(store.PartialOptions{})
	x.check()
}

// With a choice nothing else is looked at, and the rest can follow.
func TestRepairIsAboutWhatIsWanted(t *testing.T) {
	x := newMended(t, tree{"a": random(100), "b": random(10), "c": random(10), "d": random(10)})
	x.write("a", "wrong")
	x.write("b", "wrong too")
	x.must(os.Remove(x.path("c")))
	x.must(os.Remove(x.path("d")))
	x.must(os.Mkdir(x.path("d"), 0o777)) // not to be replaced, and not wanted
	fetched, replaced := x.repair(store.PartialOptions{Wanted: []bool{true, false, true, false}})
	if fetched != 2 || !slices.Equal(replaced, []string{"a"}) {
		t.Errorf("%d pieces were fetched, %q replaced", fetched, replaced)
	}
	if got, _ := os.ReadFile(x.path("b")); string(got) != "wrong too" {
		t.Errorf("b holds %q", got)
	}
	x.must(os.Remove(x.path("d")))
	if fetched, replaced = x.repair(store.PartialOptions{}); fetched != 2 || !slices.Equal(replaced, []string{"b"}) {
		t.Errorf("then %d pieces were fetched, %q replaced", fetched, replaced)
	}
	x.check()
}

// The process may be killed, or the power may fail, before any operation of a repair: at
// each moment each file of the copy is the user's old one or the right one, and what does
// not belong to the share is as it was. The next run repairs the rest.
func TestRepairsSurviveKillsAndPowerCuts(t *testing.T) {
	testrig.Slow(t)
	t.Parallel()
	old := tree{"big": "", "a": random(100), "sub/b": random(20), "run": random(30), "mine": "mine", "l": "-> elsewhere", "right": ""}
	right := tree{"big": random(share.MinPiece + 1000), "a": random(50), "sub/b": random(20), "run*": old["run"], "new": random(10), "l": "-> a", "right": random(40), "none/": ""}
	old["big"], old["right"] = right["big"][:share.MinPiece]+strings.Repeat("x", 1000), right["right"]
	r := newRig(t, right)
	for _, parity := range []int{0, 1} {
		for n := 0; ; n += stride {
			d := storetest.New(1 << 30)
			old.fill(t, d.FS(), "stuff")
			if err := d.FS().SyncAll(); err != nil {
				t.Fatal(err)
			}
			d.NoSyncAll = n%4 < 2
			fault, count := nth(n, storetest.Op.Changes, storetest.ErrPower)
			d.Fault = func(op storetest.Op) error {
				err := fault(op)
				if *count > n {
					return storetest.ErrPower
				}
				return err
			}
			r.repair(d.FS())
			d.Fault = nil
			if power := n%2 == parity; power {
				d.Restart(uint64(n))
			} else {
				d.Kill()
			}
			if err := r.checkHalf(d.FS(), old); err != nil {
				t.Fatalf("cut %d: %v", n, err)
			}
			if err := r.repair(d.FS()); err != nil {
				t.Fatalf("cut %d, once more: %v", n, err)
			}
			d.CutPower()
			d.Restart(uint64(n))
			if err := r.checkFinished(d.FS()); err != nil {
				t.Fatalf("cut %d, once more, and the power went: %v", n, err)
			}
			if b, err := content(d.FS(), "stuff/mine"); err != nil || string(b) != "mine" {
				t.Fatalf("cut %d: what is not of the share holds %q, %v", n, b, err)
			}
			if err := errors.Join(d.FS().Remove("stuff/mine"), r.checkDone(d.FS())); err != nil {
				t.Fatalf("cut %d, once more: %v", n, err)
			}
			if *count <= n {
				t.Logf("%d operations", n)
				break
			}
		}
	}
}

func (r rig) repair(d vfs.FS) error {
	p, err := store.OpenPartialIn(context.Background(), d, r.m, store.PartialOptions{Workers: 1, Repair: true})
	if err != nil {
		return err
	}
	defer p.Close()
	for piece := range share.FullSet(r.m.Layout().Pieces()).Minus(p.Verified()).All() {
		if err := copyPiece(p, r.im.Tree, piece, 16); err != nil {
			return err
		}
	}
	_, err = p.Finish(context.Background())
	return err
}

// checkHalf fails unless each name of the copy is what it was, or what it will be.
func (r rig) checkHalf(d vfs.FS, old tree) error {
	names := maps.Clone(r.tree)
	maps.Copy(names, old)
	for name := range names {
		plain := strings.TrimSuffix(name, "*")
		if strings.HasSuffix(name, "/") {
			continue
		}
		was, had := old[plain]
		is := r.tree[plain] + r.tree[plain+"*"]
		at := path.Join("stuff", plain)
		info, err := d.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) && !had {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", plain, err)
		}
		now := ""
		if info.Type == fs.ModeSymlink {
			target, _ := d.Readlink(at)
			now = "-> " + target
		} else if b, err := content(d, at); err == nil {
			now = string(b)
		}
		if now != was && now != is {
			return fmt.Errorf("%s holds %.20q, and was %.20q, and is to be %.20q", plain, now, was, is)
		}
	}
	return nil
}
