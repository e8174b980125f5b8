package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"path"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// streams registers the operations that stream their answers.
func (s *Server) streams(a huma.API, mux *http.ServeMux) {
	security := []map[string][]string{{"token": {}}}
	event := a.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[Event](), true, "Event")
	huma.Register(a, huma.Operation{Method: "GET", Path: "/v1/events", OperationID: "events", Summary: "Changes, as they happen (server-sent events)", Security: security,
		Responses: map[string]*huma.Response{"200": {Description: "events; the data of each is an Event", Content: map[string]*huma.MediaType{"text/event-stream": {Schema: event}}}},
	}, func(ctx context.Context, in *struct {
		Last  string `header:"Last-Event-ID" maxLength:"64" doc:"the ID of the last event that was read"`
		Since string `query:"since" maxLength:"64" doc:"the same, for what cannot set a header"`
	}) (*huma.StreamResponse, error) {
		return &huma.StreamResponse{Body: func(c huma.Context) {
			r, w := humago.Unwrap(c)
			w.Header().Set("Content-Type", "text/event-stream")
			if r.Method != http.MethodHead {
				s.follow(c.Context(), w, s.node.Feed().From(cmp.Or(in.Last, in.Since)))
			}
		}}, nil
	})
	huma.Register(a, huma.Operation{Method: "GET", Path: "/v1/entries/{id}/files/{path}", OperationID: "content", Summary: "A file, or a range of it, even while it is being fetched", Security: security,
		Responses: map[string]*huma.Response{
			"200": {Description: "the file", Content: map[string]*huma.MediaType{"application/octet-stream": {}}},
			"206": {Description: "the range that was asked for", Content: map[string]*huma.MediaType{"application/octet-stream": {}}}},
	}, func(ctx context.Context, in *struct {
		OfEntry
		Path string `path:"path" doc:"in the share; slashes may be escaped or not"`
	}) (*huma.StreamResponse, error) {
		return &huma.StreamResponse{Body: func(c huma.Context) {
			r, w := humago.Unwrap(c)
			s.content(w, r, in.ID, in.Path)
		}}, nil
	})
	mux.HandleFunc("GET /v1/entries/{id}/files/{path...}", func(w http.ResponseWriter, r *http.Request) {
		id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
		if err != nil {
			refuse(w, http.StatusNotFound, "there is no such entry")
			return
		}
		s.content(w, r, id, r.PathValue("path"))
	})
	mux.HandleFunc("/v1/", Nothing)
}

// Nothing answers where there is nothing.
func Nothing(w http.ResponseWriter, r *http.Request) {
	refuse(w, http.StatusNotFound, fmt.Sprintf("there is nothing at %s %s; see /v1/openapi.json", r.Method, r.URL.Path))
}

// beatEvery is how often a stream without events writes something, to show that it is alive.
const beatEvery = 15 * time.Second

// follow writes events until the reader has gone, or the feed ends.
func (s *Server) follow(ctx context.Context, w http.ResponseWriter, c *Cursor) {
	out := patient{w, http.NewResponseController(w)}
	if _, err := io.WriteString(out, ": this is fetcher\n\n"); err != nil || out.c.Flush() != nil {
		return
	}
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	for {
		e, ok, more, ended := c.Next()
		var err error
		switch {
		case ok:
			var data []byte
			if data, err = json.Marshal(e); err == nil {
				_, err = fmt.Fprintf(out, "id: %s\nevent: %s\ndata: %s\n\n", e.ID, e.Type, data)
			}
		case ended:
			return
		default:
			if err = out.c.Flush(); err != nil {
				return
			}
			select {
			case <-more:
			case <-beat.C:
				_, err = io.WriteString(out, ": still here\n\n")
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// patient gives a reader streamTime for each write, however long the stream is.
type patient struct {
	http.ResponseWriter
	c *http.ResponseController
}

func (p patient) Write(b []byte) (int, error) {
	p.c.SetWriteDeadline(time.Now().Add(streamTime))
	return p.ResponseWriter.Write(b)
}

// shown are the kinds of content that a browser may display; others are saved. None of
// them can run a script.
var shown = []string{"audio/", "video/", "image/png", "image/jpeg", "image/gif", "image/webp", "text/plain"}

// content writes a file, or the requested range of it.
func (s *Server) content(w http.ResponseWriter, r *http.Request, id int64, file string) {
	ctx, end := context.WithCancel(r.Context())
	var watch sync.WaitGroup
	defer watch.Wait()
	defer end()
	watch.Go(func() { attended(ctx, end) })
	f, err := s.node.OpenFile(ctx, id, file)
	if err != nil {
		answer(w, ProblemOf(err))
		return
	}
	defer f.Close()
	kind := cmp.Or(mime.TypeByExtension(path.Ext(f.Name)), "application/octet-stream")
	how := "attachment"
	for _, prefix := range shown {
		if strings.HasPrefix(kind, prefix) {
			how = "inline"
		}
	}
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Disposition", mime.FormatMediaType(how, map[string]string{"filename": path.Base(f.Name)}))
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	h.Set("ETag", strconv.Quote(f.Share)) // and no Last-Modified: the next version may be as old, and none is continued with it
	http.ServeContent(patient{w, http.NewResponseController(w)}, r, "", time.Time{}, f)
}

// attended ends a request when its client may have gone unnoticed: nobody reads the connection, as net/http stops to
// once the client has sent a byte beyond the request, and for beatEvery nothing was written to it either.
func attended(ctx context.Context, end func()) {
	c := ctx.Value(connKey{}).(*counted)
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for was := int64(-1); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := c.writes.Load()
		if now == was && c.waits.Load() == 0 {
			end()
		}
		was = now
	}
}
