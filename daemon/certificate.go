package daemon

import (
	"crypto/tls"
	"log/slog"
	"os"
	"sync"
)

// shownCertificate is what the API shows over TLS. It is read again when its files have changed, as most are replaced every few weeks.
type shownCertificate struct {
	cert, key string // paths
	log       *slog.Logger

	mu   sync.Mutex // guards the fields below
	last *tls.Certificate
	read [2]os.FileInfo // of what was read last; nil where there was nothing
}

// get implements [tls.Config.GetCertificate]. While what is there cannot be used, as when one of the files is replaced before the other,
// the last one stays in use.
func (c *shownCertificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var now [2]os.FileInfo
	for i, path := range []string{c.cert, c.key} {
		now[i], _ = os.Stat(path)
	}
	if c.last != nil && unchanged(c.read[0], now[0]) && unchanged(c.read[1], now[1]) {
		return c.last, nil
	}
	c.read = now
	next, err := tls.LoadX509KeyPair(c.cert, c.key)
	switch {
	case err == nil:
		c.last = &next
	case c.last == nil:
		return nil, err
	default:
		c.log.Warn("a certificate was replaced, and the new one cannot be used: the previous one stays in use", "certificate", c.cert, "key", c.key, "error", err)
	}
	return c.last, nil
}

// unchanged is whether a and b, of one path, are of the same file with the same content, as far as its times tell.
func unchanged(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime())
}
