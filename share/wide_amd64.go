package share

import (
	"unsafe"

	"golang.org/x/sys/cpu"
	"lukechampine.com/blake3/guts"
)

// wide says that this processor hashes HashWidth bytes at once in less time by compress16 than guts
// does, which gathers the words of its chunks one by one.
var wide = cpu.X86.HasAVX512F && cpu.X86.HasAVX512VL

// compress16 hashes 16 inputs of the same number of blocks of 64 bytes, each stride bytes after
// the one before. Each has a counter, whose upper halves come second. The first block and the last have
// these flags besides.
//
//go:noescape
func compress16(cvs *[16][8]uint32, in *byte, stride, blocks int, counters *[2][16]uint32, flags, first, last uint32)

// wideNode is the node over data of HashWidth, twice or four times as much.
func wideNode(data []byte, first uint64) guts.Node {
	var cvs [BlockSize / chunkSize][8]uint32
	var counters [2][16]uint32
	n := 0
	for ; n < len(data)/chunkSize; n += 16 {
		for i := range uint64(16) {
			chunk := first + uint64(n) + i
			counters[0][i], counters[1][i] = uint32(chunk), uint32(chunk>>32)
		}
		compress16((*[16][8]uint32)(cvs[n:]), &data[n*chunkSize], chunkSize, chunkSize/guts.BlockSize, &counters, 0, guts.FlagChunkStart, guts.FlagChunkEnd)
	}
	counters = [2][16]uint32{}
	for ; n > 2; n /= 2 { // of fewer than 16 pairs, the rest do not matter
		for i := 0; i < n/2; i += 16 {
			pairs := (*byte)(unsafe.Pointer(&cvs[2*i]))
			compress16((*[16][8]uint32)(cvs[i:]), pairs, guts.BlockSize, 1, &counters, guts.FlagParent, 0, 0)
		}
	}
	return guts.ParentNode(cvs[0], cvs[1], &guts.IV, 0)
}
