package simnet_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/simnet"
	"github.com/piecelease/fetcher/simnet/scenarios"
)

// The bounds of a recording, as docs/simnet.md states them: samples of each node, and marks,
// including those of faults.
const (
	samples = 512
	marks   = 4000 + 50
)

const mib = 1 << 20

// patient is a transfer that does not give up for a long time.
var patient = actors.TransferConfig{Verifiers: 2, Stall: time.Hour}

// record runs a scenario and keeps what can be drawn.
func record(t *testing.T, s *simnet.Scenario, seed uint64) *simnet.Result {
	t.Helper()
	r, err := s.RunWith(context.Background(), simnet.RunOptions{Seed: seed, Record: true})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestARecordingChangesNothing(t *testing.T) {
	rig.Slow(t)
	for _, name := range []string{"liars-mute-honest", "stopped-and-resumed"} {
		plain, seen := scenarios.Find(name).Run(3, 0), record(t, scenarios.Find(name), 3)
		if plain.Trace != seen.Trace || plain.Virtual != seen.Virtual || plain.Timeline.String() != seen.Timeline.String() {
			t.Errorf("%s: trace %x in %v, and %x in %v when it is recorded", name, plain.Trace, plain.Virtual, seen.Trace, seen.Virtual)
		}
		if plain.Recording != nil || seen.Recording == nil {
			t.Errorf("%s: recorded: %v and %v", name, plain.Recording != nil, seen.Recording != nil)
		}
	}
}

func TestARecordingSaysWhatHappened(t *testing.T) {
	r := record(t, scenarios.Find("restarts"), 1)
	rec := r.Recording
	if rec.Samples < samples/2 || rec.Samples > samples || rec.Step*time.Duration(rec.Samples-2) > r.Virtual || rec.Step*time.Duration(rec.Samples) < r.Virtual {
		t.Errorf("%d samples, one in %v, of %v", rec.Samples, rec.Step, r.Virtual)
	}
	if len(rec.Nodes) != r.Nodes || len(rec.Contents) != 1 {
		t.Fatalf("%d nodes of %d, %d contents", len(rec.Nodes), r.Nodes, len(rec.Contents))
	}
	var sent int64
	for i, n := range rec.Nodes {
		if len(n.Samples) != rec.Samples {
			t.Fatalf("%s has %d samples of %d", n.Name, len(n.Samples), rec.Samples)
		}
		last := n.Samples[rec.Samples-1]
		sent += last.Sent
		if n.Fetches && (n.Ended == 0 || n.Ended > r.Virtual || last.Verified < n.Wanted*9/10) {
			t.Errorf("%s ended at %v with %d bytes of %d", n.Name, n.Ended, last.Verified, n.Wanted)
		}
		if (i == 0) != n.Seeds || (i == 0) == n.Fetches {
			t.Errorf("%s seeds %v, fetches %v", n.Name, n.Seeds, n.Fetches)
		}
		down := slices.ContainsFunc(n.Samples, func(s simnet.Sample) bool { return s.Doing == simnet.Off })
		if !down {
			t.Errorf("%s was killed, and no sample shows it", n.Name)
		}
	}
	if sent == 0 || sent > r.Sent {
		t.Errorf("%d bytes sent of %d", sent, r.Sent)
	}
	content := rec.Contents[0]
	if content.Name != "photos" || content.Pieces != 96 || len(content.Holders) != 96 {
		t.Errorf("%s has %d pieces in %d rows", content.Name, content.Pieces, len(content.Holders))
	}
	for row, levels := range content.Holders {
		if first, last := levels[2], levels[rec.Samples-1]; len(levels) != rec.Samples || first != 1 || last < 4 {
			t.Errorf("row %d: %d samples, %d holders at first, %d at last", row, len(levels), first, last)
		}
	}
	verified := map[int]int{}
	for _, l := range rec.Leases {
		if l.From > l.To || l.To > r.Virtual || l.Node == l.Source {
			t.Errorf("lease %+v", l)
		}
		if l.End == simnet.LeaseVerified {
			verified[l.Node]++
		}
	}
	for i := 1; i < len(rec.Nodes); i++ {
		if verified[i] < 96 {
			t.Errorf("%s: %d leases ended with their piece, of 96 pieces", rec.Nodes[i].Name, verified[i])
		}
	}
}

// Every way of doing nothing, and every kind of mark, is recognised.
func TestDoingsAndMarks(t *testing.T) {
	rig.Slow(t)
	doings, marks, ends := map[simnet.Doing]string{}, map[simnet.MarkKind]string{}, map[simnet.LeaseEnd]string{}
	stories := []*simnet.Scenario{scenarios.Find("disk-full"), scenarios.Find("restarts"), scenarios.Find("only-liars"), scenarios.Find("one-silent"), scenarios.Find("last-holder-stalls"), {
		Name: "mute", Set: func(r *simnet.Run) {
			c := r.File("film", 4*mib)
			r.Patience(-1)
			r.Timeline().Note("a word")
			mute := r.Add(simnet.NodeConfig{Name: "mute", Acts: simnet.Mute(mib)}).Seed(c)
			x := r.Add(simnet.NodeConfig{Name: "node"})
			x.FetchWith(c, simnet.FetchOptions{Want: share.ErrStalled}, mute)
			heal := r.Partition([]*simnet.Node{mute}, []*simnet.Node{x})
			r.After(20*time.Second, heal)
			r.After(30*time.Second, x.Freeze)
			r.After(32*time.Second, x.Thaw)
			r.After(33*time.Second, func() { mute.SetLine(simnet.Line{Up: simnet.Mbit, Down: simnet.Mbit}) })
		},
	}, {
		Name: "half", Set: func(r *simnet.Run) {
			c := r.File("film", 4*mib)
			half := r.Add(simnet.NodeConfig{Name: "half"}).Part(c, func(p share.Piece) bool { return p < 2 })
			half.FetchWith(c, simnet.FetchOptions{Manifest: true, Want: share.ErrStalled})
			r.Add(simnet.NodeConfig{Name: "node"}).FetchWith(c, simnet.FetchOptions{Want: share.ErrStalled}, half)
		},
	}}
	for _, s := range stories {
		r := record(t, s, 1)
		for _, n := range r.Recording.Nodes {
			for _, x := range n.Samples {
				doings[x.Doing] = s.Name
				if why := r.Recording.Reasons[x.Reason]; (x.Doing >= simnet.Full && x.Doing <= simnet.Idle) != (why != "") && x.Doing != simnet.Looking && x.Doing != simnet.Writing {
					t.Errorf("%s, %s: %v, and says %q", s.Name, n.Name, x.Doing, why)
				}
			}
		}
		for _, m := range r.Recording.Marks {
			marks[m.Kind] = s.Name
		}
		for _, l := range r.Recording.Leases {
			ends[l.End] = s.Name
		}
	}
	for _, d := range simnet.AllDoings {
		if doings[d] == "" && d != simnet.Writing { // it takes next to no time on this disk
			t.Errorf("nobody was %q", d)
		}
	}
	for k := simnet.MarkFault + 1; k <= simnet.MarkNote; k++ {
		if marks[k] == "" {
			t.Errorf("no mark of kind %v", k)
		}
	}
	for e := simnet.LeaseVerified; e <= simnet.LeaseLost; e++ {
		if ends[e] == "" {
			t.Errorf("no lease ended as %q", e)
		}
	}
	if len(simnet.AllDoings) != int(simnet.Failed)+1 {
		t.Errorf("%d doings are listed of %d", len(simnet.AllDoings), simnet.Failed+1)
	}
}

// What happens is said in plain words, and what a life of a node told is not said of the next.
func TestATimelineReadsWell(t *testing.T) {
	r := record(t, &simnet.Scenario{Name: "words", Set: func(r *simnet.Run) {
		c, note := r.File("film", 16*mib), r.File("note", 1000)
		line := simnet.Line{Up: 20 * simnet.Mbit, Down: 20 * simnet.Mbit, Latency: 50 * time.Millisecond}
		good := r.Add(simnet.NodeConfig{Name: "good", Line: line}).Seed(c).Seed(note)
		liar := r.Add(simnet.NodeConfig{Name: "liar", Acts: simnet.Liar(1)}).Seed(c)
		x := r.Add(simnet.NodeConfig{Name: "node"})
		x.FetchWith(c, simnet.FetchOptions{Config: patient}, good, liar)
		r.Add(simnet.NodeConfig{Name: "other"}).Fetch(note, good)
		r.After(2*time.Second, x.Stop)
		r.After(3*time.Second, x.Start)
		r.After(time.Second, func() { good.SetClock(-time.Hour) })
		r.After(2*time.Second, func() { good.SetClock(0) })
	}}, 1)
	said := r.Timeline.String()
	for _, want := range []string{"source liar: banned for 24 h: ", "source good: joining: asking ", "plan: 1 piece to fetch, 0 bytes resumed", "sets its clock 60 min behind", "sets its clock to virtual time again"} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in\n%s", want, said)
		}
	}
	rec := r.Recording
	began := rec.Nodes[2].Samples[3*time.Second/rec.Step+1]
	if why := rec.Reasons[began.Reason]; began.Doing != simnet.Looking || why != "" {
		t.Errorf("when it was started again: %v, and says %q", began.Doing, why)
	}
}

func TestARecordingIsBounded(t *testing.T) {
	r := record(t, &simnet.Scenario{Name: "long", Limit: time.Hour, Set: func(r *simnet.Run) {
		c := r.File("book", 4*mib)
		source := r.Add(simnet.NodeConfig{Name: "source"}).Seed(c)
		r.After(200*time.Millisecond, source.PowerOff)
		r.Add(simnet.NodeConfig{Name: "node"}).FetchWith(c, simnet.FetchOptions{Config: patient}, source)
		r.After(50*time.Minute, source.Start)
		r.Every(100*time.Millisecond, func() bool {
			r.Timeline().Note("tick")
			return r.Elapsed() < 49*time.Minute
		})
	}}, 1)
	rec := r.Recording
	if r.Virtual < 50*time.Minute || rec.Samples > samples || rec.Samples < samples/2 || len(rec.Marks) > marks || rec.MarksLeftOut == 0 {
		t.Errorf("%v: %d samples, %d marks and %d left out", r.Virtual, rec.Samples, len(rec.Marks), rec.MarksLeftOut)
	}
}

// Missing pieces are explained, whatever happened to the fetch.
func TestMissingPiecesAreExplained(t *testing.T) {
	some := func(p share.Piece) bool { return p != 2 && p != 5 && p != 6 }
	for _, test := range []struct {
		name  string
		befal func(x *simnet.Node)
		want  string
	}{
		{"goes on", func(*simnet.Node) {}, "piece 2: wanted; 1 source is connected and does not have it"},
		{"killed", (*simnet.Node).Kill, "pieces 5-6: the node is not running"},
		{"frozen", (*simnet.Node).Freeze, "piece 2: the node is frozen"},
	} {
		s := &simnet.Scenario{Name: test.name, Limit: 20 * time.Second, Set: func(r *simnet.Run) {
			c := r.File("film", 8*mib)
			a := r.Add(simnet.NodeConfig{Name: "a"}).Part(c, some)
			a.FetchWith(c, simnet.FetchOptions{Manifest: true, Config: patient})
			x := r.Add(simnet.NodeConfig{Name: "node"})
			x.FetchWith(c, simnet.FetchOptions{Config: patient}, a)
			r.After(10*time.Second, func() { test.befal(x) })
		}}
		r := s.Run(1, 0)
		if r.OK() || len(r.Missing) != 2 || r.Missing[1].Node != "node" || len(r.Missing[1].Why) != 2 || !strings.Contains(r.Report(), test.want) {
			t.Errorf("%s: want %q in\n%v\n%s", test.name, test.want, r.Missing, r.Report())
		}
	}
	s := &simnet.Scenario{Name: "fails", Set: func(r *simnet.Run) {
		c := r.File("film", 2*mib)
		source := r.Add(simnet.NodeConfig{Name: "source"}).Seed(c)
		source.PowerOff()
		r.Add(simnet.NodeConfig{Name: "node"}).Fetch(c, source)
	}}
	if r := s.Run(1, 0); len(r.Missing) != 1 || len(r.Missing[0].Why) != 1 || !strings.HasPrefix(r.Missing[0].Why[0], "pieces 0-1: the fetch ended after ") {
		t.Errorf("%v", r.Missing)
	}
}

// What makes no sense in a scenario is said in words of the package.
func TestMistakesInScenariosAreSaid(t *testing.T) {
	if _, err := (&simnet.Scenario{Name: "empty"}).RunWith(t.Context(), simnet.RunOptions{}); err == nil || err.Error() != `the scenario "empty" has no Set` {
		t.Errorf("no Set: %v", err)
	}
	for want, f := range map[string]func(){
		`simnet: the scenario "empty" has no Set`:     func() { (&simnet.Scenario{Name: "empty"}).Run(1, 0) },
		`simnet: "f" cannot have 0 files of -1 bytes`: func() { simnet.New(1).File("f", -1) },
		`simnet: "f" cannot have -2 files of 5 bytes`: func() { simnet.New(1).Folder("f", -2, 5) },
	} {
		func() {
			defer func() {
				if got := recover(); got != want {
					t.Errorf("it says %q, want %q", got, want)
				}
			}()
			f()
		}()
	}
}

func TestARunEndsWithItsContext(t *testing.T) {
	rig.Slow(t)
	ctx, cancel := context.WithCancel(context.Background())
	var r *simnet.Run
	s := &simnet.Scenario{Name: "long", Set: func(x *simnet.Run) {
		r = x
		c := r.File("film", 24*mib)
		source := r.Add(simnet.NodeConfig{Name: "source"}).Seed(c)
		r.Add(simnet.NodeConfig{Name: "node"}).Fetch(c, source)
		r.After(time.Second, cancel)
	}}
	res, err := s.RunWith(ctx, simnet.RunOptions{Seed: 1})
	if res != nil || !errors.Is(err, context.Canceled) || r.Elapsed() > 1500*time.Millisecond {
		t.Errorf("%v, %v after %v", res, err, r.Elapsed())
	}
}

func TestARunTellsHowFarItIs(t *testing.T) {
	var told []time.Duration
	r, err := scenarios.Find("garbled").RunWith(t.Context(), simnet.RunOptions{Seed: 1, Tell: func(now time.Duration) { told = append(told, now) }})
	if err != nil || len(told) != 2 || told[0] != time.Second || told[1] != r.Virtual {
		t.Errorf("%v; told %v of %v", err, told, r.Virtual)
	}
}

func TestCopiesAreWhatTheSourcesSent(t *testing.T) {
	s := &simnet.Scenario{Name: "two", Set: func(r *simnet.Run) {
		c := r.File("film", 4*mib)
		source := r.Add(simnet.NodeConfig{Name: "source"}).Seed(c)
		for i := range 2 {
			r.Add(simnet.NodeConfig{Name: fmt.Sprint("node", i), Line: simnet.Line{Down: simnet.Mbit * 50, Latency: 10 * time.Millisecond}, NAT: true}).Fetch(c, source)
		}
	}}
	if r := s.Run(1, 0); r.Copies < 1 || r.Copies > 2.1 || r.Sent < int64(r.Copies*4*mib) {
		t.Errorf("%.2f copies, %d bytes", r.Copies, r.Sent)
	}
}
