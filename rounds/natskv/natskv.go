// Package natskv keeps a [rounds.KV] in a key-value bucket of NATS JetStream.
package natskv

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/piecelease/fetcher/internal/trust"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/rounds"
)

// Config says where a store is.
type Config struct {
	// URL is the server's, or those of several servers, separated by commas:
	// nats://HOST:PORT or tls://HOST:PORT, with USER:PASSWORD@ or TOKEN@ before the host.
	URL string

	// Bucket is the name of the store: letters, digits, _ and -.
	Bucket string

	// Replicas is how many servers keep a bucket that Open makes; 0 means 1. A bucket
	// that exists stays as it is.
	Replicas int

	// TLS is used where it is spoken, which tls:// asks for. If it is nil, the system says who is trusted.
	TLS *tls.Config
}

// KV is a store in a bucket. In a power cut, a server that syncs each message
// ("sync_interval: always") or keeps three replicas loses nothing that it answered.
type KV struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	stream jetstream.Stream
	prefix string         // prefix of the subjects
	calls  sync.WaitGroup // calls under way

	mu   sync.Mutex
	conn context.Context // ends with the present connection
	lost func()          // ends conn
	told error           // the server's last complaint, such as that we may not write
}

var _ rounds.KV = (*KV)(nil)

// connectWithin is how long one attempt to connect may take, and retryAfter when
// the next begins.
const (
	connectWithin = 2 * time.Second
	retryAfter    = 100 * time.Millisecond
)

// Open connects to a server, and makes the bucket if it does not exist. A bucket that
// drops old values, or may answer with outdated ones, is refused.
func Open(ctx context.Context, c Config) (*KV, error) {
	if err := rounds.CheckKey(c.Bucket); err != nil {
		return nil, fmt.Errorf("bucket: %w", err)
	}
	k := &KV{prefix: "$KV." + c.Bucket + "."}
	k.conn, k.lost = context.WithCancel(context.Background())
	nc, err := nats.Connect(c.URL,
		nats.Name("fetcher"), nats.Timeout(connectWithin),
		nats.MaxReconnects(-1), nats.ReconnectWait(retryAfter), nats.ReconnectJitter(retryAfter, retryAfter),
		nats.IgnoreAuthErrorAbort(),                                   // a password that was changed may be changed back
		nats.ReconnectBufSize(-1),                                     // what cannot be sent now fails, and is not sent later
		nats.PingInterval(5*time.Second), nats.MaxPingsOutstanding(1), // a dead connection is noticed in 10 s
		nats.DisconnectErrHandler(func(*nats.Conn, error) { k.disconnected() }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { k.complained(err) }),
		func(o *nats.Options) error { o.TLSConfig = c.TLS; return nil },
	)
	if err != nil {
		if timeout := net.Error(nil); errors.Is(err, nats.ErrNoServers) || errors.Is(err, nats.ErrTimeout) || errors.As(err, &timeout) && timeout.Timeout() {
			err = fmt.Errorf("%w: no NATS server answers", rounds.ErrAway)
		}
		return nil, fmt.Errorf("connect to NATS at %s: %w", hosts(c.URL), refusal(err))
	}
	k.nc = nc
	if _, err := within(ctx, k, func(ctx context.Context) (any, error) { return nil, k.bind(ctx, c) }); err != nil {
		k.Close()
		return nil, fmt.Errorf("bucket %s: %w", c.Bucket, refusal(err))
	}
	return k, nil
}

// refusal is what a server that answers means by an error when a store is opened, in words that help.
func refusal(err error) error {
	if why := trust.Refusal(err); why != nil {
		return why
	}
	switch api := new(jetstream.APIError); {
	case errors.Is(err, nats.ErrAuthorization):
		return rounds.ErrLogin
	case errors.Is(err, nats.ErrSecureConnWanted):
		return trust.ErrPlain
	case errors.Is(err, nats.ErrTLS): // the server hung up on what we said of ourselves
		return trust.ErrOurs
	case errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrJetStreamNotEnabled):
		return fmt.Errorf("%w: its server keeps nothing; turn JetStream on there", rounds.ErrUnfit)
	case errors.As(err, &api) && api.ErrorCode == tooFewServers:
		return fmt.Errorf("%w: it has fewer servers than the replicas asked for; ask for fewer", rounds.ErrUnfit)
	}
	return err
}

// tooFewServers is the code of two answers of a server, which the library does not name: that it is alone, or that the
// cluster has too few.
const tooFewServers jetstream.ErrorCode = 10074

// hosts returns the URLs without the passwords and tokens before the hosts.
func hosts(urls string) string {
	var out []string
	for at := range strings.SplitSeq(urls, ",") {
		if u, err := url.Parse(strings.TrimSpace(at)); err == nil && u.Host != "" {
			out = append(out, u.Host)
		}
	}
	return strings.Join(out, ", ")
}

// bind finds the bucket's stream, or makes it.
func (k *KV) bind(ctx context.Context, c Config) (err error) {
	if k.js, err = jetstream.New(k.nc); err != nil {
		return err
	}
	want := jetstream.StreamConfig{
		Name: "KV_" + c.Bucket, Subjects: []string{k.prefix + ">"}, Description: "fetcher",
		MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, AllowRollup: true, DenyDelete: true,
		Storage: jetstream.FileStorage, Replicas: max(c.Replicas, 1),
	}
	k.stream, err = k.js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		k.stream, err = k.js.CreateStream(ctx, want)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // somebody else made it just now
			k.stream, err = k.js.Stream(ctx, want.Name)
		}
	}
	if err != nil {
		return err
	}
	switch has := k.stream.CachedInfo().Config; {
	case has.AllowDirect || has.MirrorDirect:
		return fmt.Errorf(`%w: it allows direct gets, whose answers may be old; let fetcher make a bucket, or make the stream without "allow direct"`, rounds.ErrUnfit)
	case has.MaxAge != 0:
		return fmt.Errorf("%w: it forgets its keys after %s; let fetcher make a bucket, or make one without a time to live", rounds.ErrUnfit, words.Duration(has.MaxAge))
	case has.Storage != jetstream.FileStorage:
		return fmt.Errorf("%w: it is in memory, and forgets its keys when the server ends; let fetcher make a bucket, or make one with file storage", rounds.ErrUnfit)
	}
	return nil
}

// Close ends the connection.
func (k *KV) Close() error {
	k.nc.Close()
	k.disconnected()
	k.calls.Wait()
	return nil
}

// disconnected ends the calls that wait for answers, which will not come any more.
func (k *KV) disconnected() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lost()
	k.conn, k.lost = context.WithCancel(context.Background())
	k.told = nil // on the next connection, other things may be allowed
}

// complained keeps what the server said about no call in particular: the call itself gets
// no answer.
func (k *KV) complained(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if errors.Is(err, nats.ErrPermissionViolation) {
		k.told = err
	}
}

// unanswered returns why a call was not answered in time.
func (k *KV) unanswered(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	err := rounds.Unanswered(ctx)
	if why := refusal(k.nc.LastError()); errors.Is(err, rounds.ErrAway) && errors.Is(why, rounds.ErrUnfit) && !k.nc.IsConnected() {
		return why
	}
	if k.told != nil && errors.Is(err, rounds.ErrAway) {
		return words.Error(errors.Join(rounds.ErrDenied, context.Cause(ctx)), "%v: %s", rounds.ErrDenied, strings.TrimPrefix(k.told.Error(), "nats: "))
	}
	return err
}

func (k *KV) connection() context.Context {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.conn
}

var (
	errLost    = errors.New("the connection to NATS was lost") // nobody knows whether the call took effect
	errNotSent = nats.ErrReconnectBufExceeded                  // there was no connection at that moment
)

// within makes a call, and returns when ctx or the connection ends: the NATS client would
// go on waiting for the answer, or for an attempt to connect.
func within[R any](ctx context.Context, k *KV, call func(context.Context) (R, error)) (r R, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // nothing is sent for a caller that has gone
	if ctx.Err() != nil {
		return r, rounds.Unanswered(ctx)
	}
	conn, done := k.connection(), make(chan struct{})
	var answer R
	var failed error
	k.calls.Go(func() {
		defer close(done)
		for failed = k.ready(ctx); failed == nil; failed = k.ready(ctx) {
			if answer, failed = call(ctx); !errors.Is(failed, errNotSent) {
				return
			}
			time.Sleep(retryAfter / 5)
		}
	})
	select {
	case <-done:
	case <-conn.Done():
		return r, errLost
	case <-ctx.Done():
		return r, k.unanswered(ctx)
	}
	if failed != nil && ctx.Err() != nil {
		return r, k.unanswered(ctx)
	}
	return answer, failed
}

// ready waits until there is a connection: without one the NATS client fails at once.
func (k *KV) ready(ctx context.Context) error {
	for !k.nc.IsConnected() {
		if k.nc.IsClosed() {
			return nats.ErrConnectionClosed
		}
		select {
		case <-ctx.Done():
			return rounds.Unanswered(ctx)
		case <-time.After(retryAfter / 5):
		}
	}
	return ctx.Err()
}

// Get implements [rounds.KV]. The leader of the stream answers it.
func (k *KV) Get(ctx context.Context, key string) (rounds.Entry, error) {
	if err := rounds.CheckKey(key); err != nil {
		return rounds.Entry{}, err
	}
	var m *jetstream.RawStreamMsg
	err := errLost
	for errors.Is(err, errLost) {
		m, err = within(ctx, k, func(ctx context.Context) (*jetstream.RawStreamMsg, error) {
			return k.stream.GetLastMsgForSubject(ctx, k.prefix+key)
		})
	}
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return rounds.Entry{}, fmt.Errorf("%s: %w", key, rounds.ErrNotFound)
	}
	if err != nil {
		return rounds.Entry{}, fmt.Errorf("get %s: %w", key, err)
	}
	return rounds.Entry{Key: key, Value: value(m.Header, m.Data), Rev: m.Sequence}, nil
}

// operation is the header of a message that is not a value: a delete, or a purge by one of
// NATS's own tools.
const operation = "KV-Operation"

func value(h nats.Header, data []byte) []byte {
	if h.Get(operation) != "" {
		return nil
	}
	return data
}

// Create implements [rounds.KV].
func (k *KV) Create(ctx context.Context, key string, value []byte) (uint64, error) {
	if err := rounds.CheckValue(value); err != nil {
		return 0, err
	}
	return k.write(ctx, &nats.Msg{Data: value}, key, 0, rounds.ErrExists)
}

// Update implements [rounds.KV].
func (k *KV) Update(ctx context.Context, key string, value []byte, rev uint64) (uint64, error) {
	if err := rounds.CheckValue(value); err != nil {
		return 0, err
	}
	return k.replace(ctx, &nats.Msg{Data: value}, key, rev)
}

// Delete implements [rounds.KV].
func (k *KV) Delete(ctx context.Context, key string, rev uint64) (uint64, error) {
	return k.replace(ctx, &nats.Msg{Header: nats.Header{operation: {"DEL"}}}, key, rev)
}

func (k *KV) replace(ctx context.Context, m *nats.Msg, key string, rev uint64) (uint64, error) {
	if err := rounds.CheckKey(key); err != nil {
		return 0, err
	}
	if rev == 0 { // to NATS, 0 means that the key does not exist
		return 0, fmt.Errorf("%s: %w", key, rounds.ErrConflict)
	}
	return k.write(ctx, m, key, rev, rounds.ErrConflict)
}

// write publishes a message if the last one of its key has that revision.
func (k *KV) write(ctx context.Context, m *nats.Msg, key string, rev uint64, otherwise error) (uint64, error) {
	if err := rounds.CheckKey(key); err != nil {
		return 0, err
	}
	m.Subject = k.prefix + key
	if m.Header == nil {
		m.Header = nats.Header{}
	}
	ack, err := within(ctx, k, func(ctx context.Context) (*jetstream.PubAck, error) {
		return k.js.PublishMsg(ctx, m, jetstream.WithExpectLastSequencePerSubject(rev))
	})
	if err == nil {
		return ack.Sequence, nil
	}
	if api, ok := errors.AsType[*jetstream.APIError](err); ok && (api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant) {
		err = otherwise
	}
	return 0, fmt.Errorf("write %s: %w", key, err)
}
