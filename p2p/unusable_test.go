package p2p

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	ma "github.com/multiformats/go-multiaddr"

	"github.com/piecelease/fetcher/share"
)

// A low port that this user may not open is said to be that, and no fault of the network.
func TestALowPortIsNamedAsSuch(t *testing.T) {
	at := ma.StringCast("/ip4/127.0.0.1/tcp/80")
	for cause, says := range map[syscall.Errno]string{syscall.EACCES: "only root may use ports below 1024", syscall.EADDRINUSE: "address already in use"} {
		err := unusable(at, fmt.Errorf("listen tcp: %w", os.NewSyscallError("bind", cause)))
		if !errors.Is(err, share.ErrNetwork) || !strings.Contains(err.Error(), at.String()+": "+says) {
			t.Errorf("%v: %v", cause, err)
		}
	}
}
