package wire

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// Limits of the messages between an account and a depot.
const (
	MaxRequestID    = 32      // bytes of the ID of a request
	MaxHoldName     = 256     // bytes of the name of a holding
	MaxHoldSources  = 8       // peers to fetch a share from
	MaxHeldBytes    = 1 << 53 // bytes that a share takes
	MaxHoldings     = 1_024   // leases in one HoldingsPage
	MaxHoldingPages = 1_024   // HoldingsPages that an account reads one after the other
	maxSeconds      = 1 << 40 // of a time since 1970
)

// seconds is a time since 1970, in seconds; 0 if it is none.
func (c *coder) seconds(num protowire.Number, v *int64) { varint(c, num, v, maxSeconds) }

// Hold asks a depot to keep a share until a time, for the account of the
// sender. Account to depot; answered with one Held. Sent again with the same
// Request it is done once.
//
// With a Name it asks that the name stand for Share as soon as that is stable. Expect is the share
// that the name stands for now, Supersedes the one that was to come under it and no longer is.
type Hold struct {
	Share      share.ID
	Request    string       // at most MaxRequestID bytes
	Bytes      int64        // what the share takes, at most MaxHeldBytes
	Until      int64        // by the depot's clock, in seconds since 1970
	Sources    []peers.Addr // to fetch it from, besides the sender; the first MaxHoldSources are sent
	Name       string       // at most MaxHoldName bytes
	Expect     share.ID     // zero: nothing
	Supersedes share.ID     // zero: nothing
}

func (m *Hold) fields(c *coder) {
	c.share(1, &m.Share)
	c.text(2, &m.Request, MaxRequestID)
	varint(c, 3, &m.Bytes, MaxHeldBytes)
	c.seconds(4, &m.Until)
	m.Sources = firstOf(m.Sources, MaxHoldSources)
	c.peers(5, &m.Sources, MaxHoldSources)
	c.text(6, &m.Name, MaxHoldName)
	c.otherShare(7, &m.Expect)
	c.otherShare(8, &m.Supersedes)
}

// Renew asks a depot to move the end of a lease. Account to depot; answered with
// one Held.
type Renew struct {
	Share   share.ID
	Request string // at most MaxRequestID bytes
	Until   int64  // as in Hold
}

func (m *Renew) fields(c *coder) {
	c.share(1, &m.Share)
	c.text(2, &m.Request, MaxRequestID)
	c.seconds(3, &m.Until)
}

// Release ends a lease. Account to depot; answered with one Held.
type Release struct {
	Share   share.ID
	Request string // at most MaxRequestID bytes
}

func (m *Release) fields(c *coder) {
	c.share(1, &m.Share)
	c.text(2, &m.Request, MaxRequestID)
}

// Held is the answer to Hold, Renew and Release.
type Held struct {
	Share   share.ID
	At      int64 // the depot's clock, in seconds since 1970
	Refused uint8 // 0: granted; else why not, a number from formats.md, as State is
	State   uint8
	Bytes   int64         // how many the lease counts
	Expires int64         // in seconds since 1970; 0: the lease has ended
	Added   int64         // how many seconds longer the share is leased than it was
	Room    int64         // refused: bytes, of a meaning that depends on Refused
	Retry   time.Duration // refused: ask again after; 0 when something has changed
	Current share.ID      // refused: what the name stands for
	Coming  share.ID      // refused: what is to come under it
}

func (m *Held) fields(c *coder) {
	c.share(1, &m.Share)
	c.seconds(2, &m.At)
	varint(c, 3, &m.Refused, 255)
	varint(c, 4, &m.State, 255)
	varint(c, 5, &m.Bytes, MaxHeldBytes)
	c.seconds(6, &m.Expires)
	c.seconds(7, &m.Added)
	varint(c, 8, &m.Room, MaxHeldBytes)
	c.ms(9, &m.Retry)
	c.otherShare(10, &m.Current)
	c.otherShare(11, &m.Coming)
}

// Holdings asks for the live leases of the account, in the order of share IDs. Account to
// depot; answered with one HoldingsPage.
type Holdings struct {
	After share.ID // only those with a greater ID; zero: from the first
}

func (m *Holdings) fields(c *coder) { c.otherShare(1, &m.After) }
func (*Holdings) shareless()        {}

// HoldingsPage is the answer to Holdings.
type HoldingsPage struct {
	At      int64     // the depot's clock, in seconds since 1970
	Refused uint8     // as in Held
	Items   []Holding // at most MaxHoldings
	More    bool      // there are more, after the last of these
}

func (m *HoldingsPage) fields(c *coder) {
	c.seconds(1, &m.At)
	varint(c, 2, &m.Refused, 255)
	items(c, 3, &m.Items, MaxHoldings, (*Holding).fields)
	c.bool(4, &m.More)
	if n := len(m.Items); c.reading && c.num == 3 && n > 0 {
		c.need(!m.Items[n-1].Share.IsZero(), "holding without a share")
	}
}
func (*HoldingsPage) shareless() {}

// Holding is a lease as it is reported to its account.
type Holding struct {
	Share   share.ID
	State   uint8 // as in Held
	Bytes   int64
	Expires int64 // in seconds since 1970
	Here    int64 // bytes of its files that the depot has, while it is being fetched or repaired
	Delay   uint8 // why that makes no progress, a number from formats.md; 0: nothing holds it up
}

func (h *Holding) fields(c *coder) {
	c.otherShare(1, &h.Share)
	varint(c, 2, &h.State, 255)
	varint(c, 3, &h.Bytes, MaxHeldBytes)
	c.seconds(4, &h.Expires)
	varint(c, 5, &h.Here, MaxHeldBytes)
	varint(c, 6, &h.Delay, 255)
}

// Usage asks what the account uses. Account to depot; answered with one UsageReport.
// With Watch, a HoldingChanged follows for each change of one of the account's shares,
// for as long as the connection lasts.
type Usage struct{ Watch bool }

func (m *Usage) fields(c *coder) { c.bool(1, &m.Watch) }
func (*Usage) shareless()        {}

// UsageReport is the answer to Usage.
type UsageReport struct {
	At       int64 // the depot's clock, in seconds since 1970
	Refused  uint8 // as in Held
	Used     int64 // bytes
	Quota    int64 // bytes
	MaxLease int64 // the longest lease, in seconds
	Complete bool  // false: the depot is still counting what it has, and there may be more
}

func (m *UsageReport) fields(c *coder) {
	c.seconds(1, &m.At)
	varint(c, 2, &m.Refused, 255)
	varint(c, 3, &m.Used, MaxHeldBytes)
	varint(c, 4, &m.Quota, MaxHeldBytes)
	c.seconds(5, &m.MaxLease)
	c.bool(6, &m.Complete)
}
func (*UsageReport) shareless() {}

// HoldingChanged says that a share of the account has changed its state. Depot to
// an account that watches.
type HoldingChanged struct {
	At      int64 // the depot's clock, in seconds since 1970
	Holding       // its Expires is 0 if the account holds no lease of the share any more; without Here and Delay
}

func (m *HoldingChanged) fields(c *coder) {
	c.share(1, &m.Share)
	c.seconds(2, &m.At)
	varint(c, 3, &m.State, 255)
	varint(c, 4, &m.Bytes, MaxHeldBytes)
	c.seconds(5, &m.Expires)
}
