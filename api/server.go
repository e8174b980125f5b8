package api

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Limits on what one client may cost.
const (
	maxBody      = 1 << 20
	maxHeader    = 16 << 10
	headerTime   = 5 * time.Second
	requestTime  = 30 * time.Second // for a request with its body, and for the reader of an answer that is not a stream
	idleTime     = time.Minute
	streamTime   = 20 * time.Second // for the reader of a stream to accept each write
	shutdownTime = 3 * time.Second
)

// Access says who may use a listener. The zero value is for a socket that only people who
// may do everything can open.
type Access struct {
	// Token gives full access, Read only lets a client look, but not export the depot, nor ask another. If Token is empty, no token is needed.
	Token, Read string
	// Hosts are the names, with ports, by which the listener may be addressed, so that a page
	// from another name cannot reach it through a browser. Empty: any.
	Hosts []string
	// AnyIP says that every IP address is such a name: no page comes from one that its owner did not open.
	AnyIP bool
	// MaxConns bounds the connections; more are closed at once. Default 256.
	MaxConns int
}

// Server answers for a node.
type Server struct {
	node    Node
	log     *slog.Logger
	handler http.Handler
}

// NewServer returns the server of a node. metrics answers at /metrics, and page at all
// paths that are not part of the API; either may be nil.
func NewServer(n Node, log *slog.Logger, metrics, page http.Handler) *Server {
	s := &Server{node: n, log: log}
	mux := http.NewServeMux()
	s.routes(mux)
	if metrics != nil {
		mux.Handle("GET /metrics", metrics)
	}
	if page == nil {
		page = http.HandlerFunc(Nothing)
	}
	mux.Handle("/", page)
	s.handler = mux
	return s
}

// Serve answers at l until ctx ends, or l fails. It closes l, and waits a few seconds for its
// connections.
func (s *Server) Serve(ctx context.Context, l net.Listener, a Access) error {
	if a.MaxConns == 0 {
		a.MaxConns = 256
	}
	base, cut := context.WithCancel(context.WithoutCancel(ctx)) // parent of the requests' contexts: streams end with it
	defer cut()
	h := &http.Server{
		Handler: s.guarded(a), ReadHeaderTimeout: headerTime, ReadTimeout: requestTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return base },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		ErrorLog:    slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	var closing sync.WaitGroup
	closing.Add(1)
	stop := context.AfterFunc(ctx, func() {
		defer closing.Done()
		cut()
		end, cancel := context.WithTimeout(context.Background(), shutdownTime)
		defer cancel()
		if h.Shutdown(end) != nil {
			h.Close()
		}
	})
	err := h.Serve(&bounded{Listener: l, free: int64(a.MaxConns)})
	if stop() { // l itself has failed
		closing.Done()
		h.Close()
		return err
	}
	closing.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}

// bounded is a listener with a bound on its connections.
type bounded struct {
	net.Listener
	free int64
	used atomic.Int64
}

func (l *bounded) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.used.Add(1) <= l.free {
			return &counted{Conn: c, of: l}, nil
		}
		l.used.Add(-1)
		c.Close()
	}
}

// counted is a connection of a bounded listener.
type counted struct {
	net.Conn
	of     *bounded
	once   sync.Once
	waits  atomic.Int64 // reads and writes that wait for the client: they hear when it has gone
	writes atomic.Int64
}

type connKey struct{}

func (c *counted) Read(b []byte) (int, error) {
	c.waits.Add(1)
	defer c.waits.Add(-1)
	return c.Conn.Read(b)
}

func (c *counted) Write(b []byte) (int, error) {
	c.writes.Add(1)
	c.waits.Add(1)
	defer c.waits.Add(-1)
	return c.Conn.Write(b)
}

func (c *counted) Close() error {
	c.once.Do(func() { c.of.used.Add(-1) })
	return c.Conn.Close()
}

// called says whether a listener is addressed by a name that it has. Browsers leave out the port if it is the usual one.
func (a Access) called(host string) bool {
	names := []string{strings.ToLower(host)}
	if _, _, err := net.SplitHostPort(host); err != nil {
		names = []string{names[0] + ":80", names[0] + ":443"}
	}
	return slices.ContainsFunc(names, func(name string) bool {
		_, err := netip.ParseAddrPort(name)
		return slices.Contains(a.Hosts, name) || a.AnyIP && err == nil
	})
}

// policy is what a page may do: load what this server serves, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// guarded wraps the handler in the guards of a listener.
func (s *Server) guarded(a Access) http.Handler {
	cross := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
		w := &answering{ResponseWriter: to}
		defer w.begin() // an answer without a body is written after this
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		switch {
		case len(a.Hosts) > 0 && !a.called(r.Host):
			refuse(w, http.StatusMisdirectedRequest, fmt.Sprintf("this node is not called %q; use an address that it listens on, or add this one, with its port (443 for https), to http-hosts in node.toml", r.Host))
		case cross.Check(r) != nil:
			refuse(w, http.StatusForbidden, "a page of another site may not ask for this")
		case a.Token != "" && secret(r.URL.Path) && !a.knows(r):
			h.Set("WWW-Authenticate", "Bearer")
			refuse(w, http.StatusUnauthorized, `the token of this node is needed; it is in the file "token" in its state directory`)
		case a.Token != "" && a.only(r) && r.Method != http.MethodGet && r.Method != http.MethodHead:
			refuse(w, http.StatusForbidden, "this token is for reading, and changes nothing")
		case a.Token != "" && a.only(r) && beyond[r.URL.Path] != "":
			refuse(w, http.StatusForbidden, "this token is for reading the status, and "+beyond[r.URL.Path]+"; use the other token")
		default:
			if r.URL.Path != importPath {
				r.Body = http.MaxBytesReader(to, r.Body, maxBody)
			}
			s.handler.ServeHTTP(w, withAccess(r, a))
		}
	})
}

// beyond says what those who may only look may not read, and why.
var beyond = map[string]string{exportPath: "an export has the data of all accounts", holdingsPath: "asking a depot makes the node connect to it"}

// answering gives a client requestTime to accept an answer from where that begins, however long the node has worked on it.
type answering struct {
	http.ResponseWriter
	once sync.Once
}

func (a *answering) begin() {
	a.once.Do(func() { http.NewResponseController(a.ResponseWriter).SetWriteDeadline(time.Now().Add(requestTime)) })
}

func (a *answering) WriteHeader(status int) {
	a.begin()
	a.ResponseWriter.WriteHeader(status)
}

func (a *answering) Write(b []byte) (int, error) {
	a.begin()
	return a.ResponseWriter.Write(b)
}

// Unwrap is for http.NewResponseController.
func (a *answering) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// secret reports whether a path needs the token: all but the files of the page.
func secret(path string) bool { return strings.HasPrefix(path, "/v1/") || path == "/metrics" }

func bearer(r *http.Request) string {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return ""
	}
	return token
}

func equal(a, b string) bool { return a != "" && subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// knows reports whether the client has one of the tokens, or a link made by someone who
// has.
func (a Access) knows(r *http.Request) bool {
	return equal(bearer(r), a.Token) || equal(bearer(r), a.Read) || a.linked(r)
}

// only reports whether the client may only look.
func (a Access) only(r *http.Request) bool { return !equal(bearer(r), a.Token) }

// linkTime is how long a link to a file works.
const linkTime = 12 * time.Hour

// link returns the path of a file with a key that replaces the token, for clients that can
// send none: players, and a browser that saves a file.
func (a Access) link(path string, now time.Time) string {
	until := strconv.FormatInt(now.Add(linkTime).Unix(), 10)
	return path + "?until=" + until + "&key=" + a.sign(path, until)
}

func (a Access) sign(path, until string) string {
	m := hmac.New(sha256.New, []byte(a.Token))
	fmt.Fprintf(m, "%s\n%s", until, path)
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil))
}

func (a Access) linked(r *http.Request) bool {
	until := r.URL.Query().Get("until")
	end, err := strconv.ParseInt(until, 10, 64)
	return err == nil && (r.Method == http.MethodGet || r.Method == http.MethodHead) && time.Now().Unix() < end && equal(r.URL.Query().Get("key"), a.sign(r.URL.EscapedPath(), until))
}

type accessKey struct{}

func withAccess(r *http.Request, a Access) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), accessKey{}, a))
}

// refuse answers with a problem.
func refuse(w http.ResponseWriter, status int, detail string) {
	answer(w, &Problem{Title: http.StatusText(status), Status: status, Detail: detail, Code: codes[status]})
}

func answer(w http.ResponseWriter, p *Problem) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	json.NewEncoder(w).Encode(p) // an error here means that the client has gone
}
