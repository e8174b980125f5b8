package report

import (
	"fmt"
	"html"
	"strings"

	"github.com/piecelease/fetcher/internal/words"
)

// page is HTML that is being written. html/template would keep the linker from removing
// methods that nothing calls, of every type in the program: 15 % of its size.
type page struct{ strings.Builder }

// markup is text that is already HTML or CSS.
type markup string

// put writes format, whose verbs are %v, with its arguments escaped for elements and
// for attributes in double quotes, except markup.
func (p *page) put(format string, args ...any) {
	for i, a := range args {
		if _, ok := a.(markup); !ok {
			args[i] = html.EscapeString(fmt.Sprint(a))
		}
	}
	fmt.Fprintf(p, format, args...)
}

// some writes format with text, unless that is empty.
func (p *page) some(format, text string) {
	if text != "" {
		p.put(format, text)
	}
}

// write writes the whole page. again is as in Write.
func (p *page) write(v *view, again string) {
	verdict, class := "failed", "bad"
	if v.OK() {
		verdict, class = "passed", "good"
	}
	p.put(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>%v, seed %v: %v</title>
<style>%v</style>
</head>
<body>
<header>
`, v.Scenario, v.Seed, verdict, markup(pageCSS))
	p.put(`<h1>%v <small>seed %v, %v</small>
<span class="verdict %v">%v</span></h1>
<p class="says">%v</p>
`, v.Scenario, v.Seed, words.Count(v.Nodes, "node"), class, verdict, v.Says)
	p.summary(v)
	p.some("<p class=\"again\">Again: <code>%v</code></p>\n", again)
	p.put("</header>\n<main>\n")
	for _, m := range v.Missing {
		p.put(`<section class="missing"><h2>Pieces of %v that %v does not have</h2><ul>`, m.Share, m.Node)
		for _, why := range m.Why {
			p.put("<li>%v</li>", why)
		}
		p.put("</ul></section>\n")
	}
	for _, c := range v.charts() {
		p.chart(c)
	}
	p.nodes(v)
	p.put(`<section><details><summary>The end of the timeline</summary><pre>%v</pre></details></section>
</main>
</body>
</html>
`, v.Timeline.String())
}

// summary writes what is read first: faults, figures, and the story.
func (p *page) summary(v *view) {
	if faults := v.faults(); len(faults) > 0 {
		p.put("<section class=\"faults\">\n<table>")
		for _, f := range faults {
			p.put(`<tr><td class="n">%v</td><td>%v</td><td class="rule">%v</td><td>%v</td></tr>`, f.At, f.Node, f.Rule, f.Text)
		}
		p.put("</table>\n</section>\n")
	}
	p.put(`<div class="tiles">`)
	for _, t := range v.tiles() {
		p.put(`<div class="%v"><b>%v</b><span>%v</span><i>%v</i></div>`, orBad("tile", t.Bad), t.Value, t.Label, t.Note)
	}
	p.put("</div>\n")
	p.some("<p class=\"story\">%v</p>\n", strings.Join(v.story(), " "))
}

func orBad(class string, bad bool) string {
	if bad {
		class += " bad"
	}
	return class
}

func (p *page) chart(c *chart) {
	p.put("<section>\n<h2>%v</h2>\n", c.Title)
	p.some("<p class=\"help\">%v</p>\n", c.Help)
	if len(c.Legend) > 0 {
		p.put(`<p class="legend">`)
		for _, k := range c.Legend {
			p.put(`<span><i class="%v"></i>%v</span>`, k.Class, k.Text)
		}
		p.put("</p>\n")
	}
	if len(c.Shapes) > 0 {
		p.put(`<svg viewBox="0 0 %v %v" role="img" aria-label="%v">`, c.Width, c.Height, c.Title)
		for _, s := range c.Shapes {
			p.shape(s)
		}
		p.put("</svg>\n")
	}
	p.some("<p class=\"help\">%v</p>\n", c.Note)
	p.put("</section>\n")
}

func (p *page) shape(s shape) {
	end := ""
	switch s.Kind {
	case "rect":
		p.put(`<rect class="%v" x="%v" y="%v" width="%v" height="%v">`, s.Class, s.X, s.Y, s.W, s.H)
		end = "</rect>\n"
	case "line":
		p.put(`<line class="%v" x1="%v" y1="%v" x2="%v" y2="%v">`, s.Class, s.X, s.Y, s.W, s.H)
		end = "</line>\n"
	case "dot":
		p.put(`<circle class="%v" cx="%v" cy="%v" r="%v">`, s.Class, s.X, s.Y, s.W)
		end = "</circle>\n"
	case "path":
		p.put(`<path class="%v" d="%v">`, s.Class, s.D)
		end = "</path>\n"
	default:
		p.put("<text class=\"%v\" text-anchor=\"%v\" x=\"%v\" y=\"%v\">%v</text>\n", s.Class, s.Anchor, s.X, s.Y, s.Text)
		return
	}
	p.some("<title>%v</title>", s.Text)
	p.WriteString(end)
}

// nodes writes the table of all nodes.
func (p *page) nodes(v *view) {
	p.put("<section>\n<h2>Each node</h2>\n<div class=\"wide\"><table class=\"nodes\">\n<tr>")
	for _, column := range []string{"node", "began", "took", "has", "received", "sent", "twice", "cancelled", "waited", "paused", "absent"} {
		p.put("<th>%v</th>", column)
	}
	p.put("<th class=\"l\">longest without a verified byte</th></tr>\n")
	for _, r := range v.table() {
		p.put(`<tr class="%v"><td>%v`, orBad("", r.Bad), r.Name)
		p.some(" <i>%v</i>", r.Acts)
		p.put("</td>")
		for _, cell := range []string{r.Began, r.Took, r.Verified, r.Received, r.Sent, r.Twice, r.Wasted, r.Waited, r.Paused, r.Absent} {
			p.put("<td>%v</td>", cell)
		}
		p.put("<td class=\"l\">%v</td></tr>\n", r.Longest)
	}
	p.put("</table></div>\n")
	if left := len(v.rec.Nodes) - maxTable; left > 0 {
		p.put("<p class=\"help\">Left out: %v.</p>\n", words.Count(left, "more node"))
	}
	p.put("</section>\n")
}
