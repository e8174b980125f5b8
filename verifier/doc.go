// Package verifier judges blocks as they arrive: which are good and may be
// written, which are bad and who sent them, which piece is complete and who
// contributed to it.
//
// # The idea
//
// A piece's blocks are proven by a list of their hashes, the proof, which folds
// into the piece's value in the manifest (share.Manifest.CheckProof). Once a
// piece has its proof, each block stands for itself: it is good or bad on its
// own, whoever sent its neighbours, in whatever order they come. So a bad block
// names exactly the peer that sent it, nothing that was good is ever fetched
// again because of it, and bytes that are right count even when their lease has
// long ended. A piece of one block is its own proof.
//
// The package does not use the disk. Its owner writes what Check lets through and
// then calls Wrote; only then does a block count as had. A write that did not happen
// leaves the block missing.
//
//	                 Proof              Check          (write)         Wrote, the last
//	unknown ───────────────────▶ proven ──────▶ passed ──────▶ had ──────────────────▶ complete
//	   ▲    a piece of one block    ▲              │              per block             once
//	   │    starts here             └──────────────┘
//	   │                          the write did not happen
//	   └── Forget, or the oldest when there are too many
//
// # The states
//
// The state of a piece is in memory only and outlives a change of lease: whoever
// takes over a piece asks State what is still missing. It does not outlive a
// restart. It costs 32 bytes a block and is bounded by Config.MaxBlocks: when a
// new piece would pass the bound, the pieces that were touched least recently
// are forgotten, as if nobody had begun them.
//
// A Verifier has one owner; it is not safe for concurrent use. It keeps no
// reference to any data it is shown.
//
// Its actor: actors/pieceverifier.go.
package verifier
