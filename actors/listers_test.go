package actors

import (
	"context"
	"errors"
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/fleet"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/rounds/memkv"
	"github.com/piecelease/fetcher/share"
)

// One member has the claim, and the others are told about it; a claim that is not sealed with
// the secret, or that is reported as stale, is replaced.
func TestOneMemberClaimsToGetTheList(t *testing.T) {
	ctx, kv := context.Background(), memkv.New()
	id, err := share.ParseID("bafyr4ievthc7mruja2tqireofcryqgqovxo2umt4gopokoexfbdbr5lyvy")
	if err != nil {
		t.Fatal(err)
	}
	e := &Elections{KV: kv, Secret: "the secret of a fleet"}
	at := func(p peers.ID) fleet.Holder { return fleet.Holder{Peer: p, Addrs: []string{"/ip4/10.0.0.1/tcp/1"}} }
	a := e.listers(ctx, id, at("a"), 0)
	if !a.Mine || a.Claim == 0 || len(a.Members) != 0 {
		t.Fatalf("the first: %+v", a)
	}
	b := e.listers(ctx, id, at("b"), 0)
	if b.Mine || b.Claim != a.Claim || len(b.Members) != 1 || b.Members[0].ID != "a" || len(b.Members[0].Addrs) != 1 {
		t.Errorf("the second: %+v", b)
	}
	again := e.listers(ctx, id, at("a"), 0)
	if !again.Mine || again.Claim <= a.Claim {
		t.Errorf("the first does not renew: %+v", again)
	}
	if late := e.listers(ctx, id, at("b"), a.Claim); late.Mine {
		t.Errorf("what was renewed was taken over: %+v", late)
	}
	if over := e.listers(ctx, id, at("b"), again.Claim); !over.Mine {
		t.Errorf("what is stale was not taken over: %+v", over)
	}
	key := fleet.ListerKey(fleet.RoundName(id))
	is, err := kv.Get(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Update(ctx, key, fleet.Secret("the secret of another").Seal(key, at("x")), is.Rev); err != nil {
		t.Fatal(err)
	}
	if c := e.listers(ctx, id, at("c"), 0); !c.Mine || len(c.Members) != 0 {
		t.Errorf("what somebody else wrote counts: %+v", c)
	}
	e.KV = awayKV{kv}
	if none := e.listers(ctx, id, at("c"), 0); none.Claim != 0 || none.Mine {
		t.Errorf("without the store: %+v", none)
	}
}

// awayKV is a store that cannot be read.
type awayKV struct{ rounds.KV }

func (awayKV) Get(context.Context, string) (rounds.Entry, error) {
	return rounds.Entry{}, errors.New("away")
}

// An office says that it has ended until it is stopped. Its last message may come when another
// has taken its place.
func TestWhatAnOfficeSaidLastLeavesItsSuccessor(t *testing.T) {
	id, first, second := share.IDOf([]byte("a")), actor.NewPID("here", "office-1"), actor.NewPID("here", "office-2")
	n := &node{fleets: fleets{offices: map[share.ID]*actor.PID{id: second}}}
	n.officeEnded(nil, officeEnded{id, first})
	n.officeEnded(nil, officeEnded{share.IDOf([]byte("b")), first})
	if n.fleets.offices[id] != second {
		t.Error("the second office was ended by the first")
	}
}
