package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
	"golang.org/x/text/width"
)

// terminal is stderr. On a terminal, lines are wrapped at words, and below
// them is the current status, rewritten in place; otherwise lines are as they
// are, and the status is a line now and then. It is safe for concurrent use.
type terminal struct {
	w       io.Writer
	columns func() int          // 0: it is not a terminal
	edit    func(string) string // what is written is edited by it; nil: it is not

	mu    sync.Mutex // guards the fields below
	part  []byte     // of an unfinished line
	rows  int        // of the current status
	last  string
	since time.Time // when it was last shown
}

const (
	redrawEvery = 100 * time.Millisecond // on a terminal
	printEvery  = 5 * time.Second        // elsewhere
	maxRows     = 4                      // of the current status
)

func newTerminal(w io.Writer) *terminal {
	t := &terminal{w: w, columns: func() int { return 0 }, since: time.Now()} // a command that ends soon shows no status
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		t.columns = func() int {
			if n, _, err := term.GetSize(int(f.Fd())); err == nil && n > 0 {
				return n
			}
			return 80
		}
		t.since = time.Time{}
	}
	return t
}

// Write prints the lines that are now complete, above the current status.
func (t *terminal) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, text := t.columns(), string(b)
	if t.edit != nil {
		text = t.edit(text)
	}
	if n == 0 {
		_, err := io.WriteString(t.w, text)
		return len(b), err
	}
	t.part = append(t.part, text...)
	end := bytes.LastIndexByte(t.part, '\n') + 1
	if end == 0 {
		return len(b), nil
	}
	out := t.erased()
	for line := range strings.Lines(string(t.part[:end])) {
		for _, s := range wrap(strings.TrimSuffix(line, "\n"), n) {
			out += s + "\n"
		}
	}
	t.part = append(t.part[:0], t.part[end:]...)
	_, err := io.WriteString(t.w, out)
	return len(b), err
}

// show updates the status: plain in one line, or on a terminal what draw
// makes for its width, if it is set. Unless now is set, it may be left out if the
// last was shown a moment ago.
func (t *terminal) show(plain string, draw func(columns int) []string, now bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, every := t.columns(), redrawEvery
	if n == 0 {
		every = printEvery
	}
	if !now && time.Since(t.since) < every {
		return
	}
	text := plain + "\n"
	if n > 0 {
		rows := wrap(plain, n-1)
		if draw != nil {
			rows = draw(n - 1)
		}
		if len(rows) > maxRows {
			rows = append(rows[:maxRows-1], "  …")
		}
		text = strings.Join(rows, "\n")
	}
	if text == t.last {
		return
	}
	t.since, t.last = time.Now(), text
	io.WriteString(t.w, t.erased()+text)
	if n > 0 {
		t.rows = strings.Count(text, "\n") + 1
	}
}

// clear removes the current status.
func (t *terminal) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	io.WriteString(t.w, t.erased())
	t.last = ""
}

// erased is the sequence that removes the rows that are shown.
func (t *terminal) erased() string {
	up := ""
	switch t.rows {
	case 0:
		return ""
	case 1:
	default:
		up = fmt.Sprintf("\x1b[%dA", t.rows-1)
	}
	t.rows, t.last = 0, ""
	return "\r" + up + "\x1b[J"
}

// verbatim begins a line that is to be copied, and so is never wrapped.
const verbatim = "    "

// own says whether a line is one to be copied, and not part of a table.
func own(line string) bool {
	rest, ok := strings.CutPrefix(line, verbatim)
	return ok && !strings.HasPrefix(rest, " ")
}

// wrap breaks a line at spaces, so that each part has at most n columns, or is one word.
func wrap(line string, n int) (out []string) {
	indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
	if columnsOf(line) <= n || own(line) {
		return []string{line}
	}
	now := indent
	for rest := line[len(indent):]; rest != ""; {
		gap := rest[:len(rest)-len(strings.TrimLeft(rest, " "))]
		word, _, _ := strings.Cut(rest[len(gap):], " ")
		rest = rest[len(gap)+len(word):]
		switch {
		case word == "": // the end of the line
		case columnsOf(now)+len(gap)+columnsOf(word) <= n, columnsOf(indent+"  "+word) > n: // too long anywhere
			now += gap + word
		default:
			out = append(out, now)
			now = indent + "  " + word
		}
	}
	return append(out, now)
}

// columnsOf is how many columns of a terminal s takes.
func columnsOf(s string) (n int) {
	for _, r := range s {
		switch k := width.LookupRune(r).Kind(); {
		case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		case k == width.EastAsianWide || k == width.EastAsianFullwidth:
			n += 2
		default:
			n++
		}
	}
	return n
}

// tail is the end of s that fits into n columns, with a mark if it was cut.
func tail(s string, n int) string {
	if columnsOf(s) <= n {
		return s
	}
	r := []rune(s)
	from, used := len(r), 1
	for from > 0 {
		if used += columnsOf(string(r[from-1])); used > n {
			break
		}
		from--
	}
	return "…" + string(r[from:])
}

// clip is the beginning of s that fits into n columns, with a mark if it was cut; 0 is no bound.
func clip(s string, n int) string {
	if n == 0 || columnsOf(s) <= n {
		return s
	}
	r := []rune(s)
	for columnsOf(string(r)) >= n {
		r = r[:len(r)-1]
	}
	return string(r) + "…"
}

// bar is a progress bar, n columns wide; "" if that is too narrow.
func bar(done, total int64, n int) string {
	if n -= 2; n < 8 || total <= 0 {
		return ""
	}
	full := int(float64(n) * min(1, float64(done)/float64(total)))
	head := ""
	if full > 0 && full < n {
		head = ">"
	}
	return "[" + strings.Repeat("=", full-len(head)) + head + strings.Repeat(" ", n-full) + "]"
}

// plainText is lines that are safe for a terminal, whatever is named in them.
func plainText(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = printable(lines[i])
	}
	return strings.Join(lines, "\n")
}

// printable is a name from elsewhere, made safe for a terminal: a pattern that matches it, too.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || r < 0x20 || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return '?'
		}
		return r
	}, s)
}
