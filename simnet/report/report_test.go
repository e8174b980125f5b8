package report_test

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/simnet"
	"github.com/piecelease/fetcher/simnet/report"
	"github.com/piecelease/fetcher/simnet/scenarios"
)

// recorded runs a scenario and returns its page. With PAGES set to a folder, the
// page is kept there for a look.
func recorded(t *testing.T, s *simnet.Scenario, nodes int) (*simnet.Result, string) {
	t.Helper()
	r, err := s.RunWith(context.Background(), simnet.RunOptions{Seed: 1, Nodes: nodes, Record: true})
	if err != nil {
		t.Fatal(err)
	}
	var page bytes.Buffer
	if err := report.Write(&page, r, "fetcher sim run "+s.Name); err != nil {
		t.Fatal(err)
	}
	if dir := os.Getenv("PAGES"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, s.Name+".html"), page.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return r, page.String()
}

// check looks for what must be in a page, and for what must not.
func check(t *testing.T, page string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(page, w) {
			t.Errorf("no %q in the page", w)
		}
	}
	for _, bad := range []string{"http:", "https:", "src=", "href=", "<script", "@import", "url(", "ZgotmplZ", "NaN", "Inf", "%!"} {
		if strings.Contains(page, bad) {
			t.Errorf("%q is in the page", bad)
		}
	}
	for rest := page; ; {
		from := strings.Index(rest, "<svg")
		if from < 0 {
			return
		}
		to := strings.Index(rest, "</svg>") + len("</svg>")
		d := xml.NewDecoder(strings.NewReader(rest[from:to]))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("a picture is not well formed: %v", err)
			}
		}
		rest = rest[to:]
	}
}

func TestAPageTellsTheStory(t *testing.T) {
	r, page := recorded(t, scenarios.Find("restarts"), 0)
	check(t, page, `<title>restarts, seed 1: passed</title>`, "Every peer of a swarm is killed", "Again: <code>fetcher sim run restarts</code>",
		"What happened", "Verified on each node", "What each node did", "Sent per second", "Who has the pieces of photos", "Leases of node", "Wasted bytes", "Each node",
		"source is killed</title>", "bytes flow</title>", "not running</title>", "nobody has it, ", "held by source from ", "prefers-color-scheme: dark",
		"The slowest node is node", "; the median is ", "The longest time in which nothing new was verified on node", "some of the 96 pieces of photos, at most ", fmt.Sprintf("%.2f</b><span>copies sent", r.Copies))
	if n := strings.Count(page, "<svg"); n != 11 {
		t.Errorf("%d pictures", n)
	}
	var again bytes.Buffer
	if err := report.Write(&again, r, "fetcher sim run restarts"); err != nil || again.String() != page {
		t.Errorf("the page of the same run is another: %v", err)
	}
}

// The page shows in which sets the children of the source were, over time.
func TestAPageShowsTheSetsOfChildren(t *testing.T) {
	s := &simnet.Scenario{Name: "sets", Set: func(r *simnet.Run) {
		c := r.File("film", 4<<20)
		source := r.Add(simnet.NodeConfig{Name: "source", Line: simnet.Line{Up: 1e6, Down: 1e6}, Deps: func(d *actors.Deps) {
			d.Tiers = peers.TierConfig{MaxActive: 1, MaxPassive: 1, MaxTracked: 3}
		}}).Seed(c)
		for i := range 4 {
			r.After(time.Duration(i)*time.Second, func() { r.Add(simnet.NodeConfig{Name: fmt.Sprint("node", i)}).Fetch(c, source) })
		}
		r.AtLeast(10 * time.Second)
		r.After(8*time.Second, source.Kill)
		r.After(9*time.Second, source.Start)
	}}
	r, page := recorded(t, s, 0)
	check(t, page, "Children of source", `class="set-active"`, `class="set-passive"`, `class="set-tracked"`, "<title>tracked</title>")
	samples := r.Recording.Nodes[0].Samples
	if got := samples[int(4*time.Second/r.Recording.Step)].Children; got != [...]int{1, 1, 2} {
		t.Errorf("after 4 s %v", got)
	}
	if got := samples[int(8500*time.Millisecond/r.Recording.Step)].Children; got != [...]int{0, 0, 0} {
		t.Errorf("while the source is down %v", got)
	}
	for _, x := range samples {
		if x.Children[0] > 1 || x.Children[1] > 1 || x.Children[2] > 2 {
			t.Fatalf("%v", x.Children)
		}
	}
}

func TestAPageOfAFailureSaysWhatIsMissing(t *testing.T) {
	s := &simnet.Scenario{Name: "fails", Says: "It does, with <hostile> names.", Limit: 30 * time.Second, Set: func(r *simnet.Run) {
		c := r.File("a & b", 8<<20)
		part := r.Add(simnet.NodeConfig{Name: "<part>"}).Part(c, func(p share.Piece) bool { return p != 2 && p < 5 })
		part.FetchWith(c, simnet.FetchOptions{Manifest: true, MayFail: true})
		liar := r.Add(simnet.NodeConfig{Name: "liar", Acts: simnet.Liar(1)}).Seed(c)
		x := r.Add(simnet.NodeConfig{Name: "node"})
		x.Fetch(c, part, liar)
		r.Add(simnet.NodeConfig{Name: "slow", Line: simnet.Line{Up: 1e5, Down: 1e5}}).Fetch(c, part)
		heal := r.Partition([]*simnet.Node{x}, []*simnet.Node{part})
		r.After(5*time.Second, heal)
	}}
	r, page := recorded(t, s, 0)
	if r.OK() || len(r.Missing) != 3 {
		t.Fatalf("%v", r.Missing)
	}
	check(t, page, "<title>fails, seed 1: failed</title>", "with &lt;hostile&gt; names", "Pieces of a &amp; b that node does not have", "has not ended: ",
		"pieces 5-7: wanted; ", "m-fault", "m-cut", "m-heal", "m-ban", "&lt;part&gt; did not get all it wanted: 4.19 MB of 8.39 MB.", "lies in blocks",
		"some of the 8 pieces of a &amp; b, at most ", "not done")
	for _, f := range r.Faults {
		if strings.HasSuffix(f.Text, ": ") {
			t.Errorf("no reason follows: %q", f.Text)
		}
	}
}

// A page stays small, and can be read, with very many nodes.
func TestAPageOfManyNodesIsBounded(t *testing.T) {
	rig.Slow(t)
	s := &simnet.Scenario{Name: "many", Nodes: 300, Set: func(r *simnet.Run) {
		c := r.Folder("photos", 300, 1000)
		source := r.Add(simnet.NodeConfig{Name: "source"}).Seed(c)
		for i := range r.Nodes {
			x := r.Add(simnet.NodeConfig{Name: fmt.Sprint("node", i)})
			if i%50 == 0 {
				x.Fetch(c, source)
			}
		}
	}}
	_, page := recorded(t, s, 250)
	check(t, page, "251 nodes", "Left out: 191 more nodes.", "Left out: 51 more nodes.", "Each of the 200 rows stands for several pieces")
	if len(page) > 3<<20 {
		t.Errorf("%d bytes", len(page))
	}
}

// A fetch that failed is not one in which all went well.
func TestAPageOfAFetchThatFailedSaysSo(t *testing.T) {
	_, page := recorded(t, scenarios.Find("unknown-share"), 0)
	check(t, page, "node failed after ", ", with 0 B of ")
	for _, bad := range []string{"all the time.", "All took"} {
		if strings.Contains(page, bad) {
			t.Errorf("%q is in the page", bad)
		}
	}
}

// Where most fetches failed, the median is not called the time of one that did not.
func TestTheMedianOfFetchesThatFailedHasFailed(t *testing.T) {
	s := &simnet.Scenario{Name: "most-fail", Set: func(r *simnet.Run) {
		c, other := r.File("film", 8<<20), r.File("other", 1<<20)
		source := r.Add(simnet.NodeConfig{Name: "source"}).Seed(c)
		r.Add(simnet.NodeConfig{Name: "good", Line: simnet.Line{Up: 1e6, Down: 1e6}}).Fetch(c, source)
		for i := range 3 {
			r.Add(simnet.NodeConfig{Name: fmt.Sprint("bad", i)}).FetchWith(other, simnet.FetchOptions{MayFail: true}, source)
		}
	}}
	_, page := recorded(t, s, 0)
	check(t, page, "The slowest node is good: ", "; the median node failed after ")
}

func TestNothingToDrawIsNoReasonToFail(t *testing.T) {
	s := &simnet.Scenario{Name: "empty", Says: "Nobody does anything.", Set: func(r *simnet.Run) { r.Add(simnet.NodeConfig{Name: "alone"}) }}
	_, page := recorded(t, s, 0)
	check(t, page, "empty, seed 1: passed", "seed 1, 1 node<", "Nothing: no byte came twice", "alone")
}

// What is shown of figures is these figures.
func TestAPageAddsUp(t *testing.T) {
	node := simnet.NodeRecord{Name: "node", Samples: []simnet.Sample{{}, {Twice: 1000, Wasted: 3000, Children: [...]int{1, 1, 0}}, {Twice: 2000, Wasted: 5000}}}
	r := &simnet.Result{Timeline: &simnet.Timeline{}, Recording: &simnet.Recording{Step: time.Second, Samples: 3, Nodes: []simnet.NodeRecord{node}, Reasons: []string{""},
		Contents: []simnet.ContentRecord{{Name: "film", Pieces: 1, Holders: [][]uint16{{1, 1, 1}}}}, ContentsLeftOut: 2}}
	var page bytes.Buffer
	if err := report.Write(&page, r, ""); err != nil {
		t.Fatal(err)
	}
	check(t, page.String(), "came after the request was cancelled: 5 kB at the end", "came twice: 2 kB at the end", `<p class="help">Left out: 2 more shares.</p>`)
	_, children, _ := strings.Cut(page.String(), "Children of node")
	children, _, _ = strings.Cut(children, "</svg>")
	if strings.Count(children, ">2</text>") != 1 || strings.Count(children, ">0</text>") != 0 {
		t.Errorf("nobody has half a child: %s", children)
	}
}

func TestARunThatWasNotRecordedHasNoPage(t *testing.T) {
	if err := report.Write(io.Discard, scenarios.Find("unknown-share").Run(1, 0), ""); err == nil {
		t.Error("no error")
	}
}
