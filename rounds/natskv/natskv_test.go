package natskv_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/internal/trust"
	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/rounds/kvtest"
	"github.com/piecelease/fetcher/rounds/natskv"
)

// TestMain lets more tests run at once than there are CPUs, since they mostly wait.
func TestMain(m *testing.M) {
	rig.Together(16)
	os.Exit(m.Run())
}

// start runs a server in this process. stop ends it; so does the end of the test.
func start(t *testing.T, dir string, port int) (addr string, stop func()) {
	t.Helper()
	return startWith(t, &server.Options{Port: port, StoreDir: dir})
}

func startWith(t *testing.T, o *server.Options) (addr string, stop func()) {
	t.Helper()
	o.JetStream = true
	return run(t, o)
}

func run(t *testing.T, o *server.Options) (addr string, stop func()) {
	t.Helper()
	o.Host, o.NoSigs, o.NoLog = "127.0.0.1", true, true
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	stop = sync.OnceFunc(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	t.Cleanup(stop)
	if !s.ReadyForConnections(30 * time.Second) {
		t.Fatal("nats-server does not start")
	}
	return s.Addr().String(), stop
}

func open(t testing.TB, addr, bucket string) *natskv.KV {
	t.Helper()
	kv, err := natskv.Open(t.Context(), natskv.Config{URL: "nats://" + addr, Bucket: bucket})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kv.Close() })
	return kv
}

func TestNATS(t *testing.T) {
	t.Parallel()
	addr, _ := start(t, t.TempDir(), -1)
	kvtest.Run(t, kvtest.Engine{Addr: addr, Open: func(t testing.TB, addr string) rounds.KV { return open(t, addr, "fleet") }})
}

// A server that ends and starts again has forgotten nothing, and neither have its watchers.
func TestTheServerMayBeginAgain(t *testing.T) {
	t.Parallel()
	dir, port := t.TempDir(), rig.FreePort(t) // which nobody else takes in between
	addr, stop := start(t, dir, port)
	kv := open(t, addr, "fleet")
	rev, err := kv.Create(t.Context(), "a", []byte("before"))
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan string, 10)
	done := make(chan error)
	go func() {
		done <- kv.Watch(t.Context(), "a", func(es []rounds.Entry) {
			for _, e := range es {
				seen <- string(e.Value)
			}
		})
	}()
	t.Cleanup(func() { <-done })
	if got := <-seen; got != "before" {
		t.Fatalf("saw %q", got)
	}
	stop()
	start(t, dir, port)
	if e, err := kv.Get(t.Context(), "a"); err != nil || string(e.Value) != "before" || e.Rev != rev {
		t.Errorf("got %+v, %v", e, err)
	}
	if _, err := kv.Update(t.Context(), "a", []byte("after"), rev); err != nil {
		t.Error(err)
	}
	if got := <-seen; got != "after" {
		t.Errorf("saw %q", got)
	}
}

// A bucket that was replaced has other revisions: its watchers are told.
func TestAWatchOfAnotherBucketEnds(t *testing.T) {
	t.Parallel()
	addr, _ := start(t, t.TempDir(), -1)
	link := kvtest.NewLink(t, addr)
	kv, direct := open(t, link.Addr, "fleet"), open(t, addr, "fleet")
	for _, key := range []string{"a", "b", "c"} {
		if _, err := direct.Create(t.Context(), key, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	seen, done := make(chan []rounds.Entry, 10), make(chan error)
	go func() { done <- kv.Watch(t.Context(), "c", func(es []rounds.Entry) { seen <- es }) }()
	<-seen
	link.Lose(kvtest.Connections)
	if err := stream(t, addr).DeleteStream(t.Context(), "KV_fleet"); err != nil {
		t.Fatal(err)
	}
	open(t, addr, "fleet")
	link.Lose(kvtest.Nothing)
	if err := <-done; err == nil || !strings.Contains(err.Error(), "gone back") {
		t.Errorf("got %v", err)
	}
}

// A bucket that was replaced, or restored, has been written to before a watcher is back, so that its last revision is no sign: the
// watcher is told, or sees what the bucket has.
func TestAWatchOfAnotherBucketThatWasWrittenToEnds(t *testing.T) {
	t.Parallel()
	addr, _ := start(t, t.TempDir(), -1)
	link := kvtest.NewLink(t, addr)
	kv, direct := open(t, link.Addr, "fleet"), open(t, addr, "fleet")
	write := func(kv *natskv.KV, keys ...string) {
		for _, key := range keys {
			if _, err := kv.Create(t.Context(), key, []byte(key)); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(direct, "a", "b", "c")
	seen, done := make(chan []rounds.Entry, 10), make(chan error)
	go func() { done <- kv.Watch(t.Context(), "c", func(es []rounds.Entry) { seen <- es }) }()
	<-seen
	link.Lose(kvtest.Connections)
	if err := stream(t, addr).DeleteStream(t.Context(), "KV_fleet"); err != nil {
		t.Fatal(err)
	}
	write(open(t, addr, "fleet"), "c", "d", "e", "f")
	link.Lose(kvtest.Nothing)
	select {
	case err := <-done:
		if !errors.Is(err, rounds.ErrBack) {
			t.Errorf("got %v", err)
		}
	case es := <-seen:
		if len(es) != 1 || es[0].Rev != 1 {
			t.Errorf("saw %+v", es)
		}
	case <-time.After(20 * time.Second):
		t.Error("it takes what the bucket had for what it has")
		go func() { <-done }()
	}
}

// A bucket that others made must be one that forgets nothing.
func TestBucketsThatForgetAreRefused(t *testing.T) {
	t.Parallel()
	addr, _ := start(t, t.TempDir(), -1)
	js := stream(t, addr)
	good := jetstream.StreamConfig{Storage: jetstream.FileStorage, MaxMsgsPerSubject: 1}
	for bucket, change := range map[string]func(*jetstream.StreamConfig){
		"allows_direct_gets": func(c *jetstream.StreamConfig) { c.AllowDirect = true },
		"forgets_its_keys":   func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour },
		"in_memory":          func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage },
		"good":               func(*jetstream.StreamConfig) {},
	} {
		c := good
		c.Name, c.Subjects = "KV_"+bucket, []string{"$KV." + bucket + ".>"}
		change(&c)
		if _, err := js.CreateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		kv, err := natskv.Open(t.Context(), natskv.Config{URL: "nats://" + addr, Bucket: bucket})
		if err == nil {
			kv.Close()
		}
		if (err == nil) != (bucket == "good") || err != nil && !strings.Contains(err.Error(), strings.ReplaceAll(bucket, "_", " ")) {
			t.Errorf("%s: %v", bucket, err)
		}
	}
	for _, c := range []natskv.Config{
		{URL: "nats://" + addr, Bucket: "a b"},
		{URL: "nats://" + addr, Bucket: "three", Replicas: 3}, // of one server
		{URL: "nats://127.0.0.1:1", Bucket: "nowhere"},
	} {
		if kv, err := natskv.Open(t.Context(), c); err == nil {
			kv.Close()
			t.Errorf("%+v was opened", c)
		}
	}
}

func stream(t *testing.T, addr string) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect("nats://" + addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// NATS's own tools leave a marker without a value, or nothing at all.
func TestKeysThatOperatorsRemove(t *testing.T) {
	t.Parallel()
	addr, _ := start(t, t.TempDir(), -1)
	kv := open(t, addr, "fleet")
	bucket, err := stream(t, addr).KeyValue(t.Context(), "fleet")
	if err != nil {
		t.Fatal(err)
	}
	r, _ := kvtest.NewRound(t, kv, rounds.Config{Name: "job", Holder: "a"})
	p, err := rounds.NewPointer(kv, "job")
	if err != nil {
		t.Fatal(err)
	}
	last := uint64(0)
	for what, remove := range map[string]func() error{
		"delete": func() error { return bucket.Delete(t.Context(), "round.v1.job") },
		"purge":  func() error { return bucket.Purge(t.Context(), "round.v1.job") },
		"removal": func() error {
			s, err := stream(t, addr).Stream(t.Context(), "KV_fleet")
			return errors.Join(err, s.Purge(t.Context(), jetstream.WithPurgeSubject("$KV.fleet.round.v1.job")))
		},
	} {
		g := kvtest.Free(t, r, time.Hour)
		if g.Term() <= last {
			t.Errorf("term %d after %d", g.Term(), last)
		}
		last = g.Term()
		if err := p.Publish(t.Context(), rounds.Target{Term: last, Value: what}); err != nil {
			t.Fatal(err)
		}
		g.Close()
		if err := remove(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		fresh, _ := kvtest.NewRound(t, kv, rounds.Config{Name: "job", Holder: "b"})
		g = kvtest.Free(t, fresh, time.Hour)
		if g.Term() <= last {
			t.Errorf("after a %s: term %d after %d", what, g.Term(), last)
		}
		last = g.Term()
		if err := g.Abandon(t.Context(), ""); err != nil {
			t.Error(err)
		}
	}
}

// A client that may not use a bucket is told so: the server itself does not answer.
func TestPermissions(t *testing.T) {
	t.Parallel()
	may := func(subjects ...string) *server.Permissions {
		return &server.Permissions{Publish: &server.SubjectPermission{Allow: subjects}}
	}
	addr, stop := startWith(t, &server.Options{Port: -1, StoreDir: t.TempDir(), Users: []*server.User{
		{Username: "owner", Password: "x"}, {Username: "guest", Password: "x", Permissions: may("nothing")}, {Username: "reader", Password: "x", Permissions: may("$JS.API.>")},
	}})
	open(t, "owner:x@"+addr, "fleet")
	told(t, func(ctx context.Context) error {
		_, err := natskv.Open(ctx, natskv.Config{URL: "nats://guest:x@" + addr, Bucket: "fleet"})
		return err
	})
	reader := open(t, "reader:x@"+addr, "fleet")
	told(t, func(ctx context.Context) error {
		_, err := reader.Create(ctx, "a", []byte("x"))
		return err
	})
	stop() // what was not allowed once says nothing of a server that is stopped
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := reader.Get(ctx, "a"); !errors.Is(err, rounds.ErrAway) {
		t.Errorf("a stopped server: %v", err)
	}
}

// told fails unless a call soon says why it was not answered.
func told(t *testing.T, call func(context.Context) error) {
	t.Helper()
	var err error
	for try := range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(try+1)*100*time.Millisecond)
		err = call(ctx)
		if cancel(); err == nil || strings.Contains(err.Error(), "ermissions") {
			break
		}
	}
	if err == nil || !strings.Contains(err.Error(), "ermissions") || !errors.Is(err, rounds.ErrUnfit) || errors.Is(err, rounds.ErrAway) {
		t.Errorf("got %v", err)
	}
}

// A server that does not answer is named, and the password for it is not.
func TestNoServer(t *testing.T) {
	_, err := natskv.Open(t.Context(), natskv.Config{URL: "nats://who:secret@127.0.0.1:1", Bucket: "fleet"})
	if err == nil || !strings.Contains(err.Error(), " at 127.0.0.1:1: ") || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
}

// A server that answers, and does not do, says what is to be changed.
func TestWhyAServerDoesNotDo(t *testing.T) {
	t.Parallel()
	plain, _ := run(t, &server.Options{Port: -1})
	locked, _ := startWith(t, &server.Options{Port: -1, StoreDir: t.TempDir(), Username: "me", Password: "x"})
	alone, _ := start(t, t.TempDir(), -1)
	its := httptest.NewTLSServer(nil) // for its certificate
	defer its.Close()
	trusted := its.Client().Transport.(*http.Transport).TLSClientConfig
	with := func(auth tls.ClientAuthType) string {
		addr, _ := run(t, &server.Options{Port: -1, TLSTimeout: 30, TLSConfig: &tls.Config{Certificates: its.TLS.Certificates, ClientAuth: auth}})
		return addr
	}
	secure, picky := with(tls.NoClientCert), with(tls.RequireAnyClientCert)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for _, x := range []struct {
		url      string
		replicas int
		is       error
		says     string
	}{
		{"nats://" + secure, 0, rounds.ErrUnfit, "a CA that is not trusted here"},
		{"tls://" + secure, 1, rounds.ErrUnfit, "turn JetStream on"},
		{"tls://" + picky, 1, trust.ErrOurs, "?cert=FILE"},
		{"nats://" + plain, 1, rounds.ErrUnfit, "turn JetStream on"},
		{"nats://" + locked, 1, rounds.ErrUnfit, "its server does not let this user in"},
		{"nats://me:y@" + locked, 1, rounds.ErrUnfit, "its server does not let this user in"},
		{"tls://" + alone, 1, rounds.ErrUnfit, "no TLS"},
		{"nats://" + alone, 3, rounds.ErrUnfit, "ask for fewer"},
		{"nats://" + silent.Addr().String(), 1, rounds.ErrAway, "no NATS server answers"},
	} {
		c := natskv.Config{URL: x.url, Bucket: "fleet", Replicas: x.replicas}
		if x.replicas > 0 {
			c.TLS = trusted
		}
		kv, err := natskv.Open(t.Context(), c)
		if err == nil {
			kv.Close()
		}
		if !errors.Is(err, x.is) || !strings.Contains(err.Error(), x.says) || strings.Contains(err.Error(), "nats: ") {
			t.Errorf("%s: %v", x.url, err)
		}
	}
}

// A store goes on when its server takes us again, and says until then why it does not.
func TestAPasswordThatComesAndGoes(t *testing.T) {
	t.Parallel()
	dir, port := t.TempDir(), rig.FreePort(t)
	addr, stop := start(t, dir, port)
	kv := open(t, addr, "fleet")
	watch := false
	until := func(is error) {
		t.Helper()
		err, end := error(nil), time.Now().Add(30*time.Second)
		for !errors.Is(err, is) && time.Now().Before(end) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err = kv.Get(ctx, "a"); watch {
				err = kv.Watch(ctx, "a", func([]rounds.Entry) {})
			}
			cancel()
		}
		if !errors.Is(err, is) {
			t.Errorf("%v, want %v", err, is)
		}
	}
	until(rounds.ErrNotFound)
	stop()
	_, stop = startWith(t, &server.Options{Port: port, StoreDir: dir, Username: "me", Password: "x"})
	until(rounds.ErrLogin)
	watch = true
	until(rounds.ErrLogin) // and when it was refused more than once
	watch = false
	stop()
	start(t, dir, port)
	until(rounds.ErrNotFound)
}

// Each rule of the suite, broken on this engine, is caught.
func TestMutants(t *testing.T) { kvtest.Mutants(t, "TestNATS", true) }
