package transfer

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// This is what programs read: docs/json.md has these names and meanings.
func TestEventsInJSON(t *testing.T) {
	m, err := share.NewManifest("folder", []share.Entry{{Path: "c", Kind: share.Dir}, {Path: "e", Kind: share.Symlink, Target: "c"}})
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2000, 1, 2, 3, 4, 5, 0, time.UTC)
	src := Source{Peer: "p", Via: peers.ViaLAN, State: Active, Since: at, Why: "w", Bytes: 1, Pieces: 2, BadBlocks: 3, Failures: Failures{6, 7, 8, 9}, Banned: true, Lie: "l", Rate: 4.9, RTT: 5_900 * time.Microsecond, Way: "punched"}
	p := Progress{Share: m.ID(), State: DiskFull, Wait: ForRoom, Reason: "r", Since: at, At: at, Moved: at, Name: "n", Bytes: 1, Verified: 2, Resumed: 3, Duplicate: 4, Hashed: 5, WireIn: 6, WireOut: 7,
		Files: 8, Dirs: 9, Links: 10, Pieces: 11, Done: 12, Rate: 13.9, File: "f", Sources: []Source{src, {State: Left}, {State: Joining}}}
	id := `"` + m.ID().String() + `"`
	source := `"peer":"p","via":"lan","state":"active","since":"2000-01-02T03:04:05Z","why":"w","bytes":1,"pieces":2,"bad_blocks":3,"failures":{"bad_data":6,"late":7,"not_found":8,"lost":9},"banned":true,"lie":"l","rate":4,"rtt_ms":5,"way":"punched"}`
	progress := `{"type":"progress","share":` + id + `,"state":"disk full","wait":"room","reason":"r","since":"2000-01-02T03:04:05Z","at":"2000-01-02T03:04:05Z","moved":"2000-01-02T03:04:05Z","name":"n",` +
		`"bytes":1,"verified_bytes":2,"resumed_bytes":3,"duplicate_bytes":4,"hashed_bytes":5,"wire_in_bytes":6,"wire_out_bytes":7,"files":8,"dirs":9,"links":10,"pieces":11,"done_pieces":12,` +
		`"rate":13,"file":"f","wire_bytes":13,"sources":2}`
	for _, x := range []struct {
		e    Event
		want string
	}{
		{Planned{Manifest: m, Bytes: 1, Resumed: 2, Pieces: 3, Files: 4, Dirs: 5, Links: 6},
			`{"type":"plan","share":` + id + `,"name":"folder","bytes":1,"files":4,"dirs":5,"links":6,"missing_pieces":3,"resumed_bytes":2,"share_bytes":0,"share_files":0}`},
		{p, progress},
		{SourceChanged{src}, `{"type":"source",` + source},
		{Stalled{For: 1500 * time.Millisecond, Reason: "r"}, `{"type":"stall","seconds":1.5,"reason":"r","why":[]}`},
		{LeaseEvent{Piece: 1, Source: "p", Token: 2, At: at, End: 3, Hedge: true, Held: time.Second, Bytes: 4},
			`{"type":"lease","piece":1,"peer":"p","token":2,"at":"2000-01-02T03:04:05Z","state":"expired","hedge":true,"seconds":1,"bytes":4}`},
		{LeaseEvent{Piece: 1, Source: "p", Token: 2, At: at, End: 2, Why: 2},
			`{"type":"lease","piece":1,"peer":"p","token":2,"at":"2000-01-02T03:04:05Z","state":"failed","hedge":false,"seconds":0,"bytes":0,"why":"missed its deadline"}`},
		{Ended{Path: "/f", Last: p}, `{"type":"end","path":"/f","last":` + progress + `}`},
		{Ended{Err: errors.New("e"), Last: p}, `{"type":"end","error":"e","last":` + progress + `}`},
	} {
		if got, err := json.Marshal(x.e); err != nil || string(got) != x.want {
			t.Errorf("%T: %v\n%s, want\n%s", x.e, err, got, x.want)
		}
	}
	var s SourceState
	if err := s.UnmarshalText([]byte("asleep")); err == nil {
		t.Error("any word is a state of a source")
	}
}
