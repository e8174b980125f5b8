package catalog

import "github.com/piecelease/fetcher/internal/sqlitedb"

// schema: times are seconds since 1970, 0 for none. No two entries may have the same
// entries.key; wish is the JSON of a Wish; older has the earlier share IDs, 36 bytes each;
// mounts has paths, with a NUL between them.
// AUTOINCREMENT makes sure that no ID is used twice. passes.token is the pass as RFC 9577 writes
// it; orders.keys is a listing of the keys that an order uses, and counts the JSON of how many
// passes of each it asks for. hold_* are the JSON of the parts of a renewal.Book. made has the vfs.Stamp of
// what was put in its place for an entry; made.file is its number in the list of files.
var schema = sqlitedb.Schema{App: 0x66744361, Private: true, Steps: []string{ // "ftCa"
	`CREATE TABLE entries(id INTEGER PRIMARY KEY AUTOINCREMENT, kind INTEGER NOT NULL CHECK(kind BETWEEN 1 AND 2),
	   key TEXT NOT NULL UNIQUE, wish TEXT NOT NULL, added INTEGER NOT NULL,
	   state INTEGER NOT NULL CHECK(state BETWEEN 1 AND 6), why TEXT NOT NULL DEFAULT '', since INTEGER NOT NULL,
	   share BLOB, title TEXT NOT NULL DEFAULT '', path TEXT NOT NULL DEFAULT '', bytes INTEGER NOT NULL DEFAULT 0,
	   files INTEGER NOT NULL DEFAULT 0, done INTEGER NOT NULL DEFAULT 0, sent INTEGER NOT NULL DEFAULT 0, older BLOB)`,
	`ALTER TABLE entries ADD COLUMN found INTEGER NOT NULL DEFAULT 0`,
	`ALTER TABLE entries ADD COLUMN verified INTEGER NOT NULL DEFAULT 0`,
	`CREATE TABLE passes(nonce BLOB PRIMARY KEY, token BLOB NOT NULL, size INTEGER NOT NULL, epoch INTEGER NOT NULL,
	   issuer TEXT NOT NULL, depot TEXT NOT NULL, request BLOB NOT NULL, bad INTEGER NOT NULL) WITHOUT ROWID;
	 CREATE TABLE orders(id BLOB PRIMARY KEY, seed BLOB NOT NULL, issuer TEXT NOT NULL, depot TEXT NOT NULL,
	   keys BLOB NOT NULL, counts TEXT NOT NULL, voucher BLOB NOT NULL) WITHOUT ROWID`,
	`CREATE TABLE hold_wants(id INTEGER PRIMARY KEY AUTOINCREMENT, want TEXT NOT NULL);
	 CREATE TABLE hold_leases(depot TEXT NOT NULL, share BLOB NOT NULL, hold TEXT NOT NULL, PRIMARY KEY(depot, share)) WITHOUT ROWID;
	 CREATE TABLE hold_depots(depot TEXT PRIMARY KEY, account TEXT NOT NULL) WITHOUT ROWID`,
	`ALTER TABLE entries ADD COLUMN guarded INTEGER NOT NULL DEFAULT 0`,
	`CREATE TABLE limits(way TEXT PRIMARY KEY, rate INTEGER NOT NULL, setting INTEGER NOT NULL) WITHOUT ROWID`,
	`ALTER TABLE entries ADD COLUMN listed TEXT NOT NULL DEFAULT ''`,
	`ALTER TABLE entries ADD COLUMN mounts BLOB`,
	`ALTER TABLE passes ADD COLUMN lease TEXT NOT NULL DEFAULT ''`,
	`CREATE TABLE made(entry INTEGER NOT NULL, file INTEGER NOT NULL, size INTEGER NOT NULL, mtime INTEGER NOT NULL,
	   ctime INTEGER NOT NULL, inode INTEGER NOT NULL, PRIMARY KEY(entry, file)) WITHOUT ROWID`,
}}
