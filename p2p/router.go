package p2p

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	natpmp "github.com/jackpal/go-nat-pmp"
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
	routerWaits = time.Second      // for an answer by NAT-PMP
)

// router has the router forward the ports that a host listens on. What libp2p has for it looks by UPnP when it begins and never again,
// and on Linux it asks nobody by NAT-PMP, as it does not find the gateway; so it is begun anew now and then, and the gateway is found here (RFC 6886).
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
	c := natpmp.NewClientWithTimeout(gateway, routerWaits)
	ip, err := c.GetExternalAddress()
	if err != nil {
		return nil
	}
	out := map[string]ma.Multiaddr{}
	for _, a := range r.net.ListenAddresses() {
		at := forwarded(a)
		if at == "" || out[at] != nil || r.ctx.Err() != nil {
			continue
		}
		proto, port := a[1].Protocol().Name, int(binary.BigEndian.Uint16(a[1].RawValue()))
		answer, err := c.AddPortMapping(proto, port, port, int(nat.MappingDuration.Seconds())) // the same port there, if it is free
		if err == nil && answer.MappedExternalPort > 0 {
			out[at] = ma.StringCast(fmt.Sprintf("/ip4/%s/%s/%d", netip.AddrFrom4(ip.ExternalIPAddress), proto, answer.MappedExternalPort))
		}
	}
	return out
}
