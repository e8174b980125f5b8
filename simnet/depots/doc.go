// Package depots puts depots into worlds of package simnet: the real actors, database and
// disk layout, on a machine that is made up. Its disk forgets at a power cut what was not
// synced; what its database committed survives everything, as SQLite promises. It promises
// nothing to outsiders.
//
// A [Depot] can be killed or deprived of power at each change of its disk and each
// statement of its database, sleep, be given a wrong clock, lose its database or get an old
// one back, and have bits rot. A [Story] says step by step what accounts ask of it, while
// the world goes on.
package depots
