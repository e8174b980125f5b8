package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/simnet"
)

const (
	maxStrips = 60  // nodes whose activity is shown
	maxTable  = 200 // nodes in the table
)

// charts are all pictures, in the order of the page.
func (v *view) charts() (out []*chart) {
	out = append(out, v.events(), v.verified(), v.doings(), v.sent())
	for i := range v.rec.Contents {
		if c := &v.rec.Contents[i]; c.Pieces > 0 {
			out = append(out, v.availability(c))
		}
	}
	if n := v.rec.ContentsLeftOut; n > 0 {
		last := out[len(out)-1]
		last.Note = strings.TrimSpace(fmt.Sprintf("%s Left out: %s.", last.Note, words.Count(n, "more share")))
	}
	for _, node := range v.order[:min(len(v.order), maxLeaseNodes)] {
		if c := v.leases(node); c != nil {
			out = append(out, c)
		}
	}
	if c := v.children(); c != nil {
		out = append(out, c)
	}
	return append(out, v.waste())
}

// lanes are the rows of the chart of events.
var lanes = []struct {
	name  string
	kinds []simnet.MarkKind
}{
	{"faults", []simnet.MarkKind{simnet.MarkFault}},
	{"network", []simnet.MarkKind{simnet.MarkCut, simnet.MarkHeal}},
	{"nodes", []simnet.MarkKind{simnet.MarkDown, simnet.MarkUp}},
	{"changes, notes", []simnet.MarkKind{simnet.MarkTurn, simnet.MarkNote}},
	{"bans", []simnet.MarkKind{simnet.MarkBan}},
	{"stalls reported", []simnet.MarkKind{simnet.MarkStall}},
	{"fetches end", []simnet.MarkKind{simnet.MarkEnd}},
}

var classOf = map[simnet.MarkKind]string{
	simnet.MarkFault: "m-fault", simnet.MarkCut: "m-cut", simnet.MarkHeal: "m-heal", simnet.MarkDown: "m-down", simnet.MarkUp: "m-up",
	simnet.MarkTurn: "m-turn", simnet.MarkNote: "m-turn", simnet.MarkBan: "m-ban", simnet.MarkStall: "m-stall", simnet.MarkEnd: "m-end",
}

// events is every mark, in a lane for each kind.
func (v *view) events() *chart {
	const row = 15
	marks := map[simnet.MarkKind][]simnet.Mark{}
	for _, m := range v.rec.Marks {
		marks[m.Kind] = append(marks[m.Kind], m)
	}
	shown := lanes[:0:0]
	for _, l := range lanes {
		n := 0
		for _, k := range l.kinds {
			n += len(marks[k])
		}
		if n > 0 || l.kinds[0] == simnet.MarkFault {
			shown = append(shown, l)
		}
	}
	p := v.plot("What happened", "Point at a mark to read it; for some, a line of the same colour goes through the charts below.", num(row*len(shown)))
	p.frame()
	for i, l := range shown {
		y := p.y + num(i*row) + row/2
		p.text("label", "end", left-8, y+4, l.name)
		p.line("grid", left, y+row/2, width-right, y+row/2, "")
		for _, k := range l.kinds {
			for _, m := range marks[k] {
				at := min(m.At, v.end)
				if k == simnet.MarkFault {
					p.rect(classOf[k], p.x(at)-2, y-row/2+1, 4, row-2, v.markText(m))
					continue
				}
				p.add(shape{Kind: "dot", Class: classOf[k], X: p.x(at), Y: y, W: 3.5, Text: v.markText(m)})
			}
		}
	}
	for _, k := range []struct {
		kind simnet.MarkKind
		text string
	}{{simnet.MarkFault, "fault"}, {simnet.MarkCut, "cut"}, {simnet.MarkHeal, "healed"}, {simnet.MarkDown, "killed, stopped, frozen"}, {simnet.MarkUp, "goes on"},
		{simnet.MarkTurn, "changes"}, {simnet.MarkBan, "bans"}, {simnet.MarkStall, "says why it waits"}, {simnet.MarkEnd, "a fetch ends"}} {
		if len(marks[k.kind]) > 0 {
			p.Legend = append(p.Legend, key{classOf[k.kind], k.text})
		}
	}
	if v.rec.MarksLeftOut > 0 {
		p.Note = fmt.Sprintf("Left out: %s.", words.Count(v.rec.MarksLeftOut, "later mark"))
	}
	return p.chart
}

// verified is a line for each node, from nothing to the whole share.
func (v *view) verified() *chart {
	p := v.plot("Verified on each node", "", 220)
	p.Help = "A line per node: how much of what it wants is verified; the slowest is bold. Behind it, in the colours of the next chart, what the slowest did while nothing new was verified."
	if len(v.order) > 0 {
		for _, b := range v.bands(v.order[0]) {
			if !b.doing.Quiet() {
				continue
			}
			p.rect("band "+doingClass(b.doing), p.at(b.from), p.y, p.at(b.to)-p.at(b.from), p.h, v.bandText(v.order[0], b))
		}
	}
	y := p.scale(100, func(f float64) string { return fmt.Sprintf("%.0f %%", f) })
	p.frame()
	p.moments()
	for i := len(v.order) - 1; i >= 0; i-- {
		node := v.order[i]
		n := &v.rec.Nodes[node]
		var t trail
		for k := int(n.Began / v.rec.Step); k < v.rec.Samples; k++ {
			t.to(p.at(k), y(100*float64(n.Samples[k].Verified)/float64(max(1, n.Wanted))))
		}
		class := "curve"
		if len(v.order) <= 8 {
			class += " few"
		}
		if n.Ended == 0 || n.Err != nil {
			class += " bad"
		}
		if i == 0 {
			class += " slowest"
		}
		p.add(shape{Kind: "path", Class: class, D: t.String(), Text: n.Name + ": " + v.tookText(node)})
	}
	return p.chart
}

// band is a run of samples in which a node did the same thing.
type band struct {
	from, to int // to is the first sample in which it did not
	doing    simnet.Doing
	reason   string // the last that it gave
}

// bands are what a node did, one after another.
func (v *view) bands(node int) (out []band) {
	for i, s := range v.rec.Nodes[node].Samples {
		why := v.rec.Reasons[s.Reason]
		if n := len(out); n > 0 && out[n-1].doing == s.Doing {
			out[n-1].to = i + 1
			if why != "" {
				out[n-1].reason = why
			}
			continue
		}
		out = append(out, band{i, i + 1, s.Doing, why})
	}
	if n := len(out); n > 0 {
		out[n-1].to = v.rec.Samples - 1
	}
	return out
}

func (v *view) bandText(node int, b band) string {
	text := fmt.Sprintf("%s, %s to %s: %v", v.rec.Nodes[node].Name, seconds(v.at(b.from)), seconds(v.at(b.to)), b.doing)
	if b.reason != "" {
		text += ": " + strings.TrimPrefix(b.reason, b.doing.String()+": ")
	}
	return text
}

// doings is a strip for each node: what it did, and why it waited.
func (v *view) doings() *chart {
	shown := v.order
	for i, n := range v.rec.Nodes {
		if !n.Fetches {
			shown = append(shown[:len(shown):len(shown)], i)
		}
	}
	leftOut := max(0, len(shown)-maxStrips)
	shown = shown[:len(shown)-leftOut]
	row := num(16)
	if len(shown) > 16 {
		row = 11
	}
	p := v.plot("What each node did", "The slowest are on top; at the bottom are those that only serve. Point at a strip for the reason that the node itself gave.", row*num(len(shown)))
	p.frame()
	used := map[simnet.Doing]bool{}
	for i, node := range shown {
		n := &v.rec.Nodes[node]
		y := p.y + num(i)*row
		name := n.Name
		if n.Acts != "" {
			name += " ⚠"
		}
		p.text("label small", "end", left-8, y+row/2+3.5, name)
		for _, b := range v.bands(node) {
			used[b.doing] = true
			p.rect("strip "+doingClass(b.doing), p.at(b.from), y+1, p.at(b.to)-p.at(b.from), row-2, v.bandText(node, b))
		}
		if n.Ended > 0 {
			p.line("ended", p.x(n.Ended), y, p.x(n.Ended), y+row, n.Name+": its fetch ended at "+seconds(n.Ended))
		}
	}
	for _, d := range simnet.AllDoings {
		if used[d] {
			p.Legend = append(p.Legend, key{doingClass(d), d.String()})
		}
	}
	p.Legend = append(p.Legend, key{"k-ended", "its fetch ended"})
	if leftOut > 0 {
		p.Note = fmt.Sprintf("Left out: %s.", words.Count(leftOut, "more node"))
	}
	for _, node := range shown {
		if v.rec.Nodes[node].Acts != "" {
			p.Note += " ⚠ treats others badly; the table says how."
			break
		}
	}
	return p.chart
}

func doingClass(d simnet.Doing) string {
	return [...]string{"d-off", "d-frozen", "d-serving", "d-looking", "d-fetching", "d-pausing", "d-writing", "d-full", "d-alone", "d-lacking", "d-waiting", "d-idle", "d-failed"}[d]
}

// sent is which nodes sent, over time: those that had the share from the start, and the others.
func (v *view) sent() *chart {
	p := v.plot("Sent per second", "By the nodes that had the content from the start, and on top of that by all others. Framing and messages are included.", 110)
	const slots = 120
	per := max(1, (v.rec.Samples-1+slots-1)/slots)
	var at []int
	var seeds, all []float64
	for i := per; i < v.rec.Samples; i += per {
		var by [2]int64
		for _, n := range v.rec.Nodes {
			d := n.Samples[i].Sent - n.Samples[i-per].Sent
			if n.Seeds {
				by[0] += d
			} else {
				by[1] += d
			}
		}
		sec := (time.Duration(per) * v.rec.Step).Seconds()
		at = append(at, i-per)
		seeds, all = append(seeds, float64(by[0])/sec), append(all, float64(by[0]+by[1])/sec)
	}
	most := 1.0
	for _, x := range all {
		most = max(most, x)
	}
	y := p.scale(most, func(f float64) string { return bytesText(f) + "/s" })
	p.frame()
	if len(at) > 0 {
		p.area("s-others", "sent by all others", y, at, per, seeds, all)
		p.area("s-seeds", "sent by the sources", y, at, per, nil, seeds)
	}
	p.moments()
	p.Legend = []key{{"s-seeds", "the sources"}, {"s-others", "all others"}}
	return p.chart
}

// availability is how many nodes have each piece, over time.
func (v *view) availability(c *simnet.ContentRecord) *chart {
	rows := len(c.Holders)
	high := num(min(max(float64(rows)*3, 60), 260))
	p := v.plot("Who has the pieces of "+c.Name, words.Count(c.Pieces, "piece")+", from top to bottom. The colour is how many honest, running nodes have a piece.", high)
	p.frame()
	row := high / num(rows)
	used := map[int]bool{}
	for r, levels := range c.Holders {
		first, last := r*c.Pieces/rows, (r+1)*c.Pieces/rows-1
		for i := 0; i < len(levels); {
			from := i
			for i < len(levels) && levelOf(levels[i]) == levelOf(levels[from]) {
				i++
			}
			lv := levelOf(levels[from])
			used[lv] = true
			text := fmt.Sprintf("piece %d", first)
			if last > first {
				text = fmt.Sprintf("the rarest of pieces %d to %d", first, last)
			}
			p.rect(levelNames[lv].Class, p.at(from), p.y+num(r)*row, p.at(min(i, len(levels)-1))-p.at(from), row+0.2,
				fmt.Sprintf("%s: %s, %s to %s", text, holders(levels[from], levels[i-1]), seconds(v.at(from)), seconds(v.at(min(i, len(levels)-1)))))
		}
	}
	p.text("tick", "end", left-8, p.y+8, "piece 0")
	p.text("tick", "end", left-8, p.y+p.h-1, fmt.Sprintf("piece %d", c.Pieces-1))
	p.moments()
	for lv, k := range levelNames {
		if used[lv] {
			p.Legend = append(p.Legend, k)
		}
	}
	if rows < c.Pieces {
		p.Note = fmt.Sprintf("Each of the %d rows stands for several pieces, and shows the rarest of them.", rows)
	}
	return p.chart
}

var levelNames = []key{{"h0", "nobody"}, {"h1", "1"}, {"h2", "2"}, {"h3", "3 to 4"}, {"h4", "5 to 8"}, {"h5", "9 to 16"}, {"h6", "17 to 32"}, {"h7", "33 or more"}}

func levelOf(n uint16) int {
	switch {
	case n <= 2:
		return int(n)
	case n <= 4:
		return 3
	case n <= 8:
		return 4
	case n <= 16:
		return 5
	case n <= 32:
		return 6
	}
	return 7
}

func holders(from, to uint16) string {
	switch {
	case from == 0 && to == 0:
		return "nobody has it"
	case from == 1: // and so is to
		return "1 node has it"
	case from == to:
		return fmt.Sprintf("%d nodes have it", from)
	}
	return fmt.Sprintf("first %d, then %d nodes have it", from, to)
}

// waste is the bytes that were wasted, over time.
func (v *view) waste() *chart {
	p := v.plot("Wasted bytes", "All nodes together: bytes that came twice, and on top of them bytes of requests that had been cancelled.", 90)
	twice, all := make([]float64, v.rec.Samples), make([]float64, v.rec.Samples)
	for i := range v.rec.Samples {
		for _, n := range v.rec.Nodes {
			twice[i] += float64(n.Samples[i].Twice)
			all[i] += float64(n.Samples[i].Twice + n.Samples[i].Wasted)
		}
	}
	last := max(0, v.rec.Samples-1)
	most := all[last]
	if most == 0 {
		return &chart{Title: p.Title, Note: "Nothing: no byte came twice, and none after its request had been cancelled."}
	}
	y := p.scale(most, func(f float64) string { return bytesText(f) })
	p.frame()
	for _, a := range []struct {
		class, text string
		values      []float64
		sum         float64
	}{{"w-cancelled", "came after the request was cancelled", all, most - twice[last]}, {"w-twice", "came twice", twice, twice[last]}} {
		var t trail
		t.to(left, y(0))
		for i, b := range a.values {
			t.to(p.at(i), y(b))
		}
		t.to(p.at(v.rec.Samples-1), y(0))
		p.add(shape{Kind: "path", Class: a.class, D: t.String() + "Z", Text: fmt.Sprintf("%s: %s at the end", a.text, bytesText(a.sum))})
	}
	p.moments()
	p.Legend = []key{{"w-twice", "came twice"}, {"w-cancelled", "came after the request was cancelled"}}
	return p.chart
}
