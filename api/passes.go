package api

import (
	"context"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// NewVoucher has the depot make a voucher.
type NewVoucher struct {
	Passes int64  `json:"passes" minimum:"1" doc:"how many it is for: a pass keeps 1 MiB for 31 days"`
	For    string `json:"for,omitempty" maxLength:"256" doc:"the account that the voucher is sold to, which must be one that pays; the code does not name it"`
}

// Voucher is a code that buys passes, once.
type Voucher struct {
	Code   string `json:"voucher" doc:"the code for whoever is to redeem it"`
	Passes int64  `json:"passes"`
	For    string `json:"for,omitempty"`
}

// RedeemPasses gets the passes of a voucher.
type RedeemPasses struct {
	Code string `json:"code" maxLength:"1024"`
}

// Passes is what the node's wallet has for one depot; a pass keeps 1 MiB for 31 days.
type Passes struct {
	Depot    string    `json:"depot" doc:"its peer ID"`
	Passes   int64     `json:"passes" doc:"that can be spent"`
	Reserved int64     `json:"reserved" doc:"of payments that are not answered yet"`
	Ordered  int64     `json:"ordered" doc:"of vouchers whose passes are not here yet"`
	Bad      int64     `json:"bad" doc:"that the depot does not take any more"`
	Until    time.Time `json:"until,omitzero" doc:"when the first of them are worth nothing any more"`
	Budget   int64     `json:"budget,omitempty" doc:"how many the depot is paid in 31 days at most; 0: any number"`
	Left     int64     `json:"budget_left,omitempty" doc:"of the budget, in the present 31 days"`
}

func (s *Server) passes(a huma.API) {
	n := s.node
	add(a, "POST", "/v1/depot/vouchers", "voucher", "Make a voucher for passes of this depot", func(ctx context.Context, in *body[NewVoucher]) (Voucher, error) {
		return n.Voucher(ctx, in.Body)
	})
	add(a, "POST", "/v1/passes/redeem", "redeemPasses", "Get the passes of a voucher", func(ctx context.Context, in *body[RedeemPasses]) (List[Passes], error) {
		items, err := n.RedeemPasses(ctx, in.Body)
		return List[Passes]{Items: append([]Passes{}, items...)}, err
	})
	add(a, "GET", "/v1/passes", "passes", "The passes that this node has, by depot", func(ctx context.Context, _ *struct{}) (List[Passes], error) {
		items, err := n.Passes(ctx)
		return List[Passes]{Items: append([]Passes{}, items...)}, err
	})
}

// Voucher makes a voucher for passes of the depot.
func (c *Client) Voucher(ctx context.Context, v NewVoucher) (out Voucher, err error) {
	return out, c.ask(ctx, "POST", "/v1/depot/vouchers", v, &out)
}

// RedeemPasses gets the passes of a voucher, and returns what the wallet has then.
func (c *Client) RedeemPasses(ctx context.Context, r RedeemPasses) ([]Passes, error) {
	var l List[Passes]
	err := c.ask(ctx, "POST", "/v1/passes/redeem", r, &l)
	return l.Items, err
}

// Passes returns what the node's wallet has.
func (c *Client) Passes(ctx context.Context) ([]Passes, error) {
	var l List[Passes]
	err := c.ask(ctx, "GET", "/v1/passes", nil, &l)
	return l.Items, err
}
