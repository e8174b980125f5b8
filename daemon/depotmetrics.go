package daemon

import (
	"cmp"
	"context"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/depot"
)

var (
	descKept      = desc("depot_shares", "Shares that the depot keeps, by state.", "state")
	descKeptBytes = desc("depot_bytes", "Bytes of the shares that the depot keeps, by state.", "state")
	descAges      = desc("depot_share_age_weeks", "Weeks since each share entered its present state; only shares that the crawler has seen in its cycle.")
	descExpired   = desc("depot_expired_bytes", "Bytes of shares that nobody holds any more; only shares that the crawler has seen in its cycle.")
	descUnseen    = desc("depot_failed_shares", "Shares that the crawler could not look at in its cycle.")
	descLeft      = desc("depot_crawl_left_seconds", "How many more seconds the crawler's cycle takes; 0: not known, or it is done.")
	descNext      = desc("depot_crawl_next_time_seconds", "When the crawler begins its next cycle, in seconds since 1970; 0 while one is under way.")
	descSuspect   = desc("depot_suspect_shares", "Shares that were seen damaged once.")
	descQuotas    = desc("depot_account_quota_used", "Accounts by the part of their quota that is used.")
	descHeld      = desc("depot_leases", "Live leases at the depot, by the state of their share.", "state")
	descRemovable = desc("depot_removable_bytes", "Bytes of shares that gc would remove (nobody holds them, and the grace is over), of those that the crawler has seen in its cycle.")
	descAccount   = desc("depot_account_bytes", "Bytes of the live leases of the depot's accounts. The 20 accounts that take most, not counting those of strangers, are listed by name; all the rest, those of strangers included, are added up under the name others.", "account")
	descUsed      = desc("depot_leased_bytes", "Bytes of the live leases of all accounts.")
	descQuota     = desc("depot_quota_bytes", "The quotas of all accounts, in bytes.")
	descDepotFree = desc("depot_free_bytes", "Free bytes on the depot's disk, without those that it must leave free; -1 if not known.")
	descIs        = desc("depot_is", "1 if the depot is in this condition: away (its disk cannot be used), frozen (its clock is not trusted), complete (all of the disk was seen), collecting (gc is on), taking (passes are accepted).", "how")
)

// quotaBuckets are fractions of a quota.
var quotaBuckets = []float64{0, 0.25, 0.5, 0.75, 0.9, 1}

// maxNamed is how many accounts have a series of their own.
const maxNamed = 20

// depot reports the state of the node's depot, if it has one. The number of series does not
// depend on that of its accounts.
func (c collector) depot(ctx context.Context, gauge figure, out chan<- prometheus.Metric) {
	if c.d.lender == nil {
		return
	}
	d, err := c.d.Depot(ctx)
	if err != nil {
		return
	}
	for _, x := range d.States {
		gauge(descKept, float64(x.Shares), x.State)
		gauge(descKeptBytes, float64(x.Bytes), x.State)
		gauge(descHeld, float64(x.Leases), x.State)
	}
	gauge(descExpired, float64(d.Crawl.ExpiredBytes))
	gauge(descRemovable, float64(d.Crawl.RemovableB))
	gauge(descUnseen, float64(d.Crawl.Failed))
	gauge(descLeft, float64(d.Left))
	next := 0.0
	if !d.Next.IsZero() {
		next = float64(d.Next.Unix())
	}
	gauge(descNext, next)
	gauge(descSuspect, float64(d.Suspect))
	gauge(descDepotFree, float64(usable(d)))
	for how, is := range map[string]bool{"away": d.Trouble != "", "frozen": d.Frozen, "complete": d.Complete, "collecting": d.GC, "taking": d.PassesTrouble == ""} {
		v := 0.0
		if is {
			v = 1
		}
		gauge(descIs, v, how)
	}
	weeks, seen, sum := map[float64]uint64{}, uint64(0), 0.0
	for w, n := range d.Crawl.Weeks {
		seen, sum = seen+uint64(n), sum+float64(w*n)
		if w < len(d.Crawl.Weeks)-1 { // the last has no upper bound
			weeks[float64(w+1)] = seen
		}
	}
	out <- prometheus.MustNewConstHistogram(descAges, seen, sum, weeks)
	c.accounts(ctx, gauge, out)
}

func (c collector) accounts(ctx context.Context, gauge figure, out chan<- prometheus.Metric) {
	now, err := c.d.node.DepotDo(ctx, nil)
	if err != nil {
		return
	}
	all, err := c.d.lender.db.Accounts(ctx, now.Now)
	if err != nil {
		return
	}
	var used, quota, parts float64
	var n uint64
	buckets := map[float64]uint64{}
	for _, b := range quotaBuckets {
		buckets[b] = 0
	}
	for _, a := range all {
		used, quota = used+float64(a.Used), quota+float64(a.Quota)
		if a.Quota == 0 {
			continue
		}
		part := float64(a.Used) / float64(a.Quota)
		n, parts = n+1, parts+part
		for _, b := range quotaBuckets {
			if part <= b {
				buckets[b]++
			}
		}
	}
	slices.SortStableFunc(all, func(a, b depot.AccountInfo) int { return cmp.Compare(b.Used, a.Used) })
	named, others := 0, 0.0
	for _, a := range all {
		if named < maxNamed && !a.Stranger && a.Name != "others" {
			named++
			gauge(descAccount, float64(a.Used), a.Name)
		} else {
			others += float64(a.Used)
		}
	}
	gauge(descAccount, others, "others")
	gauge(descUsed, used)
	gauge(descQuota, quota)
	out <- prometheus.MustNewConstHistogram(descQuotas, n, parts, buckets)
}

// usable is how many bytes a depot may still take; -1: not known.
func usable(d api.Depot) int64 {
	if d.Free < 0 {
		return -1
	}
	return max(d.Free-d.Reserve, 0)
}
