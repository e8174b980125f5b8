// Package daemon is a node that runs on its own: it carries out what its catalog contains,
// restores everything after a kill, and is controlled through package api. It promises nothing
// to outsiders.
//
//	config.go    Config, and the file that it is read from
//	schedule.go  limits by day and hour
//	daemon.go    Daemon: one state directory, one node, one catalog; start and end
//	keeper.go    one entry: a goroutine that does what its owner wants of it
//	serve.go     ... a path that is served, a share that is kept
//	fetch.go     ... a share that is fetched
//	queue.go     how many are fetched at once, and whose turn is next
//	watch.go     changes of served files, as the system tells of them
//	tally.go     what peers took and gave: bytes of entries, 24 hours of each peer
//	room.go      how much is free on the disk that shares are put on
//	ask.go       Daemon as an api.Node
//	fleet.go     the list of a fleet as entries, and how far its members are
//	fleetof.go   which fleet a node belongs to
//	snapshot.go  what a depot has promised, kept by its fleet, and back again
//	membership.go which fleet: a file of the state directory, and the token that leads to it
//	depot.go     what is kept for others here, and elsewhere for this node
//	depotmove.go its shares with their leases, to another depot and from there
//	files.go     the files of an entry, to be read; remove.go removes them
//	metrics.go   figures for Prometheus
package daemon
