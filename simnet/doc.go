// Package simnet runs whole fetcher nodes on a simulated network in virtual time:
// the real actors, on the real store, with only links and disks made up. An hour
// takes seconds, and everything follows from a seed: the same seed gives the same
// run, in every process, on every machine.
//
// A [Net] has nodes, lines with latency, jitter, rates and loss, sites, cuts and
// partitions. A [Node] can be stopped, killed, frozen, started again, deprived of
// power, of room on its disk, or of the right time, and it can be made to lie in
// every way that is known ([Behaviour]). What a node asks for, whom it serves and
// what it believes is never decided here: links only carry.
//
// A [Scenario] is a story with a name. Whatever it does, a referee looks at every
// message and every node: that pieces are conserved, bytes right, waits explained
// and not needless, the honest not blamed, and nothing left over at the end. A
// fault comes with the seed and the timeline that lead to it, and with why each
// missing piece is missing. Run one of package
// scenarios by its name, or write your own; the examples do both. A [Recording] is what package report draws a page of.
//
// Package bubble plays the same scenarios with whole nodes, over packets in place of
// modelled links, and has what an app that embeds fetcher is tested with; the
// example of a mirror shows that.
//
// What the links are a model of is package p2p: dialling, streams that keep their
// order, requests in flight on two of them, replies by runs, messages with their
// limits, and TCP's patience with silence. It is checked against the real one by
// running the same stories on it.
package simnet
