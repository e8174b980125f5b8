package bubble

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// timeline is what happened to the nodes of a Net and what they logged: the last lines,
// for a test that fails.
type timeline struct {
	began time.Time

	mu    sync.Mutex // guards the fields below
	lines []string
	lost  int
}

// maxLines bounds a timeline; the oldest go first.
const maxLines = 400

func (t *timeline) add(who, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) == maxLines {
		t.lines = append(t.lines[:0], t.lines[maxLines/4:]...)
		t.lost += maxLines / 4
	}
	t.lines = append(t.lines, fmt.Sprintf("  %9.3f  %-8s  %s\n", time.Since(t.began).Seconds(), who, fmt.Sprintf(format, args...)))
}

func (t *timeline) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	if t.lost > 0 {
		fmt.Fprintf(&b, "  ... %d earlier lines\n", t.lost)
	}
	for _, l := range t.lines {
		b.WriteString(l)
	}
	return b.String()
}

// names are the nodes' names, for a timeline.
func names(nodes []*Node) string {
	var all []string
	for _, x := range nodes {
		all = append(all, x.Name())
	}
	return strings.Join(all, " ")
}
