// Package dht finds peers by a distributed hash table: Kademlia, as libp2p has it. It promises
// outsiders only that it is a fetcher.Discovery.
//
// Nodes that take part remember for each other who has which share, each for the keys
// that are nearest to its peer ID. A key is a hash of a share ID: whoever knows the ID can
// ask for it, and nobody learns an ID from it. Only what its owner made public is entered, but
// whoever looks for a share tells the nodes that it asks under which key.
//
// The table is fetcher's own, or that of the IPFS network, where this node only asks and enters.
// A node comes into the table through nodes that are named to it, or through any peer that takes part.
//
// What the table says is only a claim. It brings a peer to be tried, and never content: the
// connection proves the peer, and the share ID what it sends.
package dht
