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
	const low = "only root, or a program that has been given the right, may use ports below 1024"
	for _, x := range []struct {
		at    string
		cause syscall.Errno
		says  string
	}{
		{"/ip4/127.0.0.1/tcp/80", syscall.EACCES, low},
		{"/ip4/127.0.0.1/udp/1023/quic-v1", syscall.EACCES, low},
		{"/ip4/127.0.0.1/tcp/1024", syscall.EACCES, syscall.EACCES.Error()}, // as SELinux or Windows may refuse
		{"/ip4/127.0.0.1/tcp/80", syscall.EADDRINUSE, "address already in use"},
		{"/ip4/192.0.2.1/tcp/4001", syscall.EADDRNOTAVAIL, "this machine does not have that address"},
	} {
		err := unusable(ma.StringCast(x.at), fmt.Errorf("listen tcp: %w", os.NewSyscallError("bind", x.cause)))
		if !errors.Is(err, share.ErrNetwork) || !strings.Contains(err.Error(), x.at+": "+x.says) {
			t.Errorf("%s, %v: %v", x.at, x.cause, err)
		}
	}
}
