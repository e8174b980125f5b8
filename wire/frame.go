package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/piecelease/fetcher/peers"
)

// Errors of this package. Both wrap peers.ErrProtocol.
var (
	ErrTooLong   = fmt.Errorf("%w: message too long", peers.ErrProtocol)
	ErrMalformed = fmt.Errorf("%w: malformed message", peers.ErrProtocol)
)

// AppendFrame appends payload to dst behind its length, an unsigned varint.
func AppendFrame(dst, payload []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(payload))), payload...)
}

// ReadFrame reads one frame and returns its payload, which lies in buf if buf
// has the capacity and in new memory otherwise.
//
// The error is io.EOF if r ended before the frame began, io.ErrUnexpectedEOF if
// it ended inside; it wraps ErrTooLong if the payload is longer than limit bytes,
// which is found before anything is allocated; and it wraps ErrMalformed if the
// length is not a varint in its shortest form.
func ReadFrame(r *bufio.Reader, limit int, buf []byte) ([]byte, error) {
	n, err := readLength(r)
	if err != nil {
		return nil, err
	}
	if n > uint64(limit) {
		return nil, fmt.Errorf("%w: %d bytes, limit %d", ErrTooLong, n, limit)
	}
	buf = slices.Grow(buf[:0], int(n))[:n]
	if _, err := io.ReadFull(r, buf); err != nil {
		return nil, inFrame(err)
	}
	return buf, nil
}

// readLength reads the varint before a frame.
func readLength(r *bufio.Reader) (n uint64, err error) {
	for shift := 0; ; shift += 7 {
		b, err := r.ReadByte()
		switch {
		case err != nil && shift > 0:
			return 0, inFrame(err)
		case err != nil:
			return 0, err
		case b == 0 && shift > 0:
			return 0, fmt.Errorf("%w: frame length is not in its shortest form", ErrMalformed)
		case shift == 63 && b > 1:
			return 0, fmt.Errorf("%w: frame length over 64 bits", ErrMalformed)
		}
		n |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return n, nil
		}
	}
}

// inFrame is the error for an r that ended inside a frame.
func inFrame(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
