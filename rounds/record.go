package rounds

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/piecelease/fetcher/internal/words"
)

// A Record is what a store keeps of a round: who holds it, or held it last. In
// the store it is JSON, for an operator to read with the store's own tools;
// docs/formats.md has it.
type Record struct {
	Term     uint64        // grows with each holder
	Holder   string        // who won it: see [Config]
	Run      string        // which run of the holder
	TTL      time.Duration // how long it lasts; an office, unless its holder extends it
	Office   bool          // it is an office: nothing here says until when
	Acquired time.Time     // when it was won, by the holder's wall clock
	State    State
	Ended    time.Time // when it was completed or abandoned, by the holder's wall clock
	Outcome  string    // what came of it
	Data     string    // what others should know about the holder
}

// State is how far a round has got.
type State int

// The states of a round.
const (
	Running   State = iota // or its holder died
	Completed              // the round lasts until its time is over
	Abandoned              // the round is free
)

func (s State) String() string { return [...]string{"running", "completed", "abandoned"}[s] }

// Bounds of a record. A larger one counts as damaged.
const (
	MaxHolder  = 256     // bytes
	MaxOutcome = 1 << 10 // bytes; longer ones are cut
	MaxData    = 4 << 10 // bytes
	MaxTerm    = 1 << 62

	maxRecord = 40 << 10 // JSON may take six bytes for each one
)

// ErrNever means that a round was never held, or a pointer never set.
var ErrNever = errors.New("it has never been written")

// ErrCorrupt means that the stored value cannot be read. Such a round is free.
var ErrCorrupt = errors.New("what is stored is damaged")

// recordJSON is the form of a record in the store.
type recordJSON struct {
	Term      uint64     `json:"term"`
	Holder    string     `json:"holder"`
	Run       string     `json:"run"`
	TTL       int64      `json:"ttl_ms"`
	Office    bool       `json:"office,omitempty"`
	Acquired  time.Time  `json:"acquired"`
	Completed *time.Time `json:"completed,omitempty"`
	Abandoned *time.Time `json:"abandoned,omitempty"`
	Outcome   string     `json:"outcome,omitempty"`
	Data      string     `json:"data,omitempty"`
}

func (r Record) encode() []byte {
	j := recordJSON{Term: r.Term, Holder: r.Holder, Run: r.Run, TTL: r.TTL.Milliseconds(), Office: r.Office, Acquired: stamp(r.Acquired), Outcome: r.Outcome, Data: r.Data}
	ended := stamp(r.Ended)
	switch r.State {
	case Completed:
		j.Completed = &ended
	case Abandoned:
		j.Abandoned = &ended
	}
	out, err := json.Marshal(j)
	if err != nil {
		panic(err) // cannot fail: stamp keeps to the years that JSON can hold
	}
	return out
}

// stamp returns a wall clock's time as it is stored: UTC, whole milliseconds, not before
// 1970 and within the years that RFC 3339 can express.
func stamp(t time.Time) time.Time {
	t = t.UTC().Round(0).Truncate(time.Millisecond)
	if epoch := time.Unix(0, 0).UTC(); t.Before(epoch) {
		return epoch
	}
	if t.Year() > 9999 {
		return time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	}
	return t
}

// decodeRecord reads what encode wrote. The error is always an ErrCorrupt and says what is
// wrong.
func decodeRecord(value []byte) (Record, error) {
	var j recordJSON
	if err := decodeJSON(value, &j); err != nil {
		return Record{}, err
	}
	r := Record{Term: j.Term, Holder: j.Holder, Run: j.Run, Office: j.Office, Acquired: j.Acquired, Outcome: j.Outcome, Data: j.Data}
	r.TTL = time.Duration(min(j.TTL, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
	switch {
	case j.Completed != nil:
		r.State, r.Ended = Completed, *j.Completed
	case j.Abandoned != nil:
		r.State, r.Ended = Abandoned, *j.Abandoned
	}
	for _, bad := range []struct {
		is   bool
		what string
	}{
		{j.Term == 0 || j.Term > MaxTerm, "its term is out of range"},
		{j.Holder == "" || len(j.Holder) > MaxHolder, "it names no holder, or one with too long a name"},
		{j.Run == "", "it names no run of its holder"},
		{len(j.Run) > MaxHolder || len(j.Outcome) > MaxOutcome || len(j.Data) > MaxData, "it is too long"},
		{j.TTL <= 0, "it has no ttl"},
		{j.Acquired.Before(time.Unix(0, 0)), "it was never acquired"},
		{j.Completed != nil && j.Abandoned != nil, "it says both that it was completed and that it was abandoned"},
	} {
		if bad.is {
			return Record{}, fmt.Errorf("%w: %s", ErrCorrupt, bad.what)
		}
	}
	return r, nil
}

// decodeJSON reads one JSON object into v.
func decodeJSON(value []byte, v any) error {
	switch {
	case len(value) == 0:
		return words.Error(ErrCorrupt, "its record was deleted")
	case len(value) > maxRecord:
		return fmt.Errorf("%w: it has %d bytes, and may have at most %d", ErrCorrupt, len(value), maxRecord)
	}
	if err := json.Unmarshal(value, v); err != nil {
		return fmt.Errorf("%w: %v", ErrCorrupt, err)
	}
	return nil
}

// Expires returns when a job's round is over, by the wall clock.
func (r Record) Expires() time.Time { return r.Acquired.Add(r.TTL) }

// by reports whether the record was written by that run of that holder.
func (r Record) by(c *Config) bool { return r.Holder == c.Holder && r.Run == c.Run }

// cut shortens a text to max bytes and makes it fit for JSON.
func cut(s string, max int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= max {
		return s
	}
	for s = s[:max]; len(s) > 0; s = s[:len(s)-1] {
		if r, size := utf8.DecodeLastRuneInString(s); r != utf8.RuneError || size != 1 {
			break
		}
	}
	return s
}
