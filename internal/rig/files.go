package rig

import (
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// WriteRandom makes a file of n bytes that depend on seed alone, and the folders that lead to it.
func WriteRandom(t testing.TB, path string, n int, seed uint64) {
	t.Helper()
	if err := writeRandom(path, n, seed); err != nil {
		t.Fatal(err)
	}
}

func writeRandom(path string, n int, seed uint64) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var key [32]byte
	key[0], key[1] = byte(seed), byte(seed>>8)
	if _, err := io.CopyN(f, rand.NewChaCha8(key), int64(n)); err != nil {
		return err
	}
	return f.Close()
}

// Fingerprint is everything that a share promises to keep of a folder.
func Fingerprint(t testing.TB, root string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, p)
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			fmt.Fprintf(&b, "%s/\n", rel)
		case info.Mode()&fs.ModeSymlink != 0:
			target, _ := os.Readlink(p)
			fmt.Fprintf(&b, "%s -> %s\n", rel, target)
		default:
			f, err := os.Open(p)
			if err != nil {
				return err
			}
			defer f.Close()
			sum := sha256.New()
			if _, err := io.Copy(sum, f); err != nil {
				return err
			}
			fmt.Fprintf(&b, "%s %v %x\n", rel, info.Mode()&0o100 != 0, sum.Sum(nil))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}
