// Package wire defines the bytes that nodes of different versions and makers send to
// each other.
//
// Every message is a protobuf message of one of the .proto files beside this
// one. Callers never see generated types: each message is a plain struct, which an
// Append function encodes at the end of a slice and a Parse function reads. The messages that
// an envelope carries share one generic pair, and Codec handles any of them. None of these
// knows about frames: AppendFrame and ReadFrame put a length before a message and take it
// off again. The code is written by hand
// against the protobuf wire format, because a decoder made from a schema
// allocates what the sender names before anybody can ask whether that is too
// much; the tests compare it with the generated code in wire/wirepb.
//
// # Rules of every decoder
//
// The sender is hostile. A count or length is compared with its cap before
// anything is allocated for it. What a Parse function returns is checked and
// owns its memory, except where its comment says otherwise. An error wraps
// ErrMalformed, and so peers.ErrProtocol: no honest peer sends such bytes; a value
// returned with it must not be used.
//
// Unknown fields are skipped. If a field that is not a list appears twice, the
// last one counts. Durations are sent as whole milliseconds, rounded up, and one
// above MaxDuration is read as MaxDuration. Text is UTF-8 without control
// characters, so that it may be printed as it is.
//
// # Rules of every encoder
//
// Fields are written in the order of their numbers, and those with value zero are left
// out, so equal values give equal bytes. Text for people, addresses and peers
// named to others are cut to their caps. Anything else over a cap is a bug of
// the caller and panics.
//
// docs/formats.md specifies all this for other implementations.
package wire
