// Package scenarios has the scenarios that come with fetcher: the values that
// `fetcher sim run` finds by name, and CI runs with hundreds of seeds. Each is a story
// told to package simnet. It promises nothing to outsiders except [All] and [Find]: a
// scenario may change from one version to the next.
//
//	ordinary.go   what happens every day, and what is asked of every fetch
//	crowds.go     crowds that come bit by bit, or of which some give nothing
//	fleets.go     nodes of one owner
//	networks.go   the network is at fault
//	troubled.go   nodes, their disks or their clocks are
//	hostile.go    peers are hostile
//	codes.go      tickets that travel by a code
//	reading.go    files are read, chosen and paced while they come
//	rules.go      one rule each
//
// A new scenario is a value in the slice of one of these files; that is all: tests,
// `sim list` and the whole nodes of simnet/bubble find it there.
package scenarios
