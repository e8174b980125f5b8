package depots

import (
	"context"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/depot/disk"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/vfs"
)

// keep is the disk of a depot in one life, and what is served from it: while a share
// comes, and later from when somebody asks for it.
type keep struct {
	*disk.Root
	d      *Depot
	offers *store.Offers
	ours   map[share.ID]store.Source
	absent map[share.ID]bool // looked for, and not kept
}

func newKeep(d *Depot, offers *store.Offers) *keep {
	k := &keep{d: d, offers: offers, ours: map[share.ID]store.Source{}, absent: map[share.ID]bool{}}
	folder := d
	if d.cfg.Folder != nil {
		folder = d.cfg.Folder
	}
	k.Root = disk.New(func() (vfs.FS, error) { return folder.Disk().FS(), nil }, d.name)
	k.Root.Workers = 1
	offers.OnMissing(k.look)
	offers.OnGone(k.damaged)
	return k
}

func (k *keep) Ready(ctx context.Context, l actors.Ledger) error { return k.Root.Ready(ctx, l) }
func (k *keep) Forget()                                          { k.Root.Forget() }

func (k *keep) Manifest(id share.ID) *share.Manifest {
	m, err := k.Root.Manifest(id)
	if err != nil {
		return nil
	}
	return m
}

func (k *keep) Open(ctx context.Context, m *share.Manifest, wanted []bool) (actors.Target, error) {
	k.offers.Yield(m.ID())
	p, err := k.Root.Open(ctx, m, wanted)
	if err != nil {
		return nil, err
	}
	k.serve(m.ID(), p)
	return p, nil
}

func (k *keep) serve(id share.ID, s store.Source) {
	k.ours[id] = s
	delete(k.absent, id)
	k.offers.Add(s)
}

func (k *keep) Withdraw(id share.ID) bool {
	s := k.ours[id]
	delete(k.ours, id)
	return s != nil && k.offers.Drop(s)
}

func (k *keep) changed(id share.ID, s depot.State, why string) {
	delete(k.absent, id)
	k.d.told[id] = append(k.d.told[id], s)
	k.d.net.Timeline().Note("%s: %v is %v: %s", k.d.cfg.Name, id, s, why)
}

// look looks for a share that somebody asks for, in a moment, and says whether it does.
func (k *keep) look(id share.ID) bool {
	if k.absent[id] {
		return false
	}
	k.d.net.After(0, func() { k.find(id) })
	return true
}

func (k *keep) find(id share.ID) {
	if k.d.keep != k || k.d.Program() == nil {
		return // in another life
	}
	s, err := k.d.DB.Share(context.Background(), id)
	if err == nil && (s.State == depot.Stable || s.State == depot.Corrupt) {
		if t, err := k.Root.Tree(id); err == nil {
			k.serve(id, t)
			k.d.Program().Offer(id)
			return
		}
	}
	k.absent[id] = true
}

// damaged is told that what was read of a share is not what it should be.
func (k *keep) damaged(id share.ID, _ string) {
	if k.ours[id] != nil {
		delete(k.ours, id)
		k.d.net.After(0, func() {
			if k.d.keep == k && k.d.Program() != nil {
				k.d.Program().LookAt(id)
			}
		})
	}
}
