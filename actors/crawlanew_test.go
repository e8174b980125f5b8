package actors

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/share"
)

// A slice of the crawler takes long, and ends once the ledger that it was for was set aside and the first slice for the next one is under way.
// The crawler does not go on behind it then: the next ledger would count as complete, and know nothing of the shares before.
func TestACrawlOfTheNextLedgerBeginsAtItsBeginning(t *testing.T) {
	_, nodes, _ := newWorld(1, "self")
	d := newDepot(nodes[0], nil, nil, DepotConfig{Ledger: ledgerOf(t), Keep: readyKeep{}})
	late := crawled{of: d.crawler, place: crawlPlace{Crawl: depot.Crawl{Cycle: 1, Began: time.Unix(1e9, 0), At: share.IDOf([]byte("x"))}}}
	d.crawler = newCrawler(depot.Meta{})
	d.loaded, d.crawler.busy = true, true
	d.crawled(nil, late)
	if c := d.crawler; !c.crawl.At.IsZero() || !c.busy {
		t.Errorf("it goes on behind %v, in cycle %d; another slice is begun: %v", c.crawl.At, c.crawl.Cycle, !c.busy)
	}
}
