package transfer

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// Events in JSON are the lines that docs/json.md describes for their types: the command
// and the API of a node write the same values.

// MarshalText is the state's word.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalText returns the word.
func (w Wait) MarshalText() ([]byte, error) { return []byte(w.String()), nil }

// MarshalText is the state's word.
func (s SourceState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the state's word.
func (s *SourceState) UnmarshalText(b []byte) error {
	i := slices.Index(sourceStates[:], string(b))
	if i < 0 {
		return fmt.Errorf("%q is not a state of a source", b)
	}
	*s = SourceState(i)
	return nil
}

// MarshalJSON writes what was chosen of the share, and all of it.
func (p Planned) MarshalJSON() ([]byte, error) {
	m := p.Manifest
	files, _, _ := m.Count()
	return json.Marshal(struct {
		Type       string   `json:"type"`
		Share      share.ID `json:"share"`
		Name       string   `json:"name"`
		Bytes      int64    `json:"bytes"`
		Files      int      `json:"files"`
		Dirs       int      `json:"dirs"`
		Links      int      `json:"links"`
		Missing    int      `json:"missing_pieces"`
		Resumed    int64    `json:"resumed_bytes"`
		ShareBytes int64    `json:"share_bytes"`
		ShareFiles int      `json:"share_files"`
	}{"plan", m.ID(), m.Name, p.Bytes, p.Files, p.Dirs, p.Links, p.Pieces, p.Resumed, m.Layout().Bytes(), files})
}

// MarshalJSON writes the number of connected sources.
func (p Progress) MarshalJSON() ([]byte, error) {
	type plain Progress
	connected := 0
	for _, s := range p.Sources {
		if s.State.Connected() {
			connected++
		}
	}
	p.Rate = math.Trunc(p.Rate)
	return json.Marshal(struct {
		Type string `json:"type"`
		plain
		Wire      int64 `json:"wire_bytes"`
		Connected int   `json:"sources"`
	}{"progress", plain(p), p.WireIn + p.WireOut, connected})
}

// plainSource is a Source as written: whole bytes per second, and milliseconds.
type plainSource Source

func (s Source) plain() plainSource {
	s.Rate, s.RTT = math.Trunc(s.Rate), s.RTT/time.Millisecond
	return plainSource(s)
}

// MarshalJSON writes whole bytes per second, and milliseconds.
func (s Source) MarshalJSON() ([]byte, error) { return json.Marshal(s.plain()) }

// UnmarshalJSON reads what MarshalJSON writes.
func (s *Source) UnmarshalJSON(b []byte) error {
	err := json.Unmarshal(b, (*plainSource)(s))
	s.RTT *= time.Millisecond
	return err
}

// MarshalJSON writes the fields of the source.
func (e SourceChanged) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Type string `json:"type"`
		plainSource
	}{"source", e.Source.plain()})
}

// MarshalJSON has the time in seconds.
func (e Stalled) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Type    string   `json:"type"`
		Seconds float64  `json:"seconds"`
		Reason  string   `json:"reason"`
		Why     []string `json:"why"`
	}{"stall", e.For.Seconds(), e.Reason, append([]string{}, e.Why...)})
}

// MarshalJSON has the time in seconds.
func (e LeaseEvent) MarshalJSON() ([]byte, error) {
	why := ""
	if e.End == leasemgr.Failed {
		why = e.Why.String()
	}
	return json.Marshal(struct {
		Type    string      `json:"type"`
		Piece   share.Piece `json:"piece"`
		Peer    peers.ID    `json:"peer"`
		Token   share.Token `json:"token"`
		At      time.Time   `json:"at"`
		State   string      `json:"state"`
		Hedge   bool        `json:"hedge"`
		Seconds float64     `json:"seconds"`
		Bytes   int64       `json:"bytes"`
		Why     string      `json:"why,omitempty"`
	}{"lease", e.Piece, e.Source, e.Token, e.At, e.End.String(), e.Hedge, e.Held.Seconds(), e.Bytes, why})
}

// MarshalJSON writes the text of the error.
func (e Ended) MarshalJSON() ([]byte, error) {
	why := ""
	if e.Err != nil {
		why = e.Err.Error()
	}
	return json.Marshal(struct {
		Type  string   `json:"type"`
		Path  string   `json:"path,omitempty"`
		Error string   `json:"error,omitempty"`
		Last  Progress `json:"last"`
	}{"end", e.Path, why, e.Last})
}
