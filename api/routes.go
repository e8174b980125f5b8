package api

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/piecelease/fetcher"
)

// OfEntry is a request about one entry.
type OfEntry struct {
	ID int64 `path:"id" minimum:"1" doc:"of the entry"`
}

// List is an answer with several items.
type List[T any] struct {
	Items []T  `json:"items"`
	More  bool `json:"more,omitempty" doc:"there are more; ask again with after"`
}

type body[T any] struct{ Body T }

// add registers an operation. Errors are sent as problems.
func add[I, O any](a huma.API, method, path, name, summary string, f func(context.Context, *I) (O, error)) {
	op := huma.Operation{Method: method, Path: path, OperationID: name, Summary: summary, MaxBodyBytes: maxBody, Security: []map[string][]string{{"token": {}}}}
	if method == http.MethodPost && path == "/v1/entries" {
		op.DefaultStatus = http.StatusCreated
	}
	huma.Register(a, op, func(ctx context.Context, in *I) (*body[O], error) {
		out, err := f(ctx, in)
		if err != nil {
			return nil, ProblemOf(err)
		}
		return &body[O]{out}, nil
	})
}

// listed returns a handler that makes a list of what f returns for an entry.
func listed[T any](f func(context.Context, int64) ([]T, error)) func(context.Context, *OfEntry) (List[T], error) {
	return func(ctx context.Context, in *OfEntry) (List[T], error) {
		items, err := f(ctx, in.ID)
		return List[T]{Items: append([]T{}, items...)}, err
	}
}

func (s *Server) routes(mux *http.ServeMux) {
	spec := &huma.OpenAPI{OpenAPI: "3.1.0", Info: &huma.Info{Title: "fetcher node", Version: fetcher.Version(),
		Description: "Errors are problems (RFC 9457). Integers are numbers of bytes unless the name or the description says otherwise. Readers must ignore fields that they do not know."},
		Components: &huma.Components{Schemas: huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer),
			SecuritySchemes: map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer", Description: "the token in the state directory; none is needed on the unix socket"}}}}
	a := humago.New(mux, huma.Config{OpenAPI: spec, OpenAPIPath: "/v1/openapi", DefaultFormat: "application/json",
		Formats: map[string]huma.Format{"application/json": format, "json": format}})
	n := s.node
	add(a, "GET", "/v1/node", "status", "What the node is doing", func(ctx context.Context, _ *struct{}) (Status, error) { return n.Status(ctx) })
	s.entries(a)
	add(a, "GET", "/v1/entries/{id}/files", "files", "The list of files of an entry", listed(n.Files))
	add(a, "GET", "/v1/entries/{id}/sources", "sources", "Whom an entry is fetched from", listed(n.Sources))
	add(a, "GET", "/v1/entries/{id}/children", "children", "Who fetches an entry from here, and how each ranks among them", listed(n.Children))
	add(a, "GET", "/v1/entries/{id}/pieces", "pieces", "Which pieces of an entry are here", func(ctx context.Context, in *OfEntry) (Pieces, error) { return n.Pieces(ctx, in.ID) })
	add(a, "GET", "/v1/entries/{id}/why", "why", "Why an entry is not done, as a list of sentences", listed(n.Why))
	add(a, "GET", "/v1/entries/{id}/link", "link", "A link to a file, which works without the token for 12 hours", s.link)
	add(a, "GET", "/v1/peers", "peers", "Peers that this node receives from, or sends to", func(ctx context.Context, _ *struct{}) (List[Peer], error) {
		items, err := n.Peers(ctx)
		return List[Peer]{Items: append([]Peer{}, items...)}, err
	})
	add(a, "GET", "/v1/peers/{peer}/history", "history", "What was exchanged with a peer in the last 24 hours, and its scores", func(ctx context.Context, in *struct {
		Peer string `path:"peer" maxLength:"128"`
	}) (List[Moment], error) {
		items, err := n.History(ctx, in.Peer)
		return List[Moment]{Items: append([]Moment{}, items...)}, err
	})
	add(a, "GET", "/v1/limits", "limits", "The limits in force", func(ctx context.Context, _ *struct{}) (Limits, error) { return n.Limits(ctx) })
	add(a, "PATCH", "/v1/limits", "setLimits", "Change the limits", func(ctx context.Context, in *body[SetLimits]) (Limits, error) {
		return n.SetLimits(ctx, in.Body)
	})
	s.depot(a)
	s.moves(a)
	s.passes(a)
	s.fleet(a)
	s.streams(a, mux)
}

// page is a request for a part of the catalog.
type page struct {
	After int64 `query:"after" minimum:"0" doc:"only entries with a greater ID"`
	Limit int   `query:"limit" minimum:"1" maximum:"10000" default:"1000"`
}

func (s *Server) entries(a huma.API) {
	n := s.node
	add(a, "GET", "/v1/entries", "entries", "The catalog, in the order of IDs", func(ctx context.Context, in *page) (out List[Entry], err error) {
		all, err := n.Entries(ctx)
		if err != nil {
			return out, err
		}
		out.Items = []Entry{}
		for _, e := range all {
			if e.ID <= in.After {
				continue
			}
			if len(out.Items) == in.Limit {
				out.More = true
				break
			}
			out.Items = append(out.Items, e)
		}
		return out, nil
	})
	add(a, "POST", "/v1/entries", "add", "Add a share to fetch, or paths to serve", func(ctx context.Context, in *body[Add]) (Entry, error) {
		return n.Add(ctx, in.Body)
	})
	add(a, "GET", "/v1/entries/{id}", "entry", "One entry", func(ctx context.Context, in *OfEntry) (Entry, error) { return n.Entry(ctx, in.ID) })
	add(a, "PATCH", "/v1/entries/{id}", "set", "Change an entry", func(ctx context.Context, in *struct {
		OfEntry
		Body Set
	}) (Entry, error) {
		return n.Set(ctx, in.ID, in.Body)
	})
	add(a, "DELETE", "/v1/entries/{id}", "remove", "Stop an entry and forget it", func(ctx context.Context, in *struct {
		OfEntry
		Data bool `query:"data" doc:"remove the files too that this node made, and only those"`
	}) (Removed, error) {
		return n.Remove(ctx, in.ID, in.Data)
	})
}

// Link is a path on this server.
type Link struct {
	Path  string    `json:"path"`
	Until time.Time `json:"until"`
}

func (s *Server) link(ctx context.Context, in *struct {
	OfEntry
	Path string `query:"path" required:"true" maxLength:"4096" doc:"of the file in the share"`
}) (Link, error) {
	access, _ := ctx.Value(accessKey{}).(Access)
	now := time.Now()
	path := filePath(in.ID, in.Path)
	if access.Token != "" {
		path = access.link(path, now)
	}
	return Link{path, now.Add(linkTime)}, nil
}

// filePath returns the path at which a file of an entry is served.
func filePath(id int64, path string) string {
	return fmt.Sprintf("/v1/entries/%d/files/%s", id, url.PathEscape(path))
}
