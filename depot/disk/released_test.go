package disk

import (
	"errors"
	"fmt"
	"testing"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/storetest"
	"github.com/piecelease/fetcher/store/vfs"
)

// The last lease of a share, which was released, does not come back after a power cut, whatever failed in a try before.
func TestAReleasedLeaseStaysReleasedWhateverFailedBefore(t *testing.T) {
	for whole, at := false, 0; !whole; at++ {
		for seed := range uint64(8) {
			whole = releasedAfterFault(t, at, seed)
		}
	}
}

func releasedAfterFault(t *testing.T, at int, seed uint64) (whole bool) {
	id := share.IDOf([]byte("x"))
	disk, b, names := storetest.New(1<<20), &book{}, 0
	begin := func() *Root {
		r := New(func() (vfs.FS, error) { return disk.FS(), nil }, func() string { names++; return fmt.Sprint("d", names) })
		if err := r.Ready(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		return r
	}
	r, n := begin(), 0
	if err := errors.Join(writeWhole(r, id, []depot.Promise{{Account: "a", Expires: until(0)}}), disk.FS().SyncAll()); err != nil {
		t.Fatal(err)
	}
	disk.Fault = func(op storetest.Op) error {
		if op.Changes() {
			if n++; n > at {
				return errors.New("broken")
			}
		}
		return nil
	}
	whole = writeWhole(r, id, nil) == nil
	disk.Fault = nil
	if err := writeWhole(r, id, nil); err != nil {
		t.Fatal(err)
	}
	disk.CutPower()
	r.Close()
	disk.Restart(seed)
	r = begin()
	defer r.Close()
	if last, err := r.Last(id); err != nil || !last.IsZero() {
		t.Errorf("a try failed at its change %d; after a power cut, seed %d, there is a lease until %v, %v", at, seed, last, err)
	}
	return whole
}
