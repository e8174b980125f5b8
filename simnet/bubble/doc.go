// Package bubble runs whole fetcher nodes, on real libp2p, over a network of
// packets in memory and in virtual time: inside a bubble of testing/synctest. An
// hour takes seconds of a test, and nothing leaves the process.
//
// Two kinds of test use it. One is of an app that embeds fetcher: a
// [Net] has nodes in places, with lines, cuts, partitions and liars, and
// [Node.Config] is a fetcher.Config for a node there. The app is given that in
// place of its own and does what it always does; example_test.go is an example. The other is
// one of simnet's scenarios: [Run] runs it with whole nodes, where simnet itself
// runs the actors over modelled links.
//
// What is real here is everything above the packets: QUIC, TLS, libp2p, package
// p2p, the actors, the store. There is no TCP, which a bubble cannot hold. Random
// choices (losses, jitter, keys) follow from a seed, but the order in which goroutines run
// does not: a seed that failed is likely to fail again, but not sure to. The
// rules are checked, but no traces are compared. simnet's own worlds replay
// exactly; a scenario that fails here names the command that runs it there.
//
// Inside a bubble time moves only when every goroutine in it waits. So
// everything that a node touches must be made inside: no listener on the real
// network, nothing shared with the outside that is waited for, and no mutex held
// over such a wait.
package bubble
