package etcdkv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/piecelease/fetcher/rounds"
)

// Watch implements [rounds.KV]. It resumes after the last revision that it has seen; if
// the cluster has compacted that away, it reads all keys again.
func (k *KV) Watch(ctx context.Context, key string, f func([]rounds.Entry)) error {
	if err := rounds.CheckKey(strings.TrimSuffix(key, ".")); err != nil {
		return err
	}
	w := &watch{KV: k, key: k.prefix + key, f: f, passed: map[string]rounds.Entry{}}
	if strings.HasSuffix(key, ".") {
		w.options = append(w.options, clientv3.WithPrefix())
	}
	for {
		err := w.once(clientv3.WithRequireLeader(ctx))
		switch {
		case ctx.Err() != nil:
			return k.ended(ctx, err)
		case errors.Is(err, rounds.ErrBack), errors.Is(err, rpctypes.ErrPermissionDenied), errors.Is(err, rpctypes.ErrAuthFailed):
			return fmt.Errorf("watch %s: %w", key, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryAfter):
		}
	}
}

// A watch records what one call of Watch has passed on.
type watch struct {
	*KV
	key     string
	options []clientv3.OpOption
	f       func([]rounds.Entry)
	begun   bool                    // f was called
	passed  map[string]rounds.Entry // of each key the latest that it was called with
	last    int64                   // revision of the store that it has seen
}

// once passes on the entries that are new, and later changes, until something breaks.
func (w *watch) once(ctx context.Context) error {
	all, err := w.client.Get(ctx, w.key, w.options...)
	if err != nil {
		return err
	}
	if err := w.compare(all, true); err != nil {
		return err
	}
	var news []rounds.Entry
	for _, kv := range all.Kvs {
		if e := w.entry(kv); e.Rev > w.passed[e.Key].Rev {
			news = append(news, e)
		}
	}
	if !w.begun || len(news) > 0 {
		w.pass(news)
	}
	w.last = all.Header.Revision
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changes := w.client.Watch(ctx, w.key, append(w.options, clientv3.WithRev(w.last+1))...)
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for {
		select {
		case got, open := <-changes:
			if !open {
				return ctx.Err()
			}
			if err := got.Err(); err != nil {
				return err
			}
			w.changed(got.Events)
		case <-tick.C:
			if now, err := w.client.Get(ctx, w.key, append(w.options, clientv3.WithKeysOnly())...); err == nil {
				if err := w.compare(now, false); err != nil {
					return err
				}
			}
		}
	}
}

// lookAgain is how often a watch checks whether the store has gone back: the library goes on with a watch in whatever
// store there is.
var lookAgain = 5 * time.Second

// compare returns [rounds.ErrBack] if what the store has is earlier than what was passed on.
func (w *watch) compare(is *clientv3.GetResponse, values bool) error {
	found := map[string]rounds.Entry{}
	for _, kv := range is.Kvs {
		e := w.entry(kv)
		found[e.Key] = e
	}
	back := is.Header.Revision < w.last
	for key, was := range w.passed {
		e := found[key]
		back = back || e.Rev < was.Rev || values && e.Rev == was.Rev && !bytes.Equal(e.Value, was.Value)
	}
	if back {
		return rounds.ErrBack
	}
	return nil
}

// pass calls f.
func (w *watch) pass(news []rounds.Entry) {
	w.f(news)
	for _, e := range news {
		w.passed[e.Key] = e
	}
	w.begun = true
}

// changed passes on what changed.
func (w *watch) changed(events []*clientv3.Event) {
	var news []rounds.Entry
	for _, e := range events {
		w.last = max(w.last, e.Kv.ModRevision)
		if is := w.entry(e.Kv); e.Type == clientv3.EventTypePut {
			news = append(news, is)
		} else { // what an operator deletes counts as never written
			delete(w.passed, is.Key)
		}
	}
	if len(news) > 0 {
		w.pass(news)
	}
}
