package etcdkv_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/internal/trust"
	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/rounds/etcdkv"
	"github.com/piecelease/fetcher/rounds/kvtest"
)

// TestMain lets more tests run at once than there are CPUs, since they mostly wait.
func TestMain(m *testing.M) {
	rig.Together(16)
	os.Exit(m.Run())
}

// start runs a server. stop kills it; so does the end of the test.
func start(t *testing.T, dir, scheme, addr string, flags ...string) (stop func()) {
	t.Helper()
	command, err := exec.LookPath("etcd")
	if err != nil {
		t.Skip("etcd is not installed; on Debian it is in the package etcd-server")
	}
	url, peer := scheme+"://"+addr, "http://"+free(t)
	// The shell kills it when its input ends: with stop, or with this process.
	s := exec.Command("sh", append([]string{"-c", `"$@" & read end; kill -9 $!; wait`, "sh", command, "--data-dir", dir, "--log-level", "fatal",
		"--listen-client-urls", url, "--advertise-client-urls", url,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default=" + peer,
		"--heartbeat-interval", "10", "--election-timeout", "50"}, flags...)...)
	input, err := s.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		input.Close()
		s.Wait()
	})
	t.Cleanup(stop)
	return stop
}

// free returns an address that nobody listens on.
func free(t *testing.T) string {
	t.Helper()
	return fmt.Sprint("127.0.0.1:", rig.FreePort(t))
}

func open(t testing.TB, addr string) *etcdkv.KV {
	t.Helper()
	kv, err := etcdkv.Open(t.Context(), etcdkv.Config{Endpoints: []string{addr}, Name: "fleet"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kv.Close() })
	return kv
}

// raw returns a client such as any other program uses.
func raw(t *testing.T, addr string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestEtcd(t *testing.T) {
	t.Parallel()
	addr := free(t)
	start(t, t.TempDir(), "http", addr)
	kvtest.Run(t, kvtest.Engine{Addr: addr, Open: func(t testing.TB, addr string) rounds.KV { return open(t, addr) }})
	t.Run("Removed", func(t *testing.T) {
		t.Parallel()
		removed(t, addr)
	})
	t.Run("Compacted", func(t *testing.T) {
		t.Parallel()
		compacted(t, addr)
	})
	t.Run("Names", func(t *testing.T) {
		t.Parallel()
		names(t, addr)
	})
}

// removed deletes a record with etcd's own tools: it is as if it had never been, except for
// the pointer.
func removed(t *testing.T, addr string) {
	kv := open(t, addr)
	r, _ := kvtest.NewRound(t, kv, rounds.Config{Name: "removed", Holder: "a"})
	g := kvtest.Free(t, r, time.Hour)
	p, err := rounds.NewPointer(kv, "removed")
	ok(t, err)
	ok(t, p.Publish(t.Context(), rounds.Target{Term: g.Term(), Value: "x"}))
	_, err = raw(t, addr).Delete(t.Context(), "fetcher/fleet/round.v1.removed")
	ok(t, err)
	if err := g.Complete(t.Context(), ""); !errors.As(err, new(*rounds.LostError)) {
		t.Errorf("got %v", err)
	}
	fresh, _ := kvtest.NewRound(t, kv, rounds.Config{Name: "removed", Holder: "b"})
	if next := kvtest.Free(t, fresh, time.Hour); next.Term() != g.Term()+1 {
		t.Errorf("term %d after %d", next.Term(), g.Term())
	}
}

// compacted makes the cluster forget what a watch has missed.
func compacted(t *testing.T, addr string) {
	link := kvtest.NewLink(t, addr)
	kv, direct := open(t, link.Addr), open(t, addr)
	seen, done := make(chan []rounds.Entry, 10), make(chan error)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { done <- kv.Watch(ctx, "compacted.", func(es []rounds.Entry) { seen <- es }) }()
	<-seen
	link.Lose(kvtest.Connections)
	rev, err := direct.Create(t.Context(), "compacted.a", []byte("old"))
	ok(t, err)
	rev, err = direct.Update(t.Context(), "compacted.a", []byte("new"), rev)
	ok(t, err)
	if _, err = raw(t, addr).Compact(t.Context(), int64(rev)); !errors.Is(err, rpctypes.ErrCompacted) { // another subtest's store was first
		ok(t, err)
	}
	link.Lose(kvtest.Nothing)
	if es := <-seen; len(es) != 1 || string(es[0].Value) != "new" || es[0].Rev != rev {
		t.Errorf("saw %+v", es)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("the watch ended: %v", err)
	}
}

// names opens stores with different names in one cluster, which must not see each other's keys.
func names(t *testing.T, addr string) {
	kv := open(t, addr)
	other, err := etcdkv.Open(t.Context(), etcdkv.Config{Endpoints: []string{addr}, Name: "fleet2"})
	ok(t, err)
	t.Cleanup(func() { other.Close() })
	_, err = kv.Create(t.Context(), "names", []byte("x"))
	ok(t, err)
	if _, err := other.Get(t.Context(), "names"); !errors.Is(err, rounds.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	if _, err := etcdkv.Open(t.Context(), etcdkv.Config{Endpoints: []string{addr}, Name: "a/b"}); !errors.Is(err, rounds.ErrKey) {
		t.Errorf("got %v", err)
	}
}

// A server that was killed and started again has forgotten nothing, and neither have its
// watchers; one that starts empty is recognised.
func TestTheServerMayBeginAgain(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	dir, addr := t.TempDir(), free(t)
	stop := start(t, dir, "http", addr)
	kv := open(t, addr)
	rev, err := kv.Create(t.Context(), "a", []byte("before"))
	ok(t, err)
	seen, done := make(chan []rounds.Entry, 10), make(chan error)
	go func() { done <- kv.Watch(t.Context(), "a", func(es []rounds.Entry) { seen <- es }) }()
	<-seen
	stop()
	stop = start(t, dir, "http", addr)
	e, err := kv.Get(t.Context(), "a")
	if err != nil || e.Rev != rev {
		t.Errorf("got %+v, %v", e, err)
	}
	_, err = kv.Update(t.Context(), "a", []byte("after"), rev)
	ok(t, err)
	if es := <-seen; len(es) != 1 || string(es[0].Value) != "after" {
		t.Errorf("saw %+v", es)
	}
	stop()
	start(t, t.TempDir(), "http", addr)
	if err := <-done; err == nil || !strings.Contains(err.Error(), "gone back") {
		t.Errorf("the watch of another store: %v", err)
	}
}

// A server that was replaced, or restored, has been written to before a watcher is back, so that its last revision is no sign: the
// watcher is told, or sees what the server has.
func TestAWatchOfAnotherServerThatWasWrittenToEnds(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	addr := free(t)
	stop := start(t, t.TempDir(), "http", addr)
	link := kvtest.NewLink(t, addr)
	write := func(kv *etcdkv.KV, keys ...string) {
		for _, key := range keys {
			_, err := kv.Create(t.Context(), key, []byte(key))
			ok(t, err)
		}
	}
	write(open(t, addr), "a", "b", "c")
	seen, done := make(chan []rounds.Entry, 10), make(chan error)
	kv := open(t, link.Addr)
	go func() { done <- kv.Watch(t.Context(), "c", func(es []rounds.Entry) { seen <- es }) }()
	<-seen
	link.Lose(kvtest.Connections)
	stop()
	start(t, t.TempDir(), "http", addr)
	write(open(t, addr), "c", "d", "e", "f")
	link.Lose(kvtest.Nothing)
	select {
	case err := <-done:
		if !errors.Is(err, rounds.ErrBack) {
			t.Errorf("got %v", err)
		}
	case es := <-seen:
		if len(es) != 1 || es[0].Rev != 2 {
			t.Errorf("saw %+v", es)
		}
	case <-time.After(20 * time.Second):
		t.Error("it takes what the server had for what it has")
		go func() { <-done }()
	}
}

// A store may authenticate us, and we the store.
func TestPasswordsAndTLS(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	addr := free(t)
	cert, key, trusted := certificate(t)
	start(t, t.TempDir(), "https", addr, "--cert-file", cert, "--key-file", key)
	secure := &tls.Config{RootCAs: trusted}
	root, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, TLS: secure})
	ok(t, err)
	t.Cleanup(func() { root.Close() })
	_, err = root.UserAdd(t.Context(), "root", "secret")
	ok(t, err)
	_, err = root.UserAdd(t.Context(), "guest", "x")
	ok(t, err)
	_, err = root.UserGrantRole(t.Context(), "root", "root")
	ok(t, err)
	_, err = root.AuthEnable(t.Context())
	ok(t, err)
	mine, err := tls.LoadX509KeyPair(cert, key)
	ok(t, err)
	picky, late := free(t), free(t)
	start(t, t.TempDir(), "https", picky, "--cert-file", cert, "--key-file", key, "--client-cert-auth", "--trusted-ca-file", cert)
	for _, c := range []struct {
		etcdkv.Config
		is error
	}{
		{etcdkv.Config{Endpoints: []string{picky}, TLS: secure}, trust.ErrOurs},
		{etcdkv.Config{Endpoints: []string{picky}, TLS: &tls.Config{RootCAs: trusted, Certificates: []tls.Certificate{mine}}}, nil},
		{etcdkv.Config{Endpoints: []string{picky, late}, TLS: secure}, nil}, // one of two takes us, once it runs
		{etcdkv.Config{User: "root", Password: "secret", TLS: secure}, nil},
		{etcdkv.Config{User: "root", Password: "wrong", TLS: secure}, rounds.ErrUnfit},
		{etcdkv.Config{TLS: secure}, rounds.ErrUnfit},
		{etcdkv.Config{User: "guest", Password: "x", TLS: secure}, rounds.ErrUnfit},
		{etcdkv.Config{User: "root", Password: "secret", TLS: &tls.Config{}}, rounds.ErrUnfit},
		{etcdkv.Config{User: "root", Password: "secret"}, trust.ErrTLS},
		{etcdkv.Config{Endpoints: []string{picky}}, trust.ErrTLS},
	} {
		if c.Name = "fleet"; c.Endpoints == nil {
			c.Endpoints = []string{addr}
		}
		if slices.Contains(c.Endpoints, late) {
			start(t, t.TempDir(), "https", late, "--cert-file", cert, "--key-file", key)
		}
		kv, err := etcdkv.Open(t.Context(), c.Config)
		if err == nil {
			kv.Close()
		}
		if !errors.Is(err, c.is) {
			t.Errorf("user %q, password %q, TLS %v: %v", c.User, c.Password, c.TLS, err)
		}
	}
}

// certificate makes a certificate for 127.0.0.1.
func certificate(t *testing.T) (certFile, keyFile string, trusted *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ok(t, err)
	c := &x509.Certificate{SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	ok(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	ok(t, err)
	dir := t.TempDir()
	write := func(name, kind string, bytes []byte) string {
		path := filepath.Join(dir, name)
		ok(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}), 0o600))
		return path
	}
	parsed, err := x509.ParseCertificate(der)
	ok(t, err)
	trusted = x509.NewCertPool()
	trusted.AddCert(parsed)
	return write("cert.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", private), trusted
}

// Each rule of the suite, broken on this engine, is caught.
func TestMutants(t *testing.T) { kvtest.Mutants(t, "TestEtcd", true) }
