package p2p

import (
	"fmt"
	"testing"
	"time"
)

// A host with many public addresses has each tried, and then rests.
func TestAHostWithManyAddressesRestsWhenAllAreTried(t *testing.T) {
	cfg := Config{}
	for i := range 9 { // three of IPv6, over three transports
		cfg.Announce = append(cfg.Announce, fmt.Sprintf("/ip6/2606:4700::%x/tcp/4001", i+1))
	}
	h := newHost(t, cfg)
	r := &h.reach
	for range 30 {
		a := r.untried(nil)
		if a == nil {
			return
		}
		r.mu.Lock() // as haveTried notes it
		r.tried = append(r.tried, Tried{a.String(), true, time.Now()})
		r.tried = r.tried[max(0, len(r.tried)-maxTried):]
		r.mu.Unlock()
	}
	t.Error("30 tries later there is still an address to be tried: one every 10 s, with up to 100 kB each, for ever")
}
