package rig

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

var given sync.Map // ports this process was given

// FreePort is a TCP port of the loopback that nobody listens on, for a server in
// another process. It lies below the ports that systems give to outgoing connections,
// of which one could take it before the server does, and is given once in a process.
func FreePort(t testing.TB) int {
	t.Helper()
	for range 1000 {
		port := 10_000 + rand.IntN(22_000)
		if _, again := given.LoadOrStore(port, true); again {
			continue
		}
		if l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port)); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("no port of the loopback is free")
	return 0
}
