// Package actors is the running program: the actors of a node, what they say to
// each other, and what they need of the world around them. It promises nothing to
// outsiders.
//
//	node.go           Node: the API's commands; the ranking of peers; parent of all others
//	seeder.go         Seeder: children, announcements, upload admission
//	finder.go         Finder: where sources are
//	transfer.go       Transfer: transfer's actor, the fetch of one share
//	leasemanager.go   LeaseManager: leasemgr's actor
//	fetchpool.go      FetchPool, per source: fetchpool's actor
//	pieceverifier.go  PieceVerifier: verifier's actor
//	coordinator.go    the actor of fleet's Coordinator
//	leaseclient.go    the actor of fleet's Member; fleet.go starts both
//
//	messages.go       what they say to each other in one process, by receiver; what travels is package wire
//	events.go         what the program tells whoever started it
//	deps.go           the network and the disk that they need, as interfaces
//	program.go        the edge between the actors and everything else; inspect.go
//	                  is that of tests and simulations
//	budget.go         blocks in flight, shared fairly by the pools of a node
//	ration.go         the download limit
//
// All of it runs on package system, whose rules are those of every actor here.
package actors
