package simnet

import (
	"fmt"
	"slices"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/simnet/model"
	"github.com/piecelease/fetcher/wire"
)

// FetchManifest implements actors.Network.
func (x *Node) FetchManifest(from peers.Addr, id share.ID, others bool, limit int, _ func(bytes, size int), done func([]byte, wire.Reply, error)) (cancel func()) {
	m := &manifestAsk{x: x, id: id, others: others, limit: limit, then: done}
	x.connectAt(from, m.connected)
	return func() { m.over = true }
}

// manifestAsk is one request for a manifest.
type manifestAsk struct {
	x      *Node
	id     share.ID
	others bool
	limit  int
	c      *conn
	over   bool
	then   func([]byte, wire.Reply, error)
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
	c.ways[i].control(func() {
		if y.acts.mute(y) {
			return
		}
		raw, r := y.blocks(m.x.id).Manifest(m.id)
		if r.Status != wire.OK {
			m.answer(y, nil, r)
			return
		}
		was := y.life
		y.program.Tell(actors.ListRequest{Child: m.x.id, Share: m.id, Others: m.others, Reply: func(list wire.Reply) {
			if list.Status != wire.OK {
				r = list
			}
			if y.life == was {
				m.answer(y, raw, r)
			}
		}})
	})
}

// answer sends the answer of y.
func (m *manifestAsk) answer(y *Node, raw []byte, r wire.Reply) {
	size, way := minParcel, m.c.ways[m.c.side(y)]
	if r.Status == wire.OK {
		size += len(raw)
	} else if len(r.Others) > 0 {
		size += len(wire.AppendManifestHeader(nil, r, 0))
	}
	f := &model.Flow{Up: y.up, Pace: y.acts.Rate}
	for step := way.step(f.Pace); size > 0; {
		part := min(size, step)
		size -= part
		last := size == 0
		f.Send(part, func() {
			y.count(m.x, part)
			way.launch(travel{part, false, func() {
				switch {
				case !last:
				case r.Status == wire.OK && (share.IDOf(raw) != m.id || len(raw) > m.limit):
					m.done(nil, r, fmt.Errorf("it sent the manifest of another share, or one that is too long: %w", peers.ErrProtocol))
				case r.Status == wire.OK:
					m.done(slices.Clone(raw), r, nil)
				default:
					m.done(nil, r, nil)
				}
			}})
		})
	}
}
