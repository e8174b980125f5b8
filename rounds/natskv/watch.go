package natskv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
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
	w := &watch{KV: k, subject: k.prefix + key, f: f, passed: map[string]rounds.Entry{}}
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
	begun   bool                    // f was called
	passed  map[string]rounds.Entry // of each key the latest that it was called with

	// Of this consumer: how many messages there were at first, how many came, whether it was compared with what was
	// passed on before, and those that are yet to be passed on.
	first, got uint64
	compared   bool
	news       []rounds.Entry
}

// once follows the keys until there is doubt.
func (w *watch) once(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.connection(), cancel)()
	stream := w.stream.CachedInfo().Config.Name
	c, err := w.js.CreateConsumer(ctx, stream, jetstream.ConsumerConfig{
		FilterSubject: w.subject, DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, AckPolicy: jetstream.AckNonePolicy,
		InactiveThreshold: forget, MemoryStorage: true, Replicas: 1,
	})
	if err != nil {
		return err
	}
	defer w.remove(ctx, stream, c)
	w.got, w.first, w.compared, w.news = 0, c.CachedInfo().NumPending, false, nil
	for err = w.pass(ctx); err == nil; err = w.pull(ctx, c) {
	}
	return err
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
		w.news = append(w.news, rounds.Entry{Key: strings.TrimPrefix(m.Subject(), w.prefix), Value: value(m.Headers(), m.Data()), Rev: meta.Sequence.Stream})
		if len(messages) > 0 {
			continue
		}
		if err := w.pass(ctx); err != nil {
			return err
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
func (w *watch) pass(ctx context.Context) error {
	if w.got < w.first {
		return nil
	}
	if err := w.compare(ctx); err != nil {
		return err
	}
	w.news = slices.DeleteFunc(w.news, func(e rounds.Entry) bool { return e.Rev <= w.passed[e.Key].Rev })
	if len(w.news) > 0 || !w.begun {
		w.f(w.news)
	}
	for _, e := range w.news {
		w.passed[e.Key] = e
	}
	w.begun, w.news = true, nil
	return nil
}

// compare returns [rounds.ErrBack] if what was there at the beginning is earlier than what was passed on before. The server of a
// cluster that has the consumer may lag behind; the leader does not.
func (w *watch) compare(ctx context.Context) error {
	if w.compared {
		return nil
	}
	w.compared = true
	is := map[string]rounds.Entry{}
	for _, e := range w.news {
		is[e.Key] = e
	}
	for key, was := range w.passed {
		e := is[key]
		if e.Rev < was.Rev {
			var err error
			if e, err = w.Get(ctx, key); err != nil && !errors.Is(err, rounds.ErrNotFound) {
				return err
			}
		}
		if e.Rev < was.Rev || e.Rev == was.Rev && !bytes.Equal(e.Value, was.Value) {
			return rounds.ErrBack
		}
	}
	return nil
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
