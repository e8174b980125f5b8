// Package simnet runs whole fetcher nodes on a simulated network in virtual time:
// the real actors, on the real store, with only links and disks simulated. An hour
// takes seconds, and everything follows from a seed: the same seed gives the same
// run, in every process, on every machine.
//
// A [Net] has nodes, lines with latency, jitter, rates and loss, sites, cuts and
// partitions. A [Node] can be stopped, killed, frozen, started again, deprived of
// power, of room on its disk, or of the right time, and it can be made to lie in
// every way that is known ([Behaviour]). What a node asks for, whom it serves and
// what it believes is never decided here: links only carry.
//
// A [Scenario] is a story with a name. Whatever it does, a referee checks every
// message and every node: that pieces are conserved, bytes right, waits explained
// and not needless, the honest not blamed, and nothing left over at the end. A
// fault comes with the seed and the timeline that led to it, and with why each
// missing piece is missing. Run one of package
// scenarios by its name, or write your own; the examples do both. Package report draws a page of a [Recording].
//
// Package bubble plays the same scenarios with whole nodes, over packets in place of
// modelled links, and serves to test an app that embeds fetcher; the
// example of a mirror shows that.
//
// The links are a model of package p2p: dialling, streams that keep their
// order, requests in flight on two of them, replies by runs, messages with their
// limits, and TCP's patience with silence. The model is checked against the real
// package by running the same stories on it.
package simnet
