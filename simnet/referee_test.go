package simnet

import (
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/share"
)

// ruled returns the faults of a run that a rule found.
func ruled(r *Result, rule string) (out []Fault) {
	for _, f := range r.Faults {
		if f.Rule == rule {
			out = append(out, f)
		}
	}
	return out
}

// A fetch waits for a piece that no node has. A node that then brings it has just arrived:
// that the fetch does not have the piece a second later is not a needless wait.
func TestAWaitIsNeedlessOnlySinceSomebodyCouldHelp(t *testing.T) {
	s := &Scenario{Name: "late", Set: func(r *Run) {
		c := r.File("film", 8<<20)
		a := r.Add(NodeConfig{Name: "a"}).Part(c, func(p share.Piece) bool { return p != 3 })
		patient := actors.TransferConfig{Stall: time.Hour}
		a.FetchWith(c, FetchOptions{Config: patient, Manifest: true})
		r.Add(NodeConfig{Name: "node"}).FetchWith(c, FetchOptions{Config: patient}, a)
		late := r.Add(NodeConfig{Name: "late", Line: Line{Latency: 900 * time.Millisecond}})
		r.After(50*time.Second, func() {
			late.Part(c, func(p share.Piece) bool { return p == 3 })
			late.Fetch(c, a)
		})
	}}
	r := s.Run(1, 0)
	if !r.OK() {
		t.Error(r.Report())
	}
	if r.Virtual < 50*time.Second {
		t.Errorf("all was there after %v: nobody was seen to wait", r.Virtual)
	}
}

// A wait of a node that may itself be the cause is judged by nobody.
func TestAWaitOfADishonestNodeIsItsOwn(t *testing.T) {
	for _, honest := range []bool{true, false} {
		s := &Scenario{Name: "own", Limit: 2 * time.Minute, Set: func(r *Run) {
			c := r.File("film", 8<<20)
			source := r.Add(NodeConfig{Name: "source"}).Seed(c)
			x := r.Add(NodeConfig{Name: "node", Acts: Behaviour{Name: "garbles", Dishonest: !honest}})
			x.FetchWith(c, FetchOptions{MayFail: true}, source)
			r.After(500*time.Millisecond, func() { source.SetUploadRate(1) })
		}}
		if r := s.Run(1, 0); r.OK() == honest {
			t.Errorf("honest: %v: %v", honest, r.Faults)
		}
	}
}

// A source that could send what is missing, and does not, is detected.
func TestAWaitIsNeedlessWhenSomebodyCouldHelp(t *testing.T) {
	s := &Scenario{Name: "stingy", Limit: 2 * time.Minute, Set: func(r *Run) {
		c := r.File("film", 8<<20)
		source := r.Add(NodeConfig{Name: "source"}).Seed(c)
		r.Add(NodeConfig{Name: "node"}).Fetch(c, source)
		r.After(500*time.Millisecond, func() { source.SetUploadRate(1) })
	}}
	got := ruled(s.Run(1, 0), "needless wait")
	if len(got) != 1 || got[0].Node != "node" || !strings.Contains(got[0].Text, "source has piece ") || got[0].At < helpWithin || got[0].At > helpWithin+10*time.Second {
		t.Errorf("%v", got)
	}
}

// A marked node may be blamed, and a wait for it is not needless; this holds for no other.
func TestWhoIsMarkedAsDishonestMayBeBlamed(t *testing.T) {
	for _, marked := range []bool{true, false} {
		s := &Scenario{Name: "marked", Limit: 2 * time.Minute, Set: func(r *Run) {
			c := r.File("film", 8<<20)
			source := r.Add(NodeConfig{Name: "source", Acts: Behaviour{Name: "gives nothing", Dishonest: marked}}).Seed(c)
			r.Add(NodeConfig{Name: "node"}).FetchWith(c, FetchOptions{MayFail: true}, source)
			r.After(500*time.Millisecond, func() { source.SetUploadRate(1) })
		}}
		if r := s.Run(1, 0); r.OK() != marked {
			t.Errorf("marked: %v: %v", marked, r.Faults)
		}
	}
}

// What is done to a node excuses the errors that it logs, and no panic.
func TestPanicsAreFaultsOfNodesThatMayComplain(t *testing.T) {
	for msg, fault := range map[string]bool{"the disk is gone": false, system.Panicked: true} {
		s := &Scenario{Name: "complains", Set: func(r *Run) {
			x := r.Add(NodeConfig{Name: "node"})
			x.MayComplain(true)
			r.After(time.Second, func() { r.World.Log.With("node", string(x.ID())).Error(msg) })
		}}
		if got := ruled(s.Run(1, 0), "error"); len(got) != 0 != fault {
			t.Errorf("%s: %v", msg, got)
		}
	}
}

// A fetch that may fail, on a node that was killed and comes back when the story is over, is no fault.
func TestWhatMayFailAndComesBackIsNoFault(t *testing.T) {
	s := &Scenario{Name: "back", Set: func(r *Run) {
		c := r.File("film", 8<<20)
		source := r.Add(NodeConfig{Name: "source", Line: Line{Up: 8 * Mbit, Down: 8 * Mbit}}).Seed(c)
		x := r.Add(NodeConfig{Name: "node"})
		x.FetchWith(c, FetchOptions{MayFail: true}, source)
		r.After(2*time.Second, x.Kill)
		r.After(3*time.Second, x.Start)
	}}
	if r := s.Run(1, 0); !r.OK() {
		t.Errorf("%v", r.Faults)
	}
}

// What a node blamed an honest source for in an earlier life is a fault, too.
func TestBlameOfAnEarlierLifeIsAFault(t *testing.T) {
	s := &Scenario{Name: "blames", Set: func(r *Run) {
		c := r.File("film", 8<<20)
		source := r.Add(NodeConfig{Name: "source", Line: Line{Up: 20 * Mbit, Down: 20 * Mbit}}).Seed(c)
		x := r.Add(NodeConfig{Name: "node"})
		f := x.Fetch(c, source)
		r.After(time.Second, func() {
			p := f.last
			p.Sources = []actors.Source{{Peer: source.id, BadBlocks: 1, Lie: "a bad block"}}
			f.Notify(p)
			x.Kill()
			x.Start()
		})
	}}
	if r := s.Run(1, 0); len(ruled(r, "blame")) != 1 {
		t.Errorf("the node said that an honest source lied, and the referee said: %v", r.Faults)
	}
}

// A run that its limit cuts short of the time that it was to last is a fault: what was to happen then has not happened.
func TestARunThatIsCutShortOfItsStoryIsAFault(t *testing.T) {
	s := &Scenario{Name: "long", Set: func(r *Run) {
		r.Add(NodeConfig{Name: "node"})
		r.AtLeast(20 * time.Minute)
	}}
	if r := s.Run(1, 0); len(ruled(r, "limit")) != 1 {
		t.Errorf("it ended after %v of 20 m, and the referee said: %v", r.Virtual, r.Faults)
	}
}
