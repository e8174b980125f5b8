// Package rounds elects: of many processes that share a key-value store, at most
// one at a time does a piece of work, and each holder has a greater number than all
// holders before it.
//
// A [Round] is held through one [Record] in a [KV]. Its number is the term. The
// winner gets a [Guard]; the others learn who holds the round and when to ask again:
//
//	         TryAcquire                 Complete
//	free  ---------------->  running  ------------>  done
//	  ^                       |    |                  |
//	  |        Abandon        |    |  time is over    |
//	  +-----------------------+    |                  |
//	  +----------------------------+------------------+
//
// A round that nobody ever held is also free, and so is one whose record cannot be
// read. Nothing is ever removed from the store, so terms only grow.
//
// # Jobs and offices
//
// The two kinds of rounds end in different ways.
//
// A job (a backup, a report) is done once in each period by processes that come
// and go, perhaps from cron. Its round lasts for its ttl after it was acquired, by
// the wall clock of whoever reads it; completing it does not end it earlier. A
// process that sees it unchanged for its ttl may take it too, so that no clock can
// block it for ever. A process whose clock is fast may run a job early.
//
// An office (a coordinator) is held as long as its holder keeps calling
// [Guard.Extend], once each [Heartbeat]. It is over for a reader that has seen the
// same revision for its ttl, by the reader's own monotonic clock: wall clocks decide
// nothing. Only time in which the store answered at least once a heartbeat counts,
// so that an outage of the store unseats nobody.
//
// # What it does not do
//
// Safety never rests on the round. A holder that was paused does not know that
// its time is over, and no store can tell it in time. So everything a holder does
// carries its term, and the receiver refuses a term lower than one it has seen. A
// result is written under a name of its own; then a [Pointer], which never goes
// back, is moved to it.
//
// # Use
//
// The stores are in packages sqlitekv (one machine), natskv and etcdkv; kvtest
// has the tests that a new one must pass. The package itself starts nothing, waits
// only for the store, and reads only the clock it is given. Rounds, guards and
// pointers are not safe for concurrent use.
//
// Its actor: actors/office.go.
package rounds
