package leasedb

import "github.com/piecelease/fetcher/internal/sqlitedb"

// schema: bytes, and seconds since 1970. shares.lapsed is the end of the last lease
// that expired and was swept. leases.own says that the share was asked for itself,
// not by a name. The index due has all that Usage and Sweep ask of leases; the table is
// in the order of shares, and has all else. meta.depot names the depot
// whose shares these are, meta.folder where they were the last time, and meta.self this database; see SetIdentity. accounts.stranger
// is that of a peer that was admitted without its owner's word. accounts.credit is in
// MiB-seconds; payments.units is 0 from before the passes are spent until they are entered, and
// payments.mark is in the issuer's book too.
var schema = sqlitedb.Schema{App: 0x66744c44, Private: true, Steps: []string{ // "ftLD"
	`CREATE TABLE accounts(id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, quota INTEGER NOT NULL,
	   max_lease INTEGER NOT NULL, created INTEGER NOT NULL, used INTEGER NOT NULL DEFAULT 0, asked INTEGER NOT NULL DEFAULT 0, stranger INTEGER NOT NULL DEFAULT 0);
	 CREATE INDEX strangers ON accounts(id) WHERE stranger = 1;
	 INSERT INTO accounts(id, name, quota, max_lease, created) VALUES (1, 'starter', 0, 0, 0);
	 CREATE TABLE keys(peer TEXT PRIMARY KEY, account INTEGER NOT NULL REFERENCES accounts) WITHOUT ROWID;
	 CREATE INDEX keys_of ON keys(account);
	 CREATE TABLE shares(id INTEGER PRIMARY KEY, share BLOB NOT NULL UNIQUE, state INTEGER NOT NULL CHECK(state BETWEEN 1 AND 4),
	   bytes INTEGER NOT NULL, measured INTEGER NOT NULL, since INTEGER NOT NULL, lapsed INTEGER NOT NULL DEFAULT 0, missing BLOB);
	 CREATE INDEX shares_in ON shares(state, share, bytes);
	 CREATE TABLE leases(share INTEGER NOT NULL REFERENCES shares, account INTEGER NOT NULL REFERENCES accounts,
	   bytes INTEGER NOT NULL, granted INTEGER NOT NULL, renewed INTEGER NOT NULL, expires INTEGER NOT NULL, own INTEGER NOT NULL,
	   PRIMARY KEY(share, account)) WITHOUT ROWID;
	 CREATE INDEX due ON leases(account, expires, bytes);
	 CREATE TABLE names(account INTEGER NOT NULL REFERENCES accounts, name TEXT NOT NULL,
	   share INTEGER REFERENCES shares, next INTEGER REFERENCES shares, PRIMARY KEY(account, name)) WITHOUT ROWID;
	 CREATE INDEX names_share ON names(share, account) WHERE share IS NOT NULL;
	 CREATE INDEX names_next ON names(next, account) WHERE next IS NOT NULL;
	 CREATE TABLE requests(account INTEGER NOT NULL REFERENCES accounts, request BLOB NOT NULL, answer BLOB NOT NULL,
	   until INTEGER NOT NULL, PRIMARY KEY(account, request)) WITHOUT ROWID;
	 CREATE INDEX requests_until ON requests(account, until);
	 CREATE TABLE strikes(share INTEGER PRIMARY KEY REFERENCES shares, at INTEGER NOT NULL, bad BLOB NOT NULL);
	 CREATE TABLE crawls(cycle INTEGER PRIMARY KEY, report BLOB NOT NULL);
	 CREATE TABLE meta(one INTEGER PRIMARY KEY CHECK(one = 1), complete_since INTEGER, gc INTEGER NOT NULL DEFAULT 0,
	   frozen INTEGER NOT NULL DEFAULT 0, clock BLOB, place BLOB, depot TEXT NOT NULL DEFAULT '', self TEXT NOT NULL DEFAULT '');
	 INSERT INTO meta(one) VALUES (1)`,
	`ALTER TABLE accounts ADD COLUMN paid INTEGER NOT NULL DEFAULT 0;
	 ALTER TABLE accounts ADD COLUMN credit INTEGER NOT NULL DEFAULT 0;
	 CREATE TABLE payments(account INTEGER NOT NULL REFERENCES accounts, request BLOB NOT NULL, units INTEGER NOT NULL, at INTEGER NOT NULL,
	   PRIMARY KEY(account, request)) WITHOUT ROWID`,
	`ALTER TABLE payments ADD COLUMN mark BLOB NOT NULL DEFAULT x'00000000000000000000000000000000'`,
	`ALTER TABLE meta ADD COLUMN folder TEXT NOT NULL DEFAULT ''`,
}}
