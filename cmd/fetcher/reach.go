package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/discovery/dht"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// reachFlags are the flags about how others reach a node.
type reachFlags struct {
	via      []string
	beaconAt []string
	mapPort  bool
	lan      bool
	proxy    string
	dht      []string
}

func (fl *reachFlags) add(f *pflag.FlagSet) {
	fl.outbound(f, lanHelp)
	fl.inbound(f)
	f.StringArrayVar(&fl.beaconAt, "beacon-at", nil, "name the beacon at this `ADDR`, a multiaddr that ends in /p2p/ID, in tickets: they then lead to whoever has the share, at any address; may be given twice")
}

// outbound adds those about reaching others.
func (fl *reachFlags) outbound(f *pflag.FlagSet, lanHelp string) {
	f.BoolVar(&fl.lan, "lan", true, lanHelp)
	f.StringVar(&fl.proxy, "proxy", "", proxyHelp)
	f.StringArrayVar(&fl.dht, "dht", nil, dhtHelp)
}

// inbound adds those about being reached.
func (fl *reachFlags) inbound(f *pflag.FlagSet) {
	f.StringArrayVar(&fl.via, "via", nil, "be reached through the relay at this `ADDR`, a multiaddr that ends in /p2p/ID; may be repeated")
	f.BoolVar(&fl.mapPort, "map-port", false, "ask the router to forward a port to this node, by UPnP or NAT-PMP")
}

// proxyHelp describes --proxy.
const proxyHelp = "dial peers over TCP through the SOCKS5 proxy at this `URL`, socks5://[USER:PASSWORD@]HOST:PORT, and not over QUIC, unless --listen names a QUIC address; host names are resolved by this machine"

// check says which of the flags cannot be read.
func (fl reachFlags) check() error {
	if err := checkBeacons(fl.beacons()); err != nil {
		return err
	}
	if err := checkDHT(fl.dht); err != nil {
		return err
	}
	return checkProxy(fl.proxy)
}

// dhtHelp describes --dht.
const dhtHelp = "use this distributed hash table, in which public shares are found: `WHICH` is own (fetcher's table), the ADDR of a node in it (a multiaddr that ends in /p2p/ID) or public (that of IPFS); may be repeated"

// checkDHT checks --dht.
func checkDHT(said []string) error {
	if _, err := dht.Parse(said); err != nil {
		return usageError{fmt.Errorf("--dht: %w", err)}
	}
	return nil
}

// checkBeacons checks --beacon-at.
func checkBeacons(b fetcher.Beacons) error {
	if err := b.Validate(); err != nil {
		return usageError{fmt.Errorf("--beacon-at: %w", err)}
	}
	return nil
}

// checkProxy checks --proxy.
func checkProxy(proxy string) error {
	if proxy == "" {
		return nil
	}
	if err := fetcher.CheckProxy(proxy); err != nil {
		return usageError{fmt.Errorf("--proxy: %w", err)}
	}
	return nil
}

// config is what the flags ask for.
func (fl reachFlags) config() fetcher.Reach {
	return fetcher.Reach{Traverse: len(fl.via) > 0, Relays: fl.via, MapPorts: fl.mapPort, Proxy: fl.proxy}
}

// beacons is what the flags ask for about beacons.
func (fl reachFlags) beacons() fetcher.Beacons { return fetcher.Beacons{Use: true, At: fl.beaconAt} }

// finding is what the flags ask for about finding others, and being found.
func (fl reachFlags) finding(log *slog.Logger) fetcher.Discovery {
	return orNone(discoveries(fl.lan, fl.dht, slices.Concat(fl.beaconAt, fl.via), false, log))
}

// reachWait is how long others may take to make this node reachable before it reports its state.
const reachWait = 10 * time.Second

// settled waits until the result of what the flags ask for is known: a router
// answers within seconds or never does.
func (fl reachFlags) settled(ctx context.Context, node *fetcher.Node) []fetcher.Place {
	ctx, cancel := context.WithTimeout(ctx, reachWait)
	defer cancel()
	places := node.Places(ctx)
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for fl.mapPort && nearest(node.Addrs()) > 0 && !heldAny(places) {
		select {
		case <-look.C:
		case <-ctx.Done():
			return places
		}
	}
	return places
}

// to is config for a node that also reaches the sources of a ticket, and of more: some may have to be
// reached through a relay that is named there, or that is a beacon named there.
func (fl reachFlags) to(ticket string, more []string) fetcher.Reach {
	r := fl.config()
	_, sources, _ := fetcher.ParseSource(ticket, more)
	t, _ := share.Parse(ticket)
	r.Traverse = r.Traverse || len(t.Beacons) > 0 || slices.ContainsFunc(sources, func(a peers.Addr) bool { return slices.ContainsFunc(a.Addrs, overRelay) })
	return r
}

func overRelay(addr string) bool { return strings.Contains(addr, "/p2p-circuit") }

// nearest is from how far the best address can be dialled, as share.Farthest has it, relays left out.
func nearest(addrs []string) int { return share.Farthest(addrs, false) }

// heldAny says whether a relay introduces this node to others.
func heldAny(places []fetcher.Place) bool {
	return slices.ContainsFunc(places, func(p fetcher.Place) bool { return p.Held })
}

// leads says whether a relay that holds a place for this node leads others to it: a node that listens nowhere can be
// reached only through one that carries content.
func leads(p fetcher.Place, addrs []string) bool {
	return p.Held && (p.Carries > 0 || nearest(addrs) < share.Nowhere)
}

// ledToAny is leads of any of the places.
func ledToAny(addrs []string, places []fetcher.Place) bool {
	return slices.ContainsFunc(places, func(p fetcher.Place) bool { return leads(p, addrs) })
}

// where says where a ticket with these addresses works.
func where(addrs []string, places []fetcher.Place) string {
	reach := nearest(addrs)
	if ledToAny(addrs, places) {
		reach = min(reach, share.Farthest(addrs, true)) // no farther than the relay can be reached from
	}
	return []string{"anywhere", "network", "machine", "nowhere"}[reach]
}

// reachText says why it works anywhere; "" if it does not.
func reachText(addrs []string, places []fetcher.Place) string {
	var out []string
	if nearest(addrs) == 0 {
		out = append(out, "this node has a public address, and can be reached there unless a firewall blocks it")
	}
	for _, p := range places {
		if leads(p, addrs) {
			out = append(out, relayText(p))
		}
	}
	return strings.Join(out, "; ")
}

func relayText(p fetcher.Place) string {
	s := fmt.Sprintf("the relay %s introduces this node to others, who then fetch directly", p.Relay.Short())
	const through = ", or, if the routers do not allow that, through the relay"
	switch p.Carries {
	case 0:
		return s + " if both routers allow that"
	case fetcher.Unbounded:
		return s + through
	}
	return s + through + fmt.Sprintf(", up to %s on each connection", share.Size(p.Carries))
}

// reachWarnings are what a person should know about who can fetch from these addresses; none
// if everybody can. There is one for each relay that does not serve, unless the log has said so. calls says that the
// node connects to whoever made the ticket of --to.
func reachWarnings(addrs []string, places []fetcher.Place, logged, calls bool) (out []string) {
	dead := 0
	for _, p := range places {
		if p.Held {
			continue
		}
		dead++
		if why := cmp.Or(p.Why, "it has not answered yet"); !logged || p.Why == "" {
			out = append(out, fmt.Sprintf("the relay %s does not serve this node: %s; it will be asked again", p.Relay.Short(), why))
		}
	}
	if ledToAny(addrs, places) {
		return out
	}
	near := nearest(addrs)
	only := either(near == 1, "network", "machine") + " only"
	switch {
	case near == share.Nowhere:
		held := heldAny(places)
		who, advice := "nobody", "; name an address with --listen"+either(held, ", or a relay that runs with --relay-carries", "")
		if calls {
			who, advice = "only whoever made the ticket of --to", ""
		}
		out = append(out, who+" can fetch from this node: it listens nowhere, "+either(held, "and its relay carries no content", "because it was told to or because this machine has no network")+advice)
	case near == 0:
	case dead > 0 && len(out) == 0:
		out = append(out, "until a relay serves this node, a ticket of this node works on this "+only)
	case dead > 0:
		out[len(out)-1] += "; until " + either(dead == 1, "it serves", "one of the relays serves") + " this node, a ticket of this node works on this " + only
	case near == 1:
		out = append(out, "a ticket of this node has private addresses only: it works on this network only, until the router forwards a port to this node (--map-port) or a relay serves the node (--via)")
	default:
		out = append(out, "a ticket of this node works on this machine only: this node listens on no address that others can reach")
	}
	return out
}

// logsWarnings says whether warnings are logged.
func (g globals) logsWarnings() bool {
	level, err := g.level()
	return err == nil && level <= slog.LevelWarn
}
