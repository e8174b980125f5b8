// Package cores plays swarms of the pure packages alone: whole crowds of lease
// managers, fetch pools, verifiers, rankings and upload queues, without
// actors, store or bytes on a wire. That makes it depth S0 of package
// simnet: a hundred thousand peers in a minute, on one goroutine, and the same run
// from the same seed.
//
// What is simulated is when things arrive (a line has a latency and a rate each way),
// who comes, lies, leaves or dies, and what the actors do between the cores: a peer
// here hands over at once what is a message between two actors in a program.
// No piece, request, refusal or verdict is decided here.
//
//	come ──▶ subscribe to the source ──▶ named children ──▶ subscribe to them as well
//	                                                             │
//	leave ◀── serve for a while ◀── whole ◀── lease, ask, verify, announce
package cores
