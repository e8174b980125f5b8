package dht

import "fmt"

// The tables, as people name them.
const (
	Own  = "own" // fetcher's
	IPFS = "public"
)

// Parse reads what people say about the table that is to be used: own, public, or the multiaddr of
// a node that takes part in fetcher's own; of addresses there may be several.
func Parse(said []string) (cfg Config, err error) {
	for _, s := range said {
		switch s {
		case Own:
		case IPFS:
			cfg.Public = true
		default:
			cfg.Entry = append(cfg.Entry, s)
		}
	}
	if cfg.Public && len(said) > 1 {
		return cfg, fmt.Errorf("only one table can be used: either %q, or %q and the addresses of nodes in it", IPFS, Own)
	}
	_, err = New(cfg)
	return cfg, err
}
