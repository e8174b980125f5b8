package api

import (
	"context"
	"net/url"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// FleetNode is the part of a Node that belongs to a fleet.
type FleetNode interface {
	Fleet(ctx context.Context) (Fleet, error)
	AddToFleet(ctx context.Context, ticket string) (FleetShare, error)
	RemoveFromFleet(ctx context.Context, share string) (FleetShare, error)
	ForgetMachine(ctx context.Context, machine string) (FleetMember, error)
	Rounds(ctx context.Context) ([]Round, error)
}

// Round is a round in the store of the fleet: who does what is to be done by one alone.
type Round struct {
	Round    string    `json:"round" doc:"its name"`
	State    string    `json:"state" enum:"running,completed,abandoned,corrupt" doc:"running: its holder is at work, or has died; completed: it lasts until its time is over; abandoned: it is free; corrupt: what the store has cannot be read, and whoever asks next gets it"`
	Text     string    `json:"text,omitempty" doc:"corrupt: a sentence"`
	Term     uint64    `json:"term,omitempty" doc:"grows with each holder"`
	Holder   string    `json:"holder,omitempty" doc:"who holds it, or held it last: of a fleet's rounds, a peer ID"`
	Acquired time.Time `json:"acquired,omitzero" doc:"by the holder's clock"`
	Office   bool      `json:"office,omitempty" doc:"it has no fixed end: it lasts for as long as its holder extends it"`
	Ends     time.Time `json:"ends,omitzero" doc:"absent for an office"`
	Ended    time.Time `json:"ended,omitzero" doc:"when it was completed or abandoned"`
	Outcome  string    `json:"outcome,omitempty"`
}

// Fleet is the progress of the machines of a fleet with the shares of its list.
type Fleet struct {
	At        time.Time     `json:"at" doc:"when all of this was so"`
	Away      string        `json:"away,omitempty" doc:"a sentence: why the state of the fleet cannot be read, because its store does not answer or this node is no longer a member; the rest is what was known before"`
	AwaySince time.Time     `json:"away_since,omitzero" doc:"since when that is so"`
	Shares    []FleetShare  `json:"shares" doc:"in the order in which they were added"`
	Members   []FleetMember `json:"members" doc:"by their names"`
}

// FleetMember is a machine of a fleet.
type FleetMember struct {
	Peer   string    `json:"peer"`
	Name   string    `json:"name"`
	At     time.Time `json:"at" doc:"when it was last heard from, by its own clock"`
	Silent bool      `json:"silent" doc:"it was not heard from for a while"`
}

// FleetShare is the progress of a fleet with one share.
type FleetShare struct {
	Share       string          `json:"share"`
	Name        string          `json:"name,omitempty" doc:"empty: nobody knows it yet"`
	Added       time.Time       `json:"added,omitzero"`
	Done        int             `json:"done" doc:"members that have it"`
	Coordinator string          `json:"coordinator,omitempty" doc:"the member that leases its pieces; empty: nobody does"`
	Heard       time.Time       `json:"heard,omitzero" doc:"when the coordinator last showed that it is alive, by its own clock"`
	Late        bool            `json:"late,omitempty" doc:"the coordinator has missed a heartbeat: unless it comes back, another is elected"`
	Term        uint64          `json:"term" doc:"of the coordinator, or of the last one"`
	Members     []FleetProgress `json:"members" doc:"how far each has got, in the order of the fleet's members"`
	Depots      int             `json:"depots,omitempty" doc:"that are to keep it for the fleet; once it is removed: until their leases end"`
}

// FleetProgress is the progress of a member with a share, as it reports itself.
type FleetProgress struct {
	Peer     string `json:"peer"`
	Begun    bool   `json:"begun"`
	Bytes    int64  `json:"bytes" doc:"of the share; 0: not known yet"`
	Verified int64  `json:"verified_bytes"`
	Done     bool   `json:"done"`
	Waits    string `json:"waits,omitempty" doc:"for what, if nothing moves"`
}

// AddToFleet asks that every member fetch a share.
type AddToFleet struct {
	Ticket string `json:"ticket" maxLength:"16384"`
}

func (s *Server) fleet(a huma.API) {
	n := s.node
	add(a, "GET", "/v1/fleet", "fleet", "How far the machines of the fleet have got", func(ctx context.Context, _ *struct{}) (Fleet, error) { return n.Fleet(ctx) })
	add(a, "POST", "/v1/fleet/shares", "addToFleet", "Have every machine of the fleet fetch a share", func(ctx context.Context, in *body[AddToFleet]) (FleetShare, error) {
		return n.AddToFleet(ctx, in.Body.Ticket)
	})
	add(a, "DELETE", "/v1/fleet/shares/{share}", "removeFromFleet", "Have every machine of the fleet stop fetching and serving a share", func(ctx context.Context, in *struct {
		Share string `path:"share" maxLength:"128"`
	}) (FleetShare, error) {
		return n.RemoveFromFleet(ctx, in.Share)
	})
	add(a, "GET", "/v1/rounds", "rounds", "Who holds which round of the fleet", func(ctx context.Context, _ *struct{}) (List[Round], error) {
		items, err := n.Rounds(ctx)
		return List[Round]{Items: append([]Round{}, items...)}, err
	})
	add(a, "DELETE", "/v1/fleet/members/{machine}", "forgetMachine", "Forget a machine of the fleet that is gone", func(ctx context.Context, in *struct {
		Machine string `path:"machine" maxLength:"1024" doc:"its name or peer ID"`
	}) (FleetMember, error) {
		return n.ForgetMachine(ctx, in.Machine)
	})
}

// Fleet returns the progress of the node's fleet.
func (c *Client) Fleet(ctx context.Context) (f Fleet, err error) {
	return f, c.ask(ctx, "GET", "/v1/fleet", nil, &f)
}

// Rounds returns the rounds of the fleet, by their names.
func (c *Client) Rounds(ctx context.Context) ([]Round, error) {
	var l List[Round]
	err := c.ask(ctx, "GET", "/v1/rounds", nil, &l)
	return l.Items, err
}

// AddToFleet has every machine of the fleet fetch a share.
func (c *Client) AddToFleet(ctx context.Context, ticket string) (s FleetShare, err error) {
	return s, c.ask(ctx, "POST", "/v1/fleet/shares", AddToFleet{ticket}, &s)
}

// RemoveFromFleet removes a share from the fleet.
func (c *Client) RemoveFromFleet(ctx context.Context, share string) (s FleetShare, err error) {
	return s, c.ask(ctx, "DELETE", "/v1/fleet/shares/"+url.PathEscape(share), nil, &s)
}

// ForgetMachine forgets a machine of the fleet.
func (c *Client) ForgetMachine(ctx context.Context, machine string) (m FleetMember, err error) {
	return m, c.ask(ctx, "DELETE", "/v1/fleet/members/"+url.PathEscape(machine), nil, &m)
}
