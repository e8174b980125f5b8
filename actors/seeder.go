package actors

import (
	"cmp"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/internal/times"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// SeederName is the name under which other nodes reach a node's Seeder.
const SeederName = "seeder"

const (
	maxNamed    = 32               // children named in one SubscribeResult
	deltaPieces = 4096             // more new pieces than this are told as a whole HaveMap
	mirrorRetry = 10 * time.Minute // after which a mirror may ask again that found no room

	subscribeCost  = 1 << 10   // of a subscription, beside the bytes of its HaveMap
	subscribeRate  = 256 << 10 // of this, per second and peer: a HaveMap of the largest share
	subscribeBurst = 1 << 20   // ... and at once
)

// seeder keeps who has subscribed to what this node offers, and decides who is served
// next. The Catalog knows what is offered. The bytes themselves flow elsewhere: p2p asks
// here for permission, and reads from the store.
type seeder struct {
	*lasting
	s         *system.System
	net       Network
	catalog   Catalog
	finder    *actor.PID
	uploads   *peers.Uploads
	tiers     *peers.Tiers     // of all children
	tellMove  func(peers.Move) // may be nil
	spare     *peers.Allowance // for subscriptions
	audiences map[share.ID]*audience
	waiting   map[peers.Job]asked
	keyed     share.ID // of the last request; key is its text
	key       string
	taken     *accounts
	count     UploadStatus              // without what is now
	flushAt   [len(flushHave)]time.Time // of each set
	wake      system.Alarm
}

// lasting is what a Seeder that begins again after a panic must know of the one before it.
type lasting struct {
	job   peers.Job          // the last: what is still sent has its number
	rates map[share.ID]int64 // that were set; of the zero share: of all
}

// asked is a request that has not been answered.
type asked struct {
	child peers.ID
	share share.ID
	bytes int
	reply func(Admission)
}

func newSeeder(s *system.System, finder *actor.PID, d Deps, last *lasting) *seeder {
	x := &seeder{lasting: last, s: s, net: d.Network, catalog: d.Catalog, finder: finder, uploads: peers.NewUploads(d.Uploads), tiers: peers.NewTiers(d.Tiers), tellMove: d.ChildMoved, spare: peers.NewAllowance(subscribeRate, subscribeBurst),
		audiences: map[share.ID]*audience{}, waiting: map[peers.Job]asked{}, taken: newAccounts(s, d.Network, d.Child)}
	for id, rate := range last.rates { // each is its own
		x.setRate(SetUploadRate{id, rate})
	}
	return x
}

func (d *seeder) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case OfferShare:
		d.offer(m)
	case PieceAvailable:
		d.available(m)
	case WithdrawShare:
		d.withdraw(ctx, m)
	case wire.Subscribe:
		d.subscribe(ctx, m)
	case wire.Unsubscribe:
		d.unsubscribe(ctx, m)
	case ChildLost:
		d.lost(m.Peer)
	case AdmitRequest:
		d.admit(m)
	case ListRequest:
		d.list(m)
	case ServeDone:
		d.served(m)
	case ServeParked:
		d.goAhead(d.uploads.Park(m.Job, m.Left, d.s.Now()))
	case ChildrenQuery:
		ctx.Respond(d.children())
	case UploadsQuery:
		ctx.Respond(d.status())
	case SetUploadRate:
		d.setRate(m)
	case system.WakeDue:
		d.onWake()
	case *actor.Terminated:
		d.ended(m.Who)
	case *actor.Stopping, *actor.Restarting:
		d.stop(ctx)
		return
	case actor.SystemMessage, actor.AutoReceiveMessage:
		return
	default:
		system.Unexpected(ctx)
	}
	d.sendElsewhere()
	d.moved(ctx)
	d.wake.Set(d.s, ctx, times.Earliest(times.Earliest(d.flushAt[:]...), d.uploads.Wake(), d.tiers.Wake()))
}

func (d *seeder) setRate(m SetUploadRate) {
	d.rates[m.Share] = m.Rate
	if m.Share.IsZero() {
		d.uploads.SetRate(m.Rate, d.s.Now())
	} else {
		d.goAhead(d.uploads.SetShareRate(m.Share.String(), m.Rate, d.s.Now()))
	}
}

// offer tells those who are already subscribed the whole set, which may have changed.
func (d *seeder) offer(m OfferShare) {
	if o := d.audiences[m.Share]; o != nil {
		for _, c := range o.children {
			d.sendMap(m.Share, c)
		}
	}
}

// withdraw says goodbye to those who subscribed to a share, unless it is still offered.
func (d *seeder) withdraw(ctx actor.Context, m WithdrawShare) {
	told := 0
	if d.catalog.Bits(m.Share) == nil {
		o := d.audiences[m.Share]
		if o != nil {
			delete(d.audiences, m.Share)
			told = len(o.children)
			d.farewell(ctx, m.Share, o, m.Why)
			for _, c := range o.children {
				d.forsaken(c.peer)
			}
		}
		d.taken.withdrawn(m.Share)
		d.uploads.Withdraw(m.Share.String())
	}
	if ctx.Sender() != nil {
		ctx.Respond(Withdrawn{told})
	}
}

func (d *seeder) farewell(ctx actor.Context, id share.ID, o *audience, why wire.Code) {
	var bye any = wire.Goodbye{Share: id}
	if why != 0 {
		bye = wire.ShareGone{Share: id, Reason: wire.Why(why)}
	}
	for _, c := range o.children {
		ctx.Send(c.pid, bye)
	}
	o.mirrors.Pick(o.mirrors.Len(), func(m peers.ID, _ []peers.Endpoint) bool {
		ctx.Send(o.words[m], bye)
		return true
	})
}

// subscribe answers every Subscribe once. If it accepts a child, the whole set follows
// the answer.
func (d *seeder) subscribe(ctx actor.Context, m wire.Subscribe) {
	peer := system.SenderPeer(ctx)
	if peer == "" {
		return // a local actor has no business here
	}
	pieces, r := d.catalog.Offered(m.Share, peer)
	why, retry := d.refusal(peer, m, pieces, r)
	if why == 0 && m.Mirror && m.Offer {
		why = wire.CodeNotWanted
	}
	if why != 0 {
		d.refuse(ctx, peer, m, why, retry)
		return
	}
	o := d.audience(m.Share)
	if m.Mirror {
		d.mirror(ctx, o, peer, m)
	} else {
		d.adopt(ctx, o, peer, m)
	}
}

// refusal returns why a subscription is refused, or 0 if it is not. pieces and r are what
// the Catalog says of the share. The cost is taken from what this node can spare for
// the peer.
func (d *seeder) refusal(peer peers.ID, m wire.Subscribe, pieces int, r wire.Reply) (why wire.Code, retry time.Duration) {
	switch {
	case r.Status == wire.Busy:
		return cmp.Or(r.Reason.Code, wire.CodeOpening), r.Retry
	case r.Status == wire.Refused:
		return cmp.Or(r.Reason.Code, wire.CodeNoShare), 0
	case r.Status != wire.OK:
		return cmp.Or(r.Reason.Code, wire.CodeNoShare), 0
	}
	cost := subscribeCost
	if !m.Mirror {
		cost += (pieces + 7) / 8
	}
	if wait := d.spare.Take(peer, cost, d.s.Now()); wait > 0 {
		return wire.CodeTooOften, wait
	}
	return 0, 0
}

// final are the reasons to refuse a mirror whether or not this node fetches the share.
var final = []wire.Code{wire.CodeReading, wire.CodeNotAllowed, wire.CodeFull, wire.CodeTooOften, wire.CodeMirrors}

// refuse refuses a subscription. A peer that has a share which this node cannot serve yet, cannot name to
// others, or is only offered, may be of use to this node itself: the Finder answers it.
func (d *seeder) refuse(ctx actor.Context, peer peers.ID, m wire.Subscribe, why wire.Code, retry time.Duration) {
	no := wire.SubscribeResult{Share: m.Share, Reason: wire.Why(why), Retry: retry}
	if m.Mirror && !slices.Contains(final, why) && d.spare.Take(peer, subscribeCost, d.s.Now()) == 0 {
		ctx.RequestWithCustomSender(d.finder, SourceCame{Peer: peers.Addr{ID: peer, Addrs: m.Addrs}, Else: no}, ctx.Sender())
		return
	}
	ctx.Respond(no)
}

// adopt makes a peer a child.
func (d *seeder) adopt(ctx actor.Context, o *audience, peer peers.ID, m wire.Subscribe) {
	d.drop(ctx, m.Share, peer) // one subscription per peer: the new one counts
	from, _ := d.net.Where(peer)
	named := o.name(peer, from.Reach, o.arrives(peer), m.MirrorsOnly)
	was := d.tiers.Set(peer)
	a := d.tiers.Subscribe(peer, from, d.net.RoundTrip(peer), d.s.Now())
	d.isIn(peers.Move{ID: peer, From: was, To: a.Set})
	if a.Set == peers.Outside {
		ctx.Respond(wire.SubscribeResult{Share: m.Share, Reason: wire.Why(wire.CodeFull), Retry: a.Retry})
		return
	}
	_, whole := d.catalog.Whole(m.Share)
	c := &child{peer: peer, pid: ctx.Sender(), endpoints: peers.Named(d.net.Endpoints(m.Addrs), from.Reach), nameable: m.Nameable, member: m.MirrorsOnly, set: a.Set}
	o.add(c)
	d.dismiss(ctx, m.Share, o, peer)
	ctx.Watch(c.pid)
	ctx.Respond(wire.SubscribeResult{Share: m.Share, Accepted: true, Children: named, Elsewhere: whole && o.large()})
	d.sendMap(m.Share, c)
	if m.Nameable { // a child of a share soon has some of it, and our connection to it works both ways
		ctx.Send(d.finder, PeersNamed{Share: m.Share, By: d.s.Self(), Via: peers.ViaItself, Peers: []peers.Addr{{ID: peer, Addrs: m.Addrs}}})
	}
}

// mirror takes note of a peer that serves a share on, for as long as its connection stands.
func (d *seeder) mirror(ctx actor.Context, o *audience, peer peers.ID, m wire.Subscribe) {
	d.forget(ctx, m.Share, peer)
	d.noMirror(ctx, o, peer)
	from, _ := d.net.Where(peer)
	endpoints := peers.Named(d.net.Endpoints(m.Addrs), from.Reach)
	if len(endpoints) == 0 {
		d.refuse(ctx, peer, m, wire.CodeNoAddress, 0)
		return
	}
	gone, ok := o.mirrors.Add(peer, from.Net, endpoints, m.Whole)
	if !ok {
		ctx.Respond(wire.SubscribeResult{Share: m.Share, Reason: wire.Why(wire.CodeMirrors), Retry: mirrorRetry})
		return
	}
	d.dismiss(ctx, m.Share, o, gone)
	if m.Whole {
		o.stays(peer)
	}
	o.words[peer] = ctx.Sender()
	ctx.Watch(ctx.Sender())
	ctx.Respond(wire.SubscribeResult{Share: m.Share, Accepted: true})
	ctx.Send(d.finder, PeersNamed{Share: m.Share, By: d.s.Self(), Via: peers.ViaItself, Peers: []peers.Addr{{ID: peer, Addrs: m.Addrs}}})
}

// sendMap sends a child the whole set, or later if its connection takes nothing now.
func (d *seeder) sendMap(id share.ID, c *child) {
	pieces, r := d.catalog.Offered(id, c.peer)
	bits := d.catalog.Bits(id)
	c.told, c.whole = d.audiences[id].end(), false
	if r.Status != wire.OK || len(bits) != (pieces+7)/8 {
		return // it is being withdrawn
	}
	if c.whole = !d.s.Send(c.pid, wire.HaveMap{Share: id, Pieces: pieces, Bits: bits}); c.whole {
		d.flushSoon(c.set)
	}
}

func (d *seeder) unsubscribe(ctx actor.Context, m wire.Unsubscribe) {
	peer := system.SenderPeer(ctx)
	if o := d.audiences[m.Share]; o != nil && m.Done {
		all, _ := d.catalog.Whole(m.Share)
		o.done(peer, d.taken.bytes(m.Share, peer), all)
	}
	d.forget(ctx, m.Share, peer)
	d.taken.over(m.Share, peer, m.Done)
}

func (d *seeder) forget(ctx actor.Context, id share.ID, peer peers.ID) {
	d.drop(ctx, id, peer)
	d.forsaken(peer)
}

// drop ends a subscription, if there is one.
func (d *seeder) drop(ctx actor.Context, id share.ID, peer peers.ID) {
	o := d.audiences[id]
	if o == nil {
		return
	}
	c := o.byPeer[peer]
	if c == nil {
		return
	}
	o.remove(c)
	d.unwatch(ctx, c.pid)
}

// dismiss forgets a peer as a mirror, if it is one, and tells it: it may try again later.
func (d *seeder) dismiss(ctx actor.Context, id share.ID, o *audience, peer peers.ID) {
	if who := o.words[peer]; who != nil {
		ctx.Send(who, wire.Goodbye{Share: id})
		d.noMirror(ctx, o, peer)
	}
}

// noMirror forgets a peer as a mirror, if it is one.
func (d *seeder) noMirror(ctx actor.Context, o *audience, peer peers.ID) {
	if who := o.words[peer]; who != nil {
		o.mirrors.Remove(peer)
		delete(o.words, peer)
		d.unwatch(ctx, who)
	}
}

// unwatch stops watching an actor that is neither a child of any share nor a mirror:
// otherwise a peer could make us watch more and more.
func (d *seeder) unwatch(ctx actor.Context, who *actor.PID) {
	for _, o := range d.audiences {
		if sameActor(o.words[peers.ID(who.Address)], who) || o.child(who) != nil {
			return
		}
	}
	ctx.Unwatch(who)
}

// ended removes a child or mirror that is gone, or that cannot be told anything.
func (d *seeder) ended(who *actor.PID) {
	for _, o := range d.audiences { // each is changed on its own: the order does not matter
		if c := o.child(who); c != nil {
			o.remove(c)
			d.forsaken(c.peer)
		}
		if peer := peers.ID(who.Address); sameActor(o.words[peer], who) {
			o.mirrors.Remove(peer)
			delete(o.words, peer)
		}
	}
}

// lost ends the requests of a peer. Its subscriptions have ended by themselves, each
// with its *actor.Terminated, and one that it has made since may be here already.
func (d *seeder) lost(peer peers.ID) {
	d.goAhead(d.uploads.Forget(peer, d.s.Now()))
	d.taken.lost(peer)
	var over []peers.Job
	for j, a := range d.waiting {
		if a.child == peer {
			over = append(over, j)
		}
	}
	slices.Sort(over)
	for _, j := range over {
		d.answer(j, wire.Reply{Status: wire.Busy, Retry: time.Second})
	}
}

func (d *seeder) onWake() {
	now := d.s.Now()
	for s, at := range d.flushAt {
		if !at.IsZero() && !at.After(now) {
			d.flushAt[s] = time.Time{}
			d.flush(peers.Set(s))
		}
	}
	d.tiers.Tick(now)
	ready, busy := d.uploads.Tick(now)
	d.goAhead(ready)
	for _, j := range busy {
		d.answer(j, wire.Reply{Status: wire.Busy, Retry: time.Second})
	}
}

// admit asks the upload core; the answer goes out now or when a job's turn comes.
func (d *seeder) admit(m AdmitRequest) {
	d.job++
	set := d.tiers.Set(m.Child)
	if set == peers.Outside {
		set = d.tiers.Guest()
	}
	a := peers.Ask{Job: d.job, Child: m.Child, Set: set, Key: d.keyOf(m.Share), Piece: uint32(m.Piece), Bytes: m.Bytes}
	if o := d.audiences[m.Share]; o != nil {
		all, whole := d.catalog.Whole(m.Share)
		a.Whole, a.Pressed, a.Flash = whole, m.Pressed, o.flash(d.s.Now())
		a.Crowd, a.Spreads, a.Fleet = o.crowd(m.Child)
		a.Fed = whole && o.fed(m.Child, d.taken.bytes(m.Share, m.Child), all, m.Pressed, d.s.Now())
	}
	v := d.uploads.Ask(a, d.s.Now())
	d.waiting[d.job] = asked{m.Child, m.Share, m.Bytes, m.Reply}
	switch {
	case v.Go:
		d.answer(d.job, wire.Reply{})
	case v.Queued:
	case v.Busy:
		d.answer(d.job, wire.Reply{Status: wire.Busy, Retry: v.Retry})
	case v.Elsewhere:
		d.answer(d.job, wire.Reply{Status: wire.Busy, Retry: v.Retry, Elsewhere: true})
	default:
		d.answer(d.job, wire.Reply{Status: wire.Refused, Reason: wire.Why(wire.CodeBadRequest)})
	}
}

// keyOf is the text of a share's ID, which is made once for many requests.
func (d *seeder) keyOf(id share.ID) string {
	if id != d.keyed || d.key == "" {
		d.keyed, d.key = id, id.String()
	}
	return d.key
}

func (d *seeder) goAhead(jobs []peers.Job) {
	for _, j := range jobs {
		d.answer(j, wire.Reply{})
	}
}

// sendElsewhere answers those whose piece was given to others while they waited.
func (d *seeder) sendElsewhere() {
	for _, e := range d.uploads.Elsewhere() {
		d.answer(e.Job, wire.Reply{Status: wire.Busy, Retry: e.Retry, Elsewhere: true})
	}
}

func (d *seeder) answer(j peers.Job, r wire.Reply) {
	a := d.waiting[j]
	delete(d.waiting, j)
	d.became(r)
	if r.Status == wire.OK {
		d.taken.begin(j, a)
	}
	if a.reply != nil {
		a.reply(Admission{j, r})
	}
}

// became counts an answer to a request.
func (d *seeder) became(r wire.Reply) {
	switch {
	case r.Status == wire.OK:
		d.count.Served++
	case r.Elsewhere:
		d.count.Elsewhere++
	case r.Status == wire.Busy:
		d.count.Busy++
	default:
		d.count.Refused++
	}
}

func (d *seeder) status() UploadStatus {
	s := d.count
	s.Waiting, s.Serving = d.uploads.Waiting(), d.uploads.Serving()
	return s
}

func (d *seeder) stop(ctx actor.Context) {
	d.wake.Stop()
	for _, id := range sortedShares(d.audiences) {
		d.farewell(ctx, id, d.audiences[id], 0)
	}
	for j := range d.waiting { // each asker waits on its own: the order does not matter
		d.answer(j, wire.Reply{Status: wire.Busy, Retry: time.Second})
	}
}

// sortedShares are the keys of a map in an order that does not depend on the map.
func sortedShares[V any](m map[share.ID]V) []share.ID {
	ids := make([]share.ID, 0, len(m))
	for id := range m {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, share.ID.Compare)
	return ids
}
