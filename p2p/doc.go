// Package p2p is the way to other nodes: one libp2p host, the links over which
// pieces are fetched, the serving of pieces to children, and the typed messages
// of actors. It alone imports libp2p; tests on simulated networks do too.
//
//	Host ── Open ──────────> Link      one source: requests out, runs of blocks in, to a Sink
//	     ── FetchManifest ─> bytes     checked against the share ID
//	     ── Serve <───────── children  Admit asks, Blocks reads
//	     ── Send, OnMessages           frames between two nodes, in order per direction
//
// # Calls do not block
//
// Open, Request, Cancel, Send and Close of a link never block: they queue, and
// say no when a queue is full. Results arrive by a call from one of
// this package's goroutines, which must not block either. Only Host.Close
// waits: for every goroutine this package started, at most Timeouts.Shutdown.
//
// # Three protocols, each on streams of its own
//
// Pieces flow on a few long-lived streams per link, requests pipelined on each;
// manifests take a stream each; messages have one stream per direction and
// peer. Bulk and control never share a stream, so a message waits for the
// bytes already in the connection and for nothing else. docs/formats.md has
// every byte.
//
// A peer accepts only so many streams from us. So each link has one for as long as it
// lives; four more are shared by the links that are opened first; and beyond twenty
// links to one peer the next wait until one ends, and their sinks are told why.
//
// # What a peer may cost us
//
// Every size is checked before memory is taken for it, every reply header is
// checked against its request before its payload is read, every wait has an
// entry in Timeouts, and every queue has a bound. A peer that breaks the
// protocol loses its link, and the error wraps peers.ErrProtocol.
//
// Peers that read nothing make us hold in memory, for at most Timeouts.Stall,
//
//	                        each                  all
//	runs of blocks          ServeBytes / 8        ServeBytes; parked, half of it
//	messages                4 MiB                 ServeBytes, and 256 KiB for each
//	frames in yamux         2 MiB a connection    ... and as many as there may be
//
// so with the defaults 8 MiB and a connection for one, 64 MiB and those for all.
//
// No mutex of this package is held across a read or write of a stream or a
// wait for a channel: in a testing/synctest bubble such a wait would stop the
// clock.
package p2p
