// Package leasedb keeps what a depot promised: shares with their states, accounts,
// storage leases and the names that move from share to share, in a SQLite file. It
// promises nothing to outsiders.
//
// Every method is one transaction; if it returns no error, what it did survives a
// power cut. What may happen to a share is decided by package depot, which each
// transaction asks. Times are told by the caller, count in whole seconds, and an end
// is exclusive: a lease is live while now < expires.
//
// # What holds
//
// The usage of an account is a counter that is changed with its leases. An expired
// lease counts no more from its second on, whether [DB.Sweep] has removed it yet or
// not. A name stands for a share only while its account holds a lease of it.
//
// A request is answered once: asked again with its ID it gets the same answer, which
// is stored with what it did. What was refused is not stored.
//
// Beside the data of a share lie its leases (see [Beside]). They are written before
// the transaction commits, so they are never older than the database; whether a share
// may be collected is for the later of the two to say.
//
// # Losing it
//
// Losing the database loses no data. One that is damaged is set aside by [Open] and
// made anew; so is one of which a method says [Corrupt], when it is opened again.
// Until a whole cycle of the crawler has entered what is on the disk, Usage says so
// and nothing is collected.
package leasedb
