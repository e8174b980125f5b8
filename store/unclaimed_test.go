package store_test

import (
	"strings"
	"testing"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/storetest"
	"github.com/piecelease/fetcher/store/vfs"
)

// What somebody has put into data stays if the run before has failed, or was killed, before it claimed any of it: nothing there is ours then.
func TestWhatOthersPutIntoDataStaysIfNothingWasClaimed(t *testing.T) {
	r := newRig(t, tree{"a": random(10), "big": random(share.MinPiece)})
	d := storetest.New(1 << 30)
	d.Fault = func(op storetest.Op) error {
		if op.Kind == "write" && strings.HasSuffix(op.Name, "/bits.new") {
			return share.ErrDiskFull
		}
		return nil
	}
	if _, err := store.OpenPartialIn(t.Context(), d.FS(), r.m, store.PartialOptions{}); err == nil {
		t.Fatal("nothing failed")
	}
	d.Fault = nil
	check(t, vfs.WriteFile(d.FS(), "stuff.partial/data/big", "stuff.partial/x", []byte("mine, precious"), true))
	p, err := store.OpenPartialIn(t.Context(), d.FS(), r.m, store.PartialOptions{})
	check(t, err)
	defer p.Close()
	if len(p.Aside()) != 1 {
		t.Fatalf("aside is %q", p.Aside())
	}
	if b, err := content(d.FS(), p.Aside()[0]); string(b) != "mine, precious" {
		t.Errorf("it holds %q, %v", b, err)
	}
}
