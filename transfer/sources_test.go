package transfer

import (
	"fmt"
	"slices"
	"testing"

	"github.com/piecelease/fetcher/peers"
)

func TestAddressesOfASourceAreBoundedAndTriedInTurn(t *testing.T) {
	p := Places{{Addrs: []string{"first"}}}
	for i := range 10 {
		if a := (peers.Addr{By: "somebody", Addrs: []string{fmt.Sprint(i)}}); !p.Also(a) || p.Also(a) {
			t.Error(i, "is not new once")
		}
	}
	var tried []string
	for i := range 2 * MaxPlaces {
		tried = append(tried, p.Try(i).Addrs[0])
	}
	if want := []string{"first", "7", "8", "9", "first", "7", "8", "9"}; !slices.Equal(tried, want) {
		t.Errorf("tried %v, want %v", tried, want)
	}
}

// While something is waited for, the word is of who could send it, not of who was
// banned, however lately.
func TestTheLastWordIsOfWhoIsWaitedFor(t *testing.T) {
	t.Parallel()
	from := func(id string, state SourceState, why string, out bool) *source {
		return &source{addr: peers.Addr{ID: peers.ID(id)}, info: Source{State: state, Why: why}, out: out}
	}
	liar := from("liar", Banned, "banned", true)
	away := from("away", Resting, "refused; trying again in 2 s", false)
	mute := from("mute", Active, "fetching", false)
	quiet := from("quiet", Active, "", false)
	for _, c := range []struct {
		of   []*source
		want string
	}{
		{nil, "no source is known"},
		{[]*source{away, liar}, "away: refused; trying again in 2 s"},
		{[]*source{mute, away, liar, quiet}, "mute: fetching"},
		{[]*source{liar, quiet}, "liar: banned"},
	} {
		if got := (&sources{order: c.of}).lastWord(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
