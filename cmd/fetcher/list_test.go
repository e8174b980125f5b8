package main

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/piecelease/fetcher/api"
)

func TestAChildIsDescribed(t *testing.T) {
	at := time.Unix(1e9, 0)
	c := api.Child{Peer: "12D3KooWabcdefgh", Bytes: 3 << 20, Since: at.Add(-90 * time.Second), Set: "passive", Tier: 1, Score: 0.456, Moved: at.Add(-12 * time.Second), Why: "gave-way"}
	if got, want := describeChild(c, at), "abcdefgh, 3.15 MB in 90 s, passive for 12 s, because peers of its tier and location, or of its network, had more than their share of the places, tier 1, score 0.46"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	c.Set, c.Why = "outside", ""
	if got, want := describeChild(c, at), "abcdefgh, 3.15 MB in 90 s, outside"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A fetch from many sources does not fill the screen: what it waits for comes first, then the first of its missing
// pieces and of its sources.
func TestWhyIsShort(t *testing.T) {
	why := []string{"fetching"}
	for i := range 22 {
		why = append(why, fmt.Sprint("source ", i, ": active"))
	}
	why = append(why, "a, piece 1: leased", "paced by the download limit")
	got := shortened(why)
	want := []string{"fetching", "a, piece 1: leased", "paced by the download limit", "source 0: active", "source 1: active", "source 2: active", "source 3: active", "source 4: active", "and 17 more sources"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	pieces := []string{"fetching"}
	for i := range 8 {
		pieces = append(pieces, fmt.Sprint("a, piece ", i, ": leased"))
	}
	if got := shortened(pieces); got[len(got)-1] != "and 3 more lines about pieces" {
		t.Errorf("got %q", got)
	}
	if got := shortened(nil); len(got) != 0 {
		t.Errorf("%q of nothing", got)
	}
}

// What is waited for names the sources, so they are not counted twice.
func TestSourcesAreCountedOnce(t *testing.T) {
	e := api.Entry{State: api.Fetching, Bytes: 100, Verified: 50, Reason: "no connection to 1 source (a: refused)"}
	if got, want := describeEntry(e), "50 %, 50 B of 100 B, 0 B/s: no connection to 1 source (a: refused)"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	e.Reason = ""
	if got, want := describeEntry(e), "50 %, 50 B of 100 B, 0 B/s, 0 sources"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// The lines of a reason are told apart where it is on one line.
func TestAReasonIsOnOneLine(t *testing.T) {
	e := api.Entry{Reason: "/x: cannot be shared:\n  \"a\": permission denied\n  \"b\": permission denied. Let that user read it"}
	if got, want := oneLine(e.Reason), `/x: cannot be shared: "a": permission denied; "b": permission denied. Let that user read it`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The error about one of several paths names it once.
func TestOneOfSeveralIsNamedOnce(t *testing.T) {
	for _, x := range []struct {
		path, err string
		last      bool
		want      string
	}{
		{"/a", "the node has that already", true, "/a: the node has that already"},
		{"/a", "the node has that already", false, "/a: the node has that already; the arguments after this one were not added"},
		{"/a", "/a is a link", false, "/a is a link; the arguments after this one were not added"},
		{"/a", "not added: /a: cannot be shared:\n  \"x\": no", false, "not added: /a: cannot be shared:\n  \"x\": no\nthe arguments after this one were not added"},
		{"/a", "not added: \"may not read all of /a\"", true, "not added: \"may not read all of /a\""},
		{"/a", "/ab is a link", true, "/a: /ab is a link"},
		{"/a", "it is as /ab, and /a", true, "it is as /ab, and /a"},
	} {
		if got := ofOne(api.Add{Paths: []string{x.path}}, errors.New(x.err), x.last); got.Error() != x.want {
			t.Errorf("%+v: %q", x, got)
		}
	}
	if got := ofOne(api.Add{Ticket: "T"}, errors.New("no"), true); got.Error() != "T: no" {
		t.Error(got)
	}
}
