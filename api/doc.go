// Package api is the HTTP API of a node that runs on its own: its messages, the server
// around a [Node], and a client. It promises nothing to outsiders except what it serves at
// /v1/openapi.json.
//
//	types.go    what travels: entries, files, sources, limits, events
//	depot.go    ... of a depot, and what others keep for the node
//	move.go     the export and the import of a depot, as streams
//	fleet.go    ... of the fleet that a node belongs to
//	problem.go  errors as they travel, and back into the errors that callers branch on
//	feed.go     events, numbered, for readers that come back
//	server.go   who may ask what: the guards of a listener
//	routes.go   the operations
//	stream.go   events as they come, and files with ranges
//	client.go   the same from the other side
//
// Package daemon is the Node behind it.
package api
