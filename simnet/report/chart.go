package report

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/piecelease/fetcher/simnet"
)

// All charts have the same width, and a time is at the same place in each.
const (
	width  = 1200
	left   = 130 // of the axis of time
	right  = 20
	top    = 8
	bottom = 20 // below the axis of time, for its figures
)

// chart is one picture with its text.
type chart struct {
	Title, Help string
	Width       int
	Height      num
	Shapes      []shape
	Legend      []key
	Note        string // below
}

// key is one entry of a legend.
type key struct{ Class, Text string }

// shape is one thing drawn. Its kind decides which of its fields count.
type shape struct {
	Kind       string // rect, path, line, text, dot
	Class      string
	X, Y, W, H num // of a line, W and H are where it ends; of a dot, W is its radius
	D          string
	Anchor     string
	Text       string // of a text; of the others, shown when pointed at
}

// num is a coordinate, written with one digit after the point.
type num float64

func (n num) String() string {
	return strconv.FormatFloat(math.Round(float64(n)*10)/10, 'f', -1, 64)
}

func (c *chart) add(s ...shape) { c.Shapes = append(c.Shapes, s...) }

func (c *chart) rect(class string, x, y, w, h num, title string) {
	c.add(shape{Kind: "rect", Class: class, X: x, Y: y, W: max(w, 0.3), H: max(h, 0.3), Text: title})
}

func (c *chart) line(class string, x, y, toX, toY num, title string) {
	c.add(shape{Kind: "line", Class: class, X: x, Y: y, W: toX, H: toY, Text: title})
}

func (c *chart) text(class, anchor string, x, y num, text string) {
	c.add(shape{Kind: "text", Class: class, Anchor: anchor, X: x, Y: y, Text: text})
}

// plot is the area of a chart in which time goes from left to right.
type plot struct {
	*chart
	v    *view
	y, h num // from the top
}

// plot makes a chart whose plot is h high.
func (v *view) plot(title, help string, h num) plot {
	c := &chart{Title: title, Help: help, Width: width, Height: top + h + bottom}
	return plot{c, v, top, h}
}

// x is the position of a time.
func (p plot) x(t time.Duration) num {
	return left + num(float64(width-left-right)*t.Seconds()/p.v.end.Seconds())
}

// at is the position of a sample.
func (p plot) at(sample int) num { return p.x(p.v.at(sample)) }

// frame draws the axis of time, and the important moments through all charts.
func (p plot) frame() {
	step := nice(p.v.end.Seconds() / 9)
	for t := 0.0; t <= p.v.end.Seconds()*1.0001; t += step {
		x := p.x(time.Duration(t * 1e9))
		p.line("grid", x, p.y, x, p.y+p.h, "")
		p.text("tick", "middle", x, p.y+p.h+14, tickText(t, step))
	}
	p.line("axis", left, p.y+p.h, width-right, p.y+p.h, "")
}

// moments draws a line at each mark that changed what nodes could do. If there
// are many of a kind, they would hide the picture, and are left to the first chart.
func (p plot) moments() {
	count := map[simnet.MarkKind]int{}
	for _, m := range p.v.rec.Marks {
		count[m.Kind]++
	}
	for _, m := range p.v.rec.Marks {
		if class := lineOf[m.Kind]; class != "" && (count[m.Kind] <= 30 || m.Kind == simnet.MarkFault) && m.At <= p.v.end {
			x := p.x(m.At)
			p.line("moment "+class, x, p.y, x, p.y+p.h, p.v.markText(m))
		}
	}
}

var lineOf = map[simnet.MarkKind]string{
	simnet.MarkFault: "m-fault", simnet.MarkCut: "m-cut", simnet.MarkHeal: "m-heal", simnet.MarkDown: "m-down", simnet.MarkUp: "m-up", simnet.MarkTurn: "m-turn",
}

func (v *view) markText(m simnet.Mark) string {
	who := m.Node
	if who != "" {
		who += " "
	}
	return fmt.Sprintf("%s: %s%s", seconds(m.At), who, m.Text)
}

// scale draws an axis upwards from 0 to top, and returns where a value is.
func (p plot) scale(top float64, text func(float64) string) func(float64) num {
	top = max(top, 1e-9)
	y := func(v float64) num { return p.y + p.h - num(float64(p.h)*v/top) }
	step := nice(top / 4)
	for v := step; v <= top*1.0001; v += step {
		p.line("grid", left, y(v), width-right, y(v), "")
		p.text("tick", "end", left-8, y(v)+3.5, text(v))
	}
	return y
}

// area fills what lies between two curves, which have a value from each of these samples
// for per samples; a lower of nil is 0.
func (p plot) area(class, text string, y func(float64) num, at []int, per int, lower, upper []float64) {
	var t trail
	for i, k := range at {
		t.to(p.at(k), y(upper[i]))
		t.to(p.at(k+per), y(upper[i]))
	}
	for i := len(at) - 1; i >= 0; i-- {
		low := 0.0
		if lower != nil {
			low = lower[i]
		}
		t.to(p.at(at[i]+per), y(low))
		t.to(p.at(at[i]), y(low))
	}
	p.add(shape{Kind: "path", Class: class, D: t.String() + "Z", Text: text})
}

// nice is a round number of at least x: 1, 2 or 5 times a power of ten.
func nice(x float64) float64 {
	if x <= 0 {
		return 1
	}
	p := math.Pow(10, math.Floor(math.Log10(x)))
	for _, f := range []float64{1, 2, 5} {
		if f*p >= x*0.9999 {
			return f * p
		}
	}
	return 10 * p
}

func tickText(t, step float64) string {
	if step >= 60 {
		return (time.Duration(t) * time.Second).String()
	}
	return strconv.FormatFloat(t, 'f', max(0, -int(math.Floor(math.Log10(step)))), 64) + " s"
}

// trail is the path through points.
type trail struct {
	d       []byte
	x, y    num // of the last point
	level   bool
	started bool
}

// to continues to a point. Of many on one level only the first and the last are kept.
func (t *trail) to(x, y num) {
	switch {
	case !t.started:
		t.started = true
		t.put('M', x, y)
	case y == t.y:
		t.level = true
	default:
		t.flush()
		t.put('L', x, y)
	}
	t.x, t.y = x, y
}

// flush adds the end of a level run.
func (t *trail) flush() {
	if t.level {
		t.level = false
		t.put('L', t.x, t.y)
	}
}

func (t *trail) put(op byte, x, y num) {
	t.d = append(t.d, op)
	t.d = append(t.d, x.String()...)
	t.d = append(t.d, ' ')
	t.d = append(t.d, y.String()...)
}

func (t *trail) String() string {
	t.flush()
	return string(t.d)
}
