package main

import (
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher"
)

func TestPictureFitsTheTerminal(t *testing.T) {
	half := fetcher.Progress{State: fetcher.Fetching, Name: "movie", Bytes: 40e6, Verified: 10e6, Pieces: 40, Rate: 4.2e6, File: "cd1/a.avi", Sources: []fetcher.Source{{State: fetcher.Active}}}
	with := func(change func(*fetcher.Progress)) fetcher.Progress {
		p := half
		change(&p)
		return p
	}
	long := strings.Repeat("none of 3 sources is connected and this goes on ", 8)
	for name, c := range map[string]struct {
		p       fetcher.Progress
		columns int
		want    string // rows
	}{
		"fetching": {half, 79, "[======>                        ] 25 %, 10.0 MB of 40.0 MB, 4.20 MB/s, 8 s left|movie/cd1/a.avi, from 1 source"},
		"waiting":  {with(func(p *fetcher.Progress) { p.Reason = "no source is known, so nothing can come before there is one" }), 50, "[====>                  ] 25 %, 10.0 MB of 40.0 MB|no source is known, so nothing can come before|  there is one"},
		"finding":  {fetcher.Progress{State: fetcher.Finding, Reason: "asking\x1b[2J"}, 79, "looking for a source: asking?[2J"},
		"listing":  {fetcher.Progress{State: fetcher.Finding, Wait: fetcher.ForBytes, Reason: "getting the list of files from a"}, 79, "getting the list of files from a"},
		"opening":  {fetcher.Progress{State: fetcher.Opening}, 79, "opening"},
		"narrow":   {half, 30, "25 %, 10.0 MB of 40.0 MB, 4.20|  MB/s, 8 s left|movie/cd1/a.avi, from 1 source"},
		"deep":     {with(func(p *fetcher.Progress) { p.File = "日本語/" + strings.Repeat("x/", 50) + "映画.mkv"; p.Rate = 0 }), 40, "25 %, 10.0 MB of 40.0 MB, 0 B/s|…x/x/x/x/x/x/x/x/映画.mkv, from 1 source"},
		"empty":    {fetcher.Progress{State: fetcher.Finishing, Name: "x", Pieces: 1, Reason: "writing the last data to the disk"}, 60, "0 B of 0 B|writing the last data to the disk"},
		"long":     {with(func(p *fetcher.Progress) { p.Reason = long }), 79, ""},
	} {
		rows := picture(c.p)(c.columns)
		if got := strings.Join(rows, "|"); c.want != "" && got != c.want {
			t.Errorf("%s:\n%s, want\n%s", name, got, c.want)
		}
		for _, r := range rows {
			if columnsOf(r) > c.columns {
				t.Errorf("%s: %d columns of %d: %s", name, columnsOf(r), c.columns, r)
			}
		}
		if name == "long" && strings.Join(strings.Fields(strings.Join(rows[1:], " ")), " ") != strings.TrimSpace(long) {
			t.Errorf("of the reason are shown %q", rows[1:])
		}
	}
}

func TestAchievedHasSizeTimeAndSpeed(t *testing.T) {
	for want, p := range map[string]fetcher.Progress{
		"40.0 MB in 8 s, 5.00 MB/s":                                         {Bytes: 40e6, Verified: 40e6},
		"40.0 MB, of which 10.0 MB was fetched this time in 8 s, 1.25 MB/s": {Bytes: 40e6, Verified: 40e6, Resumed: 30e6},
		"40.0 MB, all of which was here":                                    {Bytes: 40e6, Verified: 40e6, Resumed: 40e6},
		"0 B, all of which was here":                                        {},
	} {
		if got := achieved(p, 8*time.Second); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
