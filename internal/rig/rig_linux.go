package rig

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The line between the namespaces is in userspace: the kernel may have no netem.
// It needs root and /dev/net/tun.

// Path describes a rig's line, in both directions.
type Path struct {
	Mbit  float64
	Delay time.Duration // one way
	Queue time.Duration // of waiting bytes, before packets are dropped
	MTU   int
	TCP   int     // net.ipv4.tcp_rmem and tcp_wmem, largest; 0: the system's
	Loss  float64 // of packets, as a share
	CC    string  // net.ipv4.tcp_congestion_control; empty: the system's
}

// Need skips a test, loudly, where there can be no rig.
func Need(t testing.TB) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: a rig of network namespaces needs root")
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		t.Skip("SKIPPED: a rig of network namespaces needs /dev/net/tun:", err)
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("SKIPPED: a rig of network namespaces needs ip:", err)
	}
	if why := allowed(); why != "" {
		t.Skip("SKIPPED: a rig of network namespaces cannot be made here:", why)
	}
}

// allowed makes a network namespace, and says why that failed: root in a container may not.
var allowed = sync.OnceValue(func() string {
	name := fmt.Sprint("rig-", os.Getpid())
	defer func() { exec.Command("ip", "netns", "del", name).Run() }()
	if out, err := exec.Command("ip", "netns", "add", name).CombinedOutput(); err != nil {
		return fmt.Sprintf("%v: %s", err, out)
	}
	if out, err := exec.Command("ip", "-n", name, "link", "set", "lo", "up").CombinedOutput(); err != nil {
		return fmt.Sprintf("%v: %s", err, out)
	}
	return ""
})

// Sh runs a command line, which must succeed.
func Sh(t testing.TB, line string, args ...any) {
	t.Helper()
	f := strings.Fields(fmt.Sprintf(line, args...))
	if out, err := exec.Command(f[0], f[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", strings.Join(f, " "), err, out)
	}
}

// A Rig is two namespaces and the line between them.
type Rig struct {
	Ends [2]string // the names of the namespaces
	cut  atomic.Bool
}

var made atomic.Int32 // rigs of this process

// Addr is the address of an end.
func (r *Rig) Addr(end int) string { return fmt.Sprintf("10.77.0.%d", end+1) }

// Cut cuts the line, or restores it.
func (r *Rig) Cut(cut bool) { r.cut.Store(cut) }

// Command returns a command that will run at an end.
func (r *Rig) Command(end int, name string, args ...string) *exec.Cmd {
	return exec.Command("ip", append([]string{"netns", "exec", r.Ends[end], name}, args...)...)
}

// New makes a rig that ends with the test. It skips the test where there can be none.
func New(t testing.TB, p Path) *Rig {
	t.Helper()
	Need(t)
	r, n := &Rig{}, made.Add(1)
	var tun [2]*os.File
	for i := range r.Ends {
		ns := fmt.Sprintf("rig%d-%d-%d", os.Getpid(), n, i)
		r.Ends[i] = ns
		Sh(t, "ip netns add %s", ns)
		t.Cleanup(func() { exec.Command("ip", "netns", "del", ns).Run() })
		Sh(t, "ip -n %s link set lo up", ns)
		tun[i] = openTun(t, ns)
		f := tun[i]
		t.Cleanup(func() { f.Close() })
		Sh(t, "ip -n %s addr add %s/24 dev tun0", ns, r.Addr(i))
		Sh(t, "ip -n %s link set tun0 mtu %d txqueuelen 5000 up", ns, p.MTU)
		for k, v := range map[string]string{
			"tcp_rmem":               fmt.Sprint("4096 131072 ", p.TCP),
			"tcp_wmem":               fmt.Sprint("4096 16384 ", p.TCP),
			"tcp_congestion_control": p.CC,
		} {
			if p.TCP == 0 && k != "tcp_congestion_control" || p.CC == "" && k == "tcp_congestion_control" {
				continue
			}
			out, err := exec.Command("ip", "netns", "exec", ns, "sysctl", "-q", "-w", "net.ipv4."+k+"="+v).CombinedOutput()
			if err != nil {
				t.Fatalf("sysctl %s: %v: %s", k, err, out)
			}
		}
	}
	go r.carry(tun[0], tun[1], p, rand.New(rand.NewPCG(1, 0)))
	go r.carry(tun[1], tun[0], p, rand.New(rand.NewPCG(1, 1)))
	return r
}

// openTun opens tun0 in a namespace. Its thread is never used again.
func openTun(t testing.TB, ns string) *os.File {
	type result struct {
		f   *os.File
		err error
	}
	c := make(chan result)
	go func() {
		runtime.LockOSThread()
		fd, err := unix.Open("/run/netns/"+ns, unix.O_RDONLY, 0)
		if err == nil {
			err = unix.Setns(fd, unix.CLONE_NEWNET)
		}
		if err != nil {
			c <- result{nil, err}
			return
		}
		dev, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK, 0)
		if err != nil {
			c <- result{nil, err}
			return
		}
		var req [40]byte
		copy(req[:], "tun0")
		*(*uint16)(unsafe.Pointer(&req[16])) = unix.IFF_TUN | unix.IFF_NO_PI
		if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(dev), unix.TUNSETIFF, uintptr(unsafe.Pointer(&req[0]))); e != 0 {
			c <- result{nil, e}
			return
		}
		c <- result{os.NewFile(uintptr(dev), "tun"), nil}
	}()
	r := <-c
	if r.err != nil {
		t.Fatal("tun:", r.err)
	}
	return r.f
}

// carry takes packets from one end to the other until an end is closed.
func (r *Rig) carry(from, to *os.File, p Path, chance *rand.Rand) {
	type packet struct {
		at time.Time
		b  []byte
	}
	line, spare := make(chan packet, 1<<16), make(chan []byte, 1<<12)
	put := func(b []byte) {
		select {
		case spare <- b[:cap(b)]:
		default:
		}
	}
	get := func() []byte {
		select {
		case b := <-spare:
			return b
		default:
			return make([]byte, p.MTU+64)
		}
	}
	defer close(line)
	go func() {
		for q := range line {
			if d := time.Until(q.at); d > 0 {
				time.Sleep(d)
			}
			to.Write(q.b)
			put(q.b)
		}
	}()
	var free time.Time
	for {
		b := get()
		n, err := from.Read(b)
		if err != nil {
			return
		}
		now := time.Now()
		if free.Before(now) {
			free = now
		}
		if free.Sub(now) > p.Queue || r.cut.Load() || chance.Float64() < p.Loss {
			put(b)
			continue
		}
		free = free.Add(time.Duration(float64(n*8) / p.Mbit * 1e3))
		select {
		case line <- packet{free.Add(p.Delay), b[:n]}:
		default:
			put(b)
		}
	}
}
