// Package discovery finds peers without being told where they are: so far on the local
// network, by multicast DNS. It promises nothing to outsiders but what a
// fetcher.Discovery is.
//
// Two things are said on a local network, to whoever listens there: that a node with
// this peer ID is at these addresses, and for each share whose owner wants it found
// there, a key. A key is a hash of the share ID. Who knows the ID knows the key, and
// nobody learns an ID from it. Nothing is asked of others by name: whoever looks for a
// share listens, so nobody hears what it looks for.
//
// What is heard is a claim of whoever is on that network. It brings a peer to be tried,
// and never content: the connection proves the peer, and the share ID what it sends.
package discovery
