package scenarios

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/simnet"
	"github.com/piecelease/fetcher/simnet/depots"
	"github.com/piecelease/fetcher/store/storetest"
	"github.com/piecelease/fetcher/wire"
)

// complete waits until a depot has checked everything that it has had since its database began.
func complete(s *depots.Story, d *depots.Depot) {
	s.Until("all that is on the disk is in the database", time.Hour, func() bool { return !d.Meta().CompleteSince.IsZero() })
}

// until expects a lease of a share to end at the time for which it was granted.
func until(s *depots.Story, x *simnet.Node, d *depots.Depot, h wire.Held) {
	all, err := s.Holdings(x, d)
	i := slices.IndexFunc(all, func(l wire.Holding) bool { return l.Share == h.Share })
	s.Expect(err == nil && i >= 0 && all[i].Expires == h.Expires, "a lease should end at %d; the depot says %+v, error: %v", h.Expires, all, orNothing(err))
}

// failing makes all of a kind fail that a depot does to what begins so.
func failing(kind, prefix string) func(storetest.Op) error {
	return func(op storetest.Op) error {
		if op.Kind == kind && strings.HasPrefix(op.Name, prefix) {
			return errors.New("input/output error")
		}
		return nil
	}
}

// losing are scenarios in which a depot loses some of its data, and keeps its promises.
var losing = []*simnet.Scenario{
	ofDepot("bit-rot-found-and-mended", "Bits rot in what a depot keeps: it looks twice, an hour apart, and then fetches the pieces again.", func(s *depots.Story) {
		d, a, c := pair(s)
		h := s.Hold(a, d, c, 20*day)
		s.Kept(d, c)
		d.Rot(c, s.Rand("rot"))
		s.Do(d, actors.ScrubNow{})
		s.Pass(30 * time.Minute)
		s.Expect(d.State(c) == depot.Stable && d.Here(c) != nil, "after one look the share should still be stable, and the damage still be on the disk; its state is %v; what is wrong with its files: %v", d.State(c), orNothing(d.Here(c)))
		sent := a.Sent()
		s.Until("the share is whole again", 2*time.Hour, func() bool { return d.State(c) == depot.Stable && d.Here(c) == nil })
		s.Expect(a.Sent()-sent < c.Bytes()*3/4, "%d bytes were sent to mend a single bit of a share of %d", a.Sent()-sent, c.Bytes())
		until(s, a, d, h)
		x := s.Add(simnet.NodeConfig{Name: "reader"}).Fetch(c, d.Node)
		s.Until("the share has been fetched from the depot", time.Minute, func() bool { return over(x) })
	}),
	ofDepot("half-lost", "Half of the files of a share are gone, then all of it, list and all: its leases stand, and it is fetched again.", func(s *depots.Story) {
		d, a, c := pair(s)
		h := s.Hold(a, d, c, 20*day)
		s.Kept(d, c)
		for i, f := range c.Files() {
			if i%2 == 0 {
				d.Drop(c, f)
			}
		}
		mended := func() {
			told := len(d.Told(c))
			s.Do(d, actors.CrawlNow{})
			s.Until("the share is known to be damaged", 2*time.Hour, func() bool { return slices.Contains(d.Told(c)[told:], depot.Corrupt) })
			holds(s, a, d, c)
			s.Kept(d, c)
			until(s, a, d, h)
		}
		mended()
		d.Vanish(c)
		d.Sleep(4 * day) // when the next cycle is due
		mended()
		d.Drop(c, "../leases") // alone, and the data is whole
		d.Sleep(4 * day)
		s.Until("the leases of the share are beside it again", 2*time.Hour, func() bool {
			return slices.ContainsFunc(d.Left(c), func(name string) bool { return strings.HasSuffix(name, "/leases") })
		})
		d.Kill()
		d.Lose()
		d.Start()
		d.Account("anna", 1e9, a)
		complete(s, d)
		until(s, a, d, h)
	}),
	ofDepot("database-lost", "A depot's database is lost: nothing is collected until everything that the disk knows is entered again, and each lease ends when it would have.", func(s *depots.Story) {
		d, a, c := pair(s)
		h := s.Hold(a, d, c, 20*day)
		s.Kept(d, c)
		d.Kill()
		d.Lose()
		d.Trouble = failing("readdir", "shares") // and the crawler cannot work yet
		d.Start()
		d.Excuse()
		d.Account("anna", 1e9, a)
		s.Pass(2 * time.Hour)
		s.Expect(!s.Used(a, d).Complete, "the depot says that it knows all, although it has not looked")
		s.Expect(d.Here(c) == nil, "the share is gone")
		d.Trouble = nil
		complete(s, d)
		s.Expect(s.Used(a, d).Complete, "the depot does not say that it knows all")
		holds(s, a, d, c)
		until(s, a, d, h)
		s.Kept(d, c)
		to(d, time.Unix(h.Expires, 0).Add(2*depot.Grace))
		s.Pass(61 * time.Minute)
		s.Kept(d, c) // for accounts that did not know of it
		holds(s, a, d)
		d.Sleep(depot.Starter)
		s.Gone(d, c)
	}),
	ofDepot("database-corrupt-in-use", "The database in use is damaged: another takes its place and is filled from the disk, while the depot goes on.", func(s *depots.Story) {
		d, a, c := pair(s)
		more := s.File("film", 400_000)
		a.Seed(more)
		h := s.Hold(a, d, c, 20*day)
		s.Kept(d, c)
		d.Excuse()
		d.Damage()
		s.Ask(a, d, wire.Usage{})
		s.Pass(time.Minute)
		s.Expect(!d.Meta().GC, "the new database collects, and nobody has told it to")
		d.GC()
		d.Account("anna", 1e9, a)
		complete(s, d)
		holds(s, a, d, c)
		until(s, a, d, h)
		s.Kept(d, c)
		s.Hold(a, d, more, 20*day)
		s.Kept(d, more)
		to(d, time.Unix(h.Expires, 0).Add(2*depot.Grace))
		s.Pass(61 * time.Minute)
		s.Kept(d, c)
		s.Gone(d, more) // which nobody found
	}),
	ofDepot("restored-from-an-old-backup", "A depot's database is restored from a backup that is days old: what was promised or prolonged in those days still stands, and none of it is removed.", func(s *depots.Story) {
		d, a, c := pair(s)
		b := s.Add(simnet.NodeConfig{Name: "bert"})
		d.Account("bert", 1e9, b)
		var more []*simnet.Content
		for i := range 3 {
			more = append(more, s.File(fmt.Sprint("film", i), 200_000))
			a.Seed(more[i])
		}
		s.Hold(a, d, c, 2*day)
		s.Hold(a, d, more[0], 2*day)
		s.Hold(a, d, more[2], 2*day)
		s.Kept(d, c, more[0], more[2])
		backup := d.Backup()
		renewed := s.Granted(a, d, wire.Renew{Share: c.ID(), Request: s.Request(), Until: d.Reading().Wall.Add(25 * day).Unix()})
		others := s.Hold(b, d, more[0], 25*day)
		s.Hold(a, d, more[1], 25*day)
		s.Release(a, d, more[2])
		s.Kept(d, more[1])
		s.Gone(d, more[2])
		d.Kill()
		d.Restore(backup)
		d.Sleep(10 * day)
		d.Excuse()
		d.Trouble = failing("readdir", "shares") // so that somebody asks for a share before the crawler comes to it
		d.Start()
		s.Pass(10 * time.Second)
		s.Hold(b, d, c, day)
		d.Trouble = nil
		s.Pass(3 * time.Hour)
		complete(s, d)
		s.Kept(d, c, more[0], more[1])
		until(s, a, d, renewed)
		until(s, b, d, others)
		holds(s, a, d, c, more[1])
		s.Gone(d, more[2])
	}),
	ofDepot("going-in-an-old-backup", "A share that a depot was removing when its database was backed up has been held again since: with that backup restored, the depot removes nothing of it.", func(s *depots.Story) {
		d, a, c := pair(s)
		s.Hold(a, d, c, 5*day)
		s.Kept(d, c)
		d.Excuse()
		d.Trouble = failing("move", "shares/")
		s.Release(a, d, c)
		s.Is(d, c, depot.Going)
		backup := d.Backup()
		d.Trouble = nil
		s.Gone(d, c)
		h := s.Hold(a, d, c, 20*day)
		s.Kept(d, c)
		d.Kill()
		d.Restore(backup)
		d.Start()
		complete(s, d)
		s.Pass(2 * time.Hour)
		s.Kept(d, c)
		until(s, a, d, h)
	}),
	ofDepot("damaged-and-given-up", "What rotted cannot be had again, as nobody else has it: it is kept as it is while it is held, and then collected like any other share.", func(s *depots.Story) {
		d, a, c := pair(s)
		h := s.Hold(a, d, c, 10*day)
		s.Kept(d, c)
		a.Withdraw(c)
		d.Rot(c, s.Rand("rot"))
		s.Do(d, actors.ScrubNow{})
		s.Until("the share is known to be damaged", 3*time.Hour, func() bool { return d.State(c) == depot.Corrupt })
		s.Sleep(5*day, d)
		s.Expect(d.State(c) == depot.Corrupt && len(d.Left(c)) > 0, "the state of the share is %v; left on the disk: %v", d.State(c), d.Left(c))
		holds(s, a, d, c)
		to(d, time.Unix(h.Expires, 0).Add(depot.Grace))
		s.Pass(61 * time.Minute)
		s.Gone(d, c)
	}),
	ofDepot("disk-not-mounted", "The depot's disk is away for days: nothing is removed, called damaged or promised meanwhile, and then all is as it was.", func(s *depots.Story) {
		d, a, c := pair(s)
		old := s.File("film", 200_000)
		a.Seed(old)
		h := s.Hold(a, d, c, 20*day)
		ends := s.Hold(a, d, old, 2*day)
		s.Kept(d, c, old)
		d.Excuse()
		mount := d.Unmount()
		for range 5 {
			s.Do(d, actors.CrawlNow{})
			s.Do(d, actors.ScrubNow{})
			s.Sleep(day, d)
			s.Refused(a, d, depot.Away, s.HoldOf(d, s.File("new", 100_000), day))
		}
		if s.Rand("restart").IntN(2) == 0 {
			d.Kill()
			d.Start()
			s.Pass(10 * time.Minute)
			s.Refused(a, d, depot.Away, s.HoldOf(d, s.File("new", 100_000), day))
			d.Excuse()
		}
		mount()
		s.Pass(2 * time.Minute)
		s.Expect(d.Here(c) == nil && d.State(c) == depot.Stable, "the state of the share is %v; what is wrong with its files: %v", d.State(c), orNothing(d.Here(c)))
		until(s, a, d, h)
		s.Expect(ends.Expires < d.Reading().Wall.Unix(), "the short lease has not ended yet")
		s.Pass(61 * time.Minute)
		s.Gone(d, old)
		s.Kept(d, c)
	}),
	ofDepot("hand-copied-share", "Somebody copies a share into the depot's folder: it is found, read, served, and kept for two months.", func(s *depots.Story) {
		d, _, _ := pair(s)
		c, half := s.Folder("album", 3, 200_000), s.Folder("half", 4, 200_000)
		b := s.Add(simnet.NodeConfig{Name: "reader"})
		s.Pass(time.Minute)
		d.Copy(c)
		d.Copy(half)
		d.Drop(half, half.Files()[1])
		d.Sleep(4 * day)
		s.Pass(time.Hour)
		s.Kept(d, c)
		f := b.Fetch(c, d.Node)
		s.Until("the share has been fetched from the depot", time.Minute, func() bool { return over(f) })
		s.Expect(d.State(half) == depot.Coming, "the share of which a part was copied is %v", d.State(half))
		d.Sleep(depot.Starter - 2*day)
		s.Pass(61 * time.Minute)
		s.Kept(d, c)
		d.Sleep(4 * day)
		s.Gone(d, c)
		s.Gone(d, half)
	}),
	ofDepot("crawler-meets-a-poisoned-share", "What is stored beside some shares is garbage: the crawler says so, goes on to the others, and removes nothing that it cannot read.", func(s *depots.Story) {
		d, a, c := pair(s)
		d.Excuse()
		var all []*simnet.Content
		for i := range 6 {
			all = append(all, s.File(fmt.Sprint("film", i), 100_000))
			a.Seed(all[i])
			s.Hold(a, d, all[i], 4*day)
		}
		s.Hold(a, d, c, 30*day)
		s.Kept(d, append(all, c)...)
		d.Spoil(all[1], "leases")
		d.Spoil(all[4], "leases")
		d.Sleep(4 * day)
		s.Pass(time.Hour)
		st, err := s.Do(d, actors.DepotQuery{})
		s.Expect(err == nil && st.Crawl.Done && st.Crawl.Report.Examined == 7 && st.Crawl.Report.Failed == 2, "the crawler should have looked at 7 shares, 2 of them in vain; it says %+v, error: %v", st.Crawl, orNothing(err))
		s.Sleep(2*day, d)
		for i, x := range all {
			if i == 1 || i == 4 {
				s.Expect(d.Here(x) == nil, "a share is gone whose leases cannot be read")
			} else {
				s.Gone(d, x)
			}
		}
		s.Kept(d, c)
	}),
	ofDepot("two-depots-in-one-folder", "Two programs are given one folder: the second does nothing until the first is gone, and then takes over with all leases.", func(s *depots.Story) {
		d, a, c := pair(s)
		h := s.Hold(a, d, c, 20*day)
		s.Kept(d, c)
		other := depots.New(s.Net, depots.Config{Name: "other", Folder: d})
		other.Account("anna", 1e9, a)
		s.Pass(3 * time.Hour)
		s.Refused(a, other, depot.Away, s.HoldOf(other, c, day))
		st, err := s.Do(other, actors.CrawlNow{})
		s.Expect(err == nil && strings.Contains(st.Trouble, "another process"), "the second depot should say that another process has the folder; it says %+v, error: %v", st, orNothing(err))
		s.Kept(d, c)
		holds(s, a, d, c)
		d.Stop()
		s.Pass(2 * time.Minute)
		complete(s, other)
		until(s, a, other, h)
		s.Expect(d.Here(c) == nil && other.State(c) == depot.Stable, "the state of the share is %v; what is wrong with its files: %v", other.State(c), orNothing(d.Here(c)))
	}),
	ofDepot("killed-in-every-edge", "The depot is killed, or its power goes, at any step of a share's whole life: each promise holds, and in the end nothing is left.", func(s *depots.Story) {
		d, a, c := pair(s)
		rng, late := s.Rand("crash"), time.Duration(0)
		d.Stepped = func(from, to time.Time) { late += to.Sub(from) }
		crash := func(within int) { d.CrashIn(1+rng.IntN(within), rng.IntN(2) == 0) }
		crash(40)
		again(s, d, a, s.HoldOf(d, c, 20*day)) // NONE to COMING
		crash(60)
		s.Pass(time.Minute)
		s.Kept(d, c) // to STABLE
		d.Rot(c, rng)
		s.Do(d, actors.ScrubNow{})
		s.Pass(50 * time.Minute)
		crash(20) // STABLE to CORRUPT, and back
		s.Pass(time.Hour)
		s.Do(d, actors.ScrubNow{})
		s.Until("the share is whole again", 4*time.Hour, func() bool { return d.State(c) == depot.Stable && d.Here(c) == nil })
		s.Pass(time.Minute)
		crash(20)
		again(s, d, a, wire.Renew{Share: c.ID(), Request: s.Request(), Until: d.Reading().Wall.Add(25 * day).Unix()})
		d.Sleep(24 * day)
		s.Pass(61 * time.Minute)
		s.Kept(d, c)
		holds(s, a, d, c)
		d.Sleep(3 * day)
		crash(30) // to GOING, and NONE
		s.Pass(61 * time.Minute)
		for late > 0 { // the power went before what it slept was noted: what was left of the lease then is left again
			d.Sleep(late)
			late = 0
			s.Pass(61 * time.Minute)
		}
		s.Gone(d, c)
		holds(s, a, d)
	}),
}
