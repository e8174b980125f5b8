package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"pgregory.net/rapid"

	"github.com/piecelease/fetcher/peers"
)

func readerOf(b []byte) *bufio.Reader { return bufio.NewReaderSize(bytes.NewReader(b), 16) }

func TestFramesComeOneByOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sent := rapid.SliceOf(rapid.SliceOfN(rapid.Byte(), 0, 300)).Draw(t, "payloads")
		var b []byte
		for _, p := range sent {
			b = AppendFrame(b, p)
		}
		r := readerOf(b)
		buf := make([]byte, rapid.IntRange(0, 400).Draw(t, "buffer"))
		for _, want := range sent {
			got, err := ReadFrame(r, 300, buf)
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("read %x, %v, want %x", got, err, want)
			}
		}
		if _, err := ReadFrame(r, 300, buf); err != io.EOF {
			t.Fatalf("after the last: %v", err)
		}
	})
}

func TestBadFrames(t *testing.T) {
	cases := []struct {
		what string
		b    []byte
		want error
	}{
		{"nothing", nil, io.EOF},
		{"length cut", []byte{0x80}, io.ErrUnexpectedEOF},
		{"payload missing", []byte{2}, io.ErrUnexpectedEOF},
		{"payload cut", []byte{2, 'a'}, io.ErrUnexpectedEOF},
		{"one over the cap", AppendFrame(nil, make([]byte, 101)), ErrTooLong},
		{"far over the cap", binary.AppendUvarint(nil, 1<<63), ErrTooLong},
		{"length in two bytes for one", []byte{0x81, 0x00, 'a'}, ErrMalformed},
		{"zero in two bytes", []byte{0x80, 0x00}, ErrMalformed},
		{"length over 64 bits", bytes.Repeat([]byte{0xff}, 10), ErrMalformed},
		{"length without an end", bytes.Repeat([]byte{0x80}, 100), ErrMalformed},
	}
	for _, c := range cases {
		t.Run(c.what, func(t *testing.T) {
			_, err := ReadFrame(readerOf(c.b), 100, nil)
			if !errors.Is(err, c.want) {
				t.Errorf("error is %v, want %v", err, c.want)
			}
			if broke := c.want == ErrTooLong || c.want == ErrMalformed; errors.Is(err, peers.ErrProtocol) != broke {
				t.Errorf("wraps peers.ErrProtocol: %v, want %v", !broke, broke)
			}
		})
	}
}

func TestReaderErrorsComeThrough(t *testing.T) {
	broken := errors.New("broken")
	for _, start := range []string{"", "\x80", "\x05a"} {
		r := bufio.NewReader(io.MultiReader(bytes.NewReader([]byte(start)), failing{broken}))
		if _, err := ReadFrame(r, 100, nil); err != broken {
			t.Errorf("after %q: %v", start, err)
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestFrameOverItsCapTakesNoMemory(t *testing.T) {
	b := AppendFrame(nil, make([]byte, 1<<20))
	src := bytes.NewReader(b)
	r := bufio.NewReader(src)
	if got := allocated(func() {
		src.Reset(b)
		r.Reset(src)
		_, _ = ReadFrame(r, 1<<20-1, nil)
	}); got > 1<<10 {
		t.Errorf("took %d bytes", got)
	}
}

func TestFrameLiesInTheCallersBuffer(t *testing.T) {
	b := AppendFrame(nil, make([]byte, 1000))
	src := bytes.NewReader(b)
	r := bufio.NewReader(src)
	buf := make([]byte, 0, 1000)
	if got := testing.AllocsPerRun(10, func() {
		src.Reset(b)
		r.Reset(src)
		if _, err := ReadFrame(r, 1000, buf); err != nil {
			t.Fatal(err)
		}
	}); got != 0 {
		t.Errorf("%v allocations", got)
	}
}

func FuzzReadFrame(f *testing.F) {
	f.Add([]byte{}, 10)
	f.Add(AppendFrame(AppendFrame(nil, []byte("one")), []byte("two")), 10)
	f.Add([]byte{0x80, 0x00}, 10)
	f.Add(bytes.Repeat([]byte{0xff}, 11), 1<<20)
	f.Fuzz(func(t *testing.T, b []byte, limit int) {
		limit = min(max(limit, 0), 1<<20)
		r := readerOf(b)
		var again []byte
		for {
			p, err := ReadFrame(r, limit, nil)
			if err != nil {
				break
			}
			if len(p) > limit {
				t.Fatalf("%d bytes, limit %d", len(p), limit)
			}
			again = AppendFrame(again, p)
		}
		if !bytes.HasPrefix(b, again) {
			t.Fatalf("%x was read as %x", b, again)
		}
	})
}
