package daemon

import (
	"cmp"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/catalog"
)

// private is the name for a share that is announced nowhere; a wish leaves it empty.
var private = fetcher.Private.String()

// findable refuses to announce a share where nobody could find it.
func findable(w catalog.Wish, onLAN, inTable bool) error {
	switch v := visible(w); {
	case v == fetcher.VisibleLAN && !onLAN:
		return api.Refuse(api.ErrRequest, "the node was started with lan = false, and so does not use the local network, where shares that are visible to the lan are found: remove lan = false from its node.toml, its flags and the environment, and start it again")
	case v == fetcher.Public && !inTable:
		return api.Refuse(api.ErrRequest, "the node takes part in no distributed hash table, where public shares are found: set dht = [\"own\"] in its node.toml and start it again, or start it with the flag of that name")
	}
	return nil
}

func wishVisible(said string) string {
	if said == private {
		return ""
	}
	return said
}

// visible returns where an entry is to be announced.
func visible(w catalog.Wish) (v fetcher.Visibility) {
	_ = v.UnmarshalText([]byte(cmp.Or(w.Visible, private))) // Check has validated it
	return v
}

// announce has the share of an entry announced as widely as one of the entries that serve or fetch it wants. The caller holds mu.
func announce(d *Daemon, e catalog.Entry) {
	id, most := shareOf(e), fetcher.Private
	for _, k := range d.keepers {
		o := k.entry()
		if o.ID == e.ID && shareOf(o) == id || o.Share == id {
			most = max(most, shown(o))
		}
	}
	if err := d.node.SetVisible(id, most); err != nil {
		d.log.Error("cannot change where a share is announced", "id", e.ID, "error", err)
	}
}

// shown returns where an entry has its share announced as it is now.
func shown(e catalog.Entry) fetcher.Visibility {
	if e.Paused || e.State == catalog.Ended || e.State == catalog.Missing || e.State == catalog.Failed {
		return fetcher.Private
	}
	return visible(e.Wish)
}

// reshown reports whether a change of an entry may change where its share is announced.
func reshown(was, e catalog.Entry) bool {
	return was.Visible+e.Visible != "" && (was.Visible != e.Visible || was.Paused != e.Paused || was.State != e.State || was.Share != e.Share)
}

// revisible announces its share as its owner wants now, who may have paused it, too. That may differ from was, the wish as it
// was read before the share was there.
func (k *keeper) revisible(was catalog.Wish) {
	if e := k.entry(); e.Visible != was.Visible || e.Paused != was.Paused {
		k.d.mu.Lock()
		announce(k.d, e)
		k.d.mu.Unlock()
	}
}
