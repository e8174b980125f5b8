// Package share says what is fetched: the manifest of a share, where its pieces
// lie, how they are proven, and the ticket that names them. It is pure: values
// in, values out, no I/O, no clock, no goroutine.
//
// # Words
//
// Each word means one thing, here and in every other package.
//
//   - share: an immutable, content-addressed set of files. Named by its share
//     [ID], the CID of its manifest.
//   - manifest: the list of a share's files with sizes and hash roots; the only
//     thing the share ID commits to. [Manifest]
//   - ticket: one string, share ID plus where to find it. What a person copies.
//     [Ticket]
//   - piece: the unit of leasing, have-maps and resume: 1 MiB, more in files
//     beyond 128 GiB; it never crosses the end of its file. [Piece]
//   - block: the unit of verification: 64 KiB, proven against its piece on
//     arrival. [Block]
//   - value: the 32 bytes by which a block or a piece is known: its node in the
//     BLAKE3 tree of its file. [Hash]
//   - root: the value of a whole file: its plain BLAKE3, as b3sum prints it.
//   - proof: the values of all blocks of one piece. They fold to the piece's
//     value, which the manifest gives. [Manifest.CheckProof]
//   - have-map: the set of pieces a peer has, as bytes. [Set]
//   - piece lease: the right of one source to deliver one piece, for a bounded
//     time. Minutes, in memory; package leasemgr.
//   - storage lease: an account's claim that a depot keeps a share until a
//     date. Days, on disk; package leasedb.
//   - round: a period in which at most one node of a fleet does a piece of
//     work; package rounds.
//   - token: the fencing number of a piece lease: it only grows, so a late
//     holder is recognised. [Token]
//   - transfer: the fetching of one share on one node, from start to verified
//     on disk.
//   - source, child: a peer we fetch from; a peer that fetches from us.
//
// # How the parts depend on each other
//
//	share ID = BLAKE3 of the manifest's bytes
//	  manifest: for each file, its root and the values of its pieces, which fold to the root
//	    piece: its proof, the values of its blocks, which fold to the piece's value
//	      block: its bytes, which hash to the block's value
//
// So whoever has the share ID need not trust anybody: each step down is checked
// against the step above, and 64 KiB are enough to catch a liar.
//
// Every byte format here is written down in docs/formats.md, sections 1 to 5.
package share
