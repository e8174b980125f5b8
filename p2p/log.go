package p2p

import (
	"context"
	"log/slog"
	"os"
	"strings"

	"github.com/libp2p/go-libp2p/gologshim"
)

// LogLibraries sends the log of libp2p to a handler, each record one level
// lower than libp2p gives it, and keeps quic-go from printing its notice
// about UDP buffers. Both affect the whole process, so this is for programs,
// not for libraries. It has an effect only
// before the first New; without it libp2p writes to stderr.
func LogLibraries(h slog.Handler) {
	gologshim.SetDefaultHandler(lower{h})
	os.Setenv("QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING", "true")
}

// lower is a handler of libp2p's records: what is an error to it is, to a
// fetcher with other peers and other addresses, a warning.
type lower struct{ slog.Handler }

func below(l slog.Level) slog.Level { return l - 4 } // levels are four apart

func (h lower) Enabled(ctx context.Context, l slog.Level) bool {
	return h.Handler.Enabled(ctx, below(l))
}

func (h lower) Handle(ctx context.Context, r slog.Record) error {
	r = r.Clone()
	r.Level = below(r.Level)
	last := strings.HasSuffix(r.Message, "listener accept error")            // the last record of every listener
	proxied := strings.HasPrefix(r.Message, "can't set TCP keepalives. net") // of every connection that a proxy made, which has them
	if last || proxied {
		if r.Level = slog.LevelDebug; !h.Handler.Enabled(ctx, r.Level) {
			return nil
		}
	}
	return h.Handler.Handle(ctx, r)
}

func (h lower) WithAttrs(a []slog.Attr) slog.Handler { return lower{h.Handler.WithAttrs(a)} }
func (h lower) WithGroup(name string) slog.Handler   { return lower{h.Handler.WithGroup(name)} }
