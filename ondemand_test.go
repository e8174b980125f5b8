package fetcher

import (
	"bytes"
	"io"
	"path/filepath"
	"testing"

	"github.com/piecelease/fetcher/internal/rig"
)

// On demand a reader gets what it asks for, and the node fetches little else.
func TestOnDemandFetchesWhatIsRead(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "f.bin")
	want := writeRandom(t, src, 64<<20, 3)
	s := shareOf(t, src)
	x, err := openNode(t).Fetch(t.Context(), s.Ticket(), FetchOptions{Dir: t.TempDir(), OnDemand: true})
	must(t, err)
	r, err := x.Open(t.Context(), "f.bin")
	must(t, err)
	defer r.Close()
	for _, at := range []int64{40 << 20, 10<<20 + 5, 63<<20 + 900_000} {
		_, err := r.Seek(at, io.SeekStart)
		must(t, err)
		got := make([]byte, 100_000)
		_, err = io.ReadFull(r, got)
		must(t, err)
		if !bytes.Equal(got, want[at:at+100_000]) {
			t.Errorf("at %d: other bytes", at)
		}
	}
	if p := x.Progress(); p.Verified == 0 || p.Verified > 3*(onDemandAhead+2<<20) || p.State != Fetching {
		t.Errorf("%v: %d of %d bytes are here", p.State, p.Verified, p.Bytes)
	}
	if !rig.Long() {
		return // what follows are 64 MiB
	}
	_, err = r.Seek(0, io.SeekStart)
	must(t, err)
	all, err := io.ReadAll(r)
	must(t, err)
	if !bytes.Equal(all, want) {
		t.Error("other bytes")
	}
	must(t, x.Wait(t.Context())) // all is here
}
