package rounds_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/rounds/kvtest"
	"github.com/piecelease/fetcher/rounds/memkv"
)

// The golden files are promises: docs/formats.md.
func TestGoldenFiles(t *testing.T) {
	at := time.Date(2026, 11, 21, 10, 30, 0, 250e6, time.FixedZone("", 3600))
	for file, rec := range map[string]rounds.Record{
		"running.v1.json":   {Term: 7, Holder: "depot-1", Run: "5QYW", TTL: time.Hour, Acquired: at, Data: "/ip4/192.0.2.1/tcp/4001"},
		"office.v1.json":    {Term: 7, Holder: "depot-1", Run: "5QYW", TTL: 3 * time.Second, Office: true, Acquired: at},
		"completed.v1.json": {Term: 8, Holder: "depot-2", Run: "K3", TTL: 1500 * time.Millisecond, Acquired: at, State: rounds.Completed, Ended: at.Add(time.Minute), Outcome: "42 files"},
		"abandoned.v1.json": {Term: 1<<53 + 1, Holder: "depot-2", Run: "K3", TTL: time.Hour, Acquired: at, State: rounds.Abandoned, Ended: at.Add(time.Second), Outcome: "exit status 3"},
	} {
		want, err := os.ReadFile("testdata/" + file)
		ok(t, err)
		want = bytes.TrimSpace(want)
		if got := rec.Encode(); !bytes.Equal(got, want) {
			t.Errorf("%s:\n got %s\nwant %s", file, got, want)
		}
		back, err := rounds.DecodeRecord(want)
		ok(t, err)
		if back.Acquired, back.Ended = back.Acquired.UTC(), back.Ended.UTC(); !bytes.Equal(back.Encode(), want) {
			t.Errorf("%s was read as %+v", file, back)
		}
	}
	want, err := os.ReadFile("testdata/pointer.v1.json")
	ok(t, err)
	m := memkv.New()
	target := rounds.Target{Term: 7, Seq: 2, Value: "bafk..."}
	ok(t, newPointer(t, m).Publish(t.Context(), target))
	e, err := m.Get(t.Context(), pointerKey)
	ok(t, err)
	if !bytes.Equal(e.Value, bytes.TrimSpace(want)) {
		t.Errorf("got %s, want %s", e.Value, want)
	}
	if back, err := rounds.DecodeTarget(want); err != nil || back != target {
		t.Errorf("got %+v, %v", back, err)
	}
}

// docs/formats.md: all but office, and what follows acquired, are always present, and any other value is a damaged record.
func TestARecordThatLacksAFieldIsDamaged(t *testing.T) {
	const whole = `{"term":7,"holder":"depot-1","run":"5QYW","ttl_ms":3600000,"acquired":"2026-11-21T09:30:00.25Z"}`
	if _, err := rounds.DecodeRecord([]byte(whole)); err != nil {
		t.Fatal(err)
	}
	for _, cut := range []string{`"term":7,`, `"holder":"depot-1",`, `"run":"5QYW",`, `"ttl_ms":3600000,`, `,"acquired":"2026-11-21T09:30:00.25Z"`} {
		if rec, err := rounds.DecodeRecord([]byte(strings.Replace(whole, cut, "", 1))); !errors.Is(err, rounds.ErrCorrupt) {
			t.Errorf("without %s it is read as %+v, %v", cut, rec, err)
		}
	}
	for _, at := range []string{"1969-12-31T23:59:59Z", "0001-01-01T00:00:01Z"} {
		if rec, err := rounds.DecodeRecord([]byte(strings.Replace(whole, "2026-11-21T09:30:00.25Z", at, 1))); !errors.Is(err, rounds.ErrCorrupt) {
			t.Errorf("acquired in %s it is read as %+v, %v", at, rec, err)
		}
	}
}

func TestRecordsSurviveTheirEncoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(0, -1, 200)
		rec := rounds.Record{
			Term: rapid.Uint64Range(1, rounds.MaxTerm).Draw(t, "term"), Holder: "h" + text.Draw(t, "holder"), Run: "r" + text.Draw(t, "run"), Office: rapid.Bool().Draw(t, "office"),
			TTL: time.Duration(rapid.Int64Range(1, 1<<40).Draw(t, "ttl")) * time.Millisecond, Acquired: time.UnixMilli(rapid.Int64Range(0, 1<<47).Draw(t, "acquired")).UTC(),
			Outcome: text.Draw(t, "outcome"), Data: text.Draw(t, "data"), State: rounds.State(rapid.IntRange(0, 2).Draw(t, "state")),
		}
		if rec.State != rounds.Running {
			rec.Ended = time.UnixMilli(rapid.Int64Range(0, 1<<47).Draw(t, "ended")).UTC()
		}
		if back, err := rounds.DecodeRecord(rec.Encode()); err != nil || back != rec {
			t.Errorf("%+v became %+v, %v", rec, back, err)
		}
	})
}

// A clock may show anything; what is written can still be read.
func TestClocksThatAreWrongByCenturies(t *testing.T) {
	for _, jump := range []time.Duration{-290 * 365 * 24 * time.Hour, 290 * 365 * 24 * time.Hour} {
		m := memkv.New()
		a := job(t, m, "a")
		for range 40 {
			a.Jump(jump)
		}
		g := a.free(t, time.Hour, 1)
		ok(t, g.Complete(t.Context(), "done"))
		if year := current(t, m).Acquired.Year(); year != 1970 && year != 9999 {
			t.Errorf("acquired in %d", year)
		}
		job(t, m, "b").free(t, time.Hour, 2) // and it blocks nobody
	}
}

func TestOutcomesAreCut(t *testing.T) {
	m := memkv.New()
	a := job(t, m, "a")
	for _, outcome := range []string{strings.Repeat("ä", 2000), "x" + strings.Repeat("ä", 2000), strings.Repeat("\xff\x00\"", 5000)} {
		ok(t, kvtest.Free(t, a.Round, time.Hour).Complete(t.Context(), outcome))
		if got := current(t, m).Outcome; len(got) > rounds.MaxOutcome || len(got) < rounds.MaxOutcome-3 || !utf8.ValidString(got) {
			t.Errorf("kept %d bytes", len(got))
		}
		a.Pass(time.Hour)
	}
}

func FuzzRecord(f *testing.F) {
	for _, s := range []string{`{"term":7,"holder":"a","run":"r","ttl_ms":1000,"acquired":"2030-01-01T12:00:00Z","completed":"2030-01-01T12:00:00Z"}`, `{}`, `null`, ``} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		rec, err := rounds.DecodeRecord(value)
		if err != nil {
			if !errors.Is(err, rounds.ErrCorrupt) {
				t.Errorf("%v is no ErrCorrupt", err)
			}
			return
		}
		back, err := rounds.DecodeRecord(rec.Encode())
		if err != nil || back.Term != rec.Term || back.State != rec.State {
			t.Errorf("%+v became %+v, %v", rec, back, err)
		}
		if rec.Expires().Before(rec.Acquired) {
			t.Errorf("%+v expires before it was acquired", rec)
		}
	})
}

func FuzzTarget(f *testing.F) {
	f.Add([]byte(`{"term":7,"seq":1,"target":"x"}`))
	f.Fuzz(func(t *testing.T, value []byte) {
		target, err := rounds.DecodeTarget(value)
		if err != nil {
			if !errors.Is(err, rounds.ErrCorrupt) {
				t.Errorf("%v is no ErrCorrupt", err)
			}
			return
		}
		again, err := json.Marshal(target)
		if back, err2 := rounds.DecodeTarget(again); err != nil || err2 != nil || back != target {
			t.Errorf("%+v became %+v, %v, %v", target, back, err, err2)
		}
	})
}
