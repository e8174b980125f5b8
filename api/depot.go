package api

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// DepotNode is the part of a Node that keeps shares for accounts, and has depots keep its own.
type DepotNode interface {
	Depot(ctx context.Context) (Depot, error)
	DepotDo(ctx context.Context, what string) (Depot, error)
	Accounts(ctx context.Context) ([]Account, error)
	AddAccount(ctx context.Context, a AddAccount) (Account, error)
	SetAccount(ctx context.Context, name string, s SetAccount) (Account, error)
	RemoveAccount(ctx context.Context, name string, credit bool) (Account, error)
	Leases(ctx context.Context, account, after string, limit int) ([]Lease, error)
	Rehearse(ctx context.Context) (Crawl, error)
	// Export returns what writes shares above an ID, with their leases.
	Export(ctx context.Context, after string) (func(io.Writer) error, error)
	Import(ctx context.Context, from io.Reader) (Imported, error)
	Hold(ctx context.Context, h Hold) ([]Held, error)
	StandingHolds(ctx context.Context) ([]StandingHold, error)
	Release(ctx context.Context, h Release) ([]Held, error)
	Holdings(ctx context.Context, depot string) ([]Held, error)
	Voucher(ctx context.Context, v NewVoucher) (Voucher, error)
	RedeemPasses(ctx context.Context, r RedeemPasses) ([]Passes, error)
	Passes(ctx context.Context) ([]Passes, error)
}

// Depot is the status of a node's depot.
type Depot struct {
	Dir           string    `json:"dir" doc:"where the shares are"`
	Now           time.Time `json:"now" doc:"by the depot's clock"`
	Frozen        bool      `json:"frozen" doc:"the clock is not trusted: nothing expires and nothing is removed until clock-ok"`
	Trouble       string    `json:"trouble,omitempty" doc:"a sentence: why it does nothing"`
	Stuck         string    `json:"stuck,omitempty" doc:"a sentence: why it cannot look at its disk"`
	GC            bool      `json:"gc" doc:"what nobody holds is removed"`
	Grace         int64     `json:"grace_seconds" doc:"how long a share is kept after its last lease expired"`
	Complete      bool      `json:"complete" doc:"false: the crawler has not seen all of the disk yet, and nothing is removed"`
	Reserve       int64     `json:"reserve" doc:"bytes of the disk that stay free"`
	Free          int64     `json:"free_bytes" doc:"-1 if it is not known"`
	PassesTrouble string    `json:"passes_trouble,omitempty" doc:"a sentence: why no passes are taken or signed"`
	Arriving      int       `json:"arriving" doc:"shares that are being fetched, or wait for that"`
	Suspect       int64     `json:"suspect" doc:"shares that were seen damaged once, and are looked at again before it is believed"`
	States        []Kept    `json:"states" doc:"what is kept, by state"`
	Crawl         Crawl     `json:"crawl"`
	Next          time.Time `json:"next,omitzero" doc:"when the crawler begins its next cycle, if this one is done"`
	Left          int64     `json:"left_seconds" doc:"of the crawler's cycle; 0: not known, or it is done"`
	ScrubCycle    int64     `json:"scrub_cycle" doc:"which reading of all shares this is, counted from 1"`
	Scrubbed      int       `json:"scrubbed" doc:"shares that were read in this scrub cycle"`
	Collecting    bool      `json:"collecting" doc:"it looks for shares that nobody holds, and removes them"`
	Removed       int64     `json:"removed" doc:"shares that it has removed since the node began"`
}

// Kept counts the shares of a depot that are in one state.
type Kept struct {
	State  string `json:"state" enum:"coming,stable,corrupt,going"`
	Shares int64  `json:"shares"`
	Bytes  int64  `json:"bytes"`
	Leases int64  `json:"leases" doc:"live leases of the shares in this state"`
}

// Crawl is what the crawler saw in a cycle.
type Crawl struct {
	Cycle           int64       `json:"cycle" doc:"counted from 1; 0: a rehearsal"`
	Began           time.Time   `json:"began,omitzero"`
	Done            bool        `json:"done"`
	Examined        int         `json:"examined" doc:"shares"`
	Bytes           int64       `json:"bytes" doc:"of the shares that were examined"`
	Expired         int         `json:"expired" doc:"shares that nobody holds any more"`
	ExpiredBytes    int64       `json:"expired_bytes"`
	Removable       int         `json:"removable" doc:"shares that gc would remove: nobody holds them, and the grace is over"`
	RemovableB      int64       `json:"removable_bytes"`
	RemovableShares []Removable `json:"removable_shares,omitempty" doc:"rehearsal: the first 1000 of them"`
	Grace           int64       `json:"grace_seconds,omitzero" doc:"rehearsal: how long a share is kept after its last lease expired"`
	Corrupt         int         `json:"corrupt"`
	Failed          int         `json:"failed" doc:"shares that could not be looked at"`
	Weeks           []int       `json:"weeks" doc:"shares by the whole weeks since they came into their state, from 0; the last number: all that have been in it longer"`
}

// MaxRemovable is how many shares a rehearsal names.
const MaxRemovable = 1000

// holdingsPath is not for those who may only look, as the node asks somebody else.
const holdingsPath = "/v1/holdings"

// Removable is a share that would be removed.
type Removable struct {
	Share string `json:"share"`
	Bytes int64  `json:"bytes"`
}

// Account is an account that may hold leases here.
type Account struct {
	Name     string    `json:"name"`
	Keys     []string  `json:"keys" doc:"peer IDs that speak for it"`
	Quota    int64     `json:"quota" doc:"bytes"`
	Used     int64     `json:"used" doc:"bytes of live leases"`
	MaxLease int64     `json:"max_lease_seconds" doc:"the longest lease"`
	Created  time.Time `json:"created"`
	Complete bool      `json:"complete" doc:"false: there may be more that is used"`
	Price    string    `json:"price" enum:"free,passes" doc:"what its leases cost"`
	Credit   int64     `json:"credit_mib_seconds" doc:"paid with passes and not used up"`
}

// AddAccount makes an account.
type AddAccount struct {
	Name     string `json:"name,omitempty" doc:"default: the peer ID"`
	Key      string `json:"key" maxLength:"128" doc:"the peer ID that speaks for it"`
	Quota    int64  `json:"quota" minimum:"0" doc:"bytes"`
	MaxLease string `json:"max_lease,omitempty" doc:"the longest lease, such as 31d or 36h; default 31 days"`
	Price    string `json:"price,omitempty" enum:"free,passes" doc:"what its leases cost; default as the depot says"`
}

// SetAccount changes an account; fields that are not set stay as they are. If both keys are
// set, the one replaces the other.
type SetAccount struct {
	Quota     *int64  `json:"quota,omitempty" minimum:"0"`
	MaxLease  *string `json:"max_lease,omitempty"`
	Price     string  `json:"price,omitempty" enum:"free,passes"`
	AddKey    string  `json:"add_key,omitempty" maxLength:"128"`
	RemoveKey string  `json:"remove_key,omitempty" maxLength:"128"`
}

// Lease is a live lease at this depot.
type Lease struct {
	Share   string    `json:"share"`
	Account string    `json:"account"`
	State   string    `json:"state" enum:"coming,stable,corrupt,going"`
	Bytes   int64     `json:"bytes"`
	Granted time.Time `json:"granted"`
	Renewed time.Time `json:"renewed"`
	Expires time.Time `json:"expires"`
}

// Imported is what an import has entered. What was here before stays as it was, and no lease ends
// earlier than it did.
type Imported struct {
	Shares   int      `json:"shares" doc:"whose data was not here"`
	Bytes    int64    `json:"bytes" doc:"of the files of the shares whose data was not here"`
	Known    int      `json:"known" doc:"shares that the depot knew: leases alone were imported"`
	Accounts int      `json:"accounts" doc:"accounts that were made"`
	Refused  []string `json:"refused" doc:"sentences: accounts whose leases were not imported"`
	Damaged  []string `json:"damaged" doc:"shares that were not imported, as their data is not what it should be; the first 1000"`
	Leaving  int      `json:"leaving" doc:"shares that are being removed or fetched here: import them again later"`
	Expired  int      `json:"expired" doc:"shares that were not imported, as all their leases have ended, or are of accounts that were not imported"`
	LeftOut  int      `json:"left_out" doc:"shares with leases that the other depot did not have whole, and left out"`
}

// Hold has depots elsewhere keep what an entry serves, until it is released. A depot that
// already keeps it continues to.
type Hold struct {
	Entry  int64    `json:"entry" minimum:"1"`
	Depots []string `json:"depots" minItems:"1" maxItems:"64" doc:"multiaddrs that end in /p2p/ID"`
	Copies int      `json:"copies,omitempty" minimum:"0" maximum:"64" doc:"how many of its depots keep it, the others are in reserve; 0: all"`
	For    string   `json:"for,omitempty" doc:"the length of the leases, which are renewed, such as 31d or 36h; default 31 days"`
	Pin    bool     `json:"pin,omitempty" doc:"keep this version, and do not follow the entry to later ones"`
	Fleet  bool     `json:"fleet,omitempty" doc:"for the node's fleet, which has the share: any member renews it"`
	Keep   *int     `json:"keep,omitempty" minimum:"0" maximum:"100" doc:"how many earlier versions the depots keep beside the latest; default: as before, at first 0"`
	Budget *int64   `json:"budget,omitempty" minimum:"0" doc:"how many passes this node pays each of the depots in 31 days at most, for all that they keep; 0: any number; default: as before"`
}

// StandingHold is a share that a depot elsewhere keeps, or is to keep.
type StandingHold struct {
	ID      int64     `json:"hold"`
	Entry   int64     `json:"entry,omitempty" doc:"the one that it follows, which may have been removed by now"`
	Name    string    `json:"name,omitempty" doc:"of the entry"`
	Pin     bool      `json:"pin,omitempty" doc:"it does not follow the entry to later versions"`
	Fleet   bool      `json:"fleet,omitempty" doc:"it is the fleet's: any member renews it"`
	Keep    int       `json:"keep,omitempty" doc:"how many earlier versions are kept"`
	Earlier bool      `json:"earlier,omitempty" doc:"it is one of the earlier versions"`
	Share   string    `json:"share"`
	Since   time.Time `json:"since" doc:"when it became the version to keep"`
	Depot   string    `json:"depot" doc:"its peer ID"`
	Addr    string    `json:"addr" doc:"where the depot is, a multiaddr that ends in /p2p/ID"`
	State   string    `json:"state" enum:"unknown,coming,stable,corrupt,missing,lapsed" doc:"as the depot said last; lapsed: the lease has ended, and the depot has not said since what it has"`
	Bytes   int64     `json:"bytes" doc:"that the lease counts"`
	Expires time.Time `json:"expires,omitzero" doc:"when the lease ends, by this node's clock: by then this node must have reached the depot"`
	Left    int64     `json:"left_seconds" doc:"until the lease ends"`
	Cost    int64     `json:"cost" doc:"passes paid so far"`
	Next    time.Time `json:"next" doc:"when the depot is visited next"`
	Why     string    `json:"why,omitempty" doc:"what went wrong last"`
	Ending  bool      `json:"ending,omitempty" doc:"it is not needed any more, and released when it can be"`
	Late    bool      `json:"late,omitempty" doc:"it should have been renewed by now"`
}

// Release ends the holds of a share at depots elsewhere.
type Release struct {
	Share string `json:"share"`
	Depot string `json:"depot,omitempty" doc:"at this one alone; a multiaddr that ends in /p2p/ID"`
}

// Held is a lease at a depot elsewhere.
type Held struct {
	Hold    int64     `json:"hold,omitempty" doc:"which renews it"`
	Share   string    `json:"share"`
	Depot   string    `json:"depot" doc:"its peer ID"`
	State   string    `json:"state" enum:"none,unknown,coming,stable,corrupt,going,missing"`
	Bytes   int64     `json:"bytes"`
	Expires time.Time `json:"expires,omitzero" doc:"absent: the lease has ended"`
	At      time.Time `json:"at" doc:"the depot's clock"`
	Here    int64     `json:"here_bytes,omitempty" doc:"of its files that the depot has while it is coming or corrupt"`
	Delay   string    `json:"delay,omitempty" doc:"some words: why the share does not come, or, after a release, why the lease has not ended"`
	Name    string    `json:"name,omitempty" doc:"release: of the entry for which it was made"`
	Addr    string    `json:"addr,omitempty" doc:"hold: where the depot was reached, a multiaddr that ends in /p2p/ID"`
	Lapses  time.Time `json:"lapses,omitzero" doc:"hold: when the lease ends, as the budget for the depot does not pay for its renewal"`
	Renewal int64     `json:"renewal,omitempty" doc:"hold: passes that the next renewal would cost, if the budget does not pay for it"`
	Ticket  string    `json:"ticket,omitempty" doc:"hold: for others to fetch it, from this node and from the depot"`
}

// OfAccount is a request about one account.
type OfAccount struct {
	Name string `path:"name" maxLength:"256"`
}

func (s *Server) depot(a huma.API) {
	n := s.node
	add(a, "GET", "/v1/depot", "depot", "How the depot stands", func(ctx context.Context, _ *struct{}) (Depot, error) { return n.Depot(ctx) })
	add(a, "POST", "/v1/depot/do", "depotDo", "Have the depot do something", func(ctx context.Context, in *body[struct {
		What string `json:"what" enum:"crawl,scrub,gc,gc-on,gc-off,clock-ok"`
	}]) (Depot, error) {
		return n.DepotDo(ctx, in.Body.What)
	})
	add(a, "GET", "/v1/depot/rehearsal", "rehearse", "What a crawl and a removal would find now; nothing is changed", func(ctx context.Context, _ *struct{}) (Crawl, error) {
		return n.Rehearse(ctx)
	})
	add(a, "GET", "/v1/depot/accounts", "accounts", "Who may hold leases here", func(ctx context.Context, _ *struct{}) (List[Account], error) {
		items, err := n.Accounts(ctx)
		return List[Account]{Items: append([]Account{}, items...)}, err
	})
	add(a, "POST", "/v1/depot/accounts", "addAccount", "Make an account", func(ctx context.Context, in *body[AddAccount]) (Account, error) {
		return n.AddAccount(ctx, in.Body)
	})
	add(a, "PATCH", "/v1/depot/accounts/{name}", "setAccount", "Change an account", func(ctx context.Context, in *struct {
		OfAccount
		Body SetAccount
	}) (Account, error) {
		return n.SetAccount(ctx, in.Name, in.Body)
	})
	add(a, "DELETE", "/v1/depot/accounts/{name}", "removeAccount", "Remove an account that holds nothing", func(ctx context.Context, in *struct {
		OfAccount
		Credit bool `query:"credit" doc:"remove also what it has paid and not used up"`
	}) (Account, error) {
		return n.RemoveAccount(ctx, in.Name, in.Credit)
	})
	add(a, "GET", "/v1/depot/leases", "leases", "The live leases of an account, by share ID", func(ctx context.Context, in *struct {
		Account string `query:"account" required:"true" maxLength:"256"`
		After   string `query:"after" maxLength:"128" doc:"only shares with a greater ID"`
		Limit   int    `query:"limit" minimum:"1" maximum:"10000" default:"1000"`
	}) (List[Lease], error) {
		items, err := n.Leases(ctx, in.Account, in.After, in.Limit+1)
		more := len(items) > in.Limit
		return List[Lease]{Items: append([]Lease{}, items[:min(len(items), in.Limit)]...), More: more}, err
	})
	add(a, "POST", "/v1/holds", "hold", "Have depots elsewhere keep what an entry serves", func(ctx context.Context, in *body[Hold]) (List[Held], error) {
		items, err := n.Hold(ctx, in.Body)
		return List[Held]{Items: append([]Held{}, items...)}, err
	})
	add(a, "GET", "/v1/holds", "holds", "What depots elsewhere are to keep for this node; what ends first comes first", func(ctx context.Context, _ *struct{}) (List[StandingHold], error) {
		items, err := n.StandingHolds(ctx)
		return List[StandingHold]{Items: append([]StandingHold{}, items...)}, err
	})
	add(a, "POST", "/v1/holds/release", "release", "Release a share at depots elsewhere", func(ctx context.Context, in *body[Release]) (List[Held], error) {
		items, err := n.Release(ctx, in.Body)
		return List[Held]{Items: append([]Held{}, items...)}, err
	})
	add(a, "GET", holdingsPath, "holdings", "What this node's account holds at a depot elsewhere", func(ctx context.Context, in *struct {
		Depot string `query:"depot" required:"true" maxLength:"1024" doc:"a multiaddr that ends in /p2p/ID"`
	}) (List[Held], error) {
		items, err := n.Holdings(ctx, in.Depot)
		return List[Held]{Items: append([]Held{}, items...)}, err
	})
}

// Depot returns the status of the node's depot.
func (c *Client) Depot(ctx context.Context) (d Depot, err error) {
	return d, c.ask(ctx, "GET", "/v1/depot", nil, &d)
}

// DepotDo has the depot do something: crawl, scrub, gc, gc-on, gc-off or clock-ok.
func (c *Client) DepotDo(ctx context.Context, what string) (d Depot, err error) {
	return d, c.ask(ctx, "POST", "/v1/depot/do", map[string]string{"what": what}, &d)
}

// Rehearse returns what a crawl and a removal would find now.
func (c *Client) Rehearse(ctx context.Context) (r Crawl, err error) {
	return r, c.ask(ctx, "GET", "/v1/depot/rehearsal", nil, &r)
}

// Accounts returns the accounts of the depot.
func (c *Client) Accounts(ctx context.Context) ([]Account, error) {
	var l List[Account]
	err := c.ask(ctx, "GET", "/v1/depot/accounts", nil, &l)
	return l.Items, err
}

// AddAccount makes an account.
func (c *Client) AddAccount(ctx context.Context, a AddAccount) (out Account, err error) {
	return out, c.ask(ctx, "POST", "/v1/depot/accounts", a, &out)
}

// SetAccount changes an account.
func (c *Client) SetAccount(ctx context.Context, name string, s SetAccount) (out Account, err error) {
	return out, c.ask(ctx, "PATCH", "/v1/depot/accounts/"+url.PathEscape(name), s, &out)
}

// RemoveAccount removes an account that holds nothing, and, if credit says so, what it has paid and not used up.
func (c *Client) RemoveAccount(ctx context.Context, name string, credit bool) (out Account, err error) {
	return out, c.ask(ctx, "DELETE", fmt.Sprintf("/v1/depot/accounts/%s?credit=%t", url.PathEscape(name), credit), nil, &out)
}

// Leases returns the live leases of an account.
func (c *Client) Leases(ctx context.Context, account string) (all []Lease, err error) {
	for after := ""; ; {
		var l List[Lease]
		if err := c.ask(ctx, "GET", fmt.Sprintf("/v1/depot/leases?account=%s&after=%s", url.QueryEscape(account), after), nil, &l); err != nil {
			return nil, err
		}
		all = append(all, l.Items...)
		if !l.More || len(l.Items) == 0 {
			return all, nil
		}
		after = l.Items[len(l.Items)-1].Share
	}
}

// Hold has depots elsewhere keep what an entry serves.
func (c *Client) Hold(ctx context.Context, h Hold) ([]Held, error) {
	var l List[Held]
	err := c.ask(ctx, "POST", "/v1/holds", h, &l)
	return l.Items, err
}

// Holds returns what depots elsewhere are to keep for the node.
func (c *Client) Holds(ctx context.Context) ([]StandingHold, error) {
	var l List[StandingHold]
	err := c.ask(ctx, "GET", "/v1/holds", nil, &l)
	return l.Items, err
}

// Release ends the holds of a share at depots elsewhere.
func (c *Client) Release(ctx context.Context, r Release) ([]Held, error) {
	var l List[Held]
	err := c.ask(ctx, "POST", "/v1/holds/release", r, &l)
	return l.Items, err
}

// Holdings returns what the node's account holds at a depot elsewhere.
func (c *Client) Holdings(ctx context.Context, depot string) ([]Held, error) {
	var l List[Held]
	err := c.ask(ctx, "GET", holdingsPath+"?depot="+url.QueryEscape(depot), nil, &l)
	return l.Items, err
}
