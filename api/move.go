package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/piecelease/fetcher/internal/words"
)

const (
	importPath = "/v1/depot/import" // where a body may be of any length
	exportPath = "/v1/depot/export" // what is there is not for those who may only look
)

// moves registers the export and the import of a depot, which are streams.
func (s *Server) moves(a huma.API) {
	security := []map[string][]string{{"token": {}}}
	huma.Register(a, huma.Operation{Method: "GET", Path: exportPath, OperationID: "export", Summary: "The shares of the depot with their accounts, leases and data (a tar)", Security: security,
		Responses: map[string]*huma.Response{"200": {Description: "the stream, for an import", Content: map[string]*huma.MediaType{"application/x-tar": {}}}},
	}, func(ctx context.Context, in *struct {
		After string `query:"after" maxLength:"128" doc:"only shares with a greater ID"`
	}) (*huma.StreamResponse, error) {
		write, err := s.node.Export(ctx, in.After)
		if err != nil {
			return nil, ProblemOf(err)
		}
		return &huma.StreamResponse{Body: func(c huma.Context) {
			r, w := humago.Unwrap(c)
			w.Header().Set("Content-Type", "application/x-tar")
			if r.Method == http.MethodHead { // it would read the whole depot for nobody
				return
			}
			if write(patient{w, http.NewResponseController(w)}) != nil {
				panic(http.ErrAbortHandler) // else it would seem to be whole
			}
		}}, nil
	})
	imported := a.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[Imported](), true, "Imported")
	huma.Register(a, huma.Operation{Method: "POST", Path: importPath, OperationID: "import", Summary: "Import what a depot exported; the answer comes once that is safe on disk", Security: security,
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/x-tar": {}}},
		Responses:   map[string]*huma.Response{"200": {Description: "what was entered", Content: map[string]*huma.MediaType{"application/json": {Schema: imported}}}},
	}, func(ctx context.Context, _ *struct{}) (*huma.StreamResponse, error) {
		return &huma.StreamResponse{Body: func(c huma.Context) {
			r, w := humago.Unwrap(c)
			out, err := s.node.Import(r.Context(), slowly{r.Body, http.NewResponseController(w)})
			if err != nil {
				answer(w, ProblemOf(err))
				return
			}
			w.Header().Set("Content-Type", "application/json")
			json.NewEncoder(w).Encode(out)
		}}, nil
	})
}

// slowly gives a writer streamTime for each read, however long the stream is.
type slowly struct {
	io.Reader
	c *http.ResponseController
}

func (s slowly) Read(b []byte) (int, error) {
	s.c.SetReadDeadline(time.Now().Add(importTime))
	n, err := s.Reader.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = Refuse(ErrRequest, "nothing came for %s; what came before is here: repeat the import for the rest", words.Duration(importTime))
	}
	return n, err
}

// importTime is how long an import waits for its next bytes: the depot that exports them may read much
// between two.
const importTime = 5 * time.Minute

// Export returns the shares of the depot above an ID, with their leases, as a stream to be closed.
func (c *Client) Export(ctx context.Context, after string) (io.ReadCloser, error) {
	res, err := c.open(ctx, "GET", exportPath+"?after="+url.QueryEscape(after), nil, nil)
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}

// Import enters what Export of a depot returned.
func (c *Client) Import(ctx context.Context, from io.Reader) (out Imported, err error) {
	res, err := c.open(ctx, "POST", importPath, from, http.Header{"Content-Type": {"application/x-tar"}})
	if err != nil {
		return out, err
	}
	defer res.Body.Close()
	return out, json.NewDecoder(res.Body).Decode(&out)
}
