package daemon

import (
	"cmp"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/catalog"
	"github.com/piecelease/fetcher/share"
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

// revisible announces a share as its owner wants now. That may differ from was, the wish as it
// was read before the share was there.
func (k *keeper) revisible(id share.ID, was catalog.Wish) {
	now := visible(k.entry().Wish)
	if now == visible(was) {
		return
	}
	if err := k.d.node.SetVisible(id, now); err != nil {
		k.d.log.Error("cannot change where a share is announced", "id", k.id, "error", err)
	}
}
