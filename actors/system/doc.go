// Package system is what the actors run on: a narrow wrapper of protoactor, and
// the one door through which time, chance and goroutines come in. It promises
// nothing to outsiders.
//
// A [System] is the actors of one node. It is made from a [Runtime], through which
// it gets the time, chance and work, and an [Outbox], through which messages leave.
// There are two kinds of both: the real ones, and those of a [World], in which any number
// of systems live on one goroutine in virtual time and replay exactly from a seed.
//
//	runtime.go    the clock, alarms, seeds, goroutines: the only file that may name them
//	virtual.go    World: the same in virtual time; events.go: what happens in it, and when
//	cable.go      ... and the links between its systems
//	mailbox.go    the queue of one actor: bounded; what it refuses is reported
//	system.go     Spawn, Send, Task, Close; ask.go: questions from outside
//	supervise.go  what follows a panic
//	remote.go     actors of other nodes: who may reach whom
//	session.go    ... and what one connection holds: tokens, watches, credit; receive.go: what arrives on it
//
// # Rules
//
// protoactor is used for spawning, sending, watching and the life cycle of an
// actor, and for nothing else. Its defects, what they cost us, and where each is
// worked around are in regress_test.go. For those who write actors:
//
//   - Ask [Runtime.Now], never the clock. Use one [Alarm] per actor, set again after
//     every message to the core's Wake.
//   - Blocking work is a [System.Task]; an actor starts no goroutine. If a peer asks for it, it is a
//     [System.Answer], so that the peer's credit bounds it.
//   - Send to others with ctx.Send and ctx.Request. A message that cannot be
//     queued becomes a dead letter, and a request that will never be answered is
//     answered with *actor.DeadLetterResponse. Goroutines outside use
//     [System.Send], which says whether the message was taken.
//   - A message that owns something, such as a buffer or a lock, is [Undeliverable]:
//     it is told once if nobody will ever receive it.
//   - System messages overtake the queue: *actor.Terminated may come before the
//     last message its actor sent. So the end of work is a message of its own,
//     sent before stopping.
//   - An actor goes on receiving between *actor.Stopping and *actor.Stopped.
//   - No SetReceiveTimeout, Stash, Become, ReenterAfter, futures, routers or
//     schedulers, and no Bounded or Unbounded mailboxes of the library.
//   - In a World nothing may depend on the order of a map.
package system
