// Package discovery finds peers without being told where they are: so far on the local
// network, by multicast DNS. It promises outsiders only that it is a
// fetcher.Discovery.
//
// A node announces two things on a local network, to whoever listens there: that a node with
// its peer ID is at its addresses, and a key for each share whose owner wants it found
// there. A key is a hash of the share ID. Whoever knows the ID knows the key, and
// nobody learns an ID from it. Nodes do not ask for shares by name: a node that looks for a
// share listens, so nobody learns what it looks for.
//
// An announcement is only a claim of somebody on that network. It brings a peer to be tried,
// and never content: the connection proves the peer, and the share ID what it sends.
package discovery
