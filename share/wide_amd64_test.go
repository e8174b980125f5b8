package share

import (
	"math/rand/v2"
	"testing"

	"lukechampine.com/blake3/guts"
)

// The wide way gives what guts gives, wherever the data lies in its file.
func TestWideNodeIsThatOfGuts(t *testing.T) {
	if !wide {
		t.Skip("not on this processor")
	}
	defer func() { wide = true }()
	data := make([]byte, 1+BlockSize)
	rand.NewChaCha8([32]byte{'w'}).Read(data)
	data = data[1:] // not aligned
	for _, first := range []uint64{0, 16, 1<<32 - 64, 1<<32 - 8, 1 << 33} {
		for n := HashWidth; n <= BlockSize; n *= 2 {
			got := wideNode(data[:n], first)
			wide = false
			want := node(data[:n], first)
			wide = true
			if guts.ChainingValue(got) != guts.ChainingValue(want) || got.Flags != want.Flags {
				t.Errorf("%d bytes from chunk %d on: not what guts says", n, first)
			}
		}
	}
}

func BenchmarkBlock(b *testing.B) {
	data := make([]byte, 16*BlockSize)
	for _, row := range []struct {
		name string
		wide bool
	}{{"wide", wide}, {"guts", false}} {
		b.Run(row.name, func(b *testing.B) {
			defer func(was bool) { wide = was }(wide)
			wide = row.wide
			b.SetBytes(BlockSize)
			for i := range b.N {
				valueOf(data[i%16*BlockSize:][:BlockSize], 64, false)
			}
		})
	}
}
