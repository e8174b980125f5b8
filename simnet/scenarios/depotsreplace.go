package scenarios

import (
	"time"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/simnet"
	"github.com/piecelease/fetcher/simnet/depots"
	"github.com/piecelease/fetcher/wire"
)

// versions is a depot, an account there, and three versions of what it keeps there; it
// holds the first by the name "photos".
func versions(s *depots.Story) (d *depots.Depot, a *simnet.Node, v []*simnet.Content) {
	d = depots.New(s.Net, depots.Config{Name: "depot"})
	a = s.Add(simnet.NodeConfig{Name: "anna"})
	for _, name := range []string{"one", "two", "three"} {
		c := s.Folder(name, 3, 300_000)
		a.Seed(c)
		v = append(v, c)
	}
	d.Account("anna", 1e9, a)
	s.Replace(a, d, "photos", nil, v[0], 10*day)
	s.Kept(d, v[0])
	return d, a, v
}

// replacing are scenarios in which one version replaces another. The old one is
// there until the new one is, whatever happens.
var replacing = []*simnet.Scenario{
	ofDepot("replace-races", "Two nodes of an account try at the same time to replace a version, each with one of its own: one succeeds, the other is told what is there now.", func(s *depots.Story) {
		d, a, v := versions(s)
		b := s.Add(simnet.NodeConfig{Name: "anna2"}).Seed(v[1]).Seed(v[2])
		d.Account("anna", 1e9, b)
		var answers []wire.Held
		for i, x := range []*simnet.Node{a, b} {
			depots.AskLater(x, d, s.ReplaceOf(d, "photos", v[0], v[1+i], 10*day), func(answer any, err error) {
				s.Expect(err == nil, "%v", err)
				h, _ := answer.(wire.Held)
				answers = append(answers, h)
			})
		}
		s.Until("both requests are answered", time.Minute, func() bool { return len(answers) == 2 })
		s.Expect(answers[0].Refused == 0 && depot.Reason(answers[1].Refused) == depot.NameMoved, "%+v", answers)
		won, lost := v[1], v[2]
		if answers[0].Share == v[2].ID() {
			won, lost = lost, won
		}
		s.Expect(answers[1].Current == v[0].ID() && answers[1].Coming == won.ID() || answers[1].Current == won.ID(), "the loser is told that %v is there and %v is coming", answers[1].Current, answers[1].Coming)
		s.Kept(d, won)
		s.Gone(d, v[0])
		s.Expect(d.State(lost) == depot.None, "the loser's version is %v", d.State(lost))
		s.Replace(b, d, "photos", won, lost, 10*day)
		s.Kept(d, lost)
		s.Gone(d, won)
		holds(s, a, d, lost)
	}),
	ofDepot("replace-over-quota", "At a depot both versions count towards the quota until the new one is there: a replacement for which there is no room is refused, and the old version stays.", func(s *depots.Story) {
		d, a, v := versions(s)
		d.Account("anna", depot.Bytes(v[0].Manifest)+depot.Bytes(v[1].Manifest)-1)
		r := s.Refused(a, d, depot.OverQuota, s.ReplaceOf(d, "photos", v[0], v[1], 10*day))
		s.Expect(r.Room == depot.Bytes(v[1].Manifest)-1, "there is said to be room for %d bytes", r.Room)
		d.Sleep(5 * day)
		s.Do(d, actors.CollectNow{})
		s.Pass(time.Minute)
		s.Kept(d, v[0])
		holds(s, a, d, v[0])
		d.Account("anna", depot.Bytes(v[0].Manifest)+depot.Bytes(v[1].Manifest))
		s.Replace(a, d, "photos", v[0], v[1], 10*day)
		holds(s, a, d, v[0], v[1])
		s.Kept(d, v[1])
		s.Gone(d, v[0])
		holds(s, a, d, v[1])
	}),
	ofDepot("replace-superseded", "A version that is coming is superseded by the next: the superseded one goes at once, and the old one stays until the next is there.", func(s *depots.Story) {
		d, a, v := versions(s)
		nobody := s.Folder("nobody", 2, 200_000) // no node has it
		s.Replace(a, d, "photos", v[0], nobody, 10*day)
		s.Pass(10 * time.Minute)
		s.Kept(d, v[0])
		holds(s, a, d, v[0], nobody)
		s.Refused(a, d, depot.NameMoved, s.ReplaceOf(d, "photos", v[0], v[2], 10*day))
		next := s.ReplaceOf(d, "photos", v[0], v[2], 10*day)
		next.Supersedes = nobody.ID()
		_, err := s.Held(a, d, next)
		s.Expect(err == nil, "%v", err)
		s.Expect(d.Here(v[0]) == nil, "the old version is gone before the next is there")
		s.Kept(d, v[2])
		s.Gone(d, nobody)
		s.Gone(d, v[0])
		holds(s, a, d, v[2])
	}),
	ofDepot("killed-in-replace", "The depot is killed, or its power goes, at each step of a replacement: one of the two versions is there, whole, at all times.", func(s *depots.Story) {
		d, a, v := versions(s)
		rng := s.Rand("crash")
		for i := range 3 {
			old, next := v[i%3], v[(i+1)%3]
			d.CrashIn(1+rng.IntN(40), rng.IntN(2) == 0)
			again(s, d, a, s.ReplaceOf(d, "photos", old, next, 20*day))
			s.Until("one of the two versions is there", time.Minute, func() bool { return d.Here(old) == nil || d.Here(next) == nil })
			s.Kept(d, next)
			s.Pass(time.Minute)
			s.Do(d, actors.CollectNow{})
			s.Gone(d, old)
			s.Kept(d, next)
			holds(s, a, d, next)
		}
	}),
}

// again repeats a request until it is granted, as a client does that gets no answer.
func again(s *depots.Story, d *depots.Depot, a *simnet.Node, question any) {
	for range 20 {
		_, err := s.Held(a, d, question)
		if err == nil && !d.Dying() {
			return
		}
		s.Pass(3 * time.Second)
	}
	s.Expect(false, "%+v is not granted", question)
}
