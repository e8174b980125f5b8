package daemon

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/renewal"
)

// collector gives Prometheus the state of the node at the moment of the request. No label names
// a peer, a share or an entry, so that there are never more series than are listed here.
type collector struct{ d *Daemon }

// descs are all descriptions that desc has made.
var descs []*prometheus.Desc

func desc(name, help string, labels ...string) *prometheus.Desc {
	d := prometheus.NewDesc("fetcher_"+name, help, labels, nil)
	descs = append(descs, d)
	return d
}

var (
	descEntries   = desc("entries", "Entries of the catalog, by state.", "state")
	descTraffic   = desc("stream_bytes_total", "Bytes of all streams, framing included, by where the peer is: on the same machine, on the same network, behind a relay, or anywhere else.", "direction", "class")
	descSyncs     = desc("sync_seconds", "How long it took to write durably to disk what was fetched.")
	descRequests  = desc("upload_requests", "Requests from peers for content, waiting or being served, by state.", "state")
	descAnswers   = desc("upload_requests_total", "Requests of peers for content, by what became of them: served, told to come again (busy), sent to another peer (elsewhere), or refused.", "answer")
	descRounds    = desc("rounds_total", "Rounds of the fleet's jobs that this node won, or completed, or gave up after an error (failed).", "event")
	descVerified  = desc("verified_bytes_total", "Bytes of content that came in and were verified.")
	descMissing   = desc("missing_bytes", "Bytes that are not here yet, of entries that are being fetched.")
	descBad       = desc("bad_blocks_total", "Blocks that failed verification.")
	descWaits     = desc("fetching_entries", "Entries that are being fetched, by what they wait for.", "wait")
	descDuplicate = desc("duplicate_bytes_total", "Bytes of content that came twice.")
	descRate      = desc("verified_bytes_per_second", "Rate of verified bytes, over the last few seconds.")
	descSent      = desc("sent_bytes_total", "Bytes of content that others were sent.")
	descChildren  = desc("children", "Peers that fetch from this node.")
	descSources   = desc("sources", "Peers that entries are fetched from, by state.", "state")
	descScore     = desc("source_score", "Scores of the sources of what is being fetched, from 0 (banned) to 3; 1 if not known.")
	descRates     = desc("source_rate_bytes_per_second", "Rates of the sources that give something now.")
	descFlight    = desc("in_flight_bytes", "Bytes asked for and not verified yet.")
	descBuffers   = desc("in_flight_buffers", "Buffers needed for the bytes that were asked for and are not verified yet.")
	descLeases    = desc("piece_leases_total", "Piece leases, by what became of them.", "event")
	descFailures  = desc("source_failures_total", "Piece leases that their source did not keep, by reason: the source sent wrong data, the piece came too late, the source did not have it, or the connection was lost.", "reason")
	descWaiting   = desc("waiting_entries", "Entries that wait for their turn, or for their next attempt.")
	descLimit     = desc("limit_bytes_per_second", "The limit in force; 0 is no limit.", "direction")
	descFree      = desc("free_bytes", "Free bytes on the disk that shares are put on; -1 if not known.")
	descHolds     = desc("holds", "Leases at depots elsewhere, by state.", "state")
	descHoldsLate = desc("holds_late", "Leases at depots elsewhere that should have been renewed by now.")
	descLacking   = desc("passes_missing", "Passes that the wallet lacks for the renewals of the next week.")
	descHoldEnds  = desc("hold_ends_seconds", "Seconds until the first lease at a depot elsewhere ends; -1 if there is none.")
	descVisits    = desc("depot_visits_total", "Visits to depots that keep something for this node.", "outcome")
	descStart     = desc("start_time_seconds", "When the node started, in seconds since 1970.")
)

func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range descs {
		out <- d
	}
}

// metricsTime bounds how long the node may take to answer.
const metricsTime = 5 * time.Second

func (c collector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), metricsTime)
	defer cancel()
	if s, err := c.d.Status(ctx); err == nil {
		gauge(descChildren, float64(s.Children))
		gauge(descLimit, float64(s.Limits.Up), "up")
		gauge(descLimit, float64(s.Limits.Down), "down")
		gauge(descFree, float64(s.FreeBytes))
		gauge(descWaiting, float64(s.Waiting))
		gauge(descRate, float64(s.Rate))
	}
	c.transport(ctx, gauge, counter, out)
	c.rounds(counter)
	bytes, buffers := c.d.node.InFlight()
	gauge(descFlight, float64(bytes))
	gauge(descBuffers, float64(buffers))
	gauge(descStart, float64(c.d.since.Unix()))
	t := c.d.tally.totals()
	counter(descVerified, float64(t.verified))
	counter(descBad, float64(t.bad))
	counter(descDuplicate, float64(t.duplicate))
	counter(descSent, float64(t.sent))
	for event, n := range map[string]uint64{"granted": t.leases.Granted, "hedged": t.leases.Hedged, "finished": t.leases.Finished, "failed": t.leases.Failed,
		"expired": t.leases.Expired, "revoked": t.leases.Revoked} {
		counter(descLeases, float64(n), event)
	}
	for why, n := range map[string]int{"bad_data": t.failures.Bad, "late": t.failures.Late, "not_found": t.failures.None, "lost": t.failures.Lost} {
		counter(descFailures, float64(n), why)
	}
	good, failed := c.d.holds.counts()
	counter(descVisits, float64(good), "good")
	counter(descVisits, float64(failed), "failed")
	if l, err := c.d.node.Holds(ctx); err == nil {
		holdMetrics(gauge, l)
		if stock, err := c.d.purse.Stock(ctx); err == nil {
			missing := int64(0)
			for _, due := range lacking(payable(l, stock), stock) {
				missing += due.Units
			}
			gauge(descLacking, float64(missing))
		}
	}
	c.entries(ctx, gauge, out)
	c.depot(ctx, gauge, out)
}

// figure reports a value of a metric.
type figure = func(*prometheus.Desc, float64, ...string)

// transport reports what goes to and from peers, and onto the disk.
func (c collector) transport(ctx context.Context, gauge, counter figure, out chan<- prometheus.Metric) {
	for _, f := range c.d.node.Flows() {
		counter(descTraffic, float64(f.In), "in", f.Class)
		counter(descTraffic, float64(f.Out), "out", f.Class)
	}
	if u, err := c.d.node.Uploads(ctx); err == nil {
		gauge(descRequests, float64(u.Waiting), "waiting")
		gauge(descRequests, float64(u.Serving), "served")
		for answer, n := range map[string]uint64{"served": u.Served, "busy": u.Busy, "elsewhere": u.Elsewhere, "refused": u.Refused} {
			counter(descAnswers, float64(n), answer)
		}
	}
	syncs := c.d.node.Syncs()
	within := map[float64]uint64{}
	for most, n := range syncs.Within {
		within[most.Seconds()] = n
	}
	out <- prometheus.MustNewConstHistogram(descSyncs, syncs.Count, syncs.Total.Seconds(), within)
}

// rounds reports what this node does for its fleet, if it belongs to one.
func (c collector) rounds(counter figure) {
	m := c.d.member
	if m == nil {
		return
	}
	for event, n := range map[string]*atomic.Int64{"won": &m.jobs.won, "completed": &m.jobs.completed, "failed": &m.jobs.failed} {
		counter(descRounds, float64(n.Load()), event)
	}
}

func holdMetrics(gauge figure, l fetcher.HoldList) {
	states, late, ends := map[string]int{lapsed: 0}, 0, -1.0
	for s := renewal.Unknown; s <= renewal.Missing; s++ {
		states[s.String()] = 0
	}
	for _, h := range asTold(l) {
		if !h.Kept {
			continue
		}
		states[stateOf(h)]++
		if h.Late {
			late++
		}
		if ends < 0 && !h.Expires.IsZero() {
			ends = h.Left.Seconds()
		}
	}
	for s, n := range states {
		gauge(descHolds, float64(n), s)
	}
	gauge(descHoldsLate, float64(late))
	gauge(descHoldEnds, ends)
}

// rateBuckets are the bounds of the histogram of sources: from 10 kB/s to 1 GB/s.
var rateBuckets = []float64{1e4, 1e5, 1e6, 3e6, 1e7, 3e7, 1e8, 3e8, 1e9}

var scoreBuckets = []float64{0, 0.25, 0.5, 0.75, 1, 1.5, 2, 2.5, 3}

// histogram counts values up to each bound.
func histogram(d *prometheus.Desc, bounds, values []float64) prometheus.Metric {
	buckets, sum := map[float64]uint64{}, 0.0
	for _, b := range bounds {
		buckets[b] = 0
	}
	for _, v := range values {
		sum += v
		for _, b := range bounds {
			if v <= b {
				buckets[b]++
			}
		}
	}
	return prometheus.MustNewConstHistogram(d, uint64(len(values)), sum, buckets)
}

func (c collector) entries(ctx context.Context, gauge figure, out chan<- prometheus.Metric) {
	states, sources, waits := map[string]int{}, map[string]int{}, map[fetcher.Wait]int{}
	for _, s := range []string{api.Opening, api.Waiting, api.Fetching, api.Served, api.Ended, api.Paused, api.Missing, api.Failed} {
		states[s] = 0
	}
	var missing int64
	var rates []float64
	from := map[peers.ID]bool{}
	for _, k := range c.d.all() {
		k.mu.Lock()
		p, state := k.progress, k.stateNow()
		k.mu.Unlock()
		states[state]++
		if state != api.Fetching {
			continue
		}
		missing += p.Bytes - p.Verified
		waits[p.Wait]++
		for _, s := range p.Sources {
			sources[s.State.String()]++
			from[s.Peer] = true
			if s.Rate > 0 {
				rates = append(rates, s.Rate)
			}
		}
	}
	for s, n := range states {
		gauge(descEntries, float64(n), s)
	}
	for s, n := range sources {
		gauge(descSources, float64(n), s)
	}
	for w := fetcher.NoWait; w <= fetcher.ForRoom; w++ {
		gauge(descWaits, float64(waits[w]), w.String())
	}
	gauge(descMissing, float64(missing))
	out <- histogram(descRates, rateBuckets, rates)
	out <- histogram(descScore, scoreBuckets, slices.Collect(maps.Values(scores(ctx, c.d.node, slices.Collect(maps.Keys(from))))))
}

// metrics returns the handler for Prometheus, with a registry of its own.
func (d *Daemon) metrics() http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(collector{d}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 2 * metricsTime})
}
