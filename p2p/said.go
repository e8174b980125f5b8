package p2p

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/core/sec"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/pb"
	"github.com/libp2p/go-yamux/v5"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
	"github.com/multiformats/go-multistream"
	"github.com/quic-go/quic-go"

	"github.com/piecelease/fetcher/peers"
)

// said is what went wrong with a connection, in words for people. is is the class of
// package peers that it belongs to, and err what the network said.
type said struct {
	words   string
	is, err error
}

func (e said) Error() string   { return e.words }
func (e said) Unwrap() []error { return []error{e.is, e.err} }

// Why a dial fails, or a connection ends.
const (
	refused     = "refused: nothing listens there"
	justFailed  = "could not be reached a moment ago"
	noAnswer    = "no answer: the machine is off, or a firewall blocks the connection"
	noRoute     = "no route leads there from this machine's networks"
	noAddress   = "no address of it is known"
	noName      = "its name cannot be resolved"
	noUse       = "it has no address that this node can dial"
	another     = "another node answers there: the address is no longer that of this peer"
	saysNothing = "something accepts the connection and says nothing: it hangs, or is not a fetcher"
	noReply     = "it is connected, and does not answer"
	noTraversal = "it can be reached only through a relay, and this node uses none"
	noTCP       = "it has no TCP address, and this node's proxy carries nothing else"
	noPunch     = "a relay leads to it, but no direct connection could be made, and the relay carries no content"
	offline     = "the relay does not know it: it is off, or not connected to that relay"
	relayFull   = "the relay refuses: it carries as much as it may"
	relayDenies = "the relay refuses to connect this node: it was asked too often, or does not admit this node"
	relayGone   = "the relay cannot be reached"
	noRelay     = "the node named as its relay is not one"
	hungUp      = "it closed the connection"
	endedStream = "it closed the stream"
	listGivenUp = "its list of files comes too slowly, and many other lists come at the same time"
	listInTurn  = "many lists of files are coming at once, and its list has to wait for others"
	foreign     = "something takes the connection and does not speak as fetcher does: it is another program, or has too many connections"
)

// dialFailed says why no address of a peer could be used. If something accepted a connection
// but said nothing, that is a lost connection, not an unreachable peer.
func dialFailed(err error, tried []ma.Multiaddr) error {
	e := said{is: peers.ErrUnreachable, err: err}
	var d *swarm.DialError
	if !errors.As(err, &d) || len(d.DialErrors) == 0 {
		e.words = whyDial(err)
		if names := nameHosts(tried); errors.Is(err, swarm.ErrNoGoodAddresses) && len(names) > 0 {
			e.words = fmt.Sprintf("%s (%s)", noName, some(names))
		}
		return e
	}
	var reasons []string
	at, up := map[string][]string{}, map[string]bool{}
	for _, t := range d.DialErrors {
		if whyDial(t.Cause) == refused {
			up[hostIn(t.Address)] = true
		}
	}
	for _, t := range d.DialErrors {
		why := whyDial(t.Cause)
		if why == noAnswer && up[hostIn(t.Address)] { // QUIC, where TCP says that the machine is on
			continue
		}
		if why == saysNothing {
			e.is = peers.ErrLost
		}
		if !slices.Contains(reasons, why) {
			reasons = append(reasons, why)
		}
		if !errors.Is(t.Cause, peers.ErrNoProxy) { // then the peer's address does not matter
			at[why] = append(at[why], written(t.Address))
		}
	}
	for i, why := range reasons {
		if len(at[why]) > 0 {
			reasons[i] = fmt.Sprintf("%s (%s)", why, some(at[why]))
		}
	}
	e.words = strings.Join(reasons, "; ")
	return e
}

// hostIn is what an address begins with. It is empty if the address is, as what DNS returns for a name may be.
func hostIn(a ma.Multiaddr) string {
	first, _ := ma.SplitFirst(a)
	return first.Value()
}

// nameHosts returns the DNS names among the hosts of addresses.
func nameHosts(addrs []ma.Multiaddr) (out []string) {
	for _, a := range addrs {
		switch a[0].Code() {
		case ma.P_DNS, ma.P_DNS4, ma.P_DNS6, ma.P_DNSADDR:
			if !slices.Contains(out, a[0].Value()) {
				out = append(out, a[0].Value())
			}
		}
	}
	return out
}

// texts are parts of errors that libp2p gives no type, and what they mean. Relays come first:
// what they say holds the reason why the relay itself could not be reached.
var texts = []struct{ part, words string }{
	{pb.Status_NO_RESERVATION.String(), offline},
	{pb.Status_RESOURCE_LIMIT_EXCEEDED.String(), relayFull},
	{pb.Status_PERMISSION_DENIED.String(), relayDenies},
	{"error opening hop stream to relay", relayGone},
	{"failed to negotiate", foreign}, // encryption, or streams
	{"connection failed", hungUp},    // before a stream could be opened
}

// byText is what texts says of an error; "" if nothing.
func byText(err error) string {
	for _, t := range texts {
		if strings.Contains(err.Error(), t.part) {
			return t.words
		}
	}
	return ""
}

// Windows' numbers of errors, which [errors.Is] does not match with the names that package
// syscall has on every system.
const (
	wsaAddrNotAvail syscall.Errno = 10049
	wsaNetUnreach   syscall.Errno = 10051
	wsaConnAborted  syscall.Errno = 10053
	wsaConnReset    syscall.Errno = 10054
	wsaConnRefused  syscall.Errno = 10061
	wsaHostUnreach  syscall.Errno = 10065
)

var (
	refusals = []error{syscall.ECONNREFUSED, wsaConnRefused}
	noRoutes = []error{syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.EADDRNOTAVAIL,
		wsaNetUnreach, wsaHostUnreach, wsaAddrNotAvail}
	resets  = []error{syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE, wsaConnReset, wsaConnAborted}
	hangups = append([]error{io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, net.ErrClosed, swarm.ErrConnClosed,
		network.ErrReset, network.ErrNoConn, yamux.ErrStreamReset, yamux.ErrStreamClosed}, resets...)
)

// isOne says whether err is one of some. Of an error of the system, quic-go passes on the text alone.
func isOne(err error, some []error) bool {
	var q *quic.TransportError
	inner := errors.As(err, &q) && !q.Remote
	return slices.ContainsFunc(some, func(e error) bool {
		if inner {
			return strings.HasSuffix(q.ErrorMessage, ": "+e.Error())
		}
		return errors.Is(err, e)
	})
}

// whyDial says why one dial failed.
func whyDial(err error) string {
	var e said
	var other sec.ErrPeerIDMismatch
	var crypto *quic.TransportError
	switch known := byText(err); {
	case errors.As(err, &e) && errors.Is(e.is, peers.ErrProxy):
		return e.words
	case known == relayGone && notServed(err):
		return noRelay
	case known != "" && known != foreign:
		return known
	case errors.As(err, new(*net.DNSError)): // of a proxy: the names of peers are resolved before they are dialled
		return noName
	case errors.As(err, &other):
		return another
	case known == foreign && late(err):
		return saysNothing
	case known == foreign, isOne(err, resets), errors.As(err, &crypto) && crypto.ErrorCode.IsCryptoError():
		return foreign
	case isOne(err, refusals):
		return refused
	case isOne(err, noRoutes):
		return noRoute
	case errors.Is(err, swarm.ErrDialBackoff):
		return justFailed
	case errors.Is(err, swarm.ErrNoAddresses):
		return noAddress
	case errors.Is(err, swarm.ErrNoGoodAddresses), errors.Is(err, swarm.ErrNoTransport):
		return noUse
	case late(err), errors.Is(err, swarm.ErrDialTimeout):
		return noAnswer
	}
	return oneLine(err.Error())
}

// written is an address as people write it.
func written(a ma.Multiaddr) string {
	if _, at, err := relayOf(a); has(a, ma.P_CIRCUIT) && err == nil {
		return "relay " + written(at)
	}
	over, quic := ma.SplitFunc(bare(a), func(c ma.Component) bool { return c.Protocol().Code == ma.P_QUIC_V1 })
	if len(over) == 0 { // it names no host; ToNetAddr would panic
		return a.String()
	}
	at, err := manet.ToNetAddr(over)
	switch {
	case err != nil || len(quic) > 1:
		return a.String()
	case len(quic) == 1:
		return "QUIC " + at.String()
	}
	return strings.ToUpper(at.Network()) + " " + at.String()
}

// some gives the first of a list, and how many more there are.
func some(list []string) string {
	const most = 2
	if len(list) > most+1 {
		list = append(slices.Clone(list[:most]), fmt.Sprintf("%d more", len(list)-most))
	}
	if len(list) == 1 {
		return list[0]
	}
	return strings.Join(list[:len(list)-1], ", ") + " and " + list[len(list)-1]
}

// streamFailed says why no stream of the named protocol could be opened on an open connection.
func streamFailed(name string, err error) error {
	if notServed(err) {
		return said{"it is connected, and does not speak the protocol " + name, peers.ErrUnreachable, err}
	}
	if late(err) {
		return said{noReply, peers.ErrStream, err}
	}
	return lost(err)
}

// streamLost is lost of a stream to a peer, whose connection may stand.
func streamLost(h *Host, id peers.ID, err error) error {
	var e said
	var conn *network.ConnError
	out := lost(err)
	if !errors.As(out, &e) || errors.As(err, &conn) || !stands(h, id) {
		return out
	}
	switch e.words {
	case hungUp:
		return said{endedStream, peers.ErrStream, err}
	case hungUp + owing:
		return said{endedStream + owing, peers.ErrStream, err}
	}
	return out
}

// owing is what else there is to say of an end amid replies.
const owing = " before it had sent all replies"

// stands says whether a connection to a peer is open.
func stands(h *Host, id peers.ID) bool {
	p, err := decode(id)
	return err == nil && slices.ContainsFunc(h.host.Network().ConnsToPeer(p), func(c network.Conn) bool { return !c.IsClosed() })
}

// notServed says whether the other side does not speak the protocol that was asked for.
func notServed(err error) bool { return errors.Is(err, multistream.ErrNotSupported[protocol.ID]{}) }

// lost says why a connection, or a stream of it, has ended.
func lost(err error) error {
	var e said
	var conn *network.ConnError
	words := hungUp
	switch {
	case errors.As(err, &e):
		return e
	case late(err):
		words = "it no longer answers: the machine is off, or the network is cut"
	case isOne(err, noRoutes):
		words = "the connection broke: " + noRoute
	case !isOne(err, hangups) && !errors.As(err, &conn) && byText(err) != hungUp:
		words = "the connection broke: " + oneLine(err.Error())
	}
	return said{words, peers.ErrLost, err}
}

// late says whether an error is a timeout of any kind.
func late(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
