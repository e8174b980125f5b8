//go:build linux

package bench

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// run is one measured transfer.
type run struct {
	payload          int64 // bytes
	wall             time.Duration
	recv, send       time.Duration // CPU; several sources are summed
	recvMem, sendMem int64         // peaks of anonymous memory, in bytes; the largest source
	wire             int64         // what the sources wrote to their sockets, in bytes
}

func (r run) mbps() float64 { return float64(r.payload) / 1e6 / r.wall.Seconds() }

// perGiB is CPU seconds per GiB of payload.
func (r run) perGiB(d time.Duration) float64 { return d.Seconds() / (float64(r.payload) / (1 << 30)) }

// column is one figure of a run, and how to print it.
type column struct {
	name   string
	format string
	of     func(run) float64
}

var columns = []column{
	{"s", "%.2f", func(r run) float64 { return r.wall.Seconds() }},
	{"MB/s", "%.0f", run.mbps},
	{"CPU s/GiB both", "%.2f", func(r run) float64 { return r.perGiB(r.recv + r.send) }},
	{"recv", "%.2f", func(r run) float64 { return r.perGiB(r.recv) }},
	{"send", "%.2f", func(r run) float64 { return r.perGiB(r.send) }},
	{"anon MiB recv", "%.0f", func(r run) float64 { return float64(r.recvMem) / (1 << 20) }},
	{"send", "%.0f", func(r run) float64 { return float64(r.sendMem) / (1 << 20) }},
	{"wire/payload", "%.4f", func(r run) float64 { return float64(r.wire) / float64(r.payload) }},
}

// rows is what a benchmark measured: for each name, one run per round.
type rows struct {
	names []string
	runs  map[string][]run
}

func (rs *rows) add(name string, r run) {
	if rs.runs == nil {
		rs.runs = map[string][]run{}
	}
	if rs.runs[name] == nil {
		rs.names = append(rs.names, name)
	}
	rs.runs[name] = append(rs.runs[name], r)
}

// print writes the median and range of each column of each row.
func (rs *rows) print(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	defer t.Flush()
	fmt.Fprint(t, "  row")
	for _, c := range columns {
		fmt.Fprint(t, "\t"+c.name)
	}
	fmt.Fprintln(t)
	for _, name := range rs.names {
		fmt.Fprint(t, "  "+name)
		for _, c := range columns {
			fmt.Fprint(t, "\t"+spreadOf(each(rs.runs[name], c.of)).text(c.format))
		}
		fmt.Fprintln(t)
	}
}

// ratio is a figure of row a divided by that of row b, round by round.
func (rs *rows) ratio(a, b string, of func(run) float64) spread {
	var q []float64
	for i, r := range rs.runs[a] {
		q = append(q, of(r)/of(rs.runs[b][i]))
	}
	return spreadOf(q)
}

func each(runs []run, of func(run) float64) []float64 {
	out := make([]float64, len(runs))
	for i, r := range runs {
		out[i] = of(r)
	}
	return out
}

// spread returns the median and the extremes of some figures.
type spread struct{ median, min, max float64 }

func spreadOf(x []float64) spread {
	if len(x) == 0 {
		return spread{}
	}
	x = slices.Sorted(slices.Values(x))
	m := x[len(x)/2]
	if len(x)%2 == 0 {
		m = (m + x[len(x)/2-1]) / 2
	}
	return spread{m, x[0], x[len(x)-1]}
}

// text is "median (min-max)", or only the median if they print alike.
func (s spread) text(format string) string {
	m, lo, hi := fmt.Sprintf(format, s.median), fmt.Sprintf(format, s.min), fmt.Sprintf(format, s.max)
	if lo == hi {
		return m
	}
	return fmt.Sprintf("%s (%s-%s)", m, lo, hi)
}

// goal prints whether a figure meets its goal. It fails nothing: the
// machine may have been busy.
func goal(w io.Writer, what string, s spread, atMost bool, limit float64) {
	word, good := "at least", s.median >= limit
	if atMost {
		word, good = "at most", s.median <= limit
	}
	verdict := "met"
	if !good {
		verdict = "MISSED"
	}
	pad := strings.Repeat(" ", max(0, 46-len(what)))
	fmt.Fprintf(w, "  %s%s %s, goal %s %.2f: %s\n", what, pad, s.text("%.3f"), word, limit, verdict)
}
