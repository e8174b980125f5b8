// Package leasedb keeps what a depot promised: shares with their states, accounts,
// storage leases and the names that move from share to share, in a SQLite file. It
// promises nothing to outsiders.
//
// Every method is one transaction; if it returns no error, its changes survive a
// power cut. Package depot decides what may happen to a share; each transaction asks
// it. The caller passes the time. Times are whole seconds, and an end is exclusive: a
// lease is live while now < expires.
//
// # Invariants
//
// The usage of an account is a counter that is changed with its leases. An expired
// lease counts no more from the second of its end, whether or not [DB.Sweep] has
// removed it. A name points to a share only while its account holds a lease of it.
//
// A request is answered once: if it is repeated with its ID it gets the same answer, which
// is stored together with its changes. Refusals are not stored.
//
// The leases of a share are also stored beside its data (see [Beside]). They are written
// before the transaction commits, so they are never older than the database; of the two,
// the later end decides whether a share may be collected.
//
// # Losing it
//
// Losing the database loses no data. [Open] sets a damaged one aside and makes a new
// one; [DB.BeginAnew] does the same once [DB.Corrupt] has said that it is damaged. Until a
// whole cycle of the crawler has entered what is on the disk, Usage says so and nothing is
// collected.
package leasedb
