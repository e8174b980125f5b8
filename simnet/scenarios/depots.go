package scenarios

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/simnet"
	"github.com/piecelease/fetcher/simnet/depots"
	"github.com/piecelease/fetcher/store/storetest"
	"github.com/piecelease/fetcher/wire"
)

const day = 24 * time.Hour

// ofDepot is a scenario about depots, which whole nodes do not play: the machine under them
// is simulated.
func ofDepot(name, says string, tell func(*depots.Story)) *simnet.Scenario {
	return &simnet.Scenario{Name: name, Says: says, Limit: depots.Limit, Only: "depots here run on simulated machines",
		Set: func(r *simnet.Run) { depots.Tell(r, tell) }}
}

// pair is a depot and a node that has an account there, of 1 GB, and content.
func pair(s *depots.Story) (*depots.Depot, *simnet.Node, *simnet.Content) {
	d := depots.New(s.Net, depots.Config{Name: "depot"})
	c := s.Folder("photos", 4, 300_000)
	a := s.Add(simnet.NodeConfig{Name: "anna"}).Seed(c)
	d.Account("anna", 1e9, a)
	return d, a, c
}

// to lets the machine of a depot sleep until a time of its wall clock.
func to(d *depots.Depot, at time.Time) { d.Sleep(at.Sub(d.Reading().Wall)) }

// holds expects an account to use the bytes of these shares, and no others.
func holds(s *depots.Story, x *simnet.Node, d *depots.Depot, all ...*simnet.Content) {
	var want int64
	for _, c := range all {
		want += depot.Bytes(c.Manifest)
	}
	got := s.Used(x, d).Used
	s.Expect(got == want, "%s is charged for %d bytes at %s; the shares that it holds there take up %d", x.Name(), got, d.Name(), want)
}

// keeping are scenarios of depots: who may rely on which share until when.
var keeping = slices.Concat(holding, replacing, losing, ticking, standing)

// holding are scenarios of single leases.
var holding = []*simnet.Scenario{
	ofDepot("depot-keeps-to-the-second", "A lease is live until its last second, and after that its share is kept for the grace period, exact to the second.", func(s *depots.Story) {
		d, a, c := pair(s)
		h := s.Hold(a, d, c, 3*day)
		s.Kept(d, c)
		ends := time.Unix(h.Expires, 0)
		to(d, ends.Add(-time.Second))
		s.Expect(s.Used(a, d).Used == h.Bytes, "a second before its end, the lease does not count")
		to(d, ends)
		s.Expect(s.Used(a, d).Used == 0, "at its end, the lease still counts")
		s.Refused(a, d, depot.NoLease, wire.Renew{Share: c.ID(), Request: s.Request(), Until: ends.Add(day).Unix()})
		to(d, ends.Add(depot.Grace-2*time.Second))
		s.Do(d, actors.CollectNow{})
		s.Pass(time.Second)
		s.Kept(d, c)
		to(d, ends.Add(depot.Grace))
		s.Do(d, actors.CollectNow{})
		s.Pass(time.Second)
		s.Expect(d.State(c) == depot.None && len(d.Left(c)) == 0, "the grace period is over, and the state of the share is %v; left on the disk: %v", d.State(c), d.Left(c))
	}),
	ofDepot("lease-granted-while-collecting", "What nobody holds any more is collected while somebody asks for it: whoever is told yes can rely on it.", func(s *depots.Story) {
		d, a, c := pair(s)
		h := s.Hold(a, d, c, 3*day)
		s.Kept(d, c)
		to(d, time.Unix(h.Expires, 0).Add(2*depot.Grace))
		rng := s.Rand("race")
		for range 4 {
			s.After(time.Duration(rng.Int64N(int64(30*time.Millisecond))), func() { d.Program().Hear(actors.CollectNow{}, func(any) {}) })
			_, err := s.Held(a, d, s.HoldOf(d, c, 5*day))
			if err != nil {
				var r *depot.Refusal
				s.Expect(errors.As(err, &r) && r.Reason == depot.Leaving && r.Retry > 0, "the hold should have been granted, or refused for a time because the share is being removed; what came instead: %v", err)
				s.Pass(time.Minute)
				s.Hold(a, d, c, 5*day)
			}
			s.Kept(d, c)
			d.Sleep(4 * day)
			s.Do(d, actors.CollectNow{})
			s.Pass(time.Second)
			s.Kept(d, c)
			d.Sleep(3 * day)
		}
	}),
	ofDepot("disk-full-while-coming", "Room is booked when a share is held; what fills the disk behind the depot's back only delays the share.", func(s *depots.Story) {
		d := depots.New(s.Net, depots.Config{Name: "depot", Disk: 12 << 20, Reserve: 1 << 20})
		big, other := s.File("film", 8<<20), s.File("music", 6<<20)
		a := s.Add(simnet.NodeConfig{Name: "anna", Line: even(8*simnet.Mbit, 10*time.Millisecond)}).Seed(big).Seed(other)
		d.Account("anna", 1e9, a)
		h := s.HoldOf(d, other, 5*day)
		s.Hold(a, d, big, 5*day)
		s.Refused(a, d, depot.NoSpace, h)
		s.Until("some of the share has come", time.Minute, func() bool { n, _ := d.Disk().FS().Free(); return n < 10<<20 })
		d.Disk().Resize(0)
		s.Pass(2 * time.Minute)
		s.Expect(d.State(big) == depot.Coming, "with a full disk the state of the share is %v", d.State(big))
		holds(s, a, d, big)
		d.Disk().Resize(12 << 20)
		s.Kept(d, big)
		d.Disk().Resize(12 << 20)
		s.Hold(a, d, other, 5*day)
		s.Kept(d, other, big)
	}),
	ofDepot("failed-for-good-is-collected", "A share that the depot's disk cannot store is given up: its leases end, and nothing stays behind.", func(s *depots.Story) {
		d, a, c := pair(s)
		d.Trouble = func(op storetest.Op) error {
			if op.Kind == "create" && strings.Contains(op.Name, "/data/") {
				return share.ErrPath
			}
			return nil
		}
		s.Hold(a, d, c, 5*day)
		s.Gone(d, c)
		holds(s, a, d)
		d.Trouble = nil
		s.Hold(a, d, c, 5*day)
		s.Kept(d, c)
		holds(s, a, d, c)
	}),
	ofDepot("quota-race", "A hundred holds come at once from two nodes of an account, for seven times its quota: no byte is let in above it.", func(s *depots.Story) {
		d := depots.New(s.Net, depots.Config{Name: "depot"})
		const each, most = 1 << 20, 14
		var nodes []*simnet.Node
		for i := range 2 {
			nodes = append(nodes, s.Add(simnet.NodeConfig{Name: fmt.Sprint("anna", i)}))
		}
		d.Account("anna", most*each+each/2, nodes...)
		granted, refused := 0, 0
		for i := range 100 {
			q := wire.Hold{Share: share.IDOf([]byte{byte(i)}), Request: s.Request(), Bytes: each, Until: d.Reading().Wall.Add(day).Unix()}
			depots.AskLater(nodes[i%2], d, q, func(answer any, err error) {
				switch h, _ := answer.(wire.Held); {
				case err == nil && h.Refused == 0:
					granted++
				case err == nil && depot.Reason(h.Refused) == depot.OverQuota:
					refused++
				case err != nil:
					s.Expect(false, "a hold failed: %v", err)
				default:
					s.Expect(false, "a hold was answered with %+v", answer)
				}
			})
		}
		s.Until("all requests are answered", time.Minute, func() bool { return granted+refused == 100 })
		u := s.Used(nodes[0], d)
		s.Expect(granted == most && u.Used == most*each && u.Used <= u.Quota, "%d holds were granted, and the quota allows %d; %d bytes are used, of %d", granted, most, u.Used, u.Quota)
	}),
	ofDepot("going-refuses", "A share that cannot be removed stays GOING, and whoever wants to hold it is refused until it is gone; then it can be held and fetched again.", func(s *depots.Story) {
		d, a, c := pair(s)
		s.Hold(a, d, c, 5*day)
		s.Kept(d, c)
		d.Excuse()
		d.Trouble = failing("remove", "going/")
		s.Release(a, d, c)
		s.Is(d, c, depot.Going)
		s.Pass(3 * time.Hour)
		r := s.Refused(a, d, depot.Leaving, s.HoldOf(d, c, 5*day))
		s.Expect(r.Retry > 0, "the depot does not say when to ask again")
		holds(s, a, d)
		d.Trouble = nil
		s.Gone(d, c)
		s.Hold(a, d, c, 5*day)
		s.Kept(d, c)
	}),
	ofDepot("released-frees-at-once", "What is given up frees the account's quota at once, without a grace period, and the disk too unless somebody else holds it.", func(s *depots.Story) {
		d, a, c := pair(s)
		b := s.Add(simnet.NodeConfig{Name: "bert"})
		d.Account("bert", 1e9, b)
		s.Hold(a, d, c, 5*day)
		s.Hold(b, d, c, 5*day)
		s.Kept(d, c)
		s.Release(a, d, c)
		holds(s, a, d)
		s.Pass(time.Hour)
		s.Kept(d, c)
		holds(s, b, d, c)
		s.Release(b, d, c)
		s.Pass(5 * time.Second)
		holds(s, b, d)
		s.Expect(d.State(c) == depot.None && len(d.Left(c)) == 0, "the state of the share is %v; left on the disk: %v", d.State(c), d.Left(c))
	}),
	ofDepot("a-stranger-declares-one-byte", "An account declares a share to be smaller than it is, to end the leases of others: only its own lease ends.", func(s *depots.Story) {
		d, a, c := pair(s)
		b := s.Add(simnet.NodeConfig{Name: "stranger"})
		d.Account("stranger", 1e9, b)
		small := s.HoldOf(d, c, 5*day)
		small.Bytes = 1
		s.Refused(b, d, depot.WrongBytes, small)
		small = s.HoldOf(d, c, 5*day)
		small.Bytes = depot.LeastBytes
		if s.Rand("first").IntN(2) == 0 {
			_, err := s.Held(b, d, small)
			s.Expect(err == nil, "%v", err)
			s.Hold(a, d, c, 5*day)
		} else {
			s.Hold(a, d, c, 5*day)
			s.Held(b, d, small)
		}
		s.Kept(d, c)
		holds(s, a, d, c)
		holds(s, b, d)
		d.Sleep(3 * day)
		s.Do(d, actors.CollectNow{})
		s.Pass(time.Minute)
		s.Kept(d, c)
	}),
	{
		Name: "ten-thousand-accounts", Limit: depots.Limit, Only: "depots here run on simulated machines",
		Says:  "Hundreds of accounts, or thousands, hold shares, and up to a hundred or so of them hold the same one; each account is charged for exactly what it holds, even after the database is lost; when the leases end, all of it is freed.",
		Nodes: 200, Fewest: 20,
		Set: func(r *simnet.Run) { depots.Tell(r, manyAccounts) },
	},
}

// manyAccounts hold shares that were copied there, so none needs to be fetched.
func manyAccounts(s *depots.Story) {
	d := depots.New(s.Net, depots.Config{Name: "depot"})
	n := s.Run.Nodes
	s.Pass(time.Second)
	var all []*simnet.Content
	for i := range max(2, n/100) {
		all = append(all, s.File(fmt.Sprint("film", i), 20_000))
		d.Copy(all[i])
	}
	s.Do(d, actors.CrawlNow{})
	for _, c := range all {
		s.Is(d, c, depot.Stable)
	}
	a := s.Add(simnet.NodeConfig{Name: "anna"})
	d.Account("anna", 1e9, a)
	until := d.Reading().Wall.Add(10 * day)
	for i := range n {
		d.HoldAs(fmt.Sprint("account", i), all[i%len(all)], until)
	}
	s.Hold(a, d, all[0], 10*day)
	check := func(when string) {
		sum, want := d.Sum(), int64(0)
		for i := range n {
			want += depot.Bytes(all[i%len(all)].Manifest)
		}
		want += depot.Bytes(all[0].Manifest)
		s.Expect(sum == want, "%s all accounts together use %d bytes, not %d", when, sum, want)
		holds(s, a, d, all[0])
	}
	check("at first")
	d.Kill()
	d.Lose()
	d.Start()
	s.Until("the depot has looked at everything", time.Hour, func() bool { return !d.Meta().CompleteSince.IsZero() })
	d.Account("anna", 1e9, a)
	check("after the loss")
	d.Sleep(12 * day)
	s.Pass(61 * time.Minute)
	s.Expect(d.Sum() == 0, "all leases are over, and %d bytes are used", d.Sum())
}
