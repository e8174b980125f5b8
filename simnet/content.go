package simnet

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/storetest"
	"github.com/piecelease/fetcher/store/vfs"
)

// Content is a share that exists in a Net: generated files, imported by the real
// store. A node that seeds it has all of it. Nothing in it changes, so runs
// side by side may share it.
type Content struct {
	Manifest *share.Manifest
	tree     *store.Tree
	files    vfs.FS // where the files are
	pages    *storetest.Pages
	paths    []string // of each file
	bytes    int64
}

// Bytes is the size of the content.
func (c *Content) Bytes() int64 { return c.bytes }

// ID is the share ID.
func (c *Content) ID() share.ID { return c.Manifest.ID() }

// File is a share of one file of this many bytes. It panics if size is negative.
func (n *Net) File(name string, size int) *Content { return n.Folder(name, 0, size) }

// Folder is a share of this many files of one size; 0 files are one that is the share. It panics if either is negative.
func (n *Net) Folder(name string, files, size int) *Content {
	if files < 0 || size < 0 {
		panic(fmt.Sprintf("simnet: %q cannot have %d files of %d bytes", name, files, size))
	}
	return n.with(made.get(spec{name, files, size}))
}

// with makes the disks of all nodes share the content's pages.
func (n *Net) with(c *Content) *Content {
	if !slices.Contains(n.contents, c) {
		n.contents = append(n.contents, c)
		for _, x := range n.nodes {
			x.disk.Share(c.pages)
		}
	}
	return c
}

// spec is everything that determines a content. The seed is not part of it.
type spec struct {
	name  string
	files int // 0: one file, which is the share
	size  int // of each
}

func (s spec) bytes() int64 { return int64(max(1, s.files)) * int64(s.size) }

// made has the contents that were made last, for all runs of this process:
// making one costs more than sending it through a simulation.
var made = contents{most: 256 << 20}

// contents keeps contents of this many bytes at most, the latest used. Its methods
// may be called concurrently.
type contents struct {
	most int64

	mu   sync.Mutex
	have []*making // the latest used last
}

// making is a content that exists once it has been waited for.
type making struct {
	spec
	content func() *Content
}

func (c *contents) get(s spec) *Content {
	c.mu.Lock()
	i := slices.IndexFunc(c.have, func(m *making) bool { return m.spec == s })
	var m *making
	if i >= 0 {
		m = c.have[i]
		c.have = slices.Delete(c.have, i, i+1)
	} else {
		m = &making{s, sync.OnceValue(func() *Content { return newContent(s) })}
	}
	c.have = append(c.have, m)
	for sum := c.bytes(); sum > c.most && len(c.have) > 1; c.have = slices.Delete(c.have, 0, 1) {
		sum -= c.have[0].bytes()
	}
	c.mu.Unlock()
	return m.content()
}

func (c *contents) bytes() (sum int64) {
	for _, m := range c.have {
		sum += m.spec.bytes()
	}
	return sum
}

func newContent(s spec) *Content {
	disk := storetest.New(1 << 40)
	c := &Content{files: disk.FS(), bytes: s.bytes()}
	if s.files == 0 {
		c.add(s.name, "", s.size)
	} else {
		must(c.files.Mkdir(s.name))
		for i := range min(7, s.files) {
			must(c.files.Mkdir(fmt.Sprint(s.name, "/", i)))
		}
		for i := range s.files {
			c.add(s.name, fmt.Sprintf("/%d/%04d", i%7, i), s.size)
		}
	}
	im, err := store.Import(context.Background(), s.name, store.ImportOptions{FS: c.files, Workers: 1})
	must(err)
	must(c.files.SyncAll())
	c.Manifest, c.tree, c.pages = im.Manifest, im.Tree, disk.Durable()
	return c
}

func (c *Content) add(name, below string, size int) {
	f, err := c.files.Create(name+below, false)
	must(err)
	_, err = f.WriteAt(bytesOf(name, strings.TrimPrefix(below, "/"), size), 0)
	must(err)
	must(f.Close())
	c.paths = append(c.paths, name+below)
}

func must(err error) {
	if err != nil {
		panic(fmt.Sprintf("simnet: an operation failed on a disk that has no faults: %v", err))
	}
}

// bytesOf returns the bytes of a file, the same in every run.
func bytesOf(name, path string, size int) []byte {
	sum := sha256.Sum256([]byte(name + "\x00" + path))
	b := make([]byte, size+8)
	r := rand.NewPCG(binary.LittleEndian.Uint64(sum[:]), binary.LittleEndian.Uint64(sum[8:]))
	for at := 0; at < size; at += 8 {
		binary.LittleEndian.PutUint64(b[at:], r.Uint64())
	}
	return b[:size]
}

// CopyTo puts the files into a folder, except those that are there already.
func (c *Content) CopyTo(d vfs.FS) error {
	for _, path := range c.paths {
		if err := c.copy(d, path); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

func (c *Content) copy(d vfs.FS, path string) error {
	for i, r := range path {
		if r != '/' {
			continue
		}
		if err := d.Mkdir(path[:i]); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	from, err := c.files.Open(path)
	must(err)
	defer from.Close()
	info, err := from.Stat()
	must(err)
	to, err := d.Create(path, false)
	if err != nil {
		return err
	}
	data := make([]byte, info.Size)
	_, err = from.ReadAt(data, 0)
	if err != io.EOF {
		must(err)
	}
	_, err = to.WriteAt(data, 0)
	return errors.Join(err, to.Close())
}

// Files returns the paths of the files, each beginning with the share's name.
func (c *Content) Files() []string { return c.paths }

// Check compares the files that a node has in a folder with the generated ones,
// byte by byte.
func (c *Content) Check(fs vfs.FS) error {
	for _, path := range c.paths {
		if err := c.same(fs, path); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

func (c *Content) same(fs vfs.FS, path string) error {
	is, err := fs.Open(path)
	if err != nil {
		return err
	}
	defer is.Close()
	was, err := c.files.Open(path)
	must(err)
	defer was.Close()
	same, err := storetest.Same(is, was)
	if err == nil && !same {
		err = errors.New("its bytes are not those that were shared")
	}
	return err
}

// borrowed is a tree that many nodes serve, and that none closes.
type borrowed struct{ store.Source }
