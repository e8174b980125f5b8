package daemon

import (
	"context"
	"crypto/tls"
	"os"
	"slices"
	"testing"
)

// A certificate that was replaced, as most are every few weeks, is used once the settings are read again; or the reload says that this
// waits for the next start.
func TestACertificateThatWasReplacedIsUsed(t *testing.T) {
	t.Parallel()
	cert, key, _ := certificate(t)
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
	next, itsKey, pool := certificate(t)
	must(t, os.Rename(next, cert))
	must(t, os.Rename(itsKey, key))
	later, err := d.Reload(d.setting())
	must(t, err)
	c, err := tls.Dial("tcp", l.tcp.Addr().String(), &tls.Config{RootCAs: pool})
	switch {
	case err == nil:
		must(t, c.Close())
	case !slices.Contains(later, "http-cert"):
		t.Errorf("the old one is shown, and the reload says that it leaves only %q for the next start: %v", later, err)
	}
}
