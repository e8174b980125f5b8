package p2p

import (
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/pb"
)

// carriage counts what this host carries as a relay. It implements relay.MetricsTracer, most of which it ignores.
type carriage struct{ bytes atomic.Int64 }

func (c *carriage) BytesTransferred(n int) { c.bytes.Add(int64(n)) }

func (*carriage) RelayStatus(bool)                    {}
func (*carriage) ConnectionOpened()                   {}
func (*carriage) ConnectionClosed(time.Duration)      {}
func (*carriage) ConnectionRequestHandled(pb.Status)  {}
func (*carriage) ReservationAllowed(bool)             {}
func (*carriage) ReservationClosed(int)               {}
func (*carriage) ReservationRequestHandled(pb.Status) {}

// Carried returns how many bytes this host has carried between others as a relay.
func (h *Host) Carried() int64 { return h.reach.carriage.bytes.Load() }
