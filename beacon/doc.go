// Package beacon decides what a beacon remembers of who has which share, and whom it
// introduces. It promises nothing to outsiders.
//
// # The idea
//
// A node announces, under keys, the shares that it has, and whoever knows a key is told
// some of those who announced it. A key is a hash of the share ID and, for a private
// share, of the secret in its ticket: the beacon learns neither. What is announced lasts
// for [TTL], by the beacon's clock alone, unless it is announced again.
//
// Anybody can announce anything, with as many identities as he likes. Three things bound
// what that is good for:
//
//   - The connection proves who announces, and of the addresses that it gives only those
//     of the host that the connection comes from are kept. So nobody has others
//     dial a third.
//   - Addresses cost more than identities. What counts is the block that a connection comes
//     from (peers.Endpoint.Net: the /24 of IPv4, the /48 of IPv6): a sample has one peer
//     of each block before it has two of any, and when there is no room, whoever is of the
//     block that takes most of it gives way.
//   - The answer to a question is at most twice as long as the question.
//
// What a beacon says is a claim in its turn. It brings peers to be tried, and never content.
//
// A [Table] is a plain value with one owner. It takes the time as an argument and chance
// from a seed, starts nothing, and does the same for the same calls.
// Its actor: actors/beacon.go.
package beacon
