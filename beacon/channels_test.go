package beacon

import (
	"fmt"
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
)

// say is one message on a channel; the ear is the name of its speaker.
type say struct {
	who     peers.ID
	last    bool
	at      time.Duration // since the channel was opened
	to      string        // "": nobody hears it; its speaker: who waited in vain
	refused Refusal
}

func TestAChannelPassesMessagesInTurn(t *testing.T) {
	for name, story := range map[string][]say{
		"an exchange": {{who: "S"}, {who: "F", to: "S"}, {who: "S", to: "F"}, {who: "F", to: "S"}, {who: "S", last: true, to: "F"},
			{who: "F", refused: Used}, {who: "S", refused: Used}, {who: "G", refused: Used}},
		"a third":           {{who: "S"}, {who: "F", to: "S"}, {who: "G", refused: Used}, {who: "S", to: "F"}},
		"before the owner":  {{who: "F", refused: Deaf}, {who: "S"}, {who: "F", to: "S"}},
		"twice":             {{who: "S"}, {who: "S", refused: Deaf}, {who: "F", to: "S"}, {who: "F", refused: Deaf}, {who: "S", to: "F"}},
		"withdrawn":         {{who: "S"}, {who: "S", last: true, to: "S"}, {who: "F", refused: Used}},
		"withdrawn at once": {{who: "S", last: true}, {who: "F", refused: Used}},
		"given up":          {{who: "S"}, {who: "F", to: "S"}, {who: "F", last: true, to: "F"}, {who: "S", refused: Used}},
		"refused":           {{who: "S"}, {who: "F", to: "S"}, {who: "S", last: true, to: "F"}},
		"in time":           {{who: "S"}, {who: "F", at: ChannelLife - 1, to: "S"}, {who: "S", at: ChannelLife + exchangeLife - 1, to: "F"}, {who: "F", at: ChannelLife + exchangeLife, refused: Expired}},
		"ended too late":    {{who: "S"}, {who: "S", at: ChannelLife, last: true, refused: Expired}, {who: "F", at: ChannelLife + 1, refused: Expired}},
		"used, and late":    {{who: "S"}, {who: "F", to: "S"}, {who: "S", last: true, to: "F"}, {who: "G", at: ChannelLife, refused: Used}},
		"too late":          {{who: "S"}, {who: "F", at: ChannelLife, refused: Expired}, {who: "F", at: numberLife - 1, refused: Expired}, {who: "F", at: numberLife, refused: NoChannel}},
	} {
		c := NewChannels[string](1)
		n, refused, _ := c.Open("S", "net", epoch)
		if refused != 0 || n < 1 || n > 99 {
			t.Fatalf("channel %d, refused %d", n, refused)
		}
		for i, s := range story {
			to, heard, refused, _ := c.Say(s.who, "net "+string(s.who), n, s.last, string(s.who), epoch.Add(s.at))
			if to != s.to || heard != (s.to != "" && s.to != string(s.who)) || refused != s.refused {
				t.Errorf("%s, message %d: heard by %q, refused %d, want %+v", name, i+1, to, refused, s)
			}
		}
	}
}

// Whoever still waits at the end of its channel is answered then, once.
func TestWhoeverWaitsAtTheEndOfAChannelIsAnswered(t *testing.T) {
	c := NewChannels[string](1)
	var got []string
	deserted := func(at time.Duration) time.Duration {
		got = nil
		next := c.Deserted(epoch.Add(at), func(_ int, ear string) { got = append(got, ear) })
		return max(0, next.Sub(epoch))
	}
	if next := deserted(0); next != 0 {
		t.Error("asked again without a channel, after", next)
	}
	for i, at := range []time.Duration{0, time.Second} {
		n, _, _ := c.Open(peers.ID(fmt.Sprint("S", i)), "net", epoch.Add(at))
		c.Say(peers.ID(fmt.Sprint("S", i)), "net", n, false, fmt.Sprint("S", i), epoch.Add(at))
		if i == 0 {
			c.Say("F", "net", n, false, "F", epoch.Add(at))
		}
	}
	for _, x := range []struct {
		at, next time.Duration
		got      string
	}{
		{0, ChannelLife, "[]"}, {ChannelLife, ChannelLife + time.Second, "[]"}, {ChannelLife + time.Second, ChannelLife + exchangeLife, "[S1]"},
		{ChannelLife + exchangeLife, 0, "[F]"}, {numberLife, 0, "[]"},
	} {
		if next := deserted(x.at); next != x.next || fmt.Sprint(got) != x.got {
			t.Errorf("after %v: %v, and again after %v, want %+v", x.at, got, next, x)
		}
	}
}

// Who asks for many numbers, or speaks in many, has to wait, and so do the neighbours; others do not.
func TestChannelsAreForAll(t *testing.T) {
	c := NewChannels[int](1)
	opened := 0
	for i := range 1_000 {
		if _, refused, retry := c.Open(peers.ID(fmt.Sprint("greedy ", i)), "one", epoch); refused == 0 {
			opened++
		} else if retry <= 0 {
			t.Fatal("it may not ask again")
		}
	}
	if opened != blockRoomsAtOnce/openCost {
		t.Errorf("a block opens %d channels at once", opened)
	}
	for i := range 3_600 {
		c.Open(peers.ID(fmt.Sprint("patient ", i)), "one", epoch.Add(time.Duration(i)*time.Second/8))
	}
	if got := c.Len(epoch); got != channelsOfBlock {
		t.Errorf("a block has %d channels", got)
	}
	n, refused, _ := c.Open("other", "two", epoch)
	if refused != 0 {
		t.Fatalf("another block: %d", refused)
	}
	c.Say("other", "two", n, false, 1, epoch)
	guesses := 0
	for i := 1; i <= 999; i++ {
		if _, _, refused, _ := c.Say("guesser", "three", i, true, 1, epoch); refused != TooOften {
			guesses++
		}
	}
	if guesses != peerRoomsAtOnce/joinCost {
		t.Errorf("a peer tries %d numbers at once", guesses)
	}
	for i := range 4 * maxChannels {
		c.Open(peers.ID(fmt.Sprint("many ", i)), fmt.Sprint("net ", i/2), epoch)
	}
	if got := c.Len(epoch); got != maxChannels {
		t.Errorf("%d channels are remembered", got)
	}
	if got := c.Len(epoch.Add(numberLife + time.Hour)); got != 0 || len(c.blocks) != 0 {
		t.Errorf("%d channels of %d blocks are remembered after an hour", got, len(c.blocks))
	}
}

// What a peer says is bounded, also within one channel.
func TestTalkIsBounded(t *testing.T) {
	c := NewChannels[int](1)
	n, _, _ := c.Open("S", "net", epoch)
	said := 0
	for range 1_000 {
		if _, _, refused, _ := c.Say("S", "net", n, false, 1, epoch); refused != TooOften {
			said++
		}
	}
	if said != peerSaysAtOnce {
		t.Errorf("%d messages at once", said)
	}
}
