package actors

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/transfer"
	"github.com/piecelease/fetcher/wire"
)

// Bounds of what the Finder remembers for one share. Peers are named by peers,
// and nobody may fill the memory of others with invented ones.
const (
	maxKnown   = 512                   // peers of a share, found in one way: those that peers invent leave room for others
	maxNamedBy = 96                    // of these, named by one peer; for the LAN, a beacon and the DHT, known ones count too
	maxAddrs   = 24                    // addresses of a peer, named by the user or by a peer he trusts
	maxNamers  = transfer.MaxAddresses // of one peer whose addresses are remembered
)

// finder knows which peers are said to have a share, and tells the transfer of them.
// It dials nobody: a FetchPool does, and finds out whether it is true.
type finder struct {
	s         *system.System
	net       Network
	discovery Discovery  // nil: there is none
	beacons   *actor.PID // nil: none are asked
	self      peers.ID
	wanted    map[share.ID][]*search
}

// search is what one transfer was told about its share.
type search struct {
	transfer *actor.PID
	beacons  []Meeting             // that it has asked
	hidden   bool                  // nobody is told that the share is wanted
	cancel   func()                // ends the discovery for it
	known    map[peers.ID][]naming // the newest last
	namedBy  map[peers.ID]int      // peers that were not known before
	found    map[peers.Via]int     // the same
}

// naming is what one peer says of where another is.
type naming struct {
	by    peers.ID
	addrs []string
}

func newFinder(s *system.System, net Network, d Discovery, beacons *actor.PID) *finder {
	return &finder{s: s, net: net, discovery: d, beacons: beacons, self: net.Self(), wanted: map[share.ID][]*search{}}
}

func (f *finder) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case FindSources:
		f.find(ctx, m)
	case StopFinding:
		f.stop(ctx, m.Share)
	case PeersNamed:
		f.named(ctx, m)
	case SourceCame:
		f.came(ctx, m)
	case *actor.Stopping, *actor.Restarting:
		f.stopAll()
	case actor.SystemMessage, actor.AutoReceiveMessage:
	default:
		system.Unexpected(ctx)
	}
}

func (f *finder) find(ctx actor.Context, m FindSources) {
	f.stop(ctx, m.Share)
	w := &search{transfer: ctx.Sender(), beacons: m.Beacons, hidden: m.Hidden, known: map[peers.ID][]naming{f.self: nil}, namedBy: map[peers.ID]int{}, found: map[peers.Via]int{}}
	f.wanted[m.Share] = append(f.wanted[m.Share], w)
	for _, a := range m.Known {
		if _, known := w.known[a.ID]; !known {
			w.tell(ctx, a, peers.ViaTicket)
		}
	}
	w.cancel = f.discover(ctx.Self(), m)
	f.seek(ctx, m.Share, w)
}

// seek has the beacons of all who want a share asked; w is the one that has come or gone.
func (f *finder) seek(ctx actor.Context, id share.ID, w *search) {
	if f.beacons == nil || len(w.beacons) == 0 {
		return
	}
	var all []Meeting
	for _, w := range f.wanted[id] {
		all = append(all, w.beacons...)
	}
	ctx.Request(f.beacons, SeekAt{id, all})
}

// discover makes discovery tell this actor of the peers of a share, and of those
// named to begin with, until cancel.
func (f *finder) discover(self *actor.PID, m FindSources) (cancel func()) {
	if f.discovery == nil {
		return func() {}
	}
	known := make([]peers.ID, len(m.Known))
	for i, a := range m.Known {
		known[i] = a.ID
	}
	return f.discovery.Find(m.Share, known, func(via peers.Via, a peers.Addr) {
		// Nobody knows who named them, so all that are found in one way are bounded together.
		f.s.Send(self, PeersNamed{Share: m.Share, By: peers.ID(via.String()), Via: via, Peers: []peers.Addr{a}})
	})
}

func (f *finder) stopAll() {
	for id, all := range f.wanted {
		for _, w := range all {
			w.cancel()
		}
		if f.beacons != nil {
			f.s.Send(f.beacons, SeekAt{Share: id})
		}
	}
}

// stop ends the search of the sender for a share, if there is one.
func (f *finder) stop(ctx actor.Context, id share.ID) {
	all := f.wanted[id]
	i := slices.IndexFunc(all, func(w *search) bool { return w.transfer.Equal(ctx.Sender()) })
	if i < 0 {
		return
	}
	w := all[i]
	w.cancel()
	if f.wanted[id] = slices.Delete(all, i, i+1); len(all) == 1 {
		delete(f.wanted, id)
	}
	f.seek(ctx, id, w)
}

func (f *finder) named(ctx actor.Context, m PeersNamed) {
	for _, w := range f.wanted[m.Share] {
		f.pass(ctx, w, m)
	}
}

// pass passes on unknown peers, and new addresses of known ones: whoever named a
// peer first may have been wrong.
func (f *finder) pass(ctx actor.Context, w *search, m PeersNamed) {
	for _, a := range m.Peers {
		if !m.Sure && !f.believe(&a, m) {
			continue
		}
		_, known := w.known[a.ID]
		switch {
		case a.ID == f.self:
		case !known && w.found[m.Via] >= maxKnown && !m.Sure:
		case m.Via == peers.ViaItself: // it can be reached
			if !known {
				w.found[m.Via]++
			}
			w.tell(ctx, a, m.Via)
		case known && m.often() && w.namedBy[m.By] >= maxNamedBy:
		case known && w.news(a, m):
			if m.often() { // each peer that it names is dialled at once
				w.namedBy[m.By]++
			}
			w.tell(ctx, a, m.Via)
		case known, w.namedBy[m.By] >= maxNamedBy:
		default:
			w.namedBy[m.By]++
			w.found[m.Via]++
			w.news(a, m)
			w.tell(ctx, a, m.Via)
		}
	}
}

// came takes a peer as a source that says of itself that it has the share, if the share is wanted.
func (f *finder) came(ctx actor.Context, m SourceCame) {
	if !slices.ContainsFunc(f.wanted[m.Else.Share], func(w *search) bool { return !w.hidden }) {
		ctx.Respond(m.Else)
		return
	}
	ctx.Respond(wire.SubscribeResult{Share: m.Else.Share, Accepted: true})
	f.named(ctx, PeersNamed{Share: m.Else.Share, By: f.self, Via: peers.ViaItself, Peers: []peers.Addr{m.Peer}})
}

// believe reduces the addresses of a named peer to those that may be dialled on the
// word of the namer, and reports whether they suffice to reach it. A peer that came to
// us says itself where it is. A beacon may lead to a peer through itself, but through no other relay.
func (f *finder) believe(a *peers.Addr, m PeersNamed) bool {
	if a.By = m.By; m.Via == peers.ViaItself {
		a.By = a.ID
	}
	from, _ := f.net.Where(a.By)
	switch {
	case m.Via == peers.ViaLAN:
		from.Reach = share.SameNetwork
	case m.Via == peers.ViaBeacon && m.By == f.self, m.Via == peers.ViaDHT: // its own; it has looked
		from.Reach = share.SameMachine
	}
	through := peers.Through(m.By)
	over := m.Via == peers.ViaBeacon && slices.Contains(a.Addrs, through)
	if a.Addrs = peers.Addrs(peers.Named(f.net.Endpoints(a.Addrs), from.Reach)); over {
		a.Addrs = append(a.Addrs, through)
	}
	_, connected := f.net.Where(a.ID)
	return connected || len(a.Addrs) > 0
}

// news remembers where a peer is according to another, and reports whether that is new.
// Only the first word of each namer counts, except for one that speaks for many; beyond
// maxNamers the oldest is forgotten.
func (w *search) news(a peers.Addr, m PeersNamed) bool {
	all := w.known[a.ID]
	addrs := a.Addrs[:min(len(a.Addrs), maxAddrs)]
	if slices.ContainsFunc(all, func(n naming) bool { return n.by == m.By && !m.often() || slices.Equal(n.addrs, addrs) }) {
		return false
	}
	if len(all) == maxNamers {
		all = all[1:]
	}
	w.known[a.ID] = append(slices.Clip(all), naming{m.By, addrs})
	return true
}

// tell passes a peer on to the transfer.
func (w *search) tell(ctx actor.Context, a peers.Addr, via peers.Via) {
	if _, known := w.known[a.ID]; !known {
		w.known[a.ID] = nil
	}
	a.Addrs = a.Addrs[:min(len(a.Addrs), maxAddrs)]
	ctx.Send(w.transfer, SourceFound{Addr: a, Via: via})
}

// ---- messages to the Finder ----

// FindSources, Transfer -> Finder: sources of a share are wanted; Known are those to begin with.
// Answered with SourceFound for each, now and later. Each transfer of a share has its own.
type FindSources struct {
	Share   share.ID
	Known   []peers.Addr
	Beacons []Meeting // that are asked who has it
	Hidden  bool      // nobody is to know that it is wanted
}

// StopFinding, Transfer -> Finder.
type StopFinding struct{ Share share.ID }

// SourceCame, Seeder -> Finder: a peer, connected with this node, serves a share. The Finder answers
// the peer: with Else if the share is not wanted.
type SourceCame struct {
	Peer peers.Addr
	Else wire.SubscribeResult
}

// PeersNamed, FetchPool, Seeder or Beacons -> Finder: peers said to have (some of) a share.
type PeersNamed struct {
	Share share.ID
	By    peers.ID
	Via   peers.Via
	Peers []peers.Addr
	Sure  bool // named by a peer that the user trusts, and therefore believed
}

// often reports whether the namer passes on what others say about themselves, and so may
// say something else later.
func (m PeersNamed) often() bool {
	return m.Via == peers.ViaLAN || m.Via == peers.ViaBeacon || m.Via == peers.ViaDHT
}
