package daemon

import (
	"crypto/tls"
	"log/slog"
	"os"
	"sync"
	"time"
)

// shownCertificate is what the API shows over TLS. It is read again when its files have changed, as most are replaced every few weeks.
type shownCertificate struct {
	cert, key string // paths
	log       *slog.Logger

	mu   sync.Mutex // guards the fields below
	last *tls.Certificate
	read [2]time.Time // when the files that were read last were changed
}

// get implements [tls.Config.GetCertificate]. While what is there cannot be used, as when one of the files is replaced before the other,
// the last one stays in use.
func (c *shownCertificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var now [2]time.Time
	for i, path := range []string{c.cert, c.key} {
		if info, err := os.Stat(path); err == nil {
			now[i] = info.ModTime()
		}
	}
	if c.last != nil && now == c.read {
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
