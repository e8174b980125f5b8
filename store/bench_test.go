package store_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/vfs"
)

// BenchmarkImport hashes one file of 1 GiB on all cores, from the page cache.
func BenchmarkImport(b *testing.B) {
	path := filepath.Join(b.TempDir(), "file")
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	chunk := []byte(random(16 << 20))
	for range 64 {
		f.Write(chunk)
	}
	f.Close()
	b.SetBytes(1 << 30)
	for b.Loop() {
		im, err := store.Import(b.Context(), path, store.ImportOptions{})
		if err != nil {
			b.Fatal(err)
		}
		im.Tree.Close()
	}
}

// BenchmarkImportKnown imports 10,000 small files that have not changed.
func BenchmarkImportKnown(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "stuff")
	manyFiles(b, dir, 10_000, []byte(random(1000)))
	time.Sleep(30 * time.Millisecond)
	s := openState(b, b.TempDir())
	importDir(b, dir, store.ImportOptions{State: s})
	for b.Loop() {
		im, err := store.Import(b.Context(), dir, store.ImportOptions{State: s})
		if err != nil || im.Hashed != 0 {
			b.Fatal(err)
		}
		im.Tree.Close()
	}
}

func manyFiles(b *testing.B, dir string, n int, content []byte) {
	for i := range n {
		d := filepath.Join(dir, fmt.Sprintf("%02d/%02d", i%10, i/10%10))
		if i < 100 {
			if err := os.MkdirAll(d, 0o777); err != nil {
				b.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(d, fmt.Sprintf("f%05d", i)), content, 0o666); err != nil {
			b.Fatal(err)
		}
	}
}

// sized is a share of n files of size bytes that nobody reads: its hashes are of
// nothing.
func sized(b *testing.B, n int, size int64) *share.Manifest {
	var entries []share.Entry
	for i := range n {
		e := share.Entry{Path: fmt.Sprintf("%02d/%02d/f%05d", i%10, i/10%10, i), Size: size}
		if pieces := int((size + share.MinPiece - 1) / share.MinPiece); pieces > 1 {
			e.Pieces = make([]share.Hash, pieces)
			e.Root = share.FileRoot(e.Pieces)
		}
		entries = append(entries, e)
	}
	m, err := share.NewManifest("stuff", entries)
	if err != nil {
		b.Fatal(err)
	}
	return m
}

// writeAll writes a whole share as a fetch does: runs of 256 KiB, a sync every
// syncEvery bytes. It does not finish it.
func writeAll(b *testing.B, p *store.Partial, data []byte, syncEvery int64) {
	l := p.Manifest().Layout()
	since := int64(0)
	for piece := range share.Piece(l.Pieces()) {
		blocks := l.Blocks(piece)
		for first := 0; first < blocks; first += 4 {
			s := l.RunSpan(piece, share.Block(first), min(4, blocks-first))
			if err := p.Write(piece, share.Block(first), data[:s.Len]); err != nil {
				b.Fatal(err)
			}
		}
		p.Complete(piece, make([]share.Hash, blocks))
		if since += int64(l.PieceLen(piece)); since >= syncEvery {
			since = 0
			if _, err := p.Sync(); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkWrite writes 512 MiB into one file with a sync every 8 and every 64 MiB, beside
// plain writes of the same bytes with one sync at the end.
func BenchmarkWrite(b *testing.B) {
	const size = 512 << 20
	m := sized(b, 1, size)
	data := []byte(random(256 << 10))
	for _, every := range []int64{8 << 20, 64 << 20} {
		b.Run(fmt.Sprintf("sync=%dMiB", every>>20), func(b *testing.B) {
			b.SetBytes(size)
			var ours, raw time.Duration
			for b.Loop() {
				start := time.Now()
				f, err := os.Create(filepath.Join(b.TempDir(), "raw"))
				if err != nil {
					b.Fatal(err)
				}
				for off := int64(0); off < size; off += int64(len(data)) {
					f.WriteAt(data, off)
				}
				f.Sync()
				f.Close()
				os.Remove(f.Name())
				raw += time.Since(start)

				start = time.Now()
				dir := b.TempDir()
				p, err := store.OpenPartial(b.Context(), dir, m, store.PartialOptions{})
				if err != nil {
					b.Fatal(err)
				}
				writeAll(b, p, data, every)
				if _, err := p.Sync(); err != nil {
					b.Fatal(err)
				}
				ours += time.Since(start)
				p.Close()
				os.RemoveAll(dir)
			}
			b.ReportMetric(float64(ours)/float64(raw), "x-raw")
		})
	}
}

// BenchmarkManyFiles writes 10,000 files of 100 KiB and finishes the share,
// beside plain writes of the same files, with a sync of all at the end and
// without.
func BenchmarkManyFiles(b *testing.B) {
	const n, size = 10_000, 100 << 10
	m := sized(b, n, size)
	data := []byte(random(256 << 10))
	for _, every := range []int64{8 << 20, 64 << 20} {
		b.Run(fmt.Sprintf("sync=%dMiB", every>>20), func(b *testing.B) {
			b.SetBytes(n * size)
			var ours, raw, synced time.Duration
			for b.Loop() {
				dir := b.TempDir()
				start := time.Now()
				manyFiles(b, dir, n, data[:size])
				raw += time.Since(start)
				d, err := vfs.Dir(dir)
				if err != nil {
					b.Fatal(err)
				}
				d.SyncAll()
				d.Close()
				synced += time.Since(start)
				os.RemoveAll(dir)

				dir = b.TempDir()
				start = time.Now()
				p, err := store.OpenPartial(b.Context(), dir, m, store.PartialOptions{})
				if err != nil {
					b.Fatal(err)
				}
				writeAll(b, p, data, every)
				if _, err := p.Finish(context.Background()); err != nil {
					b.Fatal(err)
				}
				ours += time.Since(start)
				p.Close()
				os.RemoveAll(dir)
			}
			b.ReportMetric(float64(ours)/float64(raw), "x-raw")
			b.ReportMetric(float64(ours)/float64(synced), "x-raw-synced")
		})
	}
}
