package p2p

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

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

// A dial fails for one of these reasons.
const (
	refused     = "refused: nothing listens there"
	noAnswer    = "no answer: the machine is off, or a firewall drops it"
	noRoute     = "there is no way from this machine's networks to there"
	noAddress   = "no address of it is known"
	noName      = "its name cannot be resolved"
	noUse       = "it has no address that this node can dial"
	another     = "another node answers there: the address is no longer that of this peer"
	saysNothing = "something accepts the connection and says nothing: it hangs, or is no fetcher"
	noReply     = "it is connected, and does not answer"
	noTraversal = "it can be reached only through a relay, and this node uses none"
	noTCP       = "it has no TCP address, and this node's proxy carries nothing else"
	noPunch     = "a relay leads to it, but no direct connection came to be, and the relay carries no content"
	offline     = "the relay does not know it: it is off, or has no place there"
	relayFull   = "the relay refuses: it carries as much as it may"
	relayGone   = "the relay cannot be reached"
	foreign     = "something takes the connection and does not speak as fetcher does"
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
	at := map[string][]string{}
	for _, t := range d.DialErrors {
		why := whyDial(t.Cause)
		if why == saysNothing {
			e.is = peers.ErrLost
		}
		if !slices.Contains(reasons, why) {
			reasons = append(reasons, why)
		}
		if !errors.Is(t.Cause, errNoProxy) { // then the peer's address does not matter
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

// whyDial says why one dial failed. libp2p and the systems have no error values for most
// causes, so it goes by their texts.
func whyDial(err error) string {
	text := err.Error()
	has := func(part string) bool { return strings.Contains(text, part) }
	var e said
	switch {
	case errors.As(err, &e) && errors.Is(e.is, errProxy):
		return e.words
	case has("NO_RESERVATION"):
		return offline
	case has("RESOURCE_LIMIT_EXCEEDED"), has("PERMISSION_DENIED"):
		return relayFull
	case has("error opening hop stream to relay"):
		return relayGone
	case has("failed to negotiate") && late(err):
		return saysNothing
	case has("peer id mismatch"), has("peer IDs don't match"):
		return another
	case has("failed to negotiate"), has("CRYPTO_ERROR"):
		return foreign
	case has("refused"):
		return refused
	case has("unreachable"), has("no route to host"):
		return noRoute
	case errors.Is(err, swarm.ErrNoAddresses):
		return noAddress
	case errors.Is(err, swarm.ErrNoGoodAddresses), errors.Is(err, swarm.ErrNoTransport):
		return noUse
	case late(err), errors.Is(err, swarm.ErrDialTimeout), errors.Is(err, swarm.ErrDialRefusedBlackHole):
		return noAnswer
	}
	return oneLine(text)
}

// written is an address as people write it.
func written(a ma.Multiaddr) string {
	if _, at, err := relayOf(a); has(a, ma.P_CIRCUIT) && err == nil {
		return "relay " + written(at)
	}
	over, quic := ma.SplitFunc(bare(a), func(c ma.Component) bool { return c.Protocol().Code == ma.P_QUIC_V1 })
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

// streamFailed says why no stream of a protocol could be opened on an open connection.
func streamFailed(protocol string, err error) error {
	if strings.Contains(err.Error(), "protocols not supported") {
		return said{"it is connected, and does not serve " + protocol, peers.ErrUnreachable, err}
	}
	if late(err) {
		return said{noReply, peers.ErrLost, err}
	}
	return lost(err)
}

// lost says why a connection, or a stream of it, has ended.
func lost(err error) error {
	var e said
	if errors.As(err, &e) {
		return e
	}
	text := err.Error()
	has := func(part string) bool { return strings.Contains(text, part) }
	switch {
	case late(err):
		text = "no answer any more: the machine is off, or the network is cut"
	case errors.Is(err, io.EOF), has("reset"), has("closed"), has("Application error"), has("broken pipe"):
		text = "it closed the connection"
	default:
		text = "the connection broke: " + oneLine(text)
	}
	return said{text, peers.ErrLost, err}
}

// late says whether an error is a timeout of any kind.
func late(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
