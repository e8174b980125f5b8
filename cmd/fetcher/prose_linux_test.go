package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/piecelease/fetcher/api"
)

// What a person reads on a terminal is no wider than the terminal.
func TestTextOnATerminalIsWrapped(t *testing.T) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pseudo-terminals here: ", err)
	}
	defer master.Close()
	must(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	must(t, err)
	tty, err := os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pseudo-terminals here: ", err)
	}
	defer tty.Close()
	a := asker{&app{stdout: tty}}
	why := strings.Repeat("a reason ", 20)
	must(t, a.printEntry(api.Entry{ID: 1, State: api.Fetching, Name: "photos"}, []string{why}, nil))
	must(t, a.printStatus(api.Status{Warnings: []string{why}}, nil))
	a.stderr = newTerminal(io.Discard)
	must(t, a.printList([]api.Entry{{ID: 1, State: api.Served, Name: strings.Repeat("name", 30)}}))
	fmt.Fprintln(tty, "end")
	seen := 0
	for r := bufio.NewScanner(master); r.Scan() && r.Text() != "end"; {
		seen += strings.Count(r.Text(), "reason")
		if columnsOf(strings.TrimSpace(r.Text())) > 80 {
			t.Errorf("too wide: %s", r.Text())
		}
	}
	if seen != 40 {
		t.Errorf("%d of 40 words are there", seen)
	}
}

// An error about several files is on one line.
func TestAReasonIsOneLine(t *testing.T) {
	if got := describeEntry(api.Entry{State: api.Missing, Reason: "cannot be shared:\n  a: not UTF-8"}); got != "missing: cannot be shared: a: not UTF-8" {
		t.Errorf("%q", got)
	}
}
