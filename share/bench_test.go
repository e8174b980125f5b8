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
				if _, err := checkedAndEncoded("bench", false, len(c.entries), sorted(c.entries)); err != nil {
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
				if _, err := index(m.raw); err != nil {
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

func BenchmarkHashPiece(b *testing.B) {
	data := pattern(MinPiece)
	var values []Hash
	b.SetBytes(MinPiece)
	b.ReportAllocs()
	for b.Loop() {
		values, _ = HashPiece(values[:0], data, MinPiece, false)
	}
}

func BenchmarkBlockValue(b *testing.B) {
	f := hashFile("f", pattern(2*MinPiece), minPieceExp)
	m := laid(b, f)
	for _, n := range []int{BlockSize, BlockSize - 1, HashWidth + 1, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.SetBytes(int64(n))
			b.ReportAllocs()
			for b.Loop() {
				m.BlockValue(1, 3, f.data[:n])
			}
		})
	}
}

func BenchmarkCheckProof(b *testing.B) {
	for _, exp := range []uint8{minPieceExp, maxPieceExp} {
		b.Run(fmt.Sprint(1<<exp>>20, "MiB"), func(b *testing.B) {
			f := hashFile("f", pattern(1<<exp), exp)
			m := laid(b, f)
			b.ReportAllocs()
			for b.Loop() {
				if err := m.CheckProof(0, f.proofs[0]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
