package simnet

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/storetest"
)

// Content is a share that exists in a Net: made-up files, imported by the real
// store. A node that seeds it has it whole.
type Content struct {
	Manifest *share.Manifest
	tree     *store.Tree
	sums     map[string][32]byte // SHA-256 of each file, by path: what BLAKE3 has no part in
	bytes    int64
}

// Bytes is the size of the content.
func (c *Content) Bytes() int64 { return c.bytes }

// ID is the share ID.
func (c *Content) ID() share.ID { return c.Manifest.ID() }

// File is a share of one file of so many bytes.
func (n *Net) File(name string, size int) *Content { return n.content(name, map[string]int{"": size}) }

// Folder is a share of so many files of one size.
func (n *Net) Folder(name string, files, size int) *Content {
	sizes := map[string]int{}
	for i := range files {
		sizes[fmt.Sprintf("%d/%04d", i%7, i)] = size
	}
	return n.content(name, sizes)
}

func (n *Net) content(name string, sizes map[string]int) *Content {
	d := storetest.New(1 << 40)
	fs := d.FS()
	c := &Content{sums: map[string][32]byte{}}
	made := map[string]bool{}
	for _, path := range sortedKeys(sizes) {
		data := bytesOf(name, path, sizes[path])
		c.bytes += int64(len(data))
		c.sums[path] = sha256.Sum256(data)
		at := name
		if path != "" {
			for _, part := range append([]string{""}, strings.Split(path, "/")...)[:strings.Count(path, "/")+1] {
				at = strings.TrimSuffix(at+"/"+part, "/")
				if !made[at] {
					made[at] = true
					must(fs.Mkdir(at))
				}
			}
			at = name + "/" + path
		}
		f, err := fs.Create(at, false)
		must(err)
		_, err = f.WriteAt(data, 0)
		must(err)
		must(f.Close())
	}
	im, err := store.Import(context.Background(), name, store.ImportOptions{FS: fs, Workers: 1})
	must(err)
	c.Manifest, c.tree = im.Manifest, im.Tree
	return c
}

func must(err error) {
	if err != nil {
		panic(fmt.Sprintf("simnet: a disk without faults: %v", err))
	}
}

func sortedKeys[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// bytesOf are the bytes of a file, the same in every run.
func bytesOf(name, path string, size int) []byte {
	sum := sha256.Sum256([]byte(name + "\x00" + path))
	var b bytes.Buffer
	b.Grow(size)
	r := rand.NewPCG(binary.LittleEndian.Uint64(sum[:]), binary.LittleEndian.Uint64(sum[8:]))
	for b.Len() < size {
		b.Write(binary.LittleEndian.AppendUint64(nil, r.Uint64()))
	}
	return b.Bytes()[:size]
}

// check compares what lies under the content's name in a folder with what should.
func (c *Content) check(fs store.FS) error {
	for _, path := range sortedKeys(c.sums) {
		at := c.Manifest.Name
		if path != "" {
			at += "/" + path
		}
		f, err := fs.Open(at)
		if err != nil {
			return err
		}
		info, err := f.Stat()
		if err != nil {
			return err
		}
		h := sha256.New()
		if _, err := io.Copy(h, io.NewSectionReader(f, 0, info.Size+1)); err != nil {
			return err
		}
		f.Close()
		if [32]byte(h.Sum(nil)) != c.sums[path] {
			return fmt.Errorf("%s has other bytes", at)
		}
	}
	return nil
}

// borrowed is a tree that many nodes serve, and none closes.
type borrowed struct{ store.Source }
