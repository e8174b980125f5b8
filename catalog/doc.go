// Package catalog keeps what the owner of a node has asked of it and still wants: the
// paths it serves, the shares it fetches and then keeps, and the status of each. It
// is a SQLite database; what a method has written when it returns survives a kill
// and a power cut. It promises nothing to outsiders.
//
//	entry.go    Entry: what was asked (Wish), what became of it (Status), and their limits
//	catalog.go  DB: opening, adding, changing, removing, listing
//	holds.go    what depots are to keep for this node, and how it stands with them
//	wallet.go   the passes that pay depots
//	schema.go   the tables, and how they came to be so
//
// The catalog decides nothing and starts nothing: package daemon makes the node carry out
// what it contains.
package catalog
