package depot

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/piecelease/fetcher/share"
)

func someIDs(n int) (out []share.ID) {
	for i := range n {
		out = append(out, share.IDOf(binary.AppendVarint(nil, int64(i))))
	}
	slices.SortFunc(out, share.ID.Compare)
	return out
}

// Each share is visited at least once a cycle under any kills, and a kill repeats at most one
// slice.
func TestInvariant46EachShareIsVisitedAndProgressIsNotLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := someIDs(rapid.IntRange(0, 30).Draw(t, "shares"))
		now := time.Unix(1000, 0)
		visits := map[share.ID]int{}
		var c, stored Crawl
		kills, biggest := 0, 0
		for !c.Done {
			if wait := c.Next(now); wait > 0 {
				now = now.Add(wait)
				continue
			}
			at, n, i := c.At, rapid.IntRange(1, 5).Draw(t, "slice"), 0
			biggest = max(biggest, n)
			for ; i < len(all) && n > 0; i++ {
				if c.At.IsZero() || share.ID.Compare(all[i], c.At) > 0 {
					visits[all[i]]++
					c.Report.Add(Seen{Bytes: 1})
					at, n = all[i], n-1
				}
			}
			if kills < 5 && rapid.IntRange(0, 3).Draw(t, "kill") == 0 {
				kills++
				c = stored
				continue
			}
			c.Did(now, time.Duration(rapid.IntRange(0, 200).Draw(t, "ms"))*time.Millisecond, at, n > 0)
			stored = c
		}
		again := 0
		for _, id := range all {
			if visits[id] == 0 {
				t.Fatalf("%v was not visited", id)
			}
			again += visits[id] - 1
		}
		if again > kills*biggest {
			t.Fatalf("%d kills repeated %d visits of slices of %d at most", kills, again, biggest)
		}
		if c.Report.Examined != len(all) || c.Report.Bytes != int64(len(all)) {
			t.Fatalf("%+v of %d", c.Report, len(all))
		}
		if began := c.Began; c.Next(now) != 0 && now.Add(c.Next(now)).Sub(began) < ShortestCycle {
			t.Fatal("the next cycle begins too early")
		}
	})
}

func TestInvariant47DutyCycleIsKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c Crawl
		began := time.Unix(1000, 0)
		now := began
		var worked time.Duration
		for _, ms := range rapid.SliceOfN(rapid.IntRange(0, 300_000), 1, 50).Draw(t, "ms") {
			now = now.Add(c.Next(now))
			if c.Next(now) != 0 {
				t.Fatal("waited, and waits again")
			}
			took := time.Duration(ms) * time.Millisecond
			worked += took
			now = now.Add(took)
			c.Did(now, took, share.ID{}, false)
		}
		now = now.Add(c.Next(now))
		if worked*Duty > now.Sub(began) || c.Report.Worked != worked {
			t.Fatalf("%v of %v", worked, now.Sub(began))
		}
	})
}

func TestCrawlerAndItsClock(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	var c Crawl
	if c.Next(now) != 0 || c.Cycle != 1 || !c.Began.Equal(now) {
		t.Error(c)
	}
	ids := someIDs(100)
	c.Did(now.Add(time.Hour), 50*time.Hour, ids[49], false)
	if wait := c.Next(now.Add(time.Hour)); wait != longestRest {
		t.Error("a slice in which the machine slept costs", wait)
	}
	if left := c.Left(now.Add(time.Hour)); left < 40*time.Minute || left > 90*time.Minute {
		t.Error("half of the way in an hour, and the rest takes", left)
	}
	if wait := c.Next(now.Add(-48 * time.Hour)); wait != 0 {
		t.Error("a clock that was set back stops the crawler for", wait)
	}
	c.Did(now.Add(2*time.Hour), time.Second, ids[99], true)
	if wait := c.Next(now.Add(2 * time.Hour)); wait != ShortestCycle-2*time.Hour || c.Left(now) != 0 {
		t.Error(wait, c.Left(now))
	}
	if wait := c.Next(now.Add(ShortestCycle)); wait != 0 || c.Cycle != 2 || !c.At.IsZero() || c.Report != (Report{}) {
		t.Errorf("%v, %+v", wait, c)
	}
}

// A slice that found nothing keeps the place, and one that seems to end before it began costs no rest.
func TestASliceWithoutSenseChangesNothing(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	var c Crawl
	c.Next(now)
	id := someIDs(1)[0]
	c.Did(now, time.Second, id, false)
	c.Did(now, -time.Hour, share.ID{}, false)
	if c.At != id || c.Report.Worked != time.Second || c.Rest.Before(now) {
		t.Errorf("%+v", c)
	}
}

func TestInvariant47FailureOfOneShareIsCounted(t *testing.T) {
	var r Report
	r.Add(Seen{Failed: true, Bytes: 5, Expired: true, Removable: true})
	r.Add(Seen{Bytes: 7, Expired: true, Age: 15 * 24 * time.Hour})
	r.Add(Seen{Bytes: 8, Corrupt: true, Age: 1 << 62})
	r.Add(Seen{Bytes: 9, Expired: true, Removable: true, Age: -1})
	want := Report{Examined: 4, Failed: 1, Bytes: 24, Expired: 2, ExpiredBytes: 16, Removable: 1, RemovableB: 9, Corrupt: 1}
	want.Ages[2], want.Ages[12], want.Ages[0] = 1, 1, 1
	if r != want {
		t.Errorf("%+v", r)
	}
}
