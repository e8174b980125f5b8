package daemon

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"os"
	"testing"
)

// A certificate that was replaced, as most are every few weeks, is used from then on.
func TestACertificateThatWasReplacedIsUsed(t *testing.T) {
	t.Parallel()
	cert, key, pool := certificate(t)
	d := begun(t, t.TempDir(), func(c *Config) { c.HTTP, c.Cert, c.Key = "127.0.0.1:0", cert, key })
	l, err := d.Listen()
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Serve(ctx, nil) }()
	defer func() {
		cancel()
		must(t, <-ended)
	}()
	shows := func(pool *x509.CertPool) {
		t.Helper()
		c, err := tls.Dial("tcp", l.tcp.Addr().String(), &tls.Config{RootCAs: pool})
		must(t, err)
		must(t, c.Close())
	}
	shows(pool)
	next, itsKey, later := certificate(t)
	must(t, os.Rename(next, cert))
	shows(pool) // without its key it is of no use
	must(t, os.Rename(itsKey, key))
	shows(later)

	// What was made at the same time, as by a tool that sets the times of files, is another certificate all the same.
	same, ofSame, third := certificate(t)
	for from, to := range map[string]string{same: cert, ofSame: key} {
		info, err := os.Stat(to)
		must(t, err)
		must(t, os.Chtimes(from, info.ModTime(), info.ModTime()))
		must(t, os.Rename(from, to))
	}
	shows(third)
}
