package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestLinesAreWrappedAtWords(t *testing.T) {
	for _, c := range []struct {
		line string
		n    int
		want string
	}{
		{"short", 20, "short"},
		{"", 20, ""},
		{"one two three four five six", 13, "one two three|  four five|  six"},
		{"  set in and long", 10, "  set in|    and|    long"},
		{"    --exclude 'to be copied' whatever it takes", 20, "    --exclude 'to be copied' whatever it takes"},
		{"      advice that goes on", 18, "      advice that|        goes on"},
		{"at /ip4/192.0.2.1/udp/4001/quic-v1 now", 16, "at /ip4/192.0.2.1/udp/4001/quic-v1|  now"},
		{"日本語の 名前 です", 13, "日本語の 名前|  です"},
		{"state     waits for a source", 20, "state     waits for|  a source"},
		{"fünf übel üben", 9, "fünf übel|  üben"},
	} {
		if got := strings.Join(wrap(c.line, c.n), "|"); got != c.want {
			t.Errorf("%q at %d:\n%q, want\n%q", c.line, c.n, got, c.want)
		}
	}
}

func TestTailKeepsTheEnd(t *testing.T) {
	for _, c := range []struct {
		s    string
		n    int
		want string
	}{{"a/b", 3, "a/b"}, {"aa/bb/c.txt", 6, "…c.txt"}, {"日本語", 5, "…本語"}, {"日本語", 4, "…語"}, {strings.Repeat("é", 1<<12), 3, "…éé"}} {
		if got := tail(c.s, c.n); got != c.want {
			t.Errorf("%q in %d: %q, want %q", c.s, c.n, got, c.want)
		}
	}
}

func TestClipKeepsTheBeginning(t *testing.T) {
	for _, c := range []struct {
		s    string
		n    int
		want string
	}{{"a/b", 3, "a/b"}, {"photos", 0, "photos"}, {"photos of 2020", 7, "photos…"}, {"日本語", 5, "日本…"}, {"日本語", 4, "日…"}, {"", 1, ""}} {
		if got := clip(c.s, c.n); got != c.want {
			t.Errorf("%q in %d: %q, want %q", c.s, c.n, got, c.want)
		}
	}
}

func TestBarShowsHowMuchIsDone(t *testing.T) {
	for _, c := range []struct {
		done, total int64
		n           int
		want        string
	}{{0, 9, 12, "[          ]"}, {5, 10, 12, "[====>     ]"}, {1, 1000, 12, "[          ]"}, {10, 10, 12, "[==========]"}, {11, 10, 12, "[==========]"}, {5, 10, 9, ""}, {0, 0, 12, ""}} {
		if got := bar(c.done, c.total, c.n); got != c.want {
			t.Errorf("%d of %d in %d: %q, want %q", c.done, c.total, c.n, got, c.want)
		}
	}
}

// screen is what a person sees of what was written to a terminal of 80 columns.
func screen(t *testing.T, written string) []string {
	t.Helper()
	rows, at := []string{""}, 0
	for len(written) > 0 {
		var up int
		switch {
		case strings.HasPrefix(written, "\x1b[J"):
			written = written[3:]
			rows = append(rows[:at], "")
		case strings.HasPrefix(written, "\x1b["):
			if _, err := fmt.Sscanf(written, "\x1b[%dA", &up); err != nil {
				t.Fatalf("%q", written)
			}
			at -= up
			_, written, _ = strings.Cut(written, "A")
		case written[0] == '\r':
			written = written[1:]
		case written[0] == '\n':
			rows, at, written = append(rows, ""), at+1, written[1:]
		default:
			r, n := utf8.DecodeRuneInString(written)
			if rows[at] += string(r); columnsOf(rows[at]) > 79 && !strings.HasPrefix(rows[at], verbatim) {
				t.Errorf("a row reaches the edge: %q", rows[at])
			}
			written = written[n:]
		}
	}
	return rows
}

func TestTheTerminalKeepsMessagesAboveWhatHappens(t *testing.T) {
	var b bytes.Buffer
	term := &terminal{w: &b, columns: func() int { return 80 }}
	three := func(int) []string { return []string{"[===>   ]", "a file", "and why"} }
	term.show("plain", three, true)
	fmt.Fprint(term, "source X ")
	fmt.Fprint(term, "is banned\nlevel=WARN ")
	term.show("plain", three, true)
	fmt.Fprint(term, "msg=x\n")
	term.show(strings.Repeat("reason ", 30), nil, true)
	if got, want := strings.Join(screen(t, b.String()), "|"), "source X is banned|level=WARN msg=x|"; !strings.HasPrefix(got, want+"reason ") || strings.Contains(got, "file") {
		t.Errorf("shows %q", got)
	}
	term.show("", func(int) []string { return strings.Split("1 2 3 4 5 6", " ") }, true)
	if got := screen(t, b.String()); strings.Join(got[2:], "|") != "1|2|3|  …" {
		t.Errorf("shows %q", got)
	}
	term.clear()
	if got := strings.Join(screen(t, b.String()), "|"); got != "source X is banned|level=WARN msg=x|" {
		t.Errorf("left %q", got)
	}
}

// A file gets whole lines, and each once; none of the status of a command that ends soon.
func TestAFileGetsLines(t *testing.T) {
	var b bytes.Buffer
	term := newTerminal(&b)
	term.show("0 of 2", nil, false)
	term.since = term.since.Add(-printEvery)
	term.show("1 of 2", nil, false)
	term.show("2 of 2", nil, false) // too soon
	term.show("2 of 2", nil, true)
	term.show("2 of 2", nil, true)
	fmt.Fprintln(term, strings.Repeat("long ", 50))
	term.clear()
	if got, want := b.String(), "1 of 2\n2 of 2\n"+strings.Repeat("long ", 50)+"\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
