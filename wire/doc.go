// Package wire is the bytes that nodes of different versions and makers say to
// each other.
//
// Every message is a protobuf message of one of the .proto files beside this
// one. Callers never see generated types: each message is a plain struct, which an
// Append function encodes at the end of a slice and a Parse function reads. Those that
// an envelope carries have one pair for all of them, and Codec for any of them. All know
// nothing of frames: AppendFrame and ReadFrame put a length before a message and take it
// off again. The code is written by hand
// against the protobuf wire format, because a decoder made from a schema
// allocates what the sender names before anybody can ask whether that is too
// much; the generated code in wire/wirepb is what the tests compare with.
//
// # Rules of every decoder
//
// The sender is hostile. A count or length is compared with its cap before
// anything is allocated for it. What a Parse function returns is checked and
// owns its memory, except where its comment says otherwise. An error wraps
// ErrMalformed, and so peers.ErrProtocol: no honest peer sends such bytes; what
// came with it is not to be used.
//
// Unknown fields are skipped. Of a field that stands twice and is not a list the
// last one counts. Durations travel as whole milliseconds, rounded up, and one
// above MaxDuration is read as MaxDuration. Text is UTF-8 without control
// characters, so that it may be printed as it is.
//
// # Rules of every encoder
//
// Fields are written in the order of their numbers and those of value zero left
// out, so equal values give equal bytes. Text for people, addresses and peers
// named to others are cut to their caps. Anything else over a cap is a bug of
// the caller and panics.
//
// docs/formats.md says all this for somebody who writes another implementation.
package wire
