package daemon

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/rig"
)

// What was fetched is served until its time is up, or its size was sent as often as requested, and not
// longer; and again when its owner wants more.
func TestWhatWasFetchedIsServedForAsLongAsWasAsked(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	a := begun(t, t.TempDir())
	served := added(t, a, api.Add{Paths: []string{file(t, large(1), t.TempDir(), "f")}})
	for what, wish := range map[string]api.Add{"a time": {SeedTime: "1ms"}, "a ratio": {SeedRatio: 1}} {
		b := begun(t, t.TempDir())
		wish.Ticket = served.Ticket
		e := added(t, b, wish)
		if wish.SeedRatio > 0 {
			e = until(t, b, e.ID, "here", in(api.Served))
			c := begun(t, t.TempDir())
			until(t, c, added(t, c, api.Add{Ticket: e.Ticket}).ID, "here", in(api.Served))
			var err error
			for end := time.Now().Add(30 * time.Second); e.Sent < e.Bytes; e, err = b.Entry(t.Context(), 1) { // without a write of the catalog
				if must(t, err); time.Now().After(end) {
					t.Fatalf("%d bytes of %d are counted", e.Sent, e.Bytes)
				}
				<-time.After(10 * time.Millisecond) // the end of a child is reported once it is known
			}
			b.keepers[1].poke()
		}
		e = until(t, b, e.ID, "ended", in(api.Ended))
		if e.Ticket != "" || !strings.Contains(e.Reason, "as was asked") {
			t.Errorf("%s: %+v", what, e)
		}
		if _, err := b.Hold(t.Context(), api.Hold{Entry: e.ID, Depots: []string{"nowhere"}}); err == nil || !strings.Contains(err.Error(), "not served any more") {
			t.Errorf("%s: a hold of it: %v", what, err)
		}
		id := b.keepers[1].entry().Share
		d := begun(t, t.TempDir())
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		if _, err := d.node.Manifest(ctx, b.node.Ticket(id), nil); err == nil {
			t.Errorf("%s: it is served still", what)
		}
		cancel()
		never, none := "0", float64(0)
		set(t, b, e.ID, api.Set{SeedTime: &never, SeedRatio: &none})
		until(t, b, e.ID, "served again", in(api.Served))
		again := added(t, d, api.Add{Ticket: b.node.Ticket(id), Paused: true})
		for end := time.Now().Add(30 * time.Second); ; <-time.After(100 * time.Millisecond) { // it is opened first
			if _, err := d.node.Manifest(t.Context(), b.node.Ticket(id), nil); err == nil {
				break
			} else if time.Now().After(end) {
				t.Fatal(err)
			}
		}
		set(t, d, again.ID, paused(false))
		until(t, d, again.ID, "here", in(api.Served))
	}
}

// certificate makes a certificate for this machine, and its key, in files.
func certificate(t *testing.T) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &k.PublicKey, k)
	must(t, err)
	sec, err := x509.MarshalPKCS8PrivateKey(k)
	must(t, err)
	dir := t.TempDir()
	cert = file(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), dir, "cert.pem")
	key = file(t, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: sec})), dir, "key.pem")
	made, err := x509.ParseCertificate(der)
	must(t, err)
	pool = x509.NewCertPool()
	pool.AddCert(made)
	return cert, key, pool
}

// A node that listens at every address of its machine answers by each, and by no name that it was not told.
func TestAListenerAtAllAddressesHasEachAsItsName(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	for listen, all := range map[string]bool{"0.0.0.0:0": true, "[::]:0": true, "127.0.0.1:0": false} {
		d := begun(t, t.TempDir(), func(c *Config) { c.HTTP, c.Insecure = listen, true })
		l, err := d.Listen()
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- l.Serve(ctx, nil) }()
		page, _, _ := strings.Cut(l.URL(), "#")
		if !strings.HasPrefix(page, "http://127.0.0.1:") {
			t.Errorf("%s: its page is at %s", listen, page)
		}
		for host, known := range map[string]bool{"": true, "localhost:" + l.full.Hosts[0][strings.LastIndex(l.full.Hosts[0], ":")+1:]: true, "192.0.2.7:4820": all, "[2001:db8::7]:4820": all, "192.0.2.7": all, "[2001:db8::7]": all, "2001:db8::7": false, "a:b:c": false, "evil.example": false, "evil.example:4820": false} {
			req, err := http.NewRequest("GET", page+"v1/node", nil)
			must(t, err)
			req.Host = host
			res, err := http.DefaultClient.Do(req)
			must(t, err)
			res.Body.Close()
			if got := res.StatusCode != http.StatusMisdirectedRequest; got != known {
				t.Errorf("%s, asked as %q: %s", listen, host, res.Status)
			}
		}
		http.DefaultClient.CloseIdleConnections()
		cancel()
		must(t, <-ended)
	}
}

func TestTheAPIAnswersOverTLS(t *testing.T) {
	t.Parallel()
	cert, key, pool := certificate(t)
	dir := t.TempDir()
	d := begun(t, dir, func(c *Config) {
		c.HTTP, c.Cert, c.Key, c.Hosts = "127.0.0.1:0", cert, key, []string{"NAS.Example:4820"}
	})
	l, err := d.Listen()
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Serve(ctx, nil) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	token, err := os.ReadFile(filepath.Join(dir, TokenName))
	must(t, err)
	if !strings.HasPrefix(l.URL(), "https://127.0.0.1:") {
		t.Errorf("its page is at %s", l.URL())
	}
	ask := func(c *tls.Config, scheme, host string) (int, error) {
		tr := &http.Transport{TLSClientConfig: c}
		defer tr.CloseIdleConnections()
		req, err := http.NewRequest("GET", scheme+"://"+l.tcp.Addr().String()+"/v1/node", nil)
		must(t, err)
		req.Host = host
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
		res, err := (&http.Client{Transport: tr}).Do(req)
		if err != nil {
			return 0, err
		}
		return res.StatusCode, res.Body.Close()
	}
	for what, x := range map[string]struct {
		conf         *tls.Config
		scheme, host string
		status       int
	}{
		"its address":      {&tls.Config{RootCAs: pool}, "https", "", 200},
		"its other name":   {&tls.Config{RootCAs: pool}, "https", "nas.example:4820", 200},
		"a foreign name":   {&tls.Config{RootCAs: pool}, "https", "evil.example", 421},
		"in the clear":     {nil, "http", "", 0},
		"an old protocol":  {&tls.Config{RootCAs: pool, MaxVersion: tls.VersionTLS11}, "https", "", 0},
		"an unknown owner": {&tls.Config{}, "https", "", 0},
	} {
		if got, err := ask(x.conf, x.scheme, x.host); got != x.status || (x.status == 0) != (err != nil) {
			t.Errorf("%s: %d, %v", what, got, err)
		}
	}
	other := begun(t, t.TempDir(), func(c *Config) { c.HTTP, c.Cert, c.Key = "127.0.0.1:0", key, cert })
	if _, err := other.Listen(); err == nil || !strings.Contains(err.Error(), "the certificate "+key+" with the key "+cert+" cannot be used: failed to find") {
		t.Errorf("a certificate that is none: %v", err)
	}
}
