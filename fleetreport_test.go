package fetcher

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/piecelease/fetcher/rounds/memkv"
	"github.com/piecelease/fetcher/share"
)

// muchWork is the work of a member with as many shares as a report has, all of which wait.
type muchWork struct{ noWork }

func (muchWork) Report() (out []ShareReport) {
	for i := range maxReported {
		out = append(out, ShareReport{ID: share.IDOf([]byte(fmt.Sprint(i))).String(), Name: fmt.Sprintf("recordings of the year %d.tar", 1800+i),
			Bytes: 1 << 40, Verified: 1 << 39, Waits: strings.Repeat("waits for leases ", 12)})
	}
	return out
}

// A member that has much to say reports all the same: what a store takes of one value has room for what a report may have.
func TestALongReportFitsIntoTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := FleetStore{memkv.New(), fleetSecret}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_ = s.Follow(ctx, MemberReport{Peer: "follower", Name: "nas"}, nil, muchWork{})
		r, err := s.Rollout(t.Context())
		if err != nil || len(r.Members) != 1 {
			t.Fatalf("after a minute %d members have reported, %v", len(r.Members), err)
		}
		if n := len(r.Members[0].Shares); n < maxReported {
			t.Errorf("it has reported %d shares of %d", n, maxReported)
		}
	})
}
