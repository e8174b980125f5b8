package actors

import (
	"context"
	"errors"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/fleet"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/transfer"
)

// askListers asks the store of the fleet who has the list of files of the share.
func (t *transferActor) askListers(ctx actor.Context, x transfer.AskListers) {
	if t.elects == nil {
		return
	}
	e, id, self := t.elects, t.cmd.Share, fleet.Holder{Peer: t.net.Self(), Addrs: t.net.Addrs()}
	self.Addrs = self.Addrs[:min(len(self.Addrs), maxHolderAddrs)]
	t.s.Task(ctx, func(ctx context.Context) any {
		ctx, cancel := context.WithTimeout(ctx, listersWithin)
		defer cancel()
		return e.listers(ctx, id, self, x.Stale)
	})
}

// listersWithin bounds the store calls of one askListers.
const listersWithin = 5 * time.Second

// listers returns the coordinator of the share and the member that gets its list of files.
// That is this node if nobody else claims it, or only by the revision stale.
func (e *Elections) listers(ctx context.Context, id share.ID, self fleet.Holder, stale uint64) (out transfer.Listers) {
	round := fleet.RoundName(id)
	if rec, err := rounds.Current(ctx, e.KV, round); err == nil && rec.State == rounds.Running {
		out.Members = e.member(out.Members, round, []byte(rec.Data))
	}
	key := fleet.ListerKey(round)
	mine := e.Secret.Seal(key, self)
	is, err := e.KV.Get(ctx, key)
	switch {
	case errors.Is(err, rounds.ErrNotFound):
		out.Claim, err = e.KV.Create(ctx, key, mine)
		out.Mine = err == nil
		return out
	case err != nil:
		return out
	}
	var d fleet.Holder
	broken := e.Secret.Open(key, is.Value, &d) != nil
	if broken || d.Peer == self.Peer || is.Rev == stale {
		if rev, err := e.KV.Update(ctx, key, mine, is.Rev); err == nil {
			out.Claim, out.Mine = rev, true
			return out
		}
	}
	out.Claim, out.Members = is.Rev, e.member(out.Members, key, is.Value)
	return out
}

// member adds the peer that an entry of the store names.
func (e *Elections) member(to []peers.Addr, key string, value []byte) []peers.Addr {
	var d fleet.Holder
	if e.Secret.Open(key, value, &d) != nil || d.Peer == "" {
		return to
	}
	return append(to, peers.Addr{ID: d.Peer, Addrs: d.Addrs[:min(len(d.Addrs), maxHolderAddrs)]})
}
