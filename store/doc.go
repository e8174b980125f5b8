// Package store keeps the bytes of shares on disk: those that a person has and
// shares, and those still being fetched.
//
// Files are the store. A share is served from where its files lie, and a fetched
// share is, at the end, nothing but its files. What must be kept beside them is
// kept apart: a State for the node, a NAME.partial folder for each transfer.
//
//	Import(path) ──► Tree ────────────┐
//	                                  ├──► Offers ──► whoever serves peers
//	OpenPartial(manifest) ──► Partial ┘
//	      Write, Complete, Sync … Finish ──► NAME
//
// A [Source] is a share that can be read and proven: a [Tree] has all of it, a
// [Partial] what has been verified so far. [Offers] is the set of sources of a
// node.
//
// # What is promised
//
//   - Bytes get into a Partial only through Write; the caller has verified them.
//   - A piece's bit is on disk only after its bytes and its block hashes are.
//     After kill -9 or a power cut every set bit is true, and resuming hashes
//     nothing but files that somebody else has touched, or that were written to
//     when the power failed; and, at the first sync, what a killed run had noted and
//     not synced, which is then written again.
//   - When the disk fails to keep what it accepted, Sync says which pieces are lost
//     ([SyncError]). They must be written again; store refuses them until then.
//   - Nothing that is not ours is truncated, replaced or removed, not even in
//     NAME.partial, and nothing is written outside the folder that was named: all writes go through [os.Root].
//   - A file that no longer is what was imported is never served: its size and
//     times are checked before and after each read ([share.ErrChanged]). If only
//     its change time differs, each block is compared with its hash.
//   - Free space, open files and memory are bounded, whatever the share's size.
//
// Errors wrap the classes of package share (ErrExists, ErrHeld, ErrDiskFull,
// ErrChanged, ErrPath, ErrLimit) where they mean one of them.
//
// The package starts no goroutine and reads no clock, except to hash files that
// exist: Import, and OpenPartial and Find when the target is there already. With
// one worker these start none either. So a simulation runs the real store over a
// modelled disk (package storetest) through the small [vfs.FS].
//
// Every type is safe for concurrent use unless it says otherwise. The bytes on
// disk are described in docs/formats.md.
package store
