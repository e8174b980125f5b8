package p2p

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

const bareProtocol = "/bare"

// serveBare sends as many bytes as the first eight bytes say, read from x and written
// 256 KiB at a time.
func serveBare(h *Host, x *memory) {
	h.host.SetStreamHandler(bareProtocol, func(s network.Stream) {
		defer s.Close()
		var n [8]byte
		if _, err := io.ReadFull(s, n[:]); err != nil {
			return
		}
		data := make([]byte, 256<<10)
		at := 0
		for left := int(binary.LittleEndian.Uint64(n[:])); left > 0; at++ {
			copy(data, x.pieces[at/4%len(x.pieces)][at%4<<18:])
			m, err := s.Write(data[:min(left, len(data))])
			if left -= m; err != nil {
				return
			}
		}
	})
}

// readBare reads n bytes over streams of its own, as libp2p without us would.
func readBare(t testing.TB, h *Host, to peer.ID, streams, n int) {
	var wg sync.WaitGroup
	for range streams {
		wg.Go(func() {
			s, err := h.host.NewStream(context.Background(), to, bareProtocol)
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			s.Write(binary.LittleEndian.AppendUint64(nil, uint64(n/streams)))
			buf := make([]byte, 256<<10)
			for {
				if _, err := io.ReadFull(s, buf); err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
}

// outcome is what a fetch observed.
type outcome struct {
	RTT   time.Duration
	First time.Duration // from the first request to the first run
	Ramp  time.Duration // ... to the first 16 MiB
	Half  time.Duration // ... to half of it all
	Took  time.Duration // ... to all
	CPU   time.Duration

	Control50, Control99 float64 // round trips of messages meanwhile, ms
	Failed               string
}

// driver asks for pieces of one share again and again, with window bytes in flight.
type driver struct {
	l      *Link
	x      *memory
	window int
	blocks int // asked for at once; 0: whole pieces
	total  int // bytes to fetch

	mu    sync.Mutex
	asked int
	got   int
	next  uint64
	done  chan error
	begun chan struct{}

	rtt   time.Duration
	watch time.Time // when the fetch began, for saw
	saw   outcome
}

func (d *driver) ask() {
	d.mu.Lock()
	defer d.mu.Unlock()
	lay := d.x.m.Layout()
	for d.asked-d.got < d.window && d.asked < d.total {
		r := wire.PieceRequest{ID: d.next, Count: 16} // of pieces of 1 MiB
		if d.blocks > 0 {
			r.Count = d.blocks
		}
		each := 16 / uint64(r.Count)
		r.Piece, r.First = share.Piece(d.next/each%uint64(lay.Pieces())), share.Block(d.next%each)*share.Block(r.Count)
		r.Proof = r.First == 0
		if !d.l.Request(r) {
			return
		}
		d.next++
		d.asked += int(r.Count) * share.BlockSize
	}
}

func (d *driver) Waits(string)               {}
func (d *driver) Up(rtt time.Duration)       { d.rtt = rtt; close(d.begun) }
func (d *driver) Proof(uint64, []share.Hash) {}
func (d *driver) Progress(uint64, int)       {}
func (d *driver) Finished(uint64)            { d.ask() }
func (d *driver) Status(uint64, wire.Reply)  { d.done <- fmt.Errorf("a status") }
func (d *driver) Down(err error)             { d.done <- err }
func (d *driver) Blocks(_ uint64, _ share.Block, data []byte, release func()) {
	release()
	d.mu.Lock()
	d.got += len(data)
	done := d.got >= d.total
	for _, mark := range []struct {
		at   *time.Duration
		from int
	}{{&d.saw.First, 1}, {&d.saw.Ramp, 16 << 20}, {&d.saw.Half, d.total / 2}} {
		if *mark.at == 0 && d.got >= mark.from {
			*mark.at = time.Since(d.watch)
		}
	}
	d.mu.Unlock()
	if done {
		d.done <- nil
	}
}

func drive(t testing.TB, h, src *Host, x *memory, window int) *driver {
	return driveTo(t, h, addr(src), x, window)
}

func driveTo(t testing.TB, h *Host, to peers.Addr, x *memory, window int) *driver {
	d := &driver{x: x, window: window, done: make(chan error, 1), begun: make(chan struct{})}
	d.l = h.Open(to, x.m.ID(), x.m.Layout(), d)
	t.Cleanup(d.l.Close)
	recv(t, "the link", d.begun)
	return d
}

func (d *driver) fetch(t testing.TB, n int) {
	d.mu.Lock()
	d.asked, d.got, d.total = 0, 0, n
	d.mu.Unlock()
	d.ask()
	select {
	case err := <-d.done:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(5 * time.Minute): // some paths are slow
		t.Fatal("the bytes did not come")
	}
}

func median(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}

// BenchmarkLink moves 256 MiB over loopback, both ends in this process, over a
// link and over bare libp2p streams in turn, and reports medians: MB/s, CPU
// seconds per GiB of both ends together, and the ratios of the two.
func BenchmarkLink(b *testing.B) {
	const n = 256 << 20
	for _, v := range []struct{ streams, window, blocks int }{{1, 8 << 20, 16}, {2, 2 << 20, 16}, {2, 8 << 20, 16}, {4, 8 << 20, 16}, {2, 8 << 20, 4}, {2, 8 << 20, 1}} {
		b.Run(fmt.Sprintf("streams=%d/window=%dMiB/request=%dKiB", v.streams, v.window>>20, v.blocks*share.BlockSize>>10), func(b *testing.B) {
			x := newMemory(b, 64<<20)
			src := newHost(b, Config{Streams: v.streams})
			src.Serve(toAll(x), everybody{})
			serveBare(src, x)
			h := newHost(b, Config{Listen: []string{"none"}, Streams: v.streams})
			d := drive(b, h, src, x, v.window)
			d.blocks = v.blocks
			var rate, cost, rateRatio, costRatio []float64
			measure := func(f func()) (mbs, perGiB float64) {
				c, t := cpu(), time.Now()
				f()
				return n / 1e6 / time.Since(t).Seconds(), (cpu() - c).Seconds() * (1 << 30) / n
			}
			once := func() {
				r0, c0 := measure(func() { readBare(b, h, src.host.ID(), v.streams, n) })
				r1, c1 := measure(func() { d.fetch(b, n) })
				rate, cost = append(rate, r1), append(cost, c1)
				rateRatio, costRatio = append(rateRatio, r1/r0), append(costRatio, c1/c0)
			}
			once() // windows grow, buffers are made
			rate, cost, rateRatio, costRatio = nil, nil, nil, nil
			b.SetBytes(2 * n)
			for b.Loop() {
				once()
			}
			b.ReportMetric(median(rate), "MB/s-link")
			b.ReportMetric(median(cost), "CPUs/GiB")
			b.ReportMetric(median(rateRatio), "rate/bare")
			b.ReportMetric(median(costRatio), "CPU/bare")
		})
	}
}

// quantile returns a quantile of durations, in milliseconds.
func quantile(d []time.Duration, q float64) float64 {
	slices.Sort(d)
	return d[int(float64(len(d)-1)*q)].Seconds() * 1e3
}

// echo answers every message with itself.
func echo(h *Host) {
	h.OnMessages(func(from peers.ID, frame []byte) { h.Send(from, frame) }, func(peers.ID) {})
}

// pings returns the round trips of messages, one every 5 ms, until stop is closed.
func pings(t testing.TB, h *Host, to peers.ID, stop <-chan struct{}) (rtts []time.Duration) {
	back := make(chan struct{}, 1)
	h.OnMessages(func(peers.ID, []byte) { back <- struct{}{} }, func(peers.ID) {})
	for {
		start := time.Now()
		if !h.Send(to, []byte("how long does this take?")) {
			t.Error("a message was refused")
			return rtts
		}
		recv(t, "an answer", back)
		rtts = append(rtts, time.Since(start))
		select {
		case <-stop:
			return rtts
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// BenchmarkControl measures round trips of messages over loopback, alone and
// while a link moves bytes as fast as it can, and how much slower that makes it.
func BenchmarkControl(b *testing.B) {
	const n = 512 << 20
	x := newMemory(b, 64<<20)
	src, h := newHost(b, Config{}), newHost(b, Config{Listen: []string{"none"}})
	src.Serve(toAll(x), everybody{})
	echo(src)
	d := drive(b, h, src, x, 16<<20)
	d.fetch(b, n)
	var p50, p99, part, idle []float64
	for b.Loop() {
		stop := make(chan struct{})
		time.AfterFunc(200*time.Millisecond, func() { close(stop) })
		idle = append(idle, quantile(pings(b, h, src.ID(), stop), 0.99))
		start := time.Now()
		d.fetch(b, n)
		alone := time.Since(start)
		stop = make(chan struct{})
		var rtts []time.Duration
		var work sync.WaitGroup
		work.Go(func() { rtts = pings(b, h, src.ID(), stop) })
		start = time.Now()
		d.fetch(b, n)
		both := time.Since(start)
		close(stop)
		work.Wait()
		p50, p99 = append(p50, quantile(rtts, 0.5)), append(p99, quantile(rtts, 0.99))
		part = append(part, alone.Seconds()/both.Seconds())
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(idle), "ms-p99-idle")
	b.ReportMetric(median(p50), "ms-p50")
	b.ReportMetric(median(p99), "ms-p99")
	b.ReportMetric(median(part), "rate/alone")
}
