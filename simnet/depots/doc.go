// Package depots puts depots into worlds of package simnet: the real actors, database and
// disk layout, on a simulated machine. At a power cut its disk forgets what was not
// synced; what its database has committed survives everything, as SQLite promises. It promises
// nothing to outsiders.
//
// A [Depot] can be killed or deprived of power at each change of its disk and each
// statement of its database, sleep, be given a wrong clock, lose its database or get an old
// one back, and have bits rot. A [Story] says step by step what accounts ask of it, while
// the world goes on.
package depots
