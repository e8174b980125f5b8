// Package beacon decides what a beacon remembers about who has which share, and which
// peers it introduces. It promises nothing to outsiders.
//
// # The idea
//
// A node announces, under keys, the shares that it has, and whoever knows a key is told
// some of the peers that announced it. A key is a hash of the share ID and, for a private
// share, of the secret in its ticket: the beacon learns neither. An announcement lasts
// for [TTL], by the beacon's clock alone, unless it is repeated.
//
// Anybody can announce anything, with any number of identities. Three things limit
// what can be gained by that:
//
//   - The connection proves who announces, and of the addresses given only those
//     of the host that the connection comes from are kept. So nobody can make others
//     dial a third party.
//   - Addresses cost more than identities. What counts is the block that a connection comes
//     from (peers.Endpoint.Net: the /24 of IPv4, the /48 of IPv6): a sample has one peer
//     of each block before it has two of any, and when there is no room, a peer of the
//     block that takes most of it gives way.
//   - The answer to a question is at most twice as long as the question.
//
// What a beacon says is only a claim. It brings peers to be tried, and never content.
//
// A [Table] is a plain value with one owner. It takes the time as an argument and randomness
// from a seed, starts nothing, and does the same for the same calls.
// Its actor: actors/beacon.go.
package beacon
