package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/piecelease/fetcher/internal/words"
)

// Client talks to a node through its unix socket. Its errors are problems that wrap the
// errors of package fetcher.
type Client struct {
	http *http.Client
	path string
}

// ErrNoNode means that no node answers at a socket.
var ErrNoNode = errors.New("no node is running")

// Dial returns a client of the node at a socket, after checking that the node answers. If
// none does, the error wraps ErrNoNode.
func Dial(ctx context.Context, socket string) (*Client, error) {
	c := &Client{path: socket}
	c.http = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "unix", socket)
		},
	}}
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoNode, err)
	}
	return c, conn.Close()
}

// Close closes the idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// ask sends a request, and reads the answer into out.
func (c *Client) ask(ctx context.Context, method, path string, in, out any) error {
	var send io.Reader
	if in != nil {
		if err := CheckText(in); err != nil {
			return err
		}
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		send = bytes.NewReader(b)
	}
	res, err := c.open(ctx, method, path, send, nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	return json.NewDecoder(res.Body).Decode(out)
}

// maxProblem bounds how much of a problem is read, in bytes.
const maxProblem = 64 << 10

func (c *Client) open(ctx context.Context, method, path string, send io.Reader, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://node"+path, send)
	if err != nil {
		return nil, err
	}
	if send != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	maps.Copy(req.Header, header)
	res, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, words.Error(errors.Join(ErrNoNode, err), "the node is not running any more: it ended before it answered")
	}
	if res.StatusCode < 300 {
		return res, nil
	}
	defer res.Body.Close()
	p := &Problem{Status: res.StatusCode, Title: http.StatusText(res.StatusCode), Code: "other"}
	if err := json.NewDecoder(io.LimitReader(res.Body, maxProblem)).Decode(p); err != nil {
		p.Detail = fmt.Sprintf("the node answered with HTTP status %s", res.Status)
	}
	return nil, p
}

// Status returns the status of the node.
func (c *Client) Status(ctx context.Context) (s Status, err error) {
	return s, c.ask(ctx, "GET", "/v1/node", nil, &s)
}

// Entries returns the whole catalog.
func (c *Client) Entries(ctx context.Context) (all []Entry, err error) {
	for after := int64(0); ; {
		var part List[Entry]
		if err := c.ask(ctx, "GET", fmt.Sprintf("/v1/entries?after=%d", after), nil, &part); err != nil {
			return nil, err
		}
		all = append(all, part.Items...)
		if !part.More || len(part.Items) == 0 {
			return all, nil
		}
		after = part.Items[len(part.Items)-1].ID
	}
}

// Entry returns one entry.
func (c *Client) Entry(ctx context.Context, id int64) (e Entry, err error) {
	return e, c.ask(ctx, "GET", fmt.Sprint("/v1/entries/", id), nil, &e)
}

// Add adds an entry.
func (c *Client) Add(ctx context.Context, a Add) (e Entry, err error) {
	return e, c.ask(ctx, "POST", "/v1/entries", a, &e)
}

// Set changes an entry.
func (c *Client) Set(ctx context.Context, id int64, s Set) (e Entry, err error) {
	return e, c.ask(ctx, "PATCH", fmt.Sprint("/v1/entries/", id), s, &e)
}

// Remove stops an entry and forgets it.
func (c *Client) Remove(ctx context.Context, id int64, data bool) (r Removed, err error) {
	return r, c.ask(ctx, "DELETE", fmt.Sprintf("/v1/entries/%d?data=%t", id, data), nil, &r)
}

// Why says why an entry is not done.
func (c *Client) Why(ctx context.Context, id int64) ([]string, error) {
	var l List[string]
	err := c.ask(ctx, "GET", fmt.Sprintf("/v1/entries/%d/why", id), nil, &l)
	return l.Items, err
}

// Children returns the peers that fetch an entry from the node.
func (c *Client) Children(ctx context.Context, id int64) ([]Child, error) {
	var l List[Child]
	err := c.ask(ctx, "GET", fmt.Sprintf("/v1/entries/%d/children", id), nil, &l)
	return l.Items, err
}

// SetLimits changes the limits.
func (c *Client) SetLimits(ctx context.Context, s SetLimits) (l Limits, err error) {
	return l, c.ask(ctx, "PATCH", "/v1/limits", s, &l)
}

// Content opens a file of an entry, at its beginning. The caller must close it.
func (c *Client) Content(ctx context.Context, id int64, path string) (io.ReadCloser, error) {
	res, err := c.open(ctx, "GET", filePath(id, path), nil, nil)
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}

// maxEvent bounds one line of the stream of events, in bytes.
const maxEvent = 4 << 20

// Events calls f for each event from now on, or after the event with the ID since, until f
// returns true or ctx ends.
func (c *Client) Events(ctx context.Context, since string, f func(Event) (enough bool)) error {
	res, err := c.open(ctx, "GET", "/v1/events?since="+url.QueryEscape(since), nil, nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	sc := bufio.NewScanner(res.Body)
	sc.Buffer(nil, maxEvent)
	for sc.Scan() {
		data, ok := strings.CutPrefix(sc.Text(), "data: ")
		if !ok {
			continue
		}
		var e Event
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return fmt.Errorf("an event cannot be read: %w", err)
		}
		if f(e) {
			return nil
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return words.Error(ErrNoNode, "the node is not running any more: it has ended")
}
