package rig

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// FreePort returns a loopback TCP port that nobody listens on, for a server in
// another process. It lies below the ports that systems give to outgoing connections,
// as one of those could take it before the server does. Its neighbour is held until the
// test ends, so that no other test is given it, not even in another process.
func FreePort(t testing.TB) int {
	t.Helper()
	for range 1000 {
		port := 10_000 + 2*rand.IntN(11_000)
		held, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port+1))
		if err != nil {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
		if err != nil {
			held.Close()
			continue
		}
		l.Close()
		t.Cleanup(func() { held.Close() })
		return port
	}
	t.Fatal("no port of the loopback is free")
	return 0
}
