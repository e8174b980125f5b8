package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/piecelease/fetcher/internal/words"
)

// span is the value of a flag that is a time. It is shown as it was typed, or as people write it.
type span struct {
	to        *time.Duration
	low, high time.Duration
	text      string // that was typed
}

// maxWait is the longest time to wait for something.
const maxWait = 366 * 24 * time.Hour

// spanVar makes a flag that is a time, from low to high.
func spanVar(f *pflag.FlagSet, to *time.Duration, name string, usual, low, high time.Duration, usage string) {
	*to = usual
	f.Var(&span{to: to, low: low, high: high}, name, usage)
}

func (s *span) Set(text string) error {
	d, err := words.ParseDuration(text)
	if err == nil && (d < s.low || d > s.high) {
		err = fmt.Errorf("it must be from %s to %s, not %s", words.Duration(s.low), words.Duration(s.high), text)
	}
	if err == nil {
		*s.to, s.text = d, text
	}
	return err
}

func (s *span) Type() string { return "" } // its errors have their own words

func (s *span) String() string {
	if s.to == nil { // pflag asks a zero value how the default looks
		return "0"
	}
	return cmp.Or(s.text, typed(*s.to))
}

// typed is a time as people type it: 1m and 900h, where Go writes 1m0s and 900h0m0s.
func typed(d time.Duration) string {
	if d == 0 {
		return "0"
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
