package bubble

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/simnet"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/wire"
)

// host runs one node of a simnet.Net.
type host struct {
	t     *tier
	x     *simnet.Node
	node  *Node
	up    int64        // bounds, in bytes per second
	down  int64        // ...
	ahead atomic.Int64 // of its wall clock

	life    int
	shared  map[*simnet.Content]*fetcher.Share  // in this life
	fetches map[*simnet.Fetch]*fetcher.Transfer // in this life
	seats   map[*simnet.Fleet]*fetcher.Coordination
	reading sync.WaitGroup // of the events of all these
}

func (h *host) fault(err error) {
	h.t.sim.Log.With("node", string(h.node.ID())).Error(err.Error())
}

// Start implements simnet.Host.
func (h *host) Start() {
	h.life++
	clear(h.shared)
	clear(h.fetches)
	clear(h.seats)
	h.node.Thaw() // it may have been frozen while it stopped
	h.open()
}

func (h *host) open() {
	f, err := h.node.Open()
	if err != nil {
		h.fault(err)
		return
	}
	if h.up > 0 {
		f.SetUploadRate(h.up)
	}
	if h.down > 0 {
		f.SetDownloadRate(h.down)
	}
}

// Stop implements simnet.Host.
func (h *host) Stop() {
	life := h.life
	h.t.net.leaving.Go(func() {
		err := h.node.Close()
		h.reading.Wait()
		h.t.post(func() {
			if h.life != life {
				return // killed meanwhile
			}
			if err != nil {
				h.fault(err)
			}
			h.life++
			h.x.Ended()
		})
	})
}

func (h *host) gone() {
	h.life++
	h.x.Gone()
}

// Kill implements simnet.Host.
func (h *host) Kill() {
	h.node.Kill()
	h.gone()
}

// PowerOff implements simnet.Host.
func (h *host) PowerOff() {
	h.x.Disk().CutPower()
	h.node.at.die()
	h.node.abandon()
	h.gone()
}

// Freeze implements simnet.Host.
func (h *host) Freeze() { h.node.Freeze() }

// Thaw implements simnet.Host.
func (h *host) Thaw() { h.node.Thaw() }

// seeds is where a node keeps what it seeds.
const seeds = "seeds"

// Offer implements simnet.Host.
func (h *host) Offer(c *simnet.Content) {
	f := h.node.Fetcher()
	if f == nil {
		return
	}
	if err := h.copy(c); err != nil {
		h.fault(err)
		return
	}
	s, err := f.Share(context.Background(), seeds+"/"+c.Manifest.Name, fetcher.ShareOptions{Workers: 1})
	if err != nil {
		h.fault(err)
		return
	}
	h.shared[c] = s
}

func (h *host) copy(c *simnet.Content) error {
	root := h.x.Disk().FS()
	if err := root.Mkdir(seeds); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	d, err := root.Sub(seeds)
	if err != nil {
		return err
	}
	defer d.Close()
	return errors.Join(c.CopyTo(d), root.SyncAll())
}

// Withdraw implements simnet.Host: the node has to notice that the file has changed.
func (h *host) Withdraw(c *simnet.Content) {
	if h.shared[c] == nil {
		return
	}
	f, err := h.x.Disk().FS().Edit(seeds + "/" + c.Files()[0])
	if err == nil {
		_, err = f.WriteAt([]byte{1}, 0)
		f.Close()
	}
	if err != nil {
		h.fault(err)
	}
}

// Fetch implements simnet.Host.
func (h *host) Fetch(f *simnet.Fetch) {
	c, life := f.Options().Config, h.life
	if seat := h.t.node(c.Fleet.Coordinator.ID); seat != nil {
		h.join(func(fleet *fetcher.Fleet) { fleet.Coordinator, fleet.Alone = seat.Addrs()[0], c.Fleet.Alone })
	}
	n := h.node.Fetcher()
	if n == nil {
		return
	}
	if f.Options().Manifest {
		if err := h.know(f.Content().Manifest); err != nil {
			h.fault(err)
		}
	}
	opt := fetcher.FetchOptions{Dir: ".", Keep: !f.Options().Leave, Select: selector(f), Stall: c.Stall, Anonymous: c.Anonymous, Verifiers: c.Verifiers, MaxSources: c.MaxSources,
		SyncEvery: c.SyncEvery, SyncBytes: c.SyncBytes}
	for _, y := range f.Sources() {
		opt.Peers = append(opt.Peers, h.t.nodes[y].node.Addrs()...)
	}
	notify := func(e fetcher.Event) {
		h.t.post(func() {
			if h.life == life {
				f.Notify(e)
			}
		})
	}
	tr, err := n.Fetch(context.Background(), f.Content().ID().String(), opt)
	if err != nil {
		notify(fetcher.Ended{Err: err})
		return
	}
	h.fetches[f] = tr
	h.reading.Go(func() {
		for e := range tr.Events(context.Background()) {
			notify(e)
		}
	})
}

// Coordinate implements simnet.Host. The node knows the list of files from before,
// and if it fetches as well, it leases from itself.
func (h *host) Coordinate(f *simnet.Fleet) {
	h.join(func(c *fetcher.Fleet) { c.Allow, c.Coordinator = f.Allowed(), h.node.Addrs()[0] })
	n := h.node.Fetcher()
	if n == nil {
		return
	}
	if err := h.know(f.Content().Manifest); err != nil {
		h.fault(err)
		return
	}
	c, err := n.Coordinate(context.Background(), f.Content().ID().String(), nil)
	if err != nil {
		h.fault(err)
		return
	}
	h.seats[f] = c
	life := h.life
	h.reading.Go(func() {
		for e := range c.Events(context.Background()) {
			h.t.post(func() {
				if h.life == life {
					f.Notify(e)
				}
			})
		}
	})
}

// join makes the node part of a fleet, which is decided when a node is opened. So
// a node that has not begun anything yet is opened again.
func (h *host) join(change func(c *fetcher.Fleet)) {
	c := h.node.cfg.Config.Fleet
	change(&c)
	if was := h.node.cfg.Config.Fleet; c.Coordinator == was.Coordinator && c.Alone == was.Alone && slices.Equal(c.Allow, was.Allow) {
		return
	}
	if len(h.fetches) > 0 || len(h.seats) > 0 {
		h.fault(errors.New("a node cannot join a fleet in the middle of its work"))
		return
	}
	if err := h.node.Close(); err != nil {
		h.fault(err)
	}
	h.node.cfg.Config.Fleet = c
	offered := h.shared
	h.shared = map[*simnet.Content]*fetcher.Share{}
	h.open()
	for c := range offered {
		h.Offer(c)
	}
}

// know puts a list of files into the node's state.
func (h *host) know(m *share.Manifest) error {
	d, err := h.x.Disk().FS().Sub("state")
	if err != nil {
		return err
	}
	defer d.Close()
	s, err := store.OpenStateIn(d)
	if err != nil {
		return err
	}
	return errors.Join(s.SaveManifest(m), s.Close())
}

// FleetStatus implements simnet.Host.
func (h *host) FleetStatus(f *simnet.Fleet) (fetcher.FleetStatus, error) {
	c := h.seats[f]
	if c == nil || !h.x.Alive() {
		return fetcher.FleetStatus{}, fmt.Errorf("%s is not running", h.x.Name())
	}
	return c.Status(10)
}

// StopFetch implements simnet.Host.
func (h *host) StopFetch(f *simnet.Fetch) {
	if tr := h.fetches[f]; tr != nil {
		told, cancel := context.WithCancel(context.Background())
		cancel() // nobody waits here
		tr.Stop(told)
	}
}

// wall is the node's wall clock. It is asked on any goroutine.
func (h *host) wall() time.Time { return time.Now().Add(time.Duration(h.ahead.Load())) }

// Changed implements simnet.Host.
func (h *host) Changed() {
	h.ahead.Store(int64(h.x.Ahead()))
	h.node.SetLine(h.x.Config().Line)
	h.node.Become(h.x.Acts())
}

// SetUploadRate implements simnet.Host.
func (h *host) SetUploadRate(rate int64) {
	h.up = rate
	if f := h.node.Fetcher(); f != nil {
		f.SetUploadRate(rate)
	}
}

// SetDownloadRate implements simnet.Host.
func (h *host) SetDownloadRate(rate int64) {
	h.down = rate
	if f := h.node.Fetcher(); f != nil {
		f.SetDownloadRate(rate)
	}
}

// Read implements simnet.Host.
func (h *host) Read(r *simnet.Reading) {
	tr, life := h.fetches[r.Of()], h.life
	if tr == nil {
		r.Failed(errors.New("nothing is being fetched"))
		return
	}
	path := r.Path()
	from, to := r.Left()
	tell := func(f func()) {
		h.t.post(func() {
			if h.life == life {
				f()
			}
		})
	}
	h.reading.Go(func() {
		err := read(tr, path, from, to, func(b []byte) { tell(func() { r.Got(b) }) })
		if err != nil {
			tell(func() { r.Failed(err) })
		}
	})
}

// read reads a part of a file as it comes.
func read(tr *fetcher.Transfer, path string, from, to int64, got func([]byte)) error {
	r, err := tr.Open(context.Background(), path)
	if err != nil {
		return err
	}
	defer r.Close()
	r.SetReadAhead(simnet.ReadAhead)
	if _, err := r.Seek(from, io.SeekStart); err != nil {
		return err
	}
	for from < to {
		b := make([]byte, min(to-from, 256<<10))
		n, err := r.Read(b)
		if err != nil {
			return err
		}
		got(b[:n])
		from += int64(n)
	}
	return nil
}

// Choose implements simnet.Host.
func (h *host) Choose(f *simnet.Fetch, wanted bool, entries []int) {
	tr, p := h.fetches[f], fetcher.PrioritySkip
	if wanted {
		p = fetcher.PriorityNormal
	}
	for _, i := range entries {
		if tr != nil { // an error means that the fetch is over
			tr.SetPriority(context.Background(), f.Content().Manifest.Entry(i).Path, p)
		}
	}
}

// selector selects what a fetch leaves out, in fetcher's terms.
func selector(f *simnet.Fetch) func(share.Entry) fetcher.Priority {
	skip := f.Options().Skip
	if skip == nil {
		return nil
	}
	at := map[string]int{}
	for i, e := range f.Content().Manifest.Entries() {
		at[e.Path] = i
	}
	return func(e share.Entry) fetcher.Priority {
		if skip(at[e.Path]) {
			return fetcher.PrioritySkip
		}
		return fetcher.PriorityNormal
	}
}

// Verified implements simnet.Host.
func (h *host) Verified(f *simnet.Fetch) *share.Set {
	if h.fetches[f] == nil || f.Progress().Pieces == 0 {
		return nil
	}
	m := f.Content().Manifest
	if done, err := f.Done(); done && err != nil {
		return h.kept(m)
	}
	set := share.NewSet(m.Layout().Pieces())
	for p := range share.Piece(set.Len()) {
		if h.has(m.ID(), p) {
			set.Add(p)
		}
	}
	return set
}

// kept is what a failed fetch has left on the disk; nil if that cannot be read.
func (h *host) kept(m *share.Manifest) *share.Set {
	p, err := store.OpenPartialIn(context.Background(), h.x.Disk().FS(), m, store.PartialOptions{Workers: 1})
	if err != nil {
		return nil
	}
	defer p.Close()
	return p.Verified()
}

func (h *host) has(id share.ID, p share.Piece) bool {
	h.node.mu.Lock()
	b := h.node.blocks
	h.node.mu.Unlock()
	if b == nil {
		return false
	}
	bytes, r := b.Check(id, p, 0, 1)
	return bytes > 0 && r.Status == wire.OK
}

// Serves implements simnet.Host.
func (h *host) Serves(c *simnet.Content, p share.Piece) bool {
	return h.x.Alive() && !h.x.Acts().Claims && h.has(c.ID(), p)
}

// Why implements simnet.Host.
func (h *host) Why(f *simnet.Fetch) (why []string, wanted, leased, verified int) {
	if tr := h.fetches[f]; tr != nil {
		why = tr.Why("gives up")
	}
	return why, 0, 0, 0
}

// InFlight implements simnet.Host.
func (h *host) InFlight() (bytes int64, blocks int) {
	if f := h.node.Fetcher(); f != nil {
		return f.InFlight()
	}
	return 0, 0
}

// Sent implements simnet.Host.
func (h *host) Sent() int64 {
	_, out := h.node.Traffic()
	return out
}

// Received implements simnet.Host.
func (h *host) Received() int64 {
	in, _ := h.node.Traffic()
	return in
}
