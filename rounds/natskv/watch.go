package natskv

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/piecelease/fetcher/rounds"
)

const (
	pullFor   = 5 * time.Second // one request for messages
	heartbeat = time.Second     // how often the server shows that it still has the request
	forget    = time.Minute     // after which it forgets a watch whose client has gone
	most      = 256             // messages in one request
)

// errGap means that a message of a watch was lost, or may have been.
var errGap = errors.New("a message was lost")

// Watch implements [rounds.KV]. A message that the server has sent may be lost with the
// connection, and it is not sent again; so after any doubt the watch starts again with
// the latest revisions of all keys, and passes on those that are new.
func (k *KV) Watch(ctx context.Context, key string, f func([]rounds.Entry)) error {
	if err := rounds.CheckKey(strings.TrimSuffix(key, ".")); err != nil {
		return err
	}
	w := &watch{KV: k, subject: k.prefix + key, f: f}
	if strings.HasSuffix(key, ".") {
		w.subject += ">"
	}
	wait := retryAfter
	for {
		_, err := within(ctx, k, func(context.Context) (any, error) { return nil, nil })
		if err == nil {
			err = w.once(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return k.unanswered(ctx)
		case errors.Is(err, rounds.ErrBack), errors.Is(err, jetstream.ErrStreamNotFound), k.nc.IsClosed():
			return fmt.Errorf("watch %s: %w", key, err)
		}
		if w.got > 0 {
			wait = retryAfter
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		wait = min(2*wait, pullFor)
	}
}

// A watch records what one call of Watch has passed on.
type watch struct {
	*KV
	subject string
	f       func([]rounds.Entry)
	begun   bool   // f was called
	after   uint64 // the last revision it was called with

	// Of this consumer: how many messages there were at first, how many came, and those
	// that are yet to be passed on.
	first, got uint64
	news       []rounds.Entry
}

// once follows the keys until there is doubt.
func (w *watch) once(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.connection(), cancel)()
	stream := w.stream.CachedInfo().Config.Name
	if info, err := w.stream.Info(ctx); err != nil {
		return err
	} else if info.State.LastSeq < w.after {
		return rounds.ErrBack
	}
	c, err := w.js.CreateConsumer(ctx, stream, jetstream.ConsumerConfig{
		FilterSubject: w.subject, DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, AckPolicy: jetstream.AckNonePolicy,
		InactiveThreshold: forget, MemoryStorage: true, Replicas: 1,
	})
	if err != nil {
		return err
	}
	defer w.remove(ctx, stream, c)
	w.got, w.first, w.news = 0, c.CachedInfo().NumPending, nil
	for w.pass(); ; {
		if err := w.pull(ctx, c); err != nil {
			return err
		}
	}
}

// pull passes on the messages of one request.
func (w *watch) pull(ctx context.Context, c jetstream.Consumer) error {
	pulling, cancel := context.WithTimeout(ctx, pullFor)
	defer cancel()
	batch, err := c.Fetch(most, jetstream.FetchContext(pulling), jetstream.FetchHeartbeat(heartbeat))
	if err != nil {
		return err
	}
	messages := batch.Messages()
	for m := range messages {
		meta, err := m.Metadata()
		if err != nil {
			return err
		}
		if w.got++; meta.Sequence.Consumer != w.got {
			return errGap
		}
		if e := (rounds.Entry{Key: strings.TrimPrefix(m.Subject(), w.prefix), Value: value(m.Headers(), m.Data()), Rev: meta.Sequence.Stream}); e.Rev > w.after {
			w.news = append(w.news, e)
		}
		if len(messages) == 0 {
			w.pass()
		}
	}
	if err := batch.Error(); err != nil {
		return fmt.Errorf("%w: %w", errGap, err)
	}
	if info, err := c.Info(ctx); err != nil || info.Delivered.Consumer != w.got {
		return errGap
	}
	return nil
}

// pass calls f with what is new, once it has everything that was there at the beginning.
func (w *watch) pass() {
	if w.got < w.first || len(w.news) == 0 && w.begun {
		return
	}
	w.f(w.news)
	if n := len(w.news); n > 0 {
		w.after = w.news[n-1].Rev
	}
	w.begun, w.news = true, nil
}

// remove deletes a consumer that nobody uses any more, to spare the server.
func (w *watch) remove(ctx context.Context, stream string, c jetstream.Consumer) {
	if !w.nc.IsConnected() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), heartbeat)
	defer cancel()
	_ = w.js.DeleteConsumer(ctx, stream, c.CachedInfo().Name) // if this fails, the server forgets it by itself
}
