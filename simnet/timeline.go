package simnet

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/peers"
)

// Timeline is what happened, in order.
type Timeline struct {
	n       *Net
	entries []Entry
	lost    int // of the oldest
	tap     func(Entry)
}

// Entry is one line of a timeline.
type Entry struct {
	At   time.Duration // since the world began
	Node peers.ID      // empty: the world
	Kind MarkKind
	Text string
}

// maxEntries bounds a timeline; the oldest go first.
const maxEntries = 20_000

func (t *Timeline) add(kind MarkKind, node peers.ID, format string, args ...any) {
	if len(t.entries) == maxEntries {
		t.entries = append(t.entries[:0], t.entries[maxEntries/4:]...)
		t.lost += maxEntries / 4
	}
	e := Entry{t.n.Elapsed(), node, kind, fmt.Sprintf(format, args...)}
	t.entries = append(t.entries, e)
	if t.tap != nil {
		t.tap(e)
	}
}

// Note adds a line of the scenario's own to the timeline.
func (t *Timeline) Note(format string, args ...any) { t.add(MarkNote, "", format, args...) }

// Entries returns the lines that are kept.
func (t *Timeline) Entries() []Entry { return t.entries }

// String is the last lines, each with its time; All is all that are kept.
func (t *Timeline) String() string { return t.last(200) }
func (t *Timeline) All() string    { return t.last(len(t.entries)) }

func (t *Timeline) last(n int) string {
	var b strings.Builder
	from := max(0, len(t.entries)-n)
	if hidden := from + t.lost; hidden > 0 {
		fmt.Fprintf(&b, "  ... %s\n", words.Count(hidden, "earlier line"))
	}
	for _, e := range t.entries[from:] {
		fmt.Fprintf(&b, "  %9.3f  %-8s  %s\n", e.At.Seconds(), t.n.called(e.Node), e.Text)
	}
	return b.String()
}

// complaints takes the log of all nodes: errors are faults of the program, unless they are expected of a node;
// panics always are.
type complaints struct {
	n    *Net
	node string
	with []slog.Attr
}

func (h *complaints) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }

func (h *complaints) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString(r.Message)
	add := func(a slog.Attr) bool {
		fmt.Fprintf(&b, " %s=%v", a.Key, a.Value)
		return true
	}
	for _, a := range h.with {
		add(a)
	}
	r.Attrs(add)
	if x := h.n.byID[peers.ID(h.node)]; r.Level >= slog.LevelError && (x == nil || !x.complains || strings.HasPrefix(r.Message, system.Panicked)) {
		h.n.ref.broken(peers.ID(h.node), "error", "%s", b.String())
	} else {
		h.n.log.add(MarkNone, peers.ID(h.node), "%v: %s", r.Level, b.String())
	}
	return nil
}

func (h *complaints) WithAttrs(as []slog.Attr) slog.Handler {
	c := &complaints{h.n, h.node, append([]slog.Attr(nil), h.with...)}
	for _, a := range as {
		if a.Key == "node" {
			c.node, _, _ = strings.Cut(a.Value.String(), " ")
		} else {
			c.with = append(c.with, a)
		}
	}
	return c
}

func (h *complaints) WithGroup(string) slog.Handler { return h }
