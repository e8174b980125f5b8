package report

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/piecelease/fetcher/simnet"
)

//go:embed page.css
var pageCSS string

// Write writes the page of a run that was recorded. again is the command that
// repeats the run; empty: none is shown.
func Write(w io.Writer, r *simnet.Result, again string) error {
	if r.Recording == nil {
		return errors.New("report: the run was not recorded")
	}
	var p page
	p.write(newView(r), again)
	_, err := io.WriteString(w, p.String())
	return err
}

// view is the data that all parts of a page use.
type view struct {
	*simnet.Result
	rec   *simnet.Recording
	end   time.Duration // of the axis
	order []int         // nodes that fetch, the slowest first
}

func newView(r *simnet.Result) *view {
	v := &view{Result: r, rec: r.Recording}
	v.end = max(v.at(v.rec.Samples-1), time.Millisecond)
	for i, n := range v.rec.Nodes {
		if n.Fetches {
			v.order = append(v.order, i)
		}
	}
	slices.SortStableFunc(v.order, func(a, b int) int {
		return int(v.took(b) - v.took(a))
	})
	return v
}

// at is when a sample was taken.
func (v *view) at(i int) time.Duration { return time.Duration(max(i, 0)) * v.rec.Step }

// took is how long a node took for all that it fetches; longer than any run if it
// never finished.
func (v *view) took(node int) time.Duration {
	n := &v.rec.Nodes[node]
	if n.Ended == 0 {
		return 1000 * time.Hour
	}
	return n.Ended - n.Began
}

// tile is one figure.
type tile struct {
	Label, Value, Note string
	Bad                bool
}

func (v *view) tiles() []tile {
	out := []tile{{Label: "virtual time", Value: seconds(v.Virtual)}}
	if len(v.order) > 0 {
		slow, middle := v.order[0], v.order[len(v.order)/2]
		t := tile{Label: "slowest node", Value: v.tookText(slow), Note: v.rec.Nodes[slow].Name, Bad: v.rec.Nodes[slow].Ended == 0}
		out = append(out, t)
		if len(v.order) > 2 {
			out = append(out, tile{Label: "median node", Value: v.tookText(middle), Note: fmt.Sprintf("of %d that fetch", len(v.order))})
		}
	}
	out = append(out, tile{Label: "fetched", Value: bytesText(v.Fetched), Note: "and verified, by the fetches of the scenario"})
	out = append(out, tile{Label: "came twice", Value: fmt.Sprintf("%.2f %%", 100*float64(v.Twice)/float64(max(1, v.Fetched))), Note: bytesText(v.Twice)})
	out = append(out, tile{Label: "copies sent", Value: fmt.Sprintf("%.2f", v.Copies), Note: "by sources; 1 means each byte once"})
	return append(out, tile{Label: "faults", Value: fmt.Sprint(len(v.Result.Faults)), Bad: len(v.Result.Faults) > 0})
}

func (v *view) tookText(node int) string {
	if n := v.rec.Nodes[node]; n.Ended == 0 {
		return "not done"
	} else if n.Stopped() {
		return "stopped, " + seconds(n.Ended-n.Began)
	} else if n.Err != nil {
		return "failed, " + seconds(n.Ended-n.Began)
	}
	return seconds(v.took(node))
}

// fate is what became of the fetches of a node, which have ended.
func (v *view) fate(node int) string {
	how := "is"
	if n := v.rec.Nodes[node]; n.Stopped() {
		how = "was stopped after"
	} else if n.Err != nil {
		how = "failed after"
	}
	return how + " " + seconds(v.took(node))
}

// faultRow is a fault, as the page lists it.
type faultRow struct{ At, Node, Rule, Text string }

func (v *view) faults() (out []faultRow) {
	for _, f := range v.Result.Faults {
		out = append(out, faultRow{seconds(f.At), string(f.Node), f.Rule, f.Text})
	}
	return out
}

// story is what the reader should know first, in a few sentences.
func (v *view) story() (out []string) {
	if len(v.order) == 0 {
		return nil
	}
	slow := v.order[0]
	n := &v.rec.Nodes[slow]
	switch {
	case n.Ended == 0:
		out = append(out, fmt.Sprintf("%s did not get all it wanted: %s of %s.", n.Name, bytesText(n.Samples[v.rec.Samples-1].Verified), bytesText(n.Wanted)))
	case n.Err != nil:
		out = append(out, fmt.Sprintf("%s %s, with %s of %s.", n.Name, v.fate(slow), bytesText(n.Samples[v.rec.Samples-1].Verified), bytesText(n.Wanted)))
	case len(v.order) > 2:
		half, median := v.order[len(v.order)/2], "median"
		if n := v.rec.Nodes[half]; n.Stopped() || n.Err != nil {
			median = "median node"
		}
		out = append(out, fmt.Sprintf("The slowest node is %s: %s; the %s %s.", n.Name, seconds(v.took(slow)), median, v.fate(half)))
	}
	if f, _ := v.flat(slow); f.to > f.from {
		out = append(out, fmt.Sprintf("The longest time in which nothing new was verified on %s is from %s to %s%s.", n.Name, seconds(v.at(f.from)), seconds(v.at(f.to)), f.why))
	}
	for _, c := range v.rec.Contents {
		if from, to, most := v.nobody(&c); most > 0 {
			some := fmt.Sprintf("some of the %d pieces of %s, at most %d at a time, were", c.Pieces, c.Name, most)
			if c.Pieces == 1 {
				some = fmt.Sprintf("the only piece of %s was", c.Name)
			}
			when := fmt.Sprintf("At times between %s and %s", seconds(v.at(from)), seconds(v.at(to)))
			if from == to {
				when = "At " + seconds(v.at(from))
			}
			out = append(out, fmt.Sprintf("%s %s held by nobody, or only by nodes that lie, are frozen or are not running.", when, some))
		}
	}
	return out
}

// stretch is a run of samples in which nothing new was verified on a node.
type stretch struct {
	from, to int
	why      string
}

// flat is the longest time in which nothing new was verified on a node that wanted something. ok says that it is long.
func (v *view) flat(node int) (f stretch, ok bool) {
	n := &v.rec.Nodes[node]
	from := int(n.Began / v.rec.Step)
	for i := from + 1; i < len(n.Samples); i++ {
		if n.Ended > 0 && v.at(i) > n.Ended {
			break
		}
		if n.Samples[i].Verified > n.Samples[i-1].Verified {
			from = i
		}
		if i-from > f.to-f.from {
			f = stretch{from: from, to: i}
		}
	}
	f.why = v.mostly(n, f.from, f.to)
	return f, v.at(f.to)-v.at(f.from) >= max(time.Second/2, v.end/25)
}

// mostly is what a node did between two samples, in order of time taken, and the
// last reason that it gave for each, after a colon; empty if bytes flowed.
func (v *view) mostly(n *simnet.NodeRecord, from, to int) string {
	count := map[simnet.Doing]int{}
	said := map[simnet.Doing]string{}
	for _, s := range n.Samples[from+1 : to+1] {
		count[s.Doing]++
		if r := v.rec.Reasons[s.Reason]; r != "" {
			said[s.Doing] = r
		}
	}
	longest := slices.Clone(simnet.AllDoings)
	slices.SortStableFunc(longest, func(a, b simnet.Doing) int { return count[b] - count[a] })
	var parts []string
	for _, d := range longest[:3] {
		if d == simnet.Fetching || count[d]*8 < to-from { // bytes may flow, and the block not be whole
			continue
		}
		part := fmt.Sprintf("%v, %s", d, seconds(time.Duration(count[d])*v.rec.Step))
		if said[d] != "" {
			part += " (" + strings.TrimPrefix(said[d], d.String()+": ") + ")"
		}
		parts = append(parts, part)
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, "; ")
}

// nobody is when pieces of a content had no holder, and how many at most.
func (v *view) nobody(c *simnet.ContentRecord) (from, to, most int) {
	from = -1
	for i := range v.rec.Samples {
		n := 0
		for row, levels := range c.Holders {
			if levels[i] == 0 {
				n += (row+1)*c.Pieces/len(c.Holders) - row*c.Pieces/len(c.Holders)
			}
		}
		if n == 0 {
			continue
		}
		if from < 0 {
			from = i
		}
		to, most = i, max(most, n)
	}
	return max(from, 0), to, most
}

// ---- words ----

func seconds(d time.Duration) string {
	switch {
	case d < 999500*time.Microsecond:
		return fmt.Sprintf("%.3g ms", float64(d)/1e6)
	case d < 100*time.Second:
		return fmt.Sprintf("%.3g s", d.Seconds())
	}
	return strings.Replace(d.Round(time.Second).String(), "m0s", "m", 1)
}

func bytesText[T int64 | float64](n T) string {
	v := float64(n)
	for _, unit := range []string{"B", "kB", "MB", "GB"} {
		if v < 999.5 {
			return fmt.Sprintf("%.3g %s", v, unit)
		}
		v /= 1000
	}
	return fmt.Sprintf("%.3g TB", v)
}
