package beacon

import (
	"fmt"
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
)

// Who is told that a beacon has no room for a channel, and when to come back, has one then.
func TestWhoComesBackWhenItWasToldToOpensAChannel(t *testing.T) {
	c := NewChannels[int](1)
	now := time.Unix(1e9, 0)
	for i := range 200 {
		_, refused, retry := c.Open(peers.ID(fmt.Sprint("p", i)), "net", now)
		switch refused {
		case TooOften:
			now = now.Add(retry)
		case Full:
			_, refused, again := c.Open("patient", "net", now.Add(retry))
			if refused != 0 {
				t.Errorf("after %v it is refused once more (%d), for another %v", retry, refused, again)
			}
			return
		default:
			now = now.Add(2 * time.Second)
		}
	}
	t.Error("never full")
}
