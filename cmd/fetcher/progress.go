package main

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/share"
)

// active is how many sources are connected.
func active(p fetcher.Progress) (n int) {
	for _, s := range p.Sources {
		if s.State.Connected() {
			n++
		}
	}
	return n
}

// planned says whether it is known what will be fetched.
func planned(p fetcher.Progress) bool { return p.Bytes > 0 || p.Pieces > 0 }

// describe sums up a transfer on one line.
func describe(p fetcher.Progress) string {
	if !planned(p) {
		if p.Lists() {
			return printable(p.Reason)
		}
		return strings.TrimSuffix(either(p.State == fetcher.Finding, "looking for a source", p.State.String())+": "+printable(p.Reason), ": ")
	}
	s := doneOf(p) + fmt.Sprintf("%s of %s", share.Size(p.Verified), share.Size(p.Bytes))
	if p.Reason != "" { // nothing moves; the reason is what matters
		return s + ": " + printable(p.Reason)
	}
	return s + speed(p) + ", " + words.Count(active(p), "source")
}

// picture draws a transfer for a terminal: a bar, and below it the file that is being
// fetched, or why nothing moves.
func picture(p fetcher.Progress) func(columns int) []string {
	return func(columns int) []string {
		if !planned(p) {
			return wrap(describe(p), columns)
		}
		head := doneOf(p) + fmt.Sprintf("%s of %s", share.Size(p.Verified), share.Size(p.Bytes))
		if p.Reason == "" {
			head += speed(p)
		}
		if b := bar(p.Verified, p.Bytes, columns-columnsOf(head)-1); b != "" {
			head = b + " " + head
		}
		rows := wrap(head, columns)
		switch from := ", from " + words.Count(active(p), "source"); {
		case p.Reason != "":
			rows = append(rows, wrap(printable(p.Reason), columns)...)
		case p.File != "":
			file := p.File
			if file != p.Name { // as ls prints it
				file = p.Name + "/" + file
			}
			rows = append(rows, tail(printable(file), columns-columnsOf(from))+from)
		}
		return rows
	}
}

func doneOf(p fetcher.Progress) string {
	if p.Bytes == 0 {
		return ""
	}
	return fmt.Sprintf("%d %%, ", p.Verified*100/p.Bytes)
}

// speed is the rate of a transfer and the time it will take.
func speed(p fetcher.Progress) string {
	s := fmt.Sprintf(", %s/s", share.Size(int64(p.Rate)))
	if left := p.Bytes - p.Verified; p.Rate > 1 && left > 0 {
		s += fmt.Sprintf(", %s left", words.Duration(time.Duration(math.Ceil(float64(left)/p.Rate))*time.Second))
	}
	return s
}

// achieved is what a complete transfer has done in a time.
func achieved(p fetcher.Progress, took time.Duration) string {
	s, fetched := share.Size(p.Bytes), p.Verified-p.Resumed
	switch {
	case fetched <= 0:
		return s + ", all of which was here"
	case p.Resumed > 0:
		s += fmt.Sprintf(", of which %s was fetched this time", share.Size(fetched))
	}
	return s + fmt.Sprintf(" in %s, %s/s", brief(took), share.Size(int64(float64(fetched)/took.Seconds())))
}
