package p2p

import (
	"encoding/json"
	"net"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/piecelease/fetcher/internal/rig"
)

// Nothing else ends the connection of this test: see the errand.
func TestAConnectionOnWhichNothingIsAcknowledgedEnds(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	line := rig.New(t, rig.Path{Mbit: 100, Delay: 5 * time.Millisecond, Queue: 100 * time.Millisecond, MTU: 1500})
	var at []string
	said, err := send(t, line.Ends[1], errand{Role: "serve", Streams: 1}).ReadBytes('\n')
	if err != nil || json.Unmarshal(said, &at) != nil {
		t.Fatal(err, string(said))
	}
	out := send(t, line.Ends[0], errand{Role: "talk", Addrs: at})
	for _, want := range []string{"talks\n", "lost\n"} {
		if got, err := out.ReadString('\n'); err != nil || got != want {
			t.Fatalf("%q, %v; want %q", got, err, want)
		}
		line.Cut(true)
	}
}

// The machine of a peer that reads nothing answers, however long that lasts.
func TestAPeerThatReadsNothingKeepsItsConnection(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for b := make([]byte, 1<<20); err == nil; {
		c.SetWriteDeadline(time.Now().Add(soon))
		_, err = c.Write(b)
	}
	h := newHost(t, Config{})
	a := &acks{h: h, open: map[socket]time.Time{c.(socket): {}}}
	now := time.Now()
	eventually(t, "the system asks for room several times", func() bool {
		now = now.Add(time.Hour)
		a.look(now)
		return backoff(t, c.(syscall.Conn)) >= 3
	})
	if a.look(now.Add(time.Hour)) {
		t.Error("it was closed")
	}
}

// backoff is how many times in a row the system has asked a peer for room.
func backoff(t *testing.T, c syscall.Conn) (n uint8) {
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil {
			t.Fatal(err)
		}
		n = info.Backoff
	})
	return n
}
