// Package etcdkv keeps a [rounds.KV] in etcd.
package etcdkv

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/piecelease/fetcher/rounds"
)

// Config says where a store is.
type Config struct {
	// Endpoints are the cluster's servers, each as HOST:PORT.
	Endpoints []string

	// Name sets the store apart from others in the same cluster: letters, digits, _
	// and -. Its keys are fetcher/NAME/KEY.
	Name string

	User, Password string
	TLS            *tls.Config // nil: no TLS
}

// KV is a store in etcd.
type KV struct {
	client  *clientv3.Client
	prefix  string
	seen    *witness
	compact sync.WaitGroup
}

var _ rounds.KV = (*KV)(nil)

const (
	openWithin = 30 * time.Second
	retryAfter = 100 * time.Millisecond // after the connection was lost; then less and less often
	retryMost  = 2 * time.Second
	alive      = 5 * time.Second // a connection that is silent for twice this long is dead
)

// Open connects to a cluster and waits until it answers, for at most 30 seconds.
func Open(ctx context.Context, c Config) (*KV, error) {
	if err := rounds.CheckKey(c.Name); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	ctx, give := context.WithCancelCause(ctx)
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	opened := context.AfterFunc(ctx, end) // the library does not look at ctx while it logs in
	k := &KV{prefix: "fetcher/" + c.Name + "/", seen: &witness{servers: len(c.Endpoints), give: give, refused: map[string]error{}}}
	options := []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: retryAfter, Multiplier: 1.6, Jitter: 0.2, MaxDelay: retryMost},
		MinConnectTimeout: retryMost,
	})}
	how := insecure.NewCredentials()
	if c.TLS != nil {
		how = credentials.NewTLS(c.TLS)
	}
	options = append(options, grpc.WithTransportCredentials(watched{how, k.seen}))
	client, err := clientv3.New(clientv3.Config{
		Context: life, Endpoints: c.Endpoints, Username: c.User, Password: c.Password, TLS: c.TLS, Logger: zap.NewNop(),
		DialKeepAliveTime: alive, DialKeepAliveTimeout: alive, DialOptions: options,
	})
	if k.client = client; err == nil {
		_, err = k.Get(ctx, "hello")
	}
	if (err == nil || errors.Is(err, rounds.ErrNotFound)) && opened() {
		k.compact.Go(k.compactOften)
		return k, nil
	}
	if client != nil {
		client.Close()
	}
	return nil, fmt.Errorf("connect to etcd at %s: %w", strings.Join(c.Endpoints, ", "), refusal(k.ended(ctx, err)))
}

// refusal is what it means that a store cannot be opened, in words that help. A server that speaks something else
// looks to the library like one that does not answer.
func refusal(err error) error {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: no etcd server answers", rounds.ErrAway)
	case errors.Is(err, rpctypes.ErrAuthFailed), errors.Is(err, rpctypes.ErrUserEmpty), errors.Is(err, rpctypes.ErrAuthNotEnabled):
		return rounds.ErrLogin
	case errors.Is(err, rpctypes.ErrPermissionDenied):
		return rounds.ErrDenied
	}
	return err
}

// Close ends the connection.
func (k *KV) Close() error {
	defer k.compact.Wait()
	return k.client.Close()
}

// compactEvery is how often a store that is open has the cluster forget the revisions that were replaced before the last time.
var compactEvery = 5 * time.Minute

// compactOften keeps the revisions that heartbeats replace from filling the cluster, which by itself keeps all of them. Whoever is
// late, or not permitted to do it, leaves it to others.
func (k *KV) compactOften() {
	tick := time.NewTicker(compactEvery)
	defer tick.Stop()
	for last := int64(0); ; {
		select {
		case <-k.client.Ctx().Done():
			return
		case <-tick.C:
		}
		ctx, cancel := context.WithTimeout(k.client.Ctx(), openWithin)
		if now, err := k.client.Get(ctx, k.prefix+"hello"); err == nil {
			if last > 0 {
				_, _ = k.client.Compact(ctx, last)
			}
			last = now.Header.Revision
		}
		cancel()
	}
}

// Get implements [rounds.KV]. The cluster's majority answers it.
func (k *KV) Get(ctx context.Context, key string) (rounds.Entry, error) {
	if err := rounds.CheckKey(key); err != nil {
		return rounds.Entry{}, err
	}
	found, err := k.client.Get(ctx, k.prefix+key)
	if err != nil {
		return rounds.Entry{}, fmt.Errorf("get %s: %w", key, k.ended(ctx, err))
	}
	if len(found.Kvs) == 0 {
		return rounds.Entry{}, fmt.Errorf("%s: %w", key, rounds.ErrNotFound)
	}
	return k.entry(found.Kvs[0]), nil
}

func (k *KV) entry(kv *mvccpb.KeyValue) rounds.Entry {
	return rounds.Entry{Key: strings.TrimPrefix(string(kv.Key), k.prefix), Value: kv.Value, Rev: uint64(kv.ModRevision)}
}

// ended returns why a call was not answered before ctx ended, which gRPC does not report, or else what err means.
func (k *KV) ended(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return refusal(err)
	}
	err = rounds.Unanswered(ctx)
	if why := k.seen.why(); why != nil && errors.Is(err, rounds.ErrAway) {
		return why
	}
	return err
}

// Create implements [rounds.KV].
func (k *KV) Create(ctx context.Context, key string, value []byte) (uint64, error) {
	if err := rounds.CheckValue(value); err != nil {
		return 0, err
	}
	return k.write(ctx, key, value, 0, rounds.ErrExists)
}

// Update implements [rounds.KV].
func (k *KV) Update(ctx context.Context, key string, value []byte, rev uint64) (uint64, error) {
	if err := rounds.CheckValue(value); err != nil {
		return 0, err
	}
	return k.replace(ctx, key, value, rev)
}

// Delete implements [rounds.KV]. The key keeps an empty value, since etcd does not
// show what it deleted.
func (k *KV) Delete(ctx context.Context, key string, rev uint64) (uint64, error) {
	return k.replace(ctx, key, nil, rev)
}

func (k *KV) replace(ctx context.Context, key string, value []byte, rev uint64) (uint64, error) {
	if err := rounds.CheckKey(key); err != nil {
		return 0, err
	}
	if rev == 0 { // to etcd, 0 means that the key does not exist
		return 0, fmt.Errorf("%s: %w", key, rounds.ErrConflict)
	}
	return k.write(ctx, key, value, rev, rounds.ErrConflict)
}

// write puts a value if the key has that revision.
func (k *KV) write(ctx context.Context, key string, value []byte, rev uint64, otherwise error) (uint64, error) {
	if err := rounds.CheckKey(key); err != nil {
		return 0, err
	}
	at := k.prefix + key
	done, err := k.client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(at), "=", int64(rev))).
		Then(clientv3.OpPut(at, string(value))).
		Commit()
	switch {
	case errors.Is(err, rpctypes.ErrRequestTooLarge):
		err = rounds.ErrTooLarge
	case err == nil && !done.Succeeded:
		err = otherwise
	case err == nil:
		return uint64(done.Header.Revision), nil
	}
	return 0, fmt.Errorf("write %s: %w", key, k.ended(ctx, err))
}
