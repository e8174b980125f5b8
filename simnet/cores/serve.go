package cores

import (
	"slices"
	"time"

	"github.com/piecelease/fetcher/fetchpool"
	"github.com/piecelease/fetcher/peers"
)

// asker is a request as its asker knows it.
type asker struct {
	peer int32
	link int
	id   uint64
}

// job is a request to be served.
type job struct {
	asker
	fetchpool.Request
	served bool
}

// subscribe accepts a child, and names others to it.
func (q *peer) subscribe(n int32, link int) {
	if len(q.order) >= maxChildren {
		q.tell(n, func(p *peer) {
			p.from(q.n, link, func(c *conn) { c.pool.Declined(10*time.Second, "serves as many peers as it can", p.w.time()) })
		})
		return
	}
	named := q.nameables(n)
	if !q.children[n] {
		q.children[n] = true
		q.order = append(q.order, n)
	}
	have := q.have.Clone()
	q.tell(n, func(p *peer) {
		p.from(q.n, link, func(c *conn) {
			now := p.w.time()
			c.pool.Subscribed(now)
			p.do(p.fetch.leases.SetHave(c.id, have, now))
			c.pool.Announced(nil, now)
			c.pool.Available(now)
			for _, other := range named {
				p.find(other)
			}
		})
	})
	q.find(n) // it will have some of it soon
}

// nameables returns up to maxNamed other children.
func (q *peer) nameables(n int32) (out []int32) {
	q.turns.Pick(len(q.order), maxNamed, func(i int) bool {
		if q.order[i] == n {
			return false
		}
		out = append(out, q.order[i])
		return true
	})
	return out
}

// lost handles the loss of a child.
func (q *peer) lost(n int32) {
	if !q.children[n] {
		return
	}
	delete(q.children, n)
	q.order = slices.DeleteFunc(q.order, func(m int32) bool { return m == n })
	if q.uploads == nil {
		return
	}
	var over []peers.Job
	for j, x := range q.jobs {
		if x.peer == n && !x.served {
			over = append(over, j)
		}
	}
	for _, j := range over {
		q.end(j)
	}
	q.serve(q.uploads.Forget(idOf(n), q.w.time()))
	q.sendElsewhere()
}

// flush tells the children of new pieces.
func (q *peer) flush() {
	q.flushes = false
	news := q.news
	q.news = nil
	for _, n := range q.order {
		q.tell(n, func(p *peer) {
			p.from(q.n, anyLink, func(c *conn) {
				if c.pool.State() == fetchpool.Ready {
					now := p.w.time()
					c.pool.Announced(news, now)
					c.pool.Available(now)
					p.do(p.fetch.leases.Have(c.id, news, now))
				}
			})
		})
	}
}

// asked handles a request of a child.
func (q *peer) asked(a asker, r fetchpool.Request) {
	if q.uploads == nil {
		q.uploads, q.jobs, q.byAsker = peers.NewUploads(peers.UploadConfig{}), map[peers.Job]*job{}, map[asker]peers.Job{}
	}
	q.job++
	j := q.job
	q.jobs[j], q.byAsker[a] = &job{asker: a, Request: r}, j
	if !q.have.Has(r.Piece) {
		q.refuse(j, fetchpool.NotFound, 0)
		return
	}
	others := len(q.order)
	if q.children[a.peer] {
		others--
	}
	v := q.uploads.Ask(peers.Ask{Job: j, Child: idOf(a.peer), Key: "c", Piece: uint32(r.Piece), Bytes: r.Bytes,
		Crowd: others, Spreads: true, Whole: q.n == 0, Pressed: r.Pressed}, q.w.time())
	switch {
	case v.Go:
		q.serve([]peers.Job{j})
	case v.Busy:
		q.refuse(j, fetchpool.Busy, v.Retry)
	case v.Elsewhere:
		q.refuse(j, fetchpool.Elsewhere, v.Retry)
	case !v.Queued:
		q.w.fault("%s refuses %s", q.id, idOf(a.peer))
	}
	q.sendElsewhere()
}

func (q *peer) sendElsewhere() {
	for _, d := range q.uploads.Elsewhere() {
		q.refuse(d.Job, fetchpool.Elsewhere, d.Retry)
	}
}

func (q *peer) end(j peers.Job) {
	delete(q.byAsker, q.jobs[j].asker)
	delete(q.jobs, j)
}

// refuse answers a request that will not be served.
func (q *peer) refuse(j peers.Job, how fetchpool.Outcome, retry time.Duration) {
	x := q.jobs[j]
	q.end(j)
	q.tell(x.peer, func(p *peer) {
		p.from(q.n, x.link, func(c *conn) { c.pool.Failed(x.id, how, retry, p.w.time()) })
	})
}

// serve sends what may be sent, one request after another down the line.
func (q *peer) serve(jobs []peers.Job) {
	w := q.w
	for _, j := range jobs {
		x := q.jobs[j]
		x.served = true
		q.upAt = max(q.upAt, w.now) + seconds(x.Bytes, q.up)
		w.after(q.upAt-w.now, q.n, func(q *peer) { q.served(j) })
	}
}

// served is called when the last byte has left.
func (q *peer) served(j peers.Job) {
	x, w := q.jobs[j], q.w
	q.end(j)
	if q.n == 0 {
		w.sent += int64(x.Bytes)
	}
	if p := w.peers[x.peer]; p != nil {
		data := w.c.run(x.Piece, x.First, x.Count)
		if q.liar && w.rng.IntN(2) == 0 {
			data = w.c.wrong[:len(data)]
		}
		p.downAt = max(p.downAt, w.now+q.trip(x.peer)) + seconds(x.Bytes, p.down)
		from := q.n
		w.after(p.downAt-w.now, p.n, func(p *peer) {
			p.from(from, x.link, func(c *conn) { p.arrived(c, x.id, data) })
		})
	}
	q.serve(q.uploads.Done(j, w.time()))
	q.sendElsewhere()
}

// cancelled handles the cancellation of a request.
func (q *peer) cancelled(a asker) {
	j, ok := q.byAsker[a]
	if !ok || q.jobs[j].served {
		return
	}
	q.end(j)
	q.serve(q.uploads.Done(j, q.w.time()))
	q.sendElsewhere()
}

func seconds(bytes int, rate float64) time.Duration {
	return time.Duration(float64(bytes) / rate * float64(time.Second))
}
