package share

import (
	"errors"
	"fmt"
)

// Sizes of the share format, version 1. All are in bytes.
const (
	BlockSize   = 64 << 10 // the unit of verification
	MinPiece    = 1 << 20  // the unit of leasing, for files up to 128 GiB
	MaxPiece    = 16 << 20 // ... and for the largest
	chunkSize   = 1 << 10  // BLAKE3's own unit
	minPieceExp = 20
	maxPieceExp = 24
)

// Limits of the share format, version 1. What exceeds one is refused with ErrLimit.
const (
	MaxFilePieces = 131_072   // pieces in one file; the piece size doubles to stay below
	MaxFileSize   = 2 << 40   // bytes in one file
	MaxPieces     = 2_000_000 // pieces in one share
	MaxEntries    = 2_000_000 // files, links and directories in one share, including those that a path implies
	MaxManifest   = 64 << 20  // bytes of one manifest
	MaxPath       = 4096      // bytes of one path, or of one link target
)

// What is said of a share that exceeds a limit, and wraps ErrLimit.
var (
	errManifestSize = fmt.Errorf("%w: a list of files of more than 64 MiB; share fewer files, or parts of the folder one by one", ErrLimit)
	ErrEntries      = fmt.Errorf("%w: more than 2,000,000 files and folders; share parts of the folder one by one", ErrLimit)
	errPieces       = fmt.Errorf("%w: more than 2,000,000 pieces (2 TB, or more if its files are large); share parts of the folder one by one", ErrLimit)
)

// Piece is the index of a piece in its share, counted over all files in path order.
type Piece uint32

// Block is the index of a block in its piece.
type Block uint16

// Token is a fencing number of a piece lease: epoch<<40 | counter. It only grows.
type Token uint64

// Hash is a BLAKE3-256 value: the root of a file, or the chaining value of a
// piece or block inside a larger file.
type Hash [32]byte

// Errors that callers branch on. Each error of this project that means one of these
// wraps it; everything else is "anything else". The command maps each to an
// exit code.
var (
	ErrTicket = errors.New("unreadable ticket")
	// ErrNotAllowed: the share exists, but only for peers that its owner named.
	ErrNotAllowed = errors.New("not allowed")
	ErrManifest   = errors.New("invalid list of files")
	ErrLimit      = errors.New("too large for the share format")
	ErrPath       = errors.New("the path is unsafe, or cannot exist on this system")
	ErrExists     = errors.New("target exists and differs")
	ErrHeld       = errors.New("held by another process")
	ErrDiskFull   = errors.New("disk full")
	ErrNetwork    = errors.New("network")
	ErrNotFound   = errors.New("no peer has the share")
	ErrLied       = errors.New("wrong data was sent")
	ErrStalled    = errors.New("stalled")
	ErrProof      = errors.New("proof does not match the list of files")
	ErrChanged    = errors.New("file changed on disk")
)
