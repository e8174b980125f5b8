// Package sqlitedb opens the SQLite databases of this program, all in the same
// way: write-ahead log, a sync at every commit, numbered migrations, and a check
// of the whole file before it is used. What a database holds, and what its
// loss means, is known to the package that owns it.
//
// A [DB] is one connection, so that one transaction runs at a time in this
// process; other processes may have the file open too. The file must be on a
// local disk: the write-ahead log needs memory that its users share.
package sqlitedb
