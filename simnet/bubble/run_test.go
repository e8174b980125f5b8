package bubble

import (
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/simnet"
)

// played is a scenario whose story is a function.
func played(t *testing.T, set func(r *simnet.Run)) *simnet.Result {
	t.Helper()
	return play(t, &simnet.Scenario{Name: "made-up", Set: set}, 1, 0)
}

func TestWhatDoesNotHoldIsToldWithItsReasons(t *testing.T) {
	r := played(t, func(r *simnet.Run) {
		c := r.File("film", 4<<20)
		a, b := r.Add(simnet.NodeConfig{Name: "a"}), r.Add(simnet.NodeConfig{Name: "b"})
		a.Part(c, func(p share.Piece) bool { return p != 2 }).FetchWith(c, simnet.FetchOptions{MayFail: true}, b)
		b.Fetch(c, a)
		r.Finally(func() { r.Expect(false, "the moon is a cheese") })
	})
	report := r.Report()
	for _, want := range []string{
		"scenario made-up, seed 1, 2 nodes: 2 faults in ", "not as expected: the moon is a cheese", "b: end: ended: ", "pieces of film that b does not have:\n  piece 2: ", "timeline:\n", "b         stalled for",
	} {
		if !strings.Contains(report, want) {
			t.Errorf("no %q in\n%s", want, report)
		}
	}
}

func TestHowToDoItAgainWithModelledLinks(t *testing.T) {
	if s := twin(&simnet.Scenario{Name: "x"}, 7, 0); !strings.HasSuffix(s, "fetcher sim run x --seed 7") {
		t.Error(s)
	}
	if s := twin(&simnet.Scenario{Name: "x", Nodes: 5}, 7, 3); !strings.HasSuffix(s, "fetcher sim run x --seed 7 --nodes 3") {
		t.Error(s)
	}
}

func TestTheStoryAndTheNodesHaveOneClock(t *testing.T) {
	var at, after []time.Duration
	var stopped bool
	played(t, func(r *simnet.Run) {
		began := time.Now()
		note := func() { at, after = append(at, time.Since(began)), append(after, r.Elapsed()) }
		r.After(3*time.Second, note)
		r.After(time.Millisecond, func() { note(); r.After(time.Second, note) })
		r.After(2*time.Second, func() { stopped = true })()
		r.AtLeast(4 * time.Second)
	})
	want := []time.Duration{time.Millisecond, time.Second + time.Millisecond, 3 * time.Second}
	for i := range want {
		if len(at) != len(want) || at[i] != want[i] || after[i] != want[i] {
			t.Fatalf("at %v by the bubble, at %v by the story, not %v", at, after, want)
		}
	}
	if stopped {
		t.Error("what was taken back happened")
	}
}
