//go:build linux

package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/muxer/yamux"
	libp2ptls "github.com/libp2p/go-libp2p/p2p/security/tls"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	"golang.org/x/sys/unix"
	"lukechampine.com/blake3/guts"
)

// ceiling is the configuration of the bare libp2p stream.
type ceiling struct {
	Streams int    // in all, but at least one per source
	Unit    int    // bytes of one Write of a source; and what a receiver reads, hashes and writes to its file at a time
	Window  uint32 // yamux: bytes in flight per stream
	Frame   uint32 // yamux: the largest frame
	Procs   int    // GOMAXPROCS of both ends; 0 leaves Go's own
	Flush   int64  // bytes after which the kernel is asked to begin writing them to disk; 0: only the final sync writes
}

// best is the fastest setting found where both ends share two cores. Tried
// with 0.5 to 1 GiB, network and hashing only, medians of 3 to 7 rounds on a
// machine that had other work; figures are CPU s/GiB of both ends:
//
//   - GOMAXPROCS 1 instead of 2: 1.36 against 1.55, and 1,322 against 1,133
//     MB/s; on a busier machine 1.43 against 1.69, and no more MB/s.
//     The ceiling uses all cores all the same, as the command does.
//   - A fixed window of 2 MiB instead of libp2p's, which grows to 16: 1.32
//     against 1.48, one batch. 256 KiB is too small: 1.79 against 1.68 (at GOMAXPROCS 2).
//   - 1 stream instead of 2: 1.35 against 1.45 and 1.34 against 1.43, but 1.55
//     against 1.48 with libp2p's window.
//   - Frames of 256 KiB instead of 64: 0.04 to 0.1 less with this window.
//   - Flush: 720 against 578 MB/s with the file, at GOMAXPROCS 2; no
//     difference on a busy machine.
//   - Units of 64 KiB to 1 MiB, hashing on goroutines of its own, and fewer,
//     larger system calls below TLS: no difference beyond the noise.
var best = ceiling{Streams: 1, Unit: 256 << 10, Window: 2 << 20, Frame: 256 << 10, Procs: 0, Flush: 32 << 20}

const (
	ceilingProto = "/bench/ceiling/1"
	blockSize    = 64 << 10
	patternSize  = 4 << 20
)

// pattern is what every source of a ceiling sends over and over.
func pattern() []byte {
	b := make([]byte, patternSize)
	rand.NewChaCha8([32]byte{'c'}).Read(b)
	return b
}

// blockValue is BLAKE3's chaining value of one block, on this goroutine. With
// guts.CompressEigentree it costs half as much again: that one starts a
// goroutine for every 16 KiB.
func blockValue(b []byte) [8]uint32 { return guts.ChainingValue(subtree(b, 0)) }

// subtree is the node over b, which is a power of two of at least 16 KiB long.
func subtree(b []byte, chunk uint64) guts.Node {
	const simd = guts.MaxSIMD * guts.ChunkSize
	if len(b) == simd {
		return guts.CompressBuffer((*[simd]byte)(b), simd, &guts.IV, chunk, 0)
	}
	half := len(b) / 2
	l := subtree(b[:half], chunk)
	r := subtree(b[half:], chunk+uint64(half/guts.ChunkSize))
	return guts.ParentNode(guts.ChainingValue(l), guts.ChainingValue(r), &guts.IV, 0)
}

// host is libp2p with TCP, TLS and yamux, and nothing else.
func (c ceiling) host(listen libp2p.Option) (host.Host, error) {
	if c.Procs > 0 {
		runtime.GOMAXPROCS(c.Procs)
	}
	mux := *yamux.DefaultTransport
	mux.InitialStreamWindowSize, mux.MaxStreamWindowSize, mux.MaxMessageSize = c.Window, c.Window, c.Frame
	return libp2p.New(listen, libp2p.DisableRelay(), libp2p.DisableMetrics(), libp2p.Transport(tcp.NewTCPTransport),
		libp2p.Security(libp2ptls.ID, libp2ptls.New), libp2p.Muxer(yamux.ID, &mux))
}

// serve prints its address and sends until standard input ends.
func (c ceiling) serve() error {
	h, err := c.host(libp2p.ListenAddrStrings("/ip4/127.0.0.1/tcp/0"))
	if err != nil {
		return err
	}
	defer h.Close()
	data := pattern()
	data = append(data, data[:c.Unit]...) // so that no write has to wrap
	h.SetStreamHandler(ceilingProto, func(s network.Stream) {
		defer s.Close()
		var hello [8]byte
		if _, err := io.ReadFull(s, hello[:]); err != nil {
			return
		}
		for at, total := int64(0), int64(binary.BigEndian.Uint64(hello[:])); at < total; {
			o := at % patternSize
			n, err := s.Write(data[o : o+min(int64(c.Unit), total-at)])
			at += int64(n)
			if err != nil {
				return
			}
		}
	})
	fmt.Printf("%s/p2p/%s\n", h.Addrs()[0], h.ID())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// fetch receives size bytes in equal parts from all sources into a new file,
// verified and synced.
func (c ceiling) fetch(sources []string, file string, size int64) error {
	h, err := c.host(libp2p.NoListenAddrs)
	if err != nil {
		return err
	}
	defer h.Close()
	var ids []peer.ID
	for _, a := range sources {
		info, err := peer.AddrInfoFromString(a)
		if err != nil {
			return err
		}
		if err := h.Connect(context.Background(), *info); err != nil {
			return err
		}
		ids = append(ids, info.ID)
	}
	streams := max(c.Streams/len(ids), 1) * len(ids)
	if size%int64(streams*c.Unit) != 0 {
		return fmt.Errorf("%d bytes do not part evenly into units of %d on %d streams", size, c.Unit, streams)
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	d := &drain{f: f, flush: c.Flush}
	for data := pattern(); len(data) > 0; data = data[blockSize:] {
		d.want = append(d.want, blockValue(data[:blockSize]))
	}
	var g sync.WaitGroup
	errs := make([]error, streams)
	for i := range streams {
		g.Go(func() {
			s, err := h.NewStream(context.Background(), ids[i%len(ids)], ceilingProto)
			if err != nil {
				errs[i] = err
				return
			}
			defer s.Close()
			errs[i] = d.stream(s, int64(i), int64(streams), size, c.Unit)
		})
	}
	g.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return f.Sync()
}

// drain is where the streams of one fetch end: a file, and the expected values of its blocks.
type drain struct {
	f       *os.File
	want    [][8]uint32
	flush   int64
	written atomic.Int64
}

// stream receives its part of size bytes: every streams-th unit, from the i-th on.
func (d *drain) stream(s network.Stream, i, streams, size int64, unit int) error {
	if _, err := s.Write(binary.BigEndian.AppendUint64(nil, uint64(size/streams))); err != nil {
		return err
	}
	buf := make([]byte, unit)
	for got, at := int64(0), i*int64(unit); at < size; at += streams * int64(unit) {
		if _, err := io.ReadFull(s, buf); err != nil {
			return err
		}
		for o := 0; o < unit; o += blockSize {
			if blockValue(buf[o:o+blockSize]) != d.want[(got+int64(o))/blockSize%int64(len(d.want))] {
				return fmt.Errorf("the block at %d is wrong", at+int64(o))
			}
		}
		if _, err := d.f.WriteAt(buf, at); err != nil {
			return err
		}
		got += int64(unit)
		d.push(int64(unit))
	}
	return nil
}

// push asks the kernel now and then to begin writing to the disk, and does not wait.
func (d *drain) push(n int64) {
	if now := d.written.Add(n); d.flush > 0 && now/d.flush != (now-n)/d.flush {
		unix.SyncFileRange(int(d.f.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WRITE) // a hint
	}
}
