package p2p

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/p2p/net/nat"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
)

// errand is what the process in a namespace does.
type errand struct {
	Role    string // "serve", "fetch", "serve-tcp", "fetch-tcp"
	Addrs   []string
	Streams int
	Window  int // bytes in flight
	Bytes   int
	QUIC    bool
	Late    bool // the router comes later
}

// send runs an errand in a namespace; its process ends with the test at the latest.
func send(t testing.TB, ns string, e errand) *bufio.Reader {
	b, _ := json.Marshal(e)
	cmd := exec.Command("ip", "netns", "exec", ns, os.Args[0])
	cmd.Env = append(os.Environ(), errandEnv+"="+string(b))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	return bufio.NewReader(out)
}

// inNamespace runs an errand in a network namespace with one address other than
// loopback's, 198.51.100.7.
func inNamespace(t testing.TB, e errand) {
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: this machine has no address but loopback's, and a network namespace needs root")
	}
	b, _ := json.Marshal(e)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), errandEnv+"="+string(b))
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if errors.Is(err, syscall.EPERM) {
		t.Skip("SKIPPED: this machine has no address but loopback's, and makes no network namespaces")
	}
	var o outcome
	if json.Unmarshal(out, &o); err != nil || o.Failed != "" {
		t.Fatal(err, o.Failed)
	}
}

// along fetches over a path, and returns what the fetch observed.
func along(t testing.TB, p rig.Path, e errand) outcome {
	ends := rig.New(t, p).Ends
	serve := e
	serve.Role = "serve" + strings.TrimPrefix(e.Role, "fetch")
	line, err := send(t, ends[1], serve).ReadBytes('\n')
	if err != nil {
		t.Fatal("the server said nothing:", err)
	}
	if err := json.Unmarshal(line, &e.Addrs); err != nil {
		t.Fatal(err)
	}
	line, err = send(t, ends[0], e).ReadBytes('\n')
	if err != nil {
		t.Fatal("the fetcher said nothing:", err)
	}
	var o outcome
	if err := json.Unmarshal(line, &o); err != nil {
		t.Fatal(err)
	}
	if o.Failed != "" {
		t.Fatal(o.Failed)
	}
	return o
}

// runErrand does what this process was started for.
func runErrand(what string) {
	var e errand
	if err := json.Unmarshal([]byte(what), &e); err != nil {
		panic(err)
	}
	t := &process{}
	defer t.end()
	enc := json.NewEncoder(os.Stdout)
	listen := "/ip4/10.77.0.2/tcp/4001"
	if e.QUIC {
		listen = "/ip4/10.77.0.2/udp/4001/quic-v1"
	}
	switch e.Role {
	case "serve":
		h := newHost(t, Config{Streams: e.Streams, Listen: []string{listen}, Key: seedKey(1)})
		h.Serve(toAll(newMemory(t, 64<<20)), everybody{})
		echo(h)
		enc.Encode(h.Addrs())
		io.Copy(io.Discard, os.Stdin)
	case "fetch":
		h := newHost(t, Config{Streams: e.Streams, Listen: []string{"none"}})
		d := driveTo(t, h, peers.Addr{ID: peerOf(seedKey(1)), Addrs: e.Addrs}, newMemory(t, 64<<20), e.Window)
		d.watch = time.Now()
		c0 := cpu()
		var rtts []time.Duration
		stop := make(chan struct{})
		var work sync.WaitGroup
		work.Go(func() {
			time.Sleep(2 * time.Second) // until the windows have grown
			rtts = pings(t, h, peerOf(seedKey(1)), stop)
		})
		d.fetch(t, e.Bytes)
		close(stop)
		work.Wait()
		o := d.saw
		o.Control50, o.Control99 = quantile(rtts, 0.5), quantile(rtts, 0.99)
		o.RTT, o.Took, o.CPU = d.rtt, time.Since(d.watch), cpu()-c0
		enc.Encode(o)
	case "fifty":
		for _, line := range []string{"ip link set lo up", "ip addr add 198.51.100.7/32 dev lo"} {
			rig.Sh(t, "%s", line)
		}
		x := newMemory(t, 1<<20, 10)
		src := newHost(t, Config{Listen: []string{"/ip4/0.0.0.0/tcp/0"}, Timeouts: unhurried})
		src.Serve(toAll(x), everybody{})
		fifty(t, src, x, "198.51.100.7")
		enc.Encode(outcome{Failed: strings.Join(t.errors, "; ")})
	case "unreachable":
		noRouteIsSaid(t)
		enc.Encode(outcome{Failed: strings.Join(t.errors, "; ")})
	case "talk": // with a peer, until the connection is lost
		h := newHost(t, Config{Listen: []string{"none"}, Timeouts: Timeouts{Unacked: soon, Stall: time.Hour}})
		if _, err := h.connect(context.Background(), peers.Addr{ID: peerOf(seedKey(1)), Addrs: e.Addrs}); err != nil {
			t.Fatal(err)
		}
		back, lost := make(chan struct{}, 1), make(chan struct{})
		h.OnMessages(func(peers.ID, []byte) { back <- struct{}{} }, func(peers.ID) { close(lost) })
		h.Send(peerOf(seedKey(1)), []byte("is anybody there?"))
		recv(t, "an answer", back)
		fmt.Println("talks")
		eventually(t, "the loss of the connection", func() bool {
			h.Send(peerOf(seedKey(1)), []byte("is anybody there?"))
			select {
			case <-lost:
				return true
			case <-back:
			case <-time.After(soon):
			}
			return false
		})
		fmt.Println("lost")
	case "forward": // a port, for whoever asks by NAT-PMP (RFC 6886)
		c, err := net.ListenPacket("udp", "10.77.0.2:5351")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			io.Copy(io.Discard, os.Stdin)
			c.Close()
		}()
		fmt.Println("forwards")
		for b := make([]byte, 16); ; {
			n, from, err := c.ReadFrom(b)
			if err != nil {
				return
			}
			switch answer := []byte{0, b[1] + 128, 0, 0, 0, 0, 0, 1}; {
			case n == 2: // the address
				c.WriteTo(append(answer, 8, 8, 8, 8), from)
			case n == 12: // a port
				answer = append(answer, b[4], b[5], b[4], b[5])
				c.WriteTo(append(answer, b[8:12]...), from)
			}
		}
	case "map":
		h := newHost(t, Config{Listen: []string{"4001"}, Reach: Reach{MapPorts: true}})
		if e.Late {
			time.Sleep(nat.DiscoveryTimeout + time.Second) // nobody forwards a port
			fmt.Println("alone")
		}
		eventually(t, "the port that the router forwards", func() bool { return strings.Contains(strings.Join(h.Addrs(), " "), "/ip4/8.8.8.8/tcp/") })
		fmt.Println("forwarded")
	case "serve-bare":
		h := newHost(t, Config{Streams: e.Streams, Listen: []string{listen}, Key: seedKey(1)})
		x := newMemory(t, 64<<20)
		serveBare(h, x)
		h.Serve(toAll(x), everybody{})
		enc.Encode(h.Addrs())
		io.Copy(io.Discard, os.Stdin)
	case "fetch-bare":
		h := newHost(t, Config{Streams: e.Streams, Listen: []string{"none"}})
		if _, err := h.connect(context.Background(), peers.Addr{ID: peerOf(seedKey(1)), Addrs: e.Addrs}); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		readBare(t, h, hostID(seedKey(1)), e.Streams, e.Bytes/2)
		o := outcome{Half: time.Since(start)}
		readBare(t, h, hostID(seedKey(1)), e.Streams, e.Bytes/2)
		o.Took = time.Since(start)
		enc.Encode(o)
	case "serve-tcp":
		ln, err := net.Listen("tcp", "10.77.0.2:4001")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				go func() {
					b := make([]byte, 256<<10)
					for {
						if _, err := c.Write(b); err != nil {
							return
						}
					}
				}()
			}
		}()
		enc.Encode([]string{"10.77.0.2:4001"})
		io.Copy(io.Discard, os.Stdin)
	case "fetch-tcp":
		start := time.Now()
		c, err := net.Dial("tcp", e.Addrs[0])
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 256<<10)
		var o outcome
		for n := 0; n < e.Bytes; {
			m, err := c.Read(b)
			if err != nil {
				t.Fatal(err)
			}
			n += m
			if o.Ramp == 0 && n >= 16<<20 {
				o.Ramp = time.Since(start)
			}
			if o.Half == 0 && n >= e.Bytes/2 {
				o.Half = time.Since(start)
			}
		}
		o.Took = time.Since(start)
		enc.Encode(o)
	}
}

// process is the testing.TB of a process that is not a test.
type process struct {
	testing.TB
	clean  []func()
	errors []string
}

func (p *process) Helper()          {}
func (p *process) Cleanup(f func()) { p.clean = append(p.clean, f) }
func (p *process) Log(a ...any)     { fmt.Fprintln(os.Stderr, a...) }
func (p *process) Error(a ...any)   { p.errors = append(p.errors, fmt.Sprint(a...)) }
func (p *process) Errorf(f string, a ...any) {
	p.errors = append(p.errors, fmt.Sprintf(f, a...))
}
func (p *process) Fatalf(f string, a ...any) { p.Fatal(fmt.Sprintf(f, a...)) }
func (p *process) Context() context.Context  { return context.Background() }
func (p *process) Fatal(a ...any) {
	json.NewEncoder(os.Stdout).Encode(outcome{Failed: fmt.Sprint(a...)})
	os.Exit(1)
}
func (p *process) end() {
	for i := len(p.clean) - 1; i >= 0; i-- {
		p.clean[i]()
	}
}

// BenchmarkPath fetches over simulated paths and prints the results. The figures of
// docs/decisions/0010 come from it:
//
//	go test ./p2p -run '^$' -bench Path -benchtime 1x -timeout 1h
//
// TCP's buffers are Linux's defaults (6 and 4 MiB at most) unless the name says
// otherwise, its congestion control is BBR or, by name, Reno (a namespace may
// not choose others), and the bottleneck has a queue of 100 ms.
func BenchmarkPath(b *testing.B) {
	far := rig.Path{Mbit: 200, Delay: 50 * time.Millisecond, Queue: 100 * time.Millisecond, MTU: 1500, TCP: 6 << 20, CC: "bbr"}
	fat := far
	fat.Mbit, fat.MTU = 1000, 9000 // large packets: this link is a process
	wide, reno := fat, far
	wide.TCP = 64 << 20
	reno.CC = "reno"
	for _, v := range []struct {
		name string
		rig.Path
		bytes   int
		windows []int // MiB
	}{
		{"200Mbit", far, 96 << 20, []int{2, 4, 8, 16}},
		{"200Mbit-reno", reno, 96 << 20, []int{2, 4, 8}},
		{"1Gbit", fat, 256 << 20, []int{8, 32}},
		{"1Gbit-tcp64M", wide, 512 << 20, []int{8, 16, 32, 48}},
	} {
		cases := []errand{{Role: "fetch-tcp"}}
		for _, streams := range []int{1, 2, 4} {
			cases = append(cases, errand{Role: "fetch-bare", Streams: streams})
			for _, window := range v.windows {
				cases = append(cases, errand{Role: "fetch", Streams: streams, Window: window << 20})
			}
		}
		if v.Path == far || v.Path == fat {
			cases = append(cases, errand{Role: "fetch", Streams: 2, Window: v.windows[len(v.windows)-1] << 20, QUIC: true})
		}
		for _, e := range cases {
			e.Bytes = v.bytes
			name := fmt.Sprintf("%s/streams=%d/window=%d", v.name, e.Streams, e.Window>>20)
			if e.Role == "fetch-bare" {
				name = fmt.Sprintf("%s/bare-libp2p/streams=%d", v.name, e.Streams)
			}
			if e.Role == "fetch-tcp" {
				name = v.name + "/bare-tcp"
			}
			if e.QUIC {
				name += "/quic"
			}
			b.Run(name, func(b *testing.B) {
				var rate, late, ramp, rtt, c50, c99 []float64
				for b.Loop() {
					o := along(b, v.Path, e)
					rate = append(rate, float64(e.Bytes*8)/1e6/o.Took.Seconds())
					late = append(late, float64(e.Bytes*4)/1e6/(o.Took-o.Half).Seconds())
					ramp = append(ramp, o.Ramp.Seconds())
					rtt = append(rtt, o.RTT.Seconds()*1e3)
					c50, c99 = append(c50, o.Control50), append(c99, o.Control99)
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(median(rate), "Mbit/s")
				b.ReportMetric(median(late), "Mbit/s-2nd-half")
				b.ReportMetric(median(ramp), "s-to-16MiB")
				b.ReportMetric(median(rtt), "ms-rtt")
				b.ReportMetric(median(c50), "ms-control-p50")
				b.ReportMetric(median(c99), "ms-control-p99")
			})
		}
	}
}
