package daemon

import (
	"context"
	"slices"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// Release ends the holds of a share: at all depots, or at one.
func (d *depots) Release(ctx context.Context, r api.Release) ([]api.Held, error) {
	id, err := share.ParseID(r.Share)
	if err != nil {
		return nil, err
	}
	var at *fetcher.Depot
	if r.Depot != "" {
		if at, err = d.node.Depot(r.Depot); err != nil {
			return nil, api.Refuse(api.ErrRequest, "%v", err)
		}
	}
	var asked []string
	var only peers.ID
	if at != nil {
		asked, only = []string{r.Depot}, at.ID()
	}
	before, err := d.node.DepotsAt(ctx, asked...)
	if err != nil {
		return nil, err
	}
	was := toRelease(before, id, at)
	if at != nil && len(was) == 0 { // a lease that nothing renews
		held, err := at.Release(ctx, id, "")
		v, err := heldView(at, held.Holding, err)
		return []api.Held{v}, err
	}
	before, l, err := d.drop(ctx, id, only)
	if err != nil {
		return nil, err
	}
	if was = toRelease(before, id, at); len(was) == 0 {
		return nil, api.Refuse(api.ErrNoEntry, "no depot keeps that share for this node; to end a lease that this node does not renew, name its depot")
	}
	if l, err = d.node.AwaitVisits(ctx, l); err != nil {
		return nil, err
	}
	return releasedOf(before, l, was)
}

// drop writes that a share is to be kept no more, at one depot or, without one, at all. It returns how that stands, and how it stood before.
func (d *depots) drop(ctx context.Context, id share.ID, only peers.ID) (before, l fetcher.HoldList, err error) {
	d.holds.changing.Lock()
	defer d.holds.changing.Unlock()
	if before, err = d.node.Holds(ctx); err != nil {
		return before, l, err
	}
	for _, w := range before.Wants {
		if w.Share == id && (only == "" || slices.Contains(w.Depots, only)) {
			d.log.Info("depots are no longer to keep a share", "hold", w.ID, "share", w.Share.String())
			if !w.Fleet {
				continue
			}
			if err := d.member.holds.without(ctx, id, only); err != nil {
				return before, l, err
			}
		}
	}
	l, err = d.node.DropHeld(ctx, id, only, true) // after the fleet's list, which a node that is killed before this carries out at its next start
	return before, l, err
}

// toRelease are the leases of a share and of the versions before it, without those that were never granted where
// others were: at all depots, or at one.
func toRelease(l fetcher.HoldList, id share.ID, at *fetcher.Depot) []fetcher.HoldStanding {
	all := slices.DeleteFunc(slices.Clone(l.Holds), func(h fetcher.HoldStanding) bool {
		version := slices.ContainsFunc(l.Wants, func(w fetcher.Hold) bool { return w.Share == id && h.Of(w.ID) })
		return h.Share != id && !version || at != nil && h.Depot != at.ID()
	})
	for i, h := range all { // what is released is not known by any name any more
		if w := slices.IndexFunc(l.Wants, func(w fetcher.Hold) bool { return w.ID == h.Want }); w >= 0 {
			all[i].Name = l.Wants[w].Name
		}
	}
	never := func(h fetcher.HoldStanding) bool { return h.Expires.IsZero() && !unseen(l, h) }
	if granted := slices.DeleteFunc(slices.Clone(all), never); len(granted) > 0 {
		return granted
	}
	return all
}

// releasedOf returns what became of holds that were to end; an error if none has ended, and a depot refuses to end one.
func releasedOf(before, l fetcher.HoldList, was []fetcher.HoldStanding) (out []api.Held, refused error) {
	ended := false
	for _, h := range was {
		v := api.Held{Hold: h.Want, Share: h.Share.String(), Depot: string(h.Depot), State: "none", At: time.Now(), Bytes: h.Bytes, Name: h.Name}
		i := slices.IndexFunc(l.Holds, func(x fetcher.HoldStanding) bool { return x.Key == h.Key })
		switch here := i >= 0; {
		case !here && unseen(before, h): // another member's lease may stand there
			v.State, v.Delay = "unknown", "the depot does not let this node in, or has not answered it yet; no member renews the lease, and the first running member that the depot lets in will end it"
		case !here:
			ended = true
		default:
			x := l.Holds[i]
			v.State, v.Expires = x.State.String(), x.Expires
			switch err := refusalOf(l, x); {
			case x.Kept:
				v.Delay = "another hold needs it, or the depot does not have the later version yet"
			case err != nil:
				refused = api.Refuse(err, "%v. So nothing was released there; this node does not renew the lease any more", err)
				v.Delay = refused.Error()
			default:
				v.Delay = "the depot does not answer; it is asked again, and the lease is not renewed"
			}
		}
		out = append(out, v)
	}
	if ended || refused == nil {
		return out, nil
	}
	return nil, refused
}
