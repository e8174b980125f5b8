package actors

import (
	"fmt"
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/fetchpool"
	"github.com/piecelease/fetcher/fleet"
	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/transfer"
)

// What a transfer has below it: a pool for each source, whoever leases pieces to them, and the verifiers.

func (t *transferActor) startPool(ctx actor.Context, x transfer.StartPool) {
	layout, self := t.manifest.Layout(), ctx.Self()
	name := fmt.Sprint("pool-", x.Pool, "-", x.Source.ID.Short()) // the number, because peers choose their IDs
	t.pools[x.Pool] = t.s.Spawn(ctx, name, poolBox, func() actor.Actor {
		return &fetchPool{s: t.s, net: t.net, budget: t.budget, ration: t.ration, transfer: self, leases: t.leases, verifiers: t.verifiers,
			finder: t.finder, number: x.Pool, source: x.Source, at: x.At, share: t.cmd.Share, layout: layout, anonymous: t.cmd.Config.Anonymous,
			member: t.cmd.Config.Fleet.Used() && t.cmd.Config.Fleet.Alone == 0, whole: x.Whole,
			core: fetchpool.New(fetchpool.Config{Patience: t.leasing().Leases.Patience}, layout, t.s.Seed("pool "+string(x.Source.ID)), t.s.Now())}
	}, system.OnPanicStop)
}

// leasing is the configuration of the LeaseManager and of the pools.
func (t *transferActor) leasing() TransferConfig {
	cfg := t.cmd.Config
	if cfg.Fleet.Used() {
		cfg.Leases.Patience = fleet.MemberPatience(cfg.Leases.Patience)
	}
	return cfg
}

// startLeases starts the actor that leases pieces to the pools and hears of verified
// ones: the LeaseManager, or in a fleet a leaseClient above it.
func (t *transferActor) startLeases(ctx actor.Context, x transfer.StartLeases) {
	t.run = x.Run
	self, layout, cfg, have := ctx.Self(), t.manifest.Layout(), t.leasing(), x.Have.Clone()
	plan := leasemgr.Plan{Layout: layout, Verified: x.Have.Clone(), Wanted: x.Wanted, Epoch: t.target.Epoch(), Self: t.s.Self(), Seed: t.s.Seed("leases " + t.cmd.Share.String()), OnDemand: t.cmd.Config.OnDemand}
	ranks := maps.Clone(t.ranks)
	leases := func() actor.Actor {
		l := newLeaseManager(t.s, self, t.ration, cfg, t.manifest, plan)
		l.ranks = ranks
		return l
	}
	name := "leases-"
	if cfg.Fleet.Used() {
		local, wanted := leases, x.Wanted
		if wanted != nil {
			wanted = wanted.Clone()
		}
		name, leases = "fleet-", func() actor.Actor {
			c := newLeaseClient(t.s, t.net, t.finder, t.node, t.cmd.Share, layout, cfg.Fleet, have)
			c.leases, c.member.Wanted, c.before = local, wanted, t.cmd.seat
			return c
		}
	}
	t.leases = t.s.Spawn(ctx, fmt.Sprint(name, t.run), leaseBox, leases, system.OnPanicStop)
	t.workers = []*actor.PID{t.leases}
}

func (t *transferActor) startVerifiers(ctx actor.Context, n int) {
	self, leases, target := ctx.Self(), t.leases, t.target
	for i := range n {
		t.verifiers = append(t.verifiers, t.s.Spawn(ctx, fmt.Sprint("verifier-", t.run, "-", i), verifierBox, func() actor.Actor {
			return newPieceVerifier(t.s, self, leases, target, t.manifest)
		}, system.OnPanicStop))
		ctx.Watch(t.verifiers[i])
	}
	t.workers = append(t.workers, t.verifiers...)
}

func (t *transferActor) stopWorkers(ctx actor.Context) {
	if t.leases != nil {
		ctx.Stop(t.leases)
		t.leases = nil
	}
	for _, v := range t.verifiers {
		ctx.Stop(v) // workerGone says when
	}
}

func (t *transferActor) workerGone(who *actor.PID) {
	n := len(t.verifiers) // the pools have these, too
	t.verifiers = slices.DeleteFunc(slices.Clone(t.verifiers), func(v *actor.PID) bool { return v.Equal(who) })
	if len(t.verifiers) < n {
		t.core.VerifierGone(t.s.Now())
	}
}

// explain has the LeaseManager answer a PlanQuery, if there is one.
func (t *transferActor) explain(ctx actor.Context) {
	if t.leases != nil {
		ctx.Forward(t.leases)
	} else {
		ctx.Respond(PlanStatus{})
	}
}

// why answers with the state of every missing piece; the LeaseManager knows it, if there is one.
func (t *transferActor) why(ctx actor.Context) {
	if t.leases == nil {
		ctx.Respond(PlanStatus{})
		return
	}
	ctx.RequestWithCustomSender(t.leases, PlanQuery{Lines: whyLines}, ctx.Sender())
}

const whyLines = 100 // runs of missing pieces explained in one answer

func (t *transferActor) childFailed(m system.ChildFailed) {
	for number, pool := range t.pools {
		if pool.Equal(m.Who) {
			delete(t.pools, number)
			t.core.PoolFailed(number, t.s.Now())
			return
		}
	}
	if slices.ContainsFunc(t.workers, m.Who.Equal) { // not a pool that was given up, nor a worker of an earlier run
		t.core.WorkerFailed(m.Name, m.Reason, t.s.Now())
	}
}
