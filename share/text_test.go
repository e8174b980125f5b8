package share

import (
	"errors"
	"testing"
)

func TestSizesHaveThreeDigits(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 999: "999 B", 1000: "1.00 kB", 1049: "1.05 kB", 65_536: "65.5 kB", 999_499: "999 kB", 999_500: "1.00 MB", 16 << 20: "16.8 MB",
		5e9: "5.00 GB", 2 << 40: "2.20 TB", 7e15: "7000 TB",
	} {
		if got := Size(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}

func TestNoRoomSaysWhatToFree(t *testing.T) {
	for _, c := range []struct {
		need, free int64
		want       string
	}{
		{11871232, 0, "disk full: free 11.9 MB more; 11.9 MB is needed and 0 B is free"},
		{16e6, 10956800, "disk full: free 5.04 MB more; 16.0 MB is needed and 11.0 MB is free"},
		{100, 5e6, "disk full: it takes no more, though 5.00 MB is free; it may hold too many files, or a quota may be used up"},
		{100, -1, "disk full: it takes no more, and does not say how much is free; it may hold too many files, or a quota may be used up"},
	} {
		if err := NoRoom(c.need, c.free); err.Error() != c.want || !errors.Is(err, ErrDiskFull) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}
