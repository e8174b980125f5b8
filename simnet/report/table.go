package report

import (
	"fmt"
	"time"

	"github.com/piecelease/fetcher/simnet"
)

// row is one node in the table.
type row struct {
	Name, Acts             string
	Began, Took            string
	Bad                    bool
	Verified               string
	Received, Sent         string
	Twice, Wasted          string
	Waited, Paused, Absent string
	Longest                string
}

// table is all nodes, in the order of the strips.
func (v *view) table() (out []row) {
	for _, node := range v.order {
		out = append(out, v.row(node))
	}
	for i, n := range v.rec.Nodes {
		if !n.Fetches {
			out = append(out, v.row(i))
		}
	}
	return out[:min(len(out), maxTable)]
}

func (v *view) row(node int) row {
	n := &v.rec.Nodes[node]
	last := n.Samples[len(n.Samples)-1]
	r := row{Name: n.Name, Acts: n.Acts, Received: bytesText(last.Received), Sent: bytesText(last.Sent), Twice: orNone(last.Twice), Wasted: orNone(last.Wasted)}
	if n.Fetches {
		r.Began, r.Took = seconds(n.Began), v.tookText(node)
		r.Bad = n.Ended == 0 || n.Err != nil
		r.Verified = fmt.Sprintf("%.0f %%", 100*float64(last.Verified)/float64(max(1, n.Wanted)))
		if f, ok := v.flat(node); ok {
			r.Longest = fmt.Sprintf("%s, from %s on%s", seconds(v.at(f.to)-v.at(f.from)), seconds(v.at(f.from)), f.why)
		}
	}
	var waited, paused, absent int
	for _, s := range n.Samples {
		switch {
		case s.Doing == simnet.Off || s.Doing == simnet.Frozen:
			absent++
		case s.Doing == simnet.Pausing:
			paused++
		case s.Doing.Quiet():
			waited++
		}
	}
	r.Waited, r.Paused, r.Absent = v.forSamples(waited), v.forSamples(paused), v.forSamples(absent)
	return r
}

func (v *view) forSamples(n int) string {
	if n == 0 {
		return ""
	}
	return seconds(time.Duration(n) * v.rec.Step)
}

func orNone(n int64) string {
	if n == 0 {
		return ""
	}
	return bytesText(n)
}
