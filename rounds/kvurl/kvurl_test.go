package kvurl

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"context"

	"github.com/piecelease/fetcher/rounds"
)

func TestURLs(t *testing.T) {
	for at, want := range map[string]string{
		"nats://a/fleet":                        "nats://a:4222 fleet 0",
		"nats://a:1,b,[::1]:3/fleet?replicas=3": "nats://a:1,nats://b:4222,nats://[::1]:3 fleet 3",
		"nats+tls://me:s%40crt@a,b/x_-9":        "tls://me:s%40crt@a:4222,tls://me:s%40crt@b:4222 x_-9 0",
		"nats://token@a/fleet":                  "nats://token@a:4222 fleet 0",
		"nats://[fd00::1]/fleet":                "nats://[fd00::1]:4222 fleet 0",
	} {
		p, err := parse(at)
		if err != nil {
			t.Errorf("%s: %v", at, err)
			continue
		}
		c := p.nats()
		if got := strings.Join([]string{c.URL, c.Bucket, string(rune('0' + c.Replicas))}, " "); got != want {
			t.Errorf("%s: %s, want %s", at, got, want)
		}
	}
	p, err := parse("etcd+tls://me:s%40:crt@a,b:1/fleet")
	if err != nil {
		t.Fatal(err)
	}
	if c := p.etcd(); !slices.Equal(c.Endpoints, []string{"a:2379", "b:1"}) || c.Name != "fleet" || c.User != "me" || c.Password != "s@:crt" || c.TLS == nil {
		t.Errorf("got %+v", c)
	}
	mine := filepath.Join(t.TempDir(), "me.pem")
	if p, err := parse("nats+tls://a/fleet?replicas=3&cert=" + url.QueryEscape(mine)); err != nil || p.cert != mine || p.replicas != 3 || p.nats().TLS.GetClientCertificate == nil {
		t.Errorf("got %+v, %v", p, err)
	}
	if _, err := Open(t.Context(), "etcd+tls://127.0.0.1:1/fleet?cert="+url.QueryEscape(mine)); !errors.Is(err, rounds.ErrUnfit) || !strings.Contains(err.Error(), mine) {
		t.Errorf("a certificate that is not there: %v", err)
	}
	if p, err = parse("etcd://a/fleet"); err != nil || p.etcd().TLS != nil || p.etcd().User != "" {
		t.Errorf("got %+v, %v", p, err)
	}
}

func TestThePlaceOfAStoreHasNoPassword(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[string]string{
		"nats://a/fleet": "nats://a:4222/fleet",
		"nats+tls://me:s%40crt@b,a:1/fleet?replicas=3": "nats://a:1,b:4222/fleet",
		"etcd://token@a/fleet":                         "etcd://a:2379/fleet",
		"sqlite:kv?a@b":                                "sqlite:" + filepath.Join(here, "kv?a@b"),
	} {
		if got, err := Place(at); err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", at, got, err, want)
		}
	}
	if _, err := Place("nats://me:secret@/fleet"); !errors.Is(err, ErrURL) {
		t.Errorf("no URL: %v", err)
	}
}

func TestWhatIsNoURLIsRefusedWithoutItsPassword(t *testing.T) {
	for _, at := range []string{
		"", "fleet", "http://a/fleet", "sqlite:", "nats:a", "nats://", "nats://a", "nats://a/", "nats:///fleet", "nats://a/b/c", "nats://a/b.c", "nats://a b/c",
		"nats://me:secret@/fleet", "nats://me:sec%ret@a/fleet", "nats://me:secret@a:x/fleet", "nats://me:secret/of?mine@a/fleet", "nats://me:secret,secret/of?mine@a/fleet", "nats://me:1/secret?mine@a/fleet", "nats://a/fleet?replicas=0", "nats://a/fleet?replicas=x", "nats://a/fleet?x=1",
		"etcd://a/fleet?replicas=3", "etcd://me:secret@a", "nats://a,,b/fleet", "nats://a/fleet?%zz", "nats+ssl://a/fleet",
		"nats+tls://a/fleet?cert=me.pem", "nats://a/fleet?cert=" + url.QueryEscape(os.TempDir()),
	} {
		s, err := Open(t.Context(), at)
		if !errors.Is(err, ErrURL) || s != nil {
			t.Errorf("%s: %v, %v", at, s, err)
		} else if strings.Contains(err.Error(), "sec") {
			t.Errorf("%s: the password is in %q", at, err)
		}
	}
}

func TestEachKindIsOpened(t *testing.T) {
	s, err := Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "rounds.db"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), "a"); !errors.Is(err, rounds.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	for _, at := range []string{"nats://me:secret@127.0.0.1:1/fleet", "etcd://me:secret@127.0.0.1:1/fleet", "sqlite:" + t.TempDir()} {
		if s, err := Open(ctx, at); err == nil || s != nil || errors.Is(err, ErrURL) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, %v", at, s, err)
		} else if away := !strings.HasPrefix(at, "sqlite:"); errors.Is(err, rounds.ErrAway) != away {
			t.Errorf("%s: is away: %v: %v", at, !away, err)
		}
	}
}

// A store that cannot be reached yet answers once it can be, and calls say why until then.
func TestAStoreMayComeLater(t *testing.T) {
	t.Parallel()
	dir, began := filepath.Join(t.TempDir(), "later"), time.Now()
	s, err := Later("sqlite:" + filepath.Join(dir, "kv"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	calls := []func() error{
		func() error { _, err := s.Get(t.Context(), "a"); return err },
		func() error { _, err := s.Create(t.Context(), "a", []byte("1")); return err },
		func() error { _, err := s.Update(t.Context(), "a", []byte("1"), 7); return err },
		func() error { _, err := s.Delete(t.Context(), "a", 7); return err },
		func() error {
			ctx, cancel := context.WithCancel(t.Context())
			return s.Watch(ctx, "a", func([]rounds.Entry) { cancel() })
		},
	}
	for i, call := range calls {
		if err := call(); err == nil || errors.Is(err, rounds.ErrNotFound) || errors.Is(err, rounds.ErrConflict) {
			t.Errorf("call %d without a store: %v", i, err)
		}
	}
	if a := s.Away(); a.Why == nil || a.Since.Before(began) || a.Since.After(time.Now()) {
		t.Errorf("away: %+v", a)
	}
	first := s.Away().Since
	if _, err := s.Get(t.Context(), "a"); err == nil || s.Away().Since != first {
		t.Errorf("away since %v, and later since %v: %v", first, s.Away().Since, err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, err = s.Get(t.Context(), "a"); errors.Is(err, rounds.ErrNotFound) || time.Now().After(end) {
			break
		}
	}
	want := []error{rounds.ErrNotFound, nil, rounds.ErrConflict, rounds.ErrConflict, context.Canceled}
	for i, call := range calls {
		if err := call(); !errors.Is(err, want[i]) {
			t.Errorf("call %d: %v, want %v", i, err, want[i])
		}
	}
	given, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Get(given, "a"); err == nil || s.Away() != (Away{}) {
		t.Errorf("it answers, and a call was given up: %+v, %v", s.Away(), err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := s.Get(t.Context(), "a"); !errors.Is(err, errClosed) {
		t.Errorf("after the end: %v", err)
	}
}

func TestWhatIsNoURLIsRefusedAtOnce(t *testing.T) {
	for at, says := range map[string]string{"": "a store is one of", "sqlite:": `a path must follow "sqlite:"`, "fleet": "a store is one of", "nats://a": "it must end in a slash and the name"} {
		if s, err := Later(at); !errors.Is(err, ErrURL) || s != nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, %v", at, s, err)
		}
	}
}
