package fetcher

import (
	"os"
	"path/filepath"
	"testing"
)

// BenchmarkFetch moves one file between two nodes of this process. For figures
// of processes beside a raw ceiling see package bench; this one is for profiles.
func BenchmarkFetch(b *testing.B) {
	const size = 256 << 20
	src := filepath.Join(b.TempDir(), "f.bin")
	writeRandom(b, src, size, 1)
	s := shareOf(b, src)
	n := openNode(b)
	dir := b.TempDir()
	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := fetchInto(b, n, s.Ticket(), dir, FetchOptions{}); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		must(b, os.Remove(filepath.Join(dir, "f.bin")))
		b.StartTimer()
	}
}
