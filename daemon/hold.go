package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// Holdings is what this node's account holds at a depot elsewhere.
func (d *depots) Holdings(ctx context.Context, depot string) (out []api.Held, err error) {
	at, err := d.node.Depot(depot)
	if err != nil {
		return nil, api.Refuse(api.ErrRequest, "%v", err)
	}
	all, err := at.Holdings(ctx)
	if err != nil {
		return nil, heldError(at.ID(), err)
	}
	for _, h := range all {
		v, _ := heldView(at, h, nil)
		out = append(out, v)
	}
	return out, nil
}

func heldView(at *fetcher.Depot, h fetcher.Holding, err error) (api.Held, error) {
	if err != nil {
		return api.Held{}, heldError(at.ID(), err)
	}
	return api.Held{Share: h.Share.String(), Depot: string(at.ID()), State: h.State.String(), Bytes: h.Bytes, Expires: h.Expires, At: h.At, Here: h.Here, Delay: h.Delay.String()}, nil
}

// heldError says what a depot refuses, and what to do. Any other error names the depot already.
func heldError(at peers.ID, err error) error {
	var r *fetcher.HoldRefused
	switch {
	case errors.As(err, &r):
		x := refusals[r.Reason]
		if x.what == "" {
			x.what = r.Reason.String()
		}
		if strings.Contains(x.what, "%") {
			x.what = fmt.Sprintf(x.what, share.Size(r.Room))
		}
		if r.Retry > 0 {
			x.what += "; ask again in " + words.Duration(r.Retry)
		}
		return api.Refuse(cmp.Or(x.class, share.ErrNotAllowed), "the depot %s refuses: %s", at.Short(), x.what)
	case errors.Is(err, fetcher.ErrDepotAway), errors.Is(err, fetcher.ErrNoDepot):
		return api.Refuse(share.ErrNetwork, "%v", err)
	}
	return err
}

// refusals are the reasons of a depot: the kind of error that each is, and what to say; %s
// stands for the room that is left.
var refusals = map[fetcher.HoldReason]struct {
	class error
	what  string
}{
	fetcher.HoldUnknownAccount:  {share.ErrNotAllowed, "it does not know this node; its owner lets it in with fetcher depot account add and the ID that fetcher id prints"},
	fetcher.HoldOverQuota:       {share.ErrDiskFull, "the quota has only %s left"},
	fetcher.HoldNoSpace:         {share.ErrDiskFull, "its disk has only %s left"},
	fetcher.HoldLeaving:         {share.ErrStalled, "the share is just being removed there"},
	fetcher.HoldWrongBytes:      {api.ErrRequest, "the share takes %s"},
	fetcher.HoldNoLease:         {share.ErrNotFound, "this node holds no such share there"},
	fetcher.HoldNameMoved:       {share.ErrHeld, "the name stands for another share by now"},
	fetcher.HoldTooManyRequests: {share.ErrStalled, "it remembers too many requests of this node"},
	fetcher.HoldBadTime:         {api.ErrRequest, "its clock is beyond that time already"},
	fetcher.HoldBadRequest:      {api.ErrRequest, "the request has no name, or that of another"},
	fetcher.HoldAway:            {share.ErrStalled, "its disk is not there now"},
}
