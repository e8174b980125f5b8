package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// liveLine is the one line that tells a person what happens: rewritten in place
// on a terminal, and else a plain line now and then.
type liveLine struct {
	w     io.Writer
	fd    int
	tty   bool
	shown bool
	last  string
	at    time.Time
}

const (
	redrawEvery = 100 * time.Millisecond // on a terminal
	printEvery  = 5 * time.Second        // elsewhere
)

func newLiveLine(w io.Writer) *liveLine {
	l := &liveLine{w: w}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		l.fd, l.tty = int(f.Fd()), true
	}
	return l
}

// show is the present state. Unless now is set, it may be left out when the last
// was shown a moment ago.
func (l *liveLine) show(s string, now bool) {
	every := printEvery
	if l.tty {
		every = redrawEvery
	}
	if !now && time.Since(l.at) < every || s == l.last {
		return
	}
	l.at, l.last = time.Now(), s
	if !l.tty {
		fmt.Fprintln(l.w, s)
		return
	}
	if width, _, err := term.GetSize(l.fd); err == nil && width > 1 {
		s = cut(s, width-1)
	}
	fmt.Fprintf(l.w, "\r\x1b[K%s", s)
	l.shown = true
}

// clear takes the line away, so that something else can be printed.
func (l *liveLine) clear() {
	if l.shown {
		fmt.Fprint(l.w, "\r\x1b[K")
		l.shown = false
	}
	l.last = ""
}

// cut is s, of at most n runes.
func cut(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n-1]) + "…"
}

// size is bytes for people: three digits and a unit, powers of 1,000.
func size(n int64) string {
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	v := float64(n)
	for _, unit := range []string{"kB", "MB", "GB", "TB"} {
		if v /= 1000; v < 999.5 || unit == "TB" {
			prec := max(0, 2-len(fmt.Sprint(int(v)))+1)
			return strings.TrimSuffix(fmt.Sprintf("%.*f", min(prec, 2), v), ".") + " " + unit
		}
	}
	return ""
}

// printable is a name that came from elsewhere, safe for a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return '�'
		}
		return r
	}, s)
}
