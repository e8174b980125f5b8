package actors

import (
	"testing"

	"github.com/piecelease/fetcher/peers"
)

// While something is waited for, the word is of who could send it, not of who was
// banned, however lately.
func TestTheLastWordIsOfWhoIsWaitedFor(t *testing.T) {
	t.Parallel()
	from := func(id string, state SourceState, why string, out bool) *source {
		return &source{addr: peers.Addr{ID: peers.ID(id)}, info: Source{State: state, Why: why}, out: out}
	}
	liar := from("liar", Banned, "banned", true)
	away := from("away", Resting, "waiting 2 s before redial", false)
	mute := from("mute", Active, "fetching", false)
	quiet := from("quiet", Active, "", false)
	for _, c := range []struct {
		of   []*source
		want string
	}{
		{nil, "no source is known"},
		{[]*source{away, liar}, "away: waiting 2 s before redial"},
		{[]*source{mute, away, liar, quiet}, "mute: fetching"},
		{[]*source{liar, quiet}, "liar: banned"},
	} {
		if got := (&transfer{order: c.of}).lastWord(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
