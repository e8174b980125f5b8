package share

import (
	"fmt"
	"testing"
)

// manyFiles is a share of n files of one piece each, in directories of 100.
func manyFiles(n int) []Entry {
	entries := make([]Entry, n)
	for i := range entries {
		entries[i] = Entry{Path: fmt.Sprintf("some/dir-%05d/file-%02d.txt", i/100, i%100), Size: 100_000, Root: Hash{byte(i), byte(i >> 8), byte(i >> 16), 1}}
	}
	return entries
}

// manyPieces is a share of n pieces of 1 MiB in files of 100,000 pieces.
func manyPieces(n int) []Entry {
	var entries []Entry
	for at := 0; at < n; at += 100_000 {
		pieces := make([]Hash, min(100_000, n-at))
		for i := range pieces {
			pieces[i] = Hash{byte(i), byte(i >> 8), byte(i >> 16), byte(at / 100_000)}
		}
		entries = append(entries, Entry{Path: fmt.Sprintf("%03d", at/100_000), Size: int64(len(pieces)) * MinPiece, Root: FileRoot(pieces), Pieces: pieces})
	}
	return entries
}

func BenchmarkManifest(b *testing.B) {
	for _, c := range []struct {
		name    string
		entries []Entry
	}{
		{"300kFiles", manyFiles(300_000)},
		{"2MPieces", manyPieces(2_000_000)},
	} {
		m, err := NewManifest("bench", c.entries)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(c.name+"/encode", func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(m.raw)))
			for b.Loop() {
				if _, err := m.encode(); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(c.name+"/new", func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(m.raw)))
			for b.Loop() {
				if _, err := NewManifest("bench", c.entries); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(c.name+"/cbor", func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(m.raw)))
			for b.Loop() {
				if _, err := decode(m.raw); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(c.name+"/decode", func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(m.raw)))
			for b.Loop() {
				if _, err := DecodeManifest(m.raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
