package p2p

import (
	"bytes"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// slowReader gives some bytes each time, after a while.
type slowReader struct {
	r     io.Reader
	bytes int
	wait  time.Duration
}

func (s slowReader) Read(b []byte) (int, error) {
	time.Sleep(s.wait)
	return s.r.Read(b[:min(len(b), s.bytes)])
}

// While a list of files comes it is told now and then how much of it has, and what ends before its size is an error.
func TestHowMuchOfAListHasComeIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := bytes.Repeat([]byte("list"), 1<<18)
		var told []int
		got, err := readList(slowReader{bytes.NewReader(list), 10_000, 100 * time.Millisecond}, len(list), func(n, size int) {
			if size != len(list) {
				t.Errorf("of %d bytes", size)
			}
			told = append(told, n)
		})
		if err != nil || !bytes.Equal(got, list) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
		if len(told) < 30 || len(told) > 40 || told[0] != 30_000 || told[1] != 60_000 {
			t.Errorf("told %v", told)
		}
		if got, err := readList(bytes.NewReader(list), len(list)+1, nil); err != io.EOF || got != nil {
			t.Errorf("of one that is cut: %d bytes, %v", len(got), err)
		}
	})
}
