package p2p

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	basichost "github.com/libp2p/go-libp2p/p2p/host/basic"
	"github.com/libp2p/go-libp2p/p2p/net/nat"
	"github.com/libp2p/go-netroute"
	ma "github.com/multiformats/go-multiaddr"
)

// How routers are asked to forward ports.
const (
	routerLooks = 10 * time.Second // from one look at the way out, and request by NAT-PMP, to the next
	routerAnew  = 5 * time.Minute  // after a search by UPnP that found none
	routerWaits = 5 * time.Second  // for all answers by NAT-PMP
	routerPort  = "5351"           // RFC 6886
)

// router has the router forward the ports that a host listens on. What libp2p has for it looks by UPnP when it begins and never again,
// and on Linux it asks nobody by NAT-PMP, as it does not find the gateway; so it is begun anew now and then, and NAT-PMP is spoken here.
type router struct {
	net  network.Network
	ctx  context.Context
	end  context.CancelFunc
	done chan struct{}

	mu       sync.Mutex
	upnp     basichost.NATManager
	forwards map[string]ma.Multiaddr // by NAT-PMP, by /tcp/PORT or /udp/PORT here
}

func newRouter(n network.Network) basichost.NATManager {
	r := &router{net: n, done: make(chan struct{}), upnp: basichost.NewNATManager(n)}
	r.ctx, r.end = context.WithCancel(context.Background())
	go r.run()
	return r
}

// Close implements basichost.NATManager, as do the others.
func (r *router) Close() error {
	r.end()
	<-r.done
	return r.upnp.Close()
}

func (r *router) HasDiscoveredNAT() bool { return r.found().HasDiscoveredNAT() }

func (r *router) GetMapping(a ma.Multiaddr) ma.Multiaddr {
	if to := r.found().GetMapping(a); to != nil {
		return to
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if at := r.forwards[forwarded(a)]; at != nil {
		return ma.Join(at, a[2:])
	}
	return nil
}

func (r *router) found() basichost.NATManager {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.upnp
}

// forwarded is the port of an address in a network of IPv4, as /tcp/PORT or /udp/PORT; empty: it has none that could be forwarded.
func forwarded(a ma.Multiaddr) string {
	if len(a) < 2 || a[0].Code() != ma.P_IP4 || a[1].Code() != ma.P_TCP && a[1].Code() != ma.P_UDP {
		return ""
	}
	if ip := net.IP(a[0].RawValue()); !ip.IsUnspecified() && !ip.IsGlobalUnicast() {
		return ""
	}
	return a[1].String()
}

func (r *router) run() {
	defer close(r.done)
	was, _ := wayOut()
	since := time.Now()
	for tick := time.NewTicker(routerLooks); ; {
		select {
		case <-tick.C:
		case <-r.ctx.Done():
			tick.Stop()
			return
		}
		way, gateway := wayOut()
		found := r.found().HasDiscoveredNAT()
		if way != was && way != "" || !found && time.Since(since) >= routerAnew { // without a way out there may be one again at the same place
			was, since, found = way, time.Now(), false
			old, anew := r.found(), basichost.NewNATManager(r.net)
			r.mu.Lock()
			r.upnp = anew
			r.mu.Unlock()
			old.Close()
		}
		var forwards map[string]ma.Multiaddr
		if !found && gateway != nil {
			forwards = r.request(gateway)
		}
		r.mu.Lock()
		r.forwards = forwards
		r.mu.Unlock()
	}
}

// wayOut is the gateway to other networks, and with way it is said which network of this machine it is in; empty: there is none.
func wayOut() (way string, gateway net.IP) {
	routes, err := netroute.New()
	if err != nil {
		return "", nil
	}
	_, gateway, here, err := routes.Route(net.IPv4(1, 1, 1, 1)) // nothing is sent there
	if err != nil || gateway == nil {
		return "", nil
	}
	return fmt.Sprint(gateway, here), gateway
}

// request has the gateway forward every port that is listened on, until a few looks later.
func (r *router) request(gateway net.IP) map[string]ma.Multiaddr {
	ctx, cancel := context.WithTimeout(r.ctx, routerWaits)
	defer cancel()
	ip, err := natPMP(ctx, gateway, []byte{0, 0}, 12)
	if err != nil {
		return nil
	}
	out := map[string]ma.Multiaddr{}
	for _, a := range r.net.ListenAddresses() {
		port := forwarded(a)
		if port == "" || out[port] != nil {
			continue
		}
		question := make([]byte, 4, 12)
		if question[1] = 2; a[1].Code() == ma.P_UDP {
			question[1] = 1
		}
		question = append(append(question, a[1].RawValue()...), a[1].RawValue()...) // the same port there, if it is free
		question = binary.BigEndian.AppendUint32(question, uint32(nat.MappingDuration.Seconds()))
		answer, err := natPMP(ctx, gateway, question, 16)
		if err != nil {
			continue
		}
		if there := binary.BigEndian.Uint16(answer[10:]); there > 0 {
			out[port] = ma.StringCast(fmt.Sprintf("/ip4/%s/%s/%d", netip.AddrFrom4([4]byte(ip[8:])), a[1].Protocol().Name, there))
		}
	}
	return out
}

// natPMP asks a gateway something, and returns its answer of so many bytes.
func natPMP(ctx context.Context, gateway net.IP, question []byte, size int) ([]byte, error) {
	c, err := new(net.Dialer).DialContext(ctx, "udp4", net.JoinHostPort(gateway.String(), routerPort))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	answer := make([]byte, size)
	for wait := 250 * time.Millisecond; wait <= 2*time.Second; wait *= 2 {
		if _, err := c.Write(question); err != nil {
			return nil, err
		}
		c.SetReadDeadline(time.Now().Add(wait))
		if n, err := c.Read(answer); err == nil && n == size && answer[0] == 0 && answer[1] == question[1]+128 && answer[2] == 0 && answer[3] == 0 {
			return answer, nil
		}
	}
	return nil, errors.New("it does not answer by NAT-PMP")
}
