package simnet

import (
	"fmt"
	"slices"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/simnet/model"
	"github.com/piecelease/fetcher/wire"
)

// FetchManifest implements actors.Network.
func (x *Node) FetchManifest(from peers.Addr, id share.ID, limit int, done func([]byte, wire.Reply, error)) (cancel func()) {
	m := &manifestAsk{x: x, id: id, limit: limit, then: done}
	x.connectAt(from, m.connected)
	return func() { m.over = true }
}

// manifestAsk is one request for a manifest.
type manifestAsk struct {
	x     *Node
	id    share.ID
	limit int
	c     *conn
	over  bool
	then  func([]byte, wire.Reply, error)
}

func (m *manifestAsk) done(b []byte, r wire.Reply, err error) {
	if m.over {
		return
	}
	m.over = true
	if m.c != nil {
		i := m.c.side(m.x)
		m.c.users[i] = slices.DeleteFunc(m.c.users[i], func(u user) bool { return u == m })
	}
	m.then(b, r, err)
}

func (m *manifestAsk) broken(err error) { m.done(nil, wire.Reply{}, err) }

func (m *manifestAsk) connected(c *conn, err error) {
	if err != nil || m.over {
		m.done(nil, wire.Reply{}, err)
		return
	}
	m.c = c
	i, n := c.side(m.x), m.x.net
	c.users[i] = append(c.users[i], m)
	life := m.x.life
	n.After(dialTimeout, func() {
		if m.x.life != life {
			return
		}
		m.done(nil, wire.Reply{}, fmt.Errorf("no answer: %w", peers.ErrLost))
	})
	y := c.ends[1-i]
	c.ways[i].control(minParcel, func() {
		if y.acts.mute(y) {
			return
		}
		raw, r := y.blocks(m.x.id).Manifest(m.id)
		size := minParcel
		if r.Status == wire.OK {
			size += len(raw)
		}
		f := &model.Flow{Up: y.up, Pace: y.acts.Rate}
		for step := c.ways[1-i].step(f.Pace); size > 0; {
			part := min(size, step)
			size -= part
			last := size == 0
			f.Send(part, func() {
				y.count(m.x, part)
				c.ways[1-i].launch(travel{part, false, func() {
					switch {
					case !last:
					case r.Status == wire.OK && (share.IDOf(raw) != m.id || len(raw) > m.limit):
						m.done(nil, r, fmt.Errorf("another manifest: %w", peers.ErrProtocol))
					case r.Status == wire.OK:
						m.done(slices.Clone(raw), r, nil)
					default:
						m.done(nil, r, nil)
					}
				}})
			})
		}
	})
}
