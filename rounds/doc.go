// Package rounds elects: of many processes that share a key-value store, at most
// one at a time does a piece of work, and each that does has a greater number
// than all before it.
//
// A [Round] is held through one [Record] in a [KV]. Its number is the term. Who
// wins it gets a [Guard]; whoever is slower is told who holds it and when to ask
// again:
//
//	         TryAcquire                 Complete
//	free  ---------------->  running  ------------>  done
//	  ^                       |    |                  |
//	  |        Abandon        |    |  time is over    |
//	  +-----------------------+    |                  |
//	  +----------------------------+------------------+
//
// Free is also a round that nobody ever held, and one whose record cannot be
// read. Nothing is ever removed from the store, so that terms only grow.
//
// # Jobs and offices
//
// The two kinds of rounds end in different ways.
//
// A job (a backup, a report) is done once in each period by processes that come
// and go, perhaps from cron. Its round lasts from when it was acquired for its
// ttl, by the wall clock of whoever reads it; completing it does not end it
// earlier. Somebody who watches it unchanged for its ttl may take it too, so that
// no clock can block it for ever. A process whose clock is fast may run a job
// early.
//
// An office (a coordinator) is held as long as its holder keeps calling
// [Guard.Extend], every [Heartbeat] of it. It is over for a reader that has seen
// the same revision for its ttl, by the reader's own monotonic clock: wall clocks
// decide nothing. Only time counts in which the store answered at least once a
// heartbeat, so that an outage of the store unseats nobody.
//
// # What it does not do
//
// Safety never rests on the round. A holder that was paused does not know that
// its time is over, and no store can tell it in time. So what a holder does
// carries its term, and whoever receives it refuses a term lower than one it has
// seen. A result is written under a name of its own, and then a [Pointer], which
// never goes back, is moved to it.
//
// # Use
//
// The stores are in packages sqlitekv (one machine), natskv and etcdkv; kvtest
// has the tests that a further one must pass. The package itself starts nothing,
// waits for nothing but the store, and reads no clock but the one it is given.
// Rounds, guards and pointers are not safe for concurrent use.
//
// Its actor: actors/office.go.
package rounds
