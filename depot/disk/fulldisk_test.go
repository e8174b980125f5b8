package disk

import (
	"testing"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/storetest"
	"github.com/piecelease/fetcher/store/vfs"
)

// onFull returns a folder with a share that has a lease, on a disk that has just become so full that no name fits any more.
func onFull(t *testing.T) (r *Root, id share.ID) {
	t.Helper()
	d := storetest.New(1 << 20)
	r, id = New(func() (vfs.FS, error) { return d.FS(), nil }, func() string { return "n" }), share.IDOf([]byte("x"))
	if err := r.Ready(t.Context(), &book{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	if err := writeWhole(r, id, []depot.Promise{{Account: "a", Expires: until(0)}}); err != nil {
		t.Fatal(err)
	}
	d.Resize(-1)
	return r, id
}

// What nobody holds any more can be removed from a full disk, which would be full for ever otherwise.
func TestWhatIsNotHeldGoesFromAFullDisk(t *testing.T) {
	r, id := onFull(t)
	if err := r.Sweep(); err != nil { // as at each start
		t.Fatal(err)
	}
	if err := r.Remove(id); err != nil {
		t.Error("a full disk stays full:", err)
	}
}

// The last lease of a share can be released on a full disk: that is what frees it.
func TestTheLastLeaseIsReleasedOnAFullDisk(t *testing.T) {
	r, id := onFull(t)
	if err := writeWhole(r, id, nil); err != nil {
		t.Error("it cannot be released:", err)
	}
}
