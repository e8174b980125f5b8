package store_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zeebo/blake3"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
)

// tree is files to make: content by path. A path that ends in "/" is an empty
// folder, content that begins with "-> " a symlink, a path with a "*" at its end
// an executable.
type tree map[string]string

// make writes the tree below dir.
func (tr tree) make(t testing.TB, dir string) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(os.MkdirAll(dir, 0o777))
	for name, content := range tr {
		at := filepath.Join(dir, filepath.FromSlash(name))
		check(os.MkdirAll(filepath.Dir(at), 0o777))
		target, link := bytes.CutPrefix([]byte(content), []byte("-> "))
		switch {
		case name[len(name)-1] == '/':
			check(os.MkdirAll(at, 0o777))
		case link:
			check(os.Symlink(string(target), at))
		case name[len(name)-1] == '*':
			check(os.WriteFile(at[:len(at)-1], []byte(content), 0o777))
		default:
			check(os.WriteFile(at, []byte(content), 0o666))
		}
	}
	old := time.Now().Add(-time.Minute)
	filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type() == 0 {
			check(os.Chtimes(p, old, old))
		}
		return err
	})
}

var drawn atomic.Uint64

// random returns n bytes that no other call returns.
func random(n int) string {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], drawn.Add(1))
	b := make([]byte, n)
	rand.NewChaCha8(key).Read(b)
	return string(b)
}

// sample has one of everything.
func sample() tree {
	return tree{
		"a/b/c/deep":       random(100),
		"a/block":          random(share.BlockSize),
		"a/block+1":        random(share.BlockSize + 1),
		"a/piece":          random(share.MinPiece),
		"a/piece+1":        random(share.MinPiece + 1),
		"big":              random(3*share.MinPiece + 12345),
		"empty":            "",
		"none/":            "",
		"a/none/":          "",
		"link":             "-> a/block",
		"a/up":             "-> ../big",
		"run*":             "#!/bin/sh\n",
		"Größe/übung.txt":  "wörtlich",
		"many/1":           "1",
		"many/2":           "2",
		"many/exec-large*": random(200_000),
	}
}

func importDir(t testing.TB, dir string, opt store.ImportOptions) *store.Imported {
	t.Helper()
	im, err := store.Import(context.Background(), dir, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { im.Tree.Close() })
	return im
}

func openPart(t testing.TB, dir string, m *share.Manifest, opt store.PartialOptions) *store.Partial {
	t.Helper()
	p, err := store.OpenPartial(context.Background(), dir, m, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// copyPiece copies a piece from one to the other, in runs of n blocks.
func copyPiece(to *store.Partial, from store.Source, p share.Piece, n int) error {
	values, err := from.Proof(p)
	if err != nil {
		return err
	}
	blocks := from.Manifest().Layout().Blocks(p)
	buf := make([]byte, min(n, blocks)*share.BlockSize)
	for b := 0; b < blocks; b += n {
		k, err := from.ReadRun(p, share.Block(b), min(n, blocks-b), buf)
		if err != nil {
			return err
		}
		if err := to.Write(p, share.Block(b), buf[:k]); err != nil {
			return err
		}
	}
	to.Complete(p, values)
	return nil
}

// copyAll copies every piece that is not there yet.
func copyAll(t testing.TB, to *store.Partial, from store.Source) {
	t.Helper()
	for p := range share.FullSet(from.Manifest().Layout().Pieces()).Minus(to.Verified()).All() {
		if err := copyPiece(to, from, p, 4); err != nil {
			t.Fatal(err)
		}
	}
}

// sameOnDisk compares two trees byte for byte.
func sameOnDisk(t testing.TB, got, want string) {
	t.Helper()
	list := func(root string) map[string]string {
		out := map[string]string{}
		err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			rel, _ := filepath.Rel(root, p)
			switch {
			case d.IsDir():
				out[rel] = "folder"
			case d.Type() == fs.ModeSymlink:
				target, err := os.Readlink(p)
				out[rel] = "-> " + target
				return err
			default:
				b, err := os.ReadFile(p)
				info, _ := d.Info()
				sum := blake3.Sum256(b)
				out[rel] = string(sum[:]) + map[bool]string{true: "x"}[info.Mode()&0o100 != 0]
				return err
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	g, w := list(got), list(want)
	for p, c := range w {
		if g[p] != c {
			t.Errorf("%s: got %q, want %q", p, g[p], c)
		}
	}
	for p := range g {
		if _, ok := w[p]; !ok {
			t.Errorf("%s: not in the share", p)
		}
	}
}

func TestAShareArrivesAsItWas(t *testing.T) {
	src, dst := filepath.Join(t.TempDir(), "stuff"), t.TempDir()
	sample().make(t, src)
	im := importDir(t, src, store.ImportOptions{})
	p := openPart(t, dst, im.Manifest, store.PartialOptions{})
	copyAll(t, p, im.Tree)
	at, err := p.Finish(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(dst, "stuff"); at != want {
		t.Errorf("finished at %s, want %s", at, want)
	}
	sameOnDisk(t, at, src)
	if list, _ := os.ReadDir(dst); len(list) != 1 {
		t.Errorf("left over: %v", list)
	}
	if again := importDir(t, at, store.ImportOptions{}); again.Manifest.ID() != im.Manifest.ID() {
		t.Error("the copy is another share")
	}
	p2 := openPart(t, t.TempDir(), im.Manifest, store.PartialOptions{})
	copyAll(t, p2, p) // what is finished is served
}

func TestASingleFileArrivesAsItWas(t *testing.T) {
	for _, content := range []string{"", "x", random(share.BlockSize), random(2*share.MinPiece + 7)} {
		src, dst := t.TempDir(), t.TempDir()
		tree{"one file*": content}.make(t, src)
		im := importDir(t, filepath.Join(src, "one file"), store.ImportOptions{})
		p := openPart(t, dst, im.Manifest, store.PartialOptions{})
		copyAll(t, p, im.Tree)
		at, err := p.Finish(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if at != filepath.Join(dst, "one file") {
			t.Error("finished at", at)
		}
		sameOnDisk(t, dst, src)
	}
}

func TestATransferGoesOnWhereItWas(t *testing.T) {
	src, dst := filepath.Join(t.TempDir(), "stuff"), t.TempDir()
	sample().make(t, src)
	im := importDir(t, src, store.ImportOptions{})
	pieces := im.Manifest.Layout().Pieces()
	epoch := uint64(0)
	for i := range pieces {
		p := openPart(t, dst, im.Manifest, store.PartialOptions{})
		if n := p.Verified().Count(); n != i {
			t.Fatalf("%d pieces verified, want %d", n, i)
		}
		if p.Epoch() <= epoch {
			t.Errorf("epoch %d after %d", p.Epoch(), epoch)
		}
		epoch = p.Epoch()
		for done := range p.Verified().All() { // no value was lost
			if got, err := p.Proof(done); err != nil || im.Manifest.CheckProof(done, got) != nil {
				t.Fatal("proof of a resumed piece:", err)
			}
		}
		f, err := store.Find(dst, im.Manifest.ID())
		if err != nil || f.Manifest == nil || f.Manifest.ID() != im.Manifest.ID() || f.Path != filepath.Join(dst, "stuff.partial") {
			t.Fatalf("found %+v, %v", f, err)
		}
		if _, err := store.OpenPartial(context.Background(), dst, im.Manifest, store.PartialOptions{}); !errors.Is(err, share.ErrHeld) {
			t.Fatal("opened twice:", err)
		}
		if err := copyPiece(p, im.Tree, share.Piece(pieces-1-i), 3); err != nil {
			t.Fatal(err)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
	p := openPart(t, dst, im.Manifest, store.PartialOptions{})
	at, err := p.Finish(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	sameOnDisk(t, at, src)
}
