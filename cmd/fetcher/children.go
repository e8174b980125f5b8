package main

import (
	"context"
	"fmt"
	"time"

	ma "github.com/multiformats/go-multiaddr"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/internal/few"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/share"
)

// audience tells a person, or a program, which peers fetch from this node.
type audience struct {
	*app
	node   *fetcher.Node
	events chan fetcher.Child
	shares map[share.ID]*share.Manifest
	before map[child]fetcher.Child // at the last check
	told   few.Limiter[child]
}

// child is a peer that fetches a share.
type child struct {
	peer  string
	share share.ID
}

func newAudience(a *app) *audience {
	return &audience{app: a, events: make(chan fetcher.Child, 256), shares: map[share.ID]*share.Manifest{},
		told: few.Limiter[child]{Most: childLines, Per: time.Minute}}
}

// childLines is how many lines about a child and a share are written in a minute: a child can come and go as often as it likes.
const childLines = 6

// heard is for fetcher.Config.OnChild. Events that are not taken in time are dropped.
func (x *audience) heard(c fetcher.Child) {
	select {
	case x.events <- c:
	default:
	}
}

// follow reports which children come and go, until ctx ends.
func (x *audience) follow(ctx context.Context) {
	look := time.NewTicker(time.Second)
	defer look.Stop()
	defer x.stderr.clear()
	for {
		select {
		case <-ctx.Done():
			return
		case c := <-x.events:
			x.tell(c)
		case <-look.C:
			x.show(ctx)
		}
	}
}

// tell reports what a child has done.
func (x *audience) tell(c fetcher.Child) {
	m := x.shares[c.Share]
	if m == nil {
		return
	}
	say, more := x.told.Take(child{string(c.Peer), c.Share}, c.At)
	if !say {
		return
	}
	if more > 0 {
		fmt.Fprintf(x.stderr, "%s: %s left out\n", who(c), words.Count(more, "more line"))
	}
	took := c.At.Sub(c.Since)
	x.out.write("child", c, map[string]any{"name": m.Name, "left_out": more})
	name, bytes := printable(m.Name), share.Size(c.Bytes)
	speed := fmt.Sprintf("%s, %s/s", brief(took), share.Size(int64(float64(c.Bytes)/max(took, time.Millisecond).Seconds())))
	switch {
	case c.State == fetcher.ChildTakes:
		fmt.Fprintf(x.stderr, "%s fetches %s\n", who(c), name)
	case c.State == fetcher.ChildLeft:
		fmt.Fprintf(x.stderr, "%s no longer fetches %s; it took %s in %s\n", who(c), name, bytes, speed)
	case c.Bytes >= m.Layout().Bytes():
		fmt.Fprintf(x.stderr, "%s has all of %s, %s in %s\n", who(c), name, bytes, speed)
	default:
		fmt.Fprintf(x.stderr, "%s has what it wanted of %s; %s came from here in %s\n", who(c), name, bytes, speed)
	}
}

// who is a child in few words: where it is, and the end of its ID.
func who(c fetcher.Child) string {
	if a, err := ma.NewMultiaddr(c.Addr); err == nil && len(a) > 0 && a[0].Value() != "" {
		return fmt.Sprintf("%s (%s)", a[0].Value(), c.Peer.Short())
	}
	return "peer " + c.Peer.Short()
}

// show draws the children that fetch now, on a terminal.
func (x *audience) show(ctx context.Context) {
	if x.stderr.columns() == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	all, err := x.node.Children(ctx)
	if err != nil {
		return
	}
	now := map[child]fetcher.Child{}
	rows := func(columns int) (out []string) {
		for _, c := range all[:min(len(all), maxRows-1)] {
			out = append(out, tail(x.row(c), columns))
		}
		if more := len(all) - len(out); more > 0 {
			out = append(out, fmt.Sprintf("and %d more", more))
		}
		return out
	}
	for _, c := range all {
		now[child{string(c.Peer), c.Share}] = c
	}
	if len(all) == 0 {
		x.stderr.clear()
	} else {
		x.stderr.show("", rows, true)
	}
	x.before = now
}

// row is one line about a child that fetches.
func (x *audience) row(c fetcher.Child) string {
	m := x.shares[c.Share]
	if m == nil {
		return ""
	}
	since, bytes := c.Since, c.Bytes
	if was, ok := x.before[child{string(c.Peer), c.Share}]; ok && was.Since.Equal(c.Since) {
		since, bytes = was.At, c.Bytes-was.Bytes
	}
	rate := float64(bytes) / max(c.At.Sub(since), time.Millisecond).Seconds()
	return fmt.Sprintf("%s: %s of %s of %s, %s/s", who(c), share.Size(c.Bytes), share.Size(m.Layout().Bytes()), printable(m.Name), share.Size(int64(rate)))
}
