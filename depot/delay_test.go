package depot

import (
	"errors"
	"fmt"
	"testing"

	"github.com/piecelease/fetcher/share"
)

func TestDelaysSayWhatFails(t *testing.T) {
	for err, want := range map[error]Delay{share.ErrDiskFull: DiskFull, share.ErrNetwork: Unreachable, share.ErrNotFound: Nowhere, share.ErrNotAllowed: NotAllowed,
		share.ErrLied: Useless, share.ErrStalled: Useless, errors.New("x"): Failing} {
		if got := DelayOf(fmt.Errorf("it is: %w", err)); got != want {
			t.Errorf("%v is %v, want %v", err, got, want)
		}
	}
	if s := Delay(200).String(); s != "delay 200" {
		t.Error(s)
	}
}
