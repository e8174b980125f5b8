package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fake is a node with one entry, 7.
type fake struct {
	Node
	feed     *Feed
	last     Add
	exported atomic.Bool
	waits    chan error // nil, or told when a reader of a file has waited for as long as it may
}

// coming is a file of which no byte comes.
type coming struct {
	memory
	ctx   context.Context
	waits chan error
}

func (c coming) Read([]byte) (int, error) {
	<-c.ctx.Done()
	c.waits <- c.ctx.Err()
	return 0, c.ctx.Err()
}

type memory struct{ *bytes.Reader }

func (memory) Close() error { return nil }

func (f *fake) Feed() *Feed { return f.feed }
func (f *fake) Status(context.Context) (Status, error) {
	return Status{Peer: "12D3", Addrs: []string{}, Warnings: []string{}}, nil
}
func (f *fake) Entries(context.Context) (out []Entry, _ error) {
	for i := range 2500 {
		out = append(out, Entry{ID: int64(i + 1)})
	}
	return out, nil
}
func (f *fake) Entry(_ context.Context, id int64) (Entry, error) {
	if id != 7 {
		return Entry{}, Refuse(ErrNoEntry, "there is no entry %d", id)
	}
	return Entry{ID: 7, Kind: "serve", State: Served}, nil
}
func (f *fake) Add(_ context.Context, a Add) (Entry, error) {
	f.last = a
	if a.Ticket == "held" {
		return Entry{}, fmt.Errorf("share x: %w", share.ErrHeld)
	}
	return Entry{ID: 7, Kind: "fetch", State: Waiting}, nil
}
func (f *fake) Remove(context.Context, int64, bool) (Removed, error) {
	panic("nobody may get here")
}
func (f *fake) OpenFile(ctx context.Context, id int64, path string) (Content, error) {
	if f.waits != nil {
		return Content{coming{memory{bytes.NewReader([]byte("0123456789"))}, ctx, f.waits}, path, "share"}, nil
	}
	if id != 7 || !slices.Contains([]string{"a/b.txt", "page.html"}, path) {
		return Content{}, Refuse(ErrNoEntry, "entry %d has no file %q", id, path)
	}
	return Content{memory{bytes.NewReader([]byte("0123456789"))}, path, "share"}, nil
}

// served starts a server on a unix socket, or with an access on TCP.
func served(t testing.TB, a *Access) (f *fake, address string, c *http.Client) {
	t.Helper()
	f = &fake{feed: NewFeed("run")}
	network, at := "unix", filepath.Join(t.TempDir(), "s")
	if a != nil {
		network, at = "tcp", "127.0.0.1:0"
	}
	l, err := net.Listen(network, at)
	must(t, err)
	if a == nil {
		a = &Access{}
	} else if a.Hosts == nil {
		a.Hosts = []string{l.Addr().String()}
	}
	s := NewServer(f, slog.New(slog.DiscardHandler), nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "page") }))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l, *a) }()
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return net.Dial(network, l.Addr().String())
	}}
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return f, l.Addr().String(), &http.Client{Transport: tr}
}

func TestTheClientAndTheServerAgree(t *testing.T) {
	f, at, _ := served(t, nil)
	c, err := Dial(t.Context(), at)
	must(t, err)
	defer c.Close()
	if s, err := c.Status(t.Context()); err != nil || s.Peer != "12D3" {
		t.Errorf("%+v, %v", s, err)
	}
	if all, err := c.Entries(t.Context()); err != nil || len(all) != 2500 || all[2499].ID != 2500 {
		t.Errorf("%d entries, %v", len(all), err)
	}
	want := Add{Ticket: "t", Only: []string{"a"}, Priority: "high", SeedRatio: 1.5}
	if e, err := c.Add(t.Context(), want); err != nil || e.State != Waiting || fmt.Sprint(f.last) != fmt.Sprint(want) {
		t.Errorf("%+v, %v; sent %+v", e, err, f.last)
	}
	if _, err := c.Add(t.Context(), Add{Ticket: "held"}); !errors.Is(err, share.ErrHeld) || errors.Is(err, ErrHave) || err.Error() != "share x: "+share.ErrHeld.Error() {
		t.Errorf("an error that is held: %v", err)
	}
	if _, err := c.Entry(t.Context(), 8); !errors.Is(err, ErrNoEntry) {
		t.Errorf("no entry: %v", err)
	}
	if _, err := c.Add(t.Context(), Add{Ticket: "t", Priority: "urgent"}); !errors.Is(err, ErrRequest) || !strings.Contains(err.Error(), "priority") {
		t.Errorf("a priority that is none: %v", err)
	}
	f.last = want
	for _, bad := range []Add{{Ticket: "t", Dir: "/in\xff"}, {Paths: []string{"/a", "/in\xff"}}} {
		if _, err := c.Add(t.Context(), bad); !errors.Is(err, ErrRequest) || !strings.Contains(err.Error(), `/in\xff" is not UTF-8`) || fmt.Sprint(f.last) != fmt.Sprint(want) {
			t.Errorf("a path that is not UTF-8: %v; sent %+v", err, f.last)
		}
	}
	r, err := c.Content(t.Context(), 7, "a/b.txt")
	must(t, err)
	defer r.Close()
	if b, err := io.ReadAll(r); err != nil || string(b) != "0123456789" {
		t.Errorf("content %q, %v", b, err)
	}
	if _, err := Dial(t.Context(), at+"x"); !errors.Is(err, ErrNoNode) {
		t.Errorf("nobody there: %v", err)
	}
}

func TestEventsGoOnWhereTheReaderStopped(t *testing.T) {
	f, at, _ := served(t, nil)
	c, err := Dial(t.Context(), at)
	must(t, err)
	defer c.Close()
	for i := range 5 {
		f.feed.Publish(Event{Type: "entry", Entry: &Entry{ID: int64(i + 1)}})
	}
	var got []string
	must(t, c.Events(t.Context(), "run-1", func(e Event) bool {
		got = append(got, fmt.Sprint(e.ID, e.Type, e.Entry.ID))
		return len(got) == 3
	}))
	if want := []string{"run-2entry2", "run-3entry3", "run-4entry4"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for _, since := range []string{"other-1", "run-6", "run-x", "x"} {
		must(t, c.Events(t.Context(), since, func(e Event) bool {
			if e.Type != "reset" {
				t.Errorf("since %q: first %+v", since, e)
			}
			return true
		}))
	}
}

// A page that is opened before anything has happened, and hidden and shown again, has missed nothing.
func TestTheFirstResetCanBeGoneOnFromToo(t *testing.T) {
	f := NewFeed("run")
	e, ok, _, _ := f.From("0-0").Next()
	if !ok || e.Type != "reset" {
		t.Fatalf("%+v", e)
	}
	if e, ok, _, _ := f.From(e.ID).Next(); ok {
		t.Errorf("after a reset, without an event since: %+v", e)
	}
	f.Publish(Event{Type: "entry"})
	if e, ok, _, _ := f.From(e.ID).Next(); !ok || e.Type != "entry" {
		t.Errorf("after a reset, with an event since: %+v", e)
	}
}

func TestAReaderThatIsSlowIsToldWhatItMissed(t *testing.T) {
	f := NewFeed("run")
	c := f.From("")
	for range feedLength + 1 {
		f.Publish(Event{Type: "entry"})
	}
	e, ok, _, _ := c.Next()
	if !ok || e.Type != "reset" {
		t.Errorf("%+v", e)
	}
	if e, ok, more, _ := c.Next(); ok || more == nil {
		t.Errorf("after the reset: %+v", e)
	}
	if next := f.From(e.ID); next.lost {
		t.Error("the ID of a reset cannot be gone on from")
	}
	f.Close()
	if _, ok, _, ended := c.Next(); ok || !ended {
		t.Error("a closed feed goes on")
	}
}

// request sends a request with headers, and returns the response and the problem.
func request(t testing.TB, c *http.Client, method, url, body string, header ...string) (*http.Response, Problem) {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	must(t, err)
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
		req.Header.Set(header[i], header[i+1])
	}
	res, err := c.Do(req)
	must(t, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	must(t, err)
	res.Body = io.NopCloser(bytes.NewReader(b))
	var p Problem
	json.Unmarshal(b, &p)
	return res, p
}

func TestWhoMayAskWhat(t *testing.T) {
	_, at, c := served(t, &Access{Token: "all", Read: "look"})
	url := "http://" + at
	for _, x := range []struct {
		what, method, path string
		header             []string
		want               int
	}{
		{"no token", "GET", "/v1/node", nil, 401},
		{"wrong token", "GET", "/v1/node", []string{"Authorization", "Bearer al"}, 401},
		{"no scheme", "GET", "/v1/node", []string{"Authorization", "all"}, 401},
		{"basic", "GET", "/v1/node", []string{"Authorization", "Basic all"}, 401},
		{"token in the query", "GET", "/v1/node?token=all", nil, 401},
		{"metrics", "GET", "/metrics", nil, 401},
		{"right token", "GET", "/v1/node", []string{"Authorization", "Bearer all"}, 200},
		{"read token", "GET", "/v1/node", []string{"Authorization", "Bearer look"}, 200},
		{"read token adds", "POST", "/v1/entries", []string{"Authorization", "Bearer look"}, 403},
		{"read token removes", "DELETE", "/v1/entries/7", []string{"Authorization", "Bearer look"}, 403},
		{"page", "GET", "/", nil, 200},
		{"foreign host", "GET", "/", []string{"Host", "evil.example"}, 421},
		{"foreign host and token", "GET", "/v1/node", []string{"Host", "evil.example", "Authorization", "Bearer all"}, 421},
		{"cross-site fetch", "DELETE", "/v1/entries/7", []string{"Authorization", "Bearer all", "Sec-Fetch-Site", "cross-site"}, 403},
		{"other origin", "POST", "/v1/entries", []string{"Authorization", "Bearer all", "Origin", "http://evil.example"}, 403},
		{"cross-site form", "POST", "/v1/entries", []string{"Content-Type", "application/x-www-form-urlencoded", "Origin", "null"}, 403},
		{"form without origin", "POST", "/v1/entries", []string{"Content-Type", "application/x-www-form-urlencoded"}, 401},
	} {
		res, p := request(t, c, x.method, url+x.path, `{"ticket":"t"}`, x.header...)
		if res.StatusCode != x.want || x.want > 400 && p.Code != "denied" {
			t.Errorf("%s: %d %+v, want %d", x.what, res.StatusCode, p, x.want)
		}
		if res.Header.Get("Access-Control-Allow-Origin") != "" || !strings.Contains(res.Header.Get("Content-Security-Policy"), "default-src 'none'") || res.Header.Get("Set-Cookie") != "" {
			t.Errorf("%s: headers %v", x.what, res.Header)
		}
	}
}

// Where there is no token for reading, none is none, and does not let anybody read.
func TestATokenThatIsNotSetLetsNobodyIn(t *testing.T) {
	_, at, c := served(t, &Access{Token: "all"})
	for _, header := range [][]string{nil, {"Authorization", "Bearer "}, {"Authorization", ""}} {
		if res, _ := request(t, c, "GET", "http://"+at+"/v1/node", "", header...); res.StatusCode != 401 {
			t.Errorf("with %q: %s", header, res.Status)
		}
	}
}

func TestALinkOpensOneFileForAWhile(t *testing.T) {
	a := &Access{Token: "all", Read: "look"}
	_, at, c := served(t, a)
	url := "http://" + at
	res, _ := request(t, c, "GET", url+"/v1/entries/7/link?path=a%2Fb.txt", "", "Authorization", "Bearer look")
	var l Link
	must(t, json.NewDecoder(res.Body).Decode(&l))
	if res, _ := request(t, c, "GET", url+l.Path, "", "Range", "bytes=2-4"); res.StatusCode != 206 {
		t.Errorf("%s: %s", l.Path, res.Status)
	} else if b, _ := io.ReadAll(res.Body); string(b) != "234" {
		t.Errorf("range: %q", b)
	}
	if res, _ := request(t, c, "HEAD", url+l.Path, ""); res.StatusCode != 200 || res.ContentLength != 10 {
		t.Errorf("HEAD %s: %s, %d bytes", l.Path, res.Status, res.ContentLength)
	}
	path, query, _ := strings.Cut(l.Path, "?")
	old := a.link(path, time.Now().Add(-linkTime-time.Second))
	for what, x := range map[string][2]string{
		"another file": {"GET", "/v1/entries/7/files/page.html?" + query}, "another entry": {"GET", strings.Replace(l.Path, "/7/", "/8/", 1)},
		"another time": {"GET", strings.Replace(l.Path, "until=", "until=9", 1)}, "no key": {"GET", path}, "an old one": {"GET", old},
		"to write": {"POST", l.Path}, "not to look": {"DELETE", "/v1/entries/7?" + query}, "the node": {"GET", "/v1/node?" + query},
	} {
		if res, _ := request(t, c, x[0], url+x[1], ""); res.StatusCode != 401 {
			t.Errorf("%s: %s", what, res.Status)
		}
	}
}

func TestFilesAreServedHarmlessly(t *testing.T) {
	_, at, c := served(t, nil)
	_ = at
	for _, path := range []string{"a/b.txt", "a%2Fb.txt"} {
		res, _ := request(t, c, "GET", "http://node/v1/entries/7/files/"+path, "")
		if b, _ := io.ReadAll(res.Body); res.StatusCode != 200 || string(b) != "0123456789" {
			t.Errorf("%s: %s %q", path, res.Status, b)
		}
	}
	res, _ := request(t, c, "GET", "http://node/v1/entries/7/files/page.html", "")
	if h := res.Header; !strings.HasPrefix(h.Get("Content-Disposition"), "attachment") || !strings.Contains(h.Get("Content-Security-Policy"), "sandbox") || h.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("a page of a share: %v", h)
	}
	for _, path := range []string{"..%2F..%2Fetc%2Fpasswd", "%2Fetc%2Fpasswd", "a/../a/b.txt/", "a%2F..%2Fa%2Fb.txt", "%00"} {
		if res, p := request(t, c, "GET", "http://node/v1/entries/7/files/"+path, ""); res.StatusCode != 404 {
			t.Errorf("%s: %s %+v", path, res.Status, p)
		}
	}
}

func TestProblemsSayWhatIsWrong(t *testing.T) {
	_, _, c := served(t, nil)
	if res, p := request(t, c, "POST", "http://node/v1/entries", `{"ticket":"t"}`, "Content-Type", "application/x-www-form-urlencoded"); res.StatusCode != 415 || p.Code != "usage" {
		t.Errorf("as a form: %s %+v", res.Status, p)
	}
	w := httptest.NewRecorder()
	NewServer(&fake{feed: NewFeed("run")}, slog.New(slog.DiscardHandler), nil, nil).handler.ServeHTTP(w, httptest.NewRequest("GET", "/nope", nil))
	if w.Code != 404 || w.Header().Get("Content-Type") != "application/problem+json" || !strings.Contains(w.Body.String(), "there is nothing at GET /nope") {
		t.Errorf("where there is nothing: %d %s", w.Code, w.Body)
	}
	for _, x := range []struct {
		method, path, body string
		want               int
		code               string
	}{
		{"GET", "/v1/entries/8", "", 404, "no_entry"},
		{"GET", "/v1/entries/x", "", 422, "usage"},
		{"GET", "/v1/entries/0", "", 422, "usage"},
		{"GET", "/v1/nothing", "", 404, "no_entry"},
		{"PUT", "/v1/entries", "", 404, "no_entry"},
		{"POST", "/v1/entries", `{"ticket":1}`, 422, "usage"},
		{"POST", "/v1/entries", `{"tickets":"t"}`, 422, "usage"},
		{"POST", "/v1/entries", `{"ticket":"held"}`, 409, "held"},
		{"POST", "/v1/entries", `{`, 400, "usage"},
		{"POST", "/v1/entries", "{\"ticket\":\"t\xff\"}", 400, "usage"},
		{"POST", "/v1/entries", strings.Repeat("[", 100_000), 400, "usage"},
	} {
		res, p := request(t, c, x.method, "http://node"+x.path, x.body, "Content-Type", "application/json")
		if res.StatusCode != x.want || p.Code != x.code || p.Status != x.want || p.Detail == "" || res.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %s %.20s: %s %q %+v", x.method, x.path, x.body, res.Status, res.Header.Get("Content-Type"), p)
		}
	}
}

// endless is JSON without an end.
type endless struct{ n int64 }

func (e *endless) Read(b []byte) (int, error) {
	n := copy(b, bytes.Repeat([]byte("1,"), len(b)/2+1))
	e.n += int64(n)
	return n, nil
}

func TestJSONWithoutAnEndIsRefused(t *testing.T) {
	_, _, c := served(t, nil)
	e := &endless{}
	req, err := http.NewRequest("POST", "http://node/v1/entries", io.MultiReader(strings.NewReader(`{"only":[`), io.LimitReader(e, 100<<20)))
	must(t, err)
	req.Header.Set("Content-Type", "application/json")
	res, err := c.Do(req)
	if err == nil { // or the server has closed the connection, which is as good
		res.Body.Close()
		if res.StatusCode != 413 {
			t.Errorf("%s", res.Status)
		}
	}
	if e.n > 16<<20 {
		t.Errorf("%d bytes were taken", e.n)
	}
}

// Connections that begin a request and send no more keep only the places that there are, and those for a
// while: all others are closed as they come.
func TestConnectionsAreBoundedAndTheOthersServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const places, many = 8, 10_000
		before := runtime.NumGoroutine()
		l, end := listening(t, &fake{feed: NewFeed("run")}, Access{MaxConns: places})
		defer end()
		dial := func(says string) (here net.Conn, err error) {
			here, there := net.Pipe()
			l.conn <- there
			_, err = io.WriteString(here, says)
			return here, err
		}
		var open []net.Conn
		for range many {
			c, err := dial("GET / HT")
			if err == nil {
				open = append(open, c)
			} else if !errors.Is(err, io.ErrClosedPipe) {
				t.Fatal(err)
			}
		}
		if n := runtime.NumGoroutine() - before; len(open) != places || n > 4*places {
			t.Errorf("of %d slow connections %d have a place, and %d goroutines are more", many, len(open), n)
		}
		time.Sleep(headerTime)
		for _, c := range open {
			if _, err := io.ReadAll(c); err != nil { // until it is closed
				t.Error(err)
			}
		}
		synctest.Wait()
		c, err := dial("GET / HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n")
		must(t, err)
		_, err = http.ReadResponse(bufio.NewReader(c), nil)
		must(t, err)
		must(t, c.Close())
	})
}

// A connection that is closed twice has had one place.
func TestAPlaceIsGivenBackOnce(t *testing.T) {
	from := &pipes{conn: make(chan net.Conn, 1)}
	l := &bounded{Listener: from, free: 1}
	for range 2 {
		here, there := net.Pipe()
		defer here.Close()
		from.conn <- there
		c, err := l.Accept()
		must(t, err)
		c.Close()
		c.Close()
		if n := l.used.Load(); n != 0 {
			t.Fatalf("%d places are used", n)
		}
	}
}

func TestAReaderThatNeverReadsHoldsNobodyUp(t *testing.T) {
	f, at, _ := served(t, &Access{Token: "all"})
	s, err := net.Dial("tcp", at)
	must(t, err)
	defer s.Close()
	s.(*net.TCPConn).SetReadBuffer(4096)
	fmt.Fprintf(s, "GET /v1/events HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer all\r\n\r\n", at)
	line, err := bufio.NewReaderSize(s, 16).ReadString('\n')
	if err != nil || !strings.Contains(line, "200") {
		t.Fatalf("%q, %v", line, err)
	}
	began := time.Now()
	for range 10 * feedLength {
		f.feed.Publish(Event{Type: "entry", Entry: &Entry{Reason: strings.Repeat("x", 1000)}})
	}
	if took := time.Since(began); took > streamTime/2 { // whoever waited for it would do so until it is cut off
		t.Errorf("20 MB of events took %v beside a reader that does not read", took)
	}
}

// pipes is a listener whose connections are given to it.
type pipes struct {
	conn   chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}
func (l *pipes) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "x", Net: "unix"} }

// listening returns the listener of a server of f, which must be called in a bubble, and what ends the server.
func listening(t *testing.T, f *fake, a Access) (l *pipes, end func()) {
	l = &pipes{conn: make(chan net.Conn), closed: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- NewServer(f, slog.New(slog.DiscardHandler), nil, nil).Serve(ctx, l, a)
	}()
	return l, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// piped returns a connection with a server that is listening, and what ends the server.
func piped(t *testing.T, f *fake) (here net.Conn, end func()) {
	l, end := listening(t, f, Access{})
	here, there := net.Pipe()
	l.conn <- there
	return here, end
}

// Whoever begins a request and does not go on with it is cut off, so that it keeps no place from others.
func TestARequestThatDoesNotGoOnIsCutOff(t *testing.T) {
	for what, x := range map[string]struct {
		sent string
		in   time.Duration
	}{
		"nothing": {"", headerTime}, "half a line": {"GET / HT", headerTime}, "half a header": {"GET / HTTP/1.1\r\nHost: no", headerTime},
		"half a body":                   {"POST /v1/entries HTTP/1.1\r\nHost: node\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{", requestTime + idleTime},
		"half a body that nobody reads": {"POST /v1/nothing HTTP/1.1\r\nHost: node\r\nContent-Length: 100\r\n\r\n{", requestTime},
		"and no more":                   {"GET /v1/nothing HTTP/1.1\r\nHost: node\r\n\r\n", idleTime},
	} {
		synctest.Test(t, func(t *testing.T) {
			here, end := piped(t, &fake{feed: NewFeed("run")})
			began := time.Now()
			io.WriteString(here, x.sent)
			here.SetReadDeadline(time.Now().Add(time.Hour))
			if _, err := io.Copy(io.Discard, here); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			if took := time.Since(began); took > x.in+time.Second {
				t.Errorf("%s: it was cut off after %v", what, took)
			}
			end()
		})
	}
}

// A reader of events that reads nothing is cut off when its time is up.
func TestAReaderThatNeverReadsIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{feed: NewFeed("run")}
		here, end := piped(t, f)
		fmt.Fprint(here, "GET /v1/events HTTP/1.1\r\nHost: node\r\n\r\n")
		if line, err := bufio.NewReaderSize(here, 16).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
			t.Fatalf("%q, %v", line, err)
		}
		began := time.Now()
		f.feed.Publish(Event{Type: "entry", Entry: &Entry{Reason: strings.Repeat("x", 1<<20)}})
		time.Sleep(streamTime + beatEvery)
		here.SetReadDeadline(time.Now().Add(time.Hour))
		if _, err := io.Copy(io.Discard, here); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 2*(streamTime+beatEvery) {
			t.Errorf("it was cut off after %v", took)
		}
		end()
	})
}

// Hold waits for depots that do not answer, and says what another has granted.
func (f *fake) Hold(ctx context.Context, h Hold) ([]Held, error) {
	select {
	case <-time.After(2 * time.Minute):
		return []Held{{Share: "x", Depot: h.Depots[0], State: "stable"}}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// What depots have granted is told, also if others of them took all their time.
func TestAnAnswerThatTakesLongArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, end := piped(t, &fake{feed: NewFeed("run")})
		defer end()
		const body = `{"entry":7,"depots":["/p2p/a"]}`
		fmt.Fprintf(here, "POST /v1/holds HTTP/1.1\r\nHost: node\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		here.SetReadDeadline(time.Now().Add(time.Hour))
		res, err := http.ReadResponse(bufio.NewReader(here), nil)
		if err != nil {
			t.Fatalf("the connection ended before the answer: %v", err)
		}
		defer res.Body.Close()
		if b, err := io.ReadAll(res.Body); err != nil || res.StatusCode != 200 || !strings.Contains(string(b), `"stable"`) {
			t.Errorf("%s %s, %v", res.Status, b, err)
		}
	})
}

// Whoever asks for the head of the events alone has all of the answer, and may ask for something else over the same connection.
func TestTheHeadOfTheEventsHasAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, end := piped(t, &fake{feed: NewFeed("run")})
		defer end()
		here.SetDeadline(time.Now().Add(time.Hour))
		answers := bufio.NewReader(here)
		for _, asked := range []string{"HEAD /v1/events", "GET /v1/node"} {
			fmt.Fprintf(here, "%s HTTP/1.1\r\nHost: node\r\n\r\n", asked)
			res, err := http.ReadResponse(answers, &http.Request{Method: strings.Fields(asked)[0]})
			if err != nil || res.StatusCode != 200 {
				t.Fatalf("%s: %v", asked, err)
			}
			_, err = io.Copy(io.Discard, res.Body)
			must(t, err)
		}
	})
}

func TestTheDescriptionIsOfTheAPI(t *testing.T) {
	_, _, c := served(t, nil)
	res, _ := request(t, c, "GET", "http://node/v1/openapi.json", "")
	var d struct {
		OpenAPI string
		Paths   map[string]map[string]struct{ OperationID string }
	}
	must(t, json.NewDecoder(res.Body).Decode(&d))
	if d.OpenAPI != "3.1.0" {
		t.Errorf("OpenAPI %q", d.OpenAPI)
	}
	var ops []string
	for _, p := range d.Paths {
		for _, op := range p {
			ops = append(ops, op.OperationID)
		}
	}
	slices.Sort(ops)
	want := []string{"accounts", "add", "addAccount", "addToFleet", "children", "content", "depot", "depotDo", "entries", "entry", "events", "export", "files", "fleet", "forgetMachine", "history", "hold", "holdings", "holds", "import", "leases", "limits",
		"link", "passes", "peers", "pieces", "redeemPasses", "rehearse", "release", "remove", "removeAccount", "removeFromFleet", "rounds", "set", "setAccount", "setLimits", "sources", "status", "voucher", "why"}
	if !slices.Equal(ops, want) {
		t.Errorf("%q, want %q", ops, want)
	}
}

func TestASourceIsWrittenAsDescribed(t *testing.T) {
	_, _, c := served(t, nil)
	res, _ := request(t, c, "GET", "http://node/v1/openapi.json", "")
	var d struct {
		Components struct {
			Schemas map[string]struct{ Properties map[string]any }
		}
	}
	must(t, json.NewDecoder(res.Body).Decode(&d))
	want := Source{Peer: "p", State: fetcher.Resting, Since: time.Unix(1e9, 0).UTC(), Why: "why", Bytes: 1, Pieces: 2, BadBlocks: 3, Banned: true, Lie: "lie", Rate: 4, RTT: 5 * time.Millisecond,
		Standing: peers.Standing{Set: peers.Passive, Tier: 1, Location: "10.1", Score: 0.5, Since: time.Unix(1e9, 0).UTC(), Why: peers.Tried}}
	b, err := json.Marshal(want)
	must(t, err)
	var fields map[string]any
	must(t, json.Unmarshal(b, &fields))
	if got, want := slices.Sorted(maps.Keys(fields)), slices.Sorted(maps.Keys(d.Components.Schemas["Source"].Properties)); !slices.Equal(got, want) {
		t.Errorf("written are %q, described %q", got, want)
	}
	var got Source
	must(t, json.Unmarshal(b, &got))
	if got != want {
		t.Errorf("%+v was read as %+v", want, got)
	}
}

// Whoever waits for bytes that are not here yet and goes away gives its place back, whatever it has sent before that.
func TestWhoeverWaitsForAFileAndGoesAwayKeepsNoPlace(t *testing.T) {
	for what, x := range map[string]struct{ head, then string }{"nothing more": {"", ""}, "the next request": {"", "GET /v1/node HTTP/1.1\r\n"}, "less than it said": {"Content-Length: 1\r\n", ""}} {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{feed: NewFeed("run"), waits: make(chan error, 1)}
			here, end := piped(t, f)
			defer end()
			go func() { // nobody reads it before the answer to the first
				fmt.Fprintf(here, "GET /v1/entries/7/files/film.bin HTTP/1.1\r\nHost: node\r\n%s\r\n", x.head)
				time.Sleep(time.Second / 2)
				if x.then != "" {
					io.WriteString(here, x.then)
				}
			}()
			time.Sleep(time.Second)
			must(t, here.Close())
			select {
			case <-f.waits:
			case <-time.After(24 * time.Hour):
				t.Errorf("%s: a day later somebody waits for a client that is gone", what)
			}
		})
	}
}
