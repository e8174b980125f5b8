package main

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"testing"
)

// What is logged from warnings on is said to a person in one line.
func TestWarningsAreMessages(t *testing.T) {
	var b bytes.Buffer
	log := slog.New(warnings{to: &b}).With("dir", "/x")
	log.Info("nothing of interest")
	log.WithGroup("libp2p").Warn("it was not saved", "free_bytes", 7, "error", &fs.PathError{Op: "open", Path: "/x\x1b", Err: errors.New("why")})
	log.Error("it has ended")
	if got, want := b.String(), "warning: it was not saved (dir /x, free bytes 7): /x\uFFFD cannot be opened: why\nerror: it has ended (dir /x)\n"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
