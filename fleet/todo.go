package fleet

import (
	"github.com/piecelease/fetcher/peers"
)

// Port is where messages to somebody go.
type Port = peers.Port

// From is who sent a message.
type From struct {
	Peer  peers.ID
	Reply Port
}

// Send is a message of package wire, or Watch or Unwatch, for somebody.
type Send struct {
	To      Port
	Message any
}

// Watch asks the owner to say when the receiver has ended; Unwatch ends that.
type (
	Watch   struct{}
	Unwatch struct{}
)
