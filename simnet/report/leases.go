package report

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/simnet"
)

const (
	maxLeaseNodes = 4    // nodes whose leases are drawn: the slowest
	maxLeaseLanes = 24   // sources of each
	maxBars       = 2500 // leases of each
)

// leases is which source held which piece when, for one node: a lane per source,
// and in it a bar per lease. Nil if there were none.
func (v *view) leases(node int) *chart {
	bySource := map[int][]simnet.LeaseRecord{}
	total := 0
	for _, l := range v.rec.Leases {
		if l.Node == node && l.From <= v.end {
			bySource[l.Source] = append(bySource[l.Source], l)
			total++
		}
	}
	if total == 0 {
		return nil
	}
	var sources []int
	for s := range bySource {
		sources = append(sources, s)
	}
	slices.SortFunc(sources, func(a, b int) int {
		return cmp.Or(cmp.Compare(len(bySource[b]), len(bySource[a])), cmp.Compare(a, b))
	})
	lanesLeft := max(0, len(sources)-maxLeaseLanes)
	sources = sources[:len(sources)-lanesLeft]

	var lanes []lane
	high := num(0)
	for _, s := range sources {
		l := pack(bySource[s])
		l.source = s
		l.high = num(min(max(float64(l.rows)*3, 14), 42))
		high += l.high + 3
		lanes = append(lanes, l)
	}
	p := v.leaseLanes(&v.rec.Nodes[node], lanes, high, total)
	if lanesLeft > 0 {
		p.Note += fmt.Sprintf("Left out, with the fewest leases: %s. ", words.Count(lanesLeft, "more source"))
	}
	return p.chart
}

// leaseLanes draws lanes with this total height, of total leases.
func (v *view) leaseLanes(n *simnet.NodeRecord, lanes []lane, high num, total int) plot {
	p := v.plot("Leases of "+n.Name, "A lane per source, those with the most leases on top; a bar is a lease: a piece that the source was to send. Point at it for the piece.", high)
	p.frame()
	y, bars := p.y, 0
	for _, l := range lanes {
		src := &v.rec.Nodes[l.source]
		name := src.Name
		if src.Acts != "" {
			name += " ⚠"
		}
		p.text("label small", "end", left-8, y+l.high/2+3.5, name)
		row := l.high / num(l.rows)
		for i, x := range l.leases {
			if bars++; bars > maxBars {
				break
			}
			p.rect("bar "+leaseClass(x.End), p.x(x.From), y+num(l.row[i])*row, p.x(min(x.To, v.end))-p.x(x.From), max(row-0.6, 0.8),
				fmt.Sprintf("piece %d, held by %s from %s to %s: %v", x.Piece, src.Name, seconds(x.From), seconds(x.To), x.End))
		}
		y += l.high + 3
		p.line("grid", left, y-1.5, width-right, y-1.5, "")
	}
	p.moments()
	for e := simnet.LeaseOpen; e <= simnet.LeaseLost; e++ {
		p.Legend = append(p.Legend, key{leaseClass(e), e.String()})
	}
	if bars > maxBars {
		p.Note += fmt.Sprintf("%d of %d leases are drawn. ", maxBars, total)
	}
	if v.rec.LeasesLeftOut > 0 {
		p.Note += fmt.Sprintf("Not recorded: %s, counted over all nodes. ", words.Count(v.rec.LeasesLeftOut, "later lease"))
	}
	return p
}

func leaseClass(e simnet.LeaseEnd) string {
	return [...]string{"l-open", "l-verified", "l-returned", "l-revoked", "l-beaten", "l-lost"}[e]
}

// lane is the leases of one source, those that overlap in different rows.
type lane struct {
	source int
	leases []simnet.LeaseRecord
	row    []int // of each
	rows   int
	high   num
}

// pack puts each lease into the first row that is free.
func pack(leases []simnet.LeaseRecord) lane {
	slices.SortFunc(leases, func(a, b simnet.LeaseRecord) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To), cmp.Compare(a.Piece, b.Piece))
	})
	l := lane{leases: leases, row: make([]int, len(leases))}
	var free []time.Duration // of each row
	for i, x := range leases {
		row := slices.IndexFunc(free, func(t time.Duration) bool { return t <= x.From })
		if row < 0 {
			row = len(free)
			free = append(free, 0)
		}
		free[row] = x.To
		l.row[i] = row
	}
	l.rows = max(1, len(free))
	return l
}
