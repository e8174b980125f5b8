// Package spoken decides how a ticket travels under a code that people can say, such as
// 7-marble-fossil. It promises nothing to outsiders.
//
// # The idea
//
// A code is the number of a channel at a beacon, and two words of [Words]: 22 bits that
// only those two know who said and heard it. Through the channel the two sides run
// CPace (draft-irtf-cfrg-cpace, ristretto255 with SHA-512), which makes a strong key of the
// words and tells whoever listens, or takes part with other words, nothing about them.
// Each try is one guess, and one guess is all: after it the code is used up.
//
// The exchange is four messages:
//
//	fetcher   session ID, Ya
//	sharer    Yb
//	fetcher   proof that it has the key
//	sharer    proof that it has the key; the ticket, sealed
//
// The peer IDs of both sides, as the beacon's connections prove them, and the channel are
// part of what the key is made of. So a beacon that stands between two exchanges of its own
// must know the words: it may guess once on each side.
//
// [Sharer] and [Fetcher] are plain values with one owner, which take their randomness as an
// argument and start nothing. Their actor: actors/speaker.go.
package spoken
