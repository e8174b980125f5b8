package report

import (
	"fmt"
	"math"
)

// setNames are the sets of Sample.Children.
var setNames = [...]string{"active", "passive", "tracked"}

// children is in which sets the children of a node were: of the node that had most at once.
// Nil if nobody had two.
func (v *view) children() *chart {
	most, of := 1, -1
	for i, n := range v.rec.Nodes {
		for _, s := range n.Samples {
			all := 0
			for _, k := range s.Children {
				all += k
			}
			if all > most {
				most, of = all, i
			}
		}
	}
	if of < 0 {
		return nil
	}
	n := &v.rec.Nodes[of]
	p := v.plot("Children of "+n.Name, "Children are the nodes that fetch from this one, which had the most of them at once. The colour is the set that they were in: active ones are served first, and hear first of new pieces.", 110)
	var at []int
	var upper [len(setNames)][]float64 // each on top of those before it
	for i := range max(0, v.rec.Samples-1) {
		at = append(at, i)
		sum := 0
		for s, k := range n.Samples[i].Children {
			sum += k
			upper[s] = append(upper[s], float64(sum))
		}
	}
	y := p.scale(float64(most), func(f float64) string {
		if f != math.Trunc(f) {
			return ""
		}
		return fmt.Sprintf("%.0f", f)
	})
	p.frame()
	for s, name := range setNames {
		var lower []float64
		if s > 0 {
			lower = upper[s-1]
		}
		p.area("set-"+name, name, y, at, 1, lower, upper[s])
		p.Legend = append(p.Legend, key{"set-" + name, name})
	}
	p.moments()
	return p.chart
}
