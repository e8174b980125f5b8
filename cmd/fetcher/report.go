package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/piecelease/fetcher"
)

// reporter writes one JSON object per line: first hello, last summary, events in
// between. Readers must ignore types and fields that they do not know.
// docs/json.md has the schema. It is safe for concurrent use, and silent when
// JSON was not asked for.
type reporter struct {
	w    io.Writer
	on   bool
	edit func(string) string // what people read in it is edited by it; nil: it is not

	mu      sync.Mutex
	seq     int
	summary map[string]any
	told    time.Time // when throttled last wrote
	lost    error     // why a line was not written
}

const schemaVersion = 1

// sentences are the fields for people: a string each, or several.
var sentences = []string{"advice", "message", "passes_trouble", "reason", "refused", "stuck", "text", "trouble", "warnings", "why"}

func newReporter(w io.Writer, on bool) *reporter {
	r := &reporter{w: w, on: on, summary: map[string]any{}}
	r.write("hello", map[string]any{"version": fetcher.Version()})
	return r
}

// write writes one line of a type, with the fields that encoding/json makes of some values;
// a later one takes precedence. Every line has v, type, seq and t.
func (r *reporter) write(typ string, values ...any) {
	if !r.on {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	line := map[string]any{}
	for _, v := range values {
		b, err := json.Marshal(v)
		var fields map[string]json.RawMessage
		if err := errors.Join(err, json.Unmarshal(b, &fields)); err != nil {
			panic(err) // plain values only
		}
		for name, value := range fields {
			line[name] = r.edited(name, value)
		}
	}
	line["v"], line["type"], line["seq"] = schemaVersion, typ, r.seq
	line["t"] = time.Now().UTC().Format("2006-01-02T15:04:05.000Z")
	r.seq++
	b, err := json.Marshal(line)
	if err != nil {
		panic(err) // plain values only
	}
	if _, err := (sink{r.w}).Write(append(b, '\n')); !errors.Is(err, errPipe) { // a reader that has gone is not our error
		r.lost = cmp.Or(r.lost, err)
	}
}

// edited is the value of a field, with the sentences in it edited.
func (r *reporter) edited(name string, value json.RawMessage) any {
	if r.edit == nil || !slices.Contains(sentences, name) {
		return value
	}
	var one *string
	if json.Unmarshal(value, &one) == nil && one != nil {
		return r.edit(*one)
	}
	var more []string
	if json.Unmarshal(value, &more) != nil || more == nil {
		return value
	}
	for i, s := range more {
		more[i] = r.edit(s)
	}
	return more
}

// sum sets fields of the summary.
func (r *reporter) sum(fields map[string]any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.Copy(r.summary, fields)
}

// finish writes the error, if any, and the summary.
func (r *reporter) finish(code int, err error) {
	if err != nil {
		_, name := outcome(err)
		r.write("error", map[string]any{"code": code, "name": name, "message": sentence(err)})
	}
	r.sum(map[string]any{"exit": code})
	r.write("summary", r.summary)
}

const progressEvery = 100 * time.Millisecond

// throttled is write, at most ten times a second.
func (r *reporter) throttled(typ string, values ...any) {
	r.mu.Lock()
	soon := time.Since(r.told) < progressEvery
	if !soon {
		r.told = time.Now()
	}
	r.mu.Unlock()
	if !soon {
		r.write(typ, values...)
	}
}
