package disk

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/storetest"
	"github.com/piecelease/fetcher/store/vfs"
)

func until(sec int64) time.Time { return time.Unix(1e9+sec, 0) }

// crowd is so many leases that changes of them are appended.
func crowd() (out []depot.Promise) {
	for i := range 200 {
		out = append(out, depot.Promise{Account: fmt.Sprintf("an account with a name of some length %04d", i), Expires: until(0)})
	}
	return out
}

func change(r *Root, id share.ID, changes ...depot.Promise) error {
	return r.Write([]depot.Promised{{Share: id, Leases: changes, Changes: true}})
}

func TestChangesOfManyLeasesAreAppended(t *testing.T) {
	r, dir := ready(t)
	id, want := share.IDOf([]byte("x")), crowd()
	same := func(r *Root) {
		t.Helper()
		got, err := r.Promises(id)
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%v\n%v, want\n%v", err, got, want)
		}
	}
	if r.Grows(id) || change(r, id, want[0]) == nil {
		t.Error("changes are taken of leases that are not here")
	}
	if err := writeWhole(r, id, want[:20]); err != nil || r.Grows(id) {
		t.Error("a few leases are appended to:", err)
	}
	if err := writeWhole(r, id, want); err != nil || !r.Grows(id) {
		t.Fatal("many leases are written whole each time:", err)
	}
	n := 0
	for r.Grows(id) {
		later := depot.Promise{Account: want[n%200].Account, Expires: until(int64(1 + n))}
		want[n%200] = later
		earlier := depot.Promise{Account: want[(n+1)%200].Account, Expires: until(-1)} // counts for nothing
		if err := change(r, id, later, earlier); err != nil {
			t.Fatal(err)
		}
		n++
		same(r)
	}
	if n < 50 || n > 500 {
		t.Errorf("%d changes of 200 leases are kept before they are written whole", n)
	}
	if err := writeWhole(r, id, want); err != nil || !r.Grows(id) {
		t.Fatal(err)
	}
	if err := change(r, id, depot.Promise{Account: want[0].Account}); err != nil {
		t.Fatal(err)
	}
	want = want[1:]
	same(r)
	short := depot.Promise{Account: "back for less", Expires: until(-5)}
	if err := change(r, id, depot.Promise{Account: want[0].Account}, depot.Promise{Account: short.Account}, short); err != nil {
		t.Fatal(err)
	}
	want = append(want[1:], short)
	same(r)
	r.Close()
	r = open(dir)
	if err := r.Ready(t.Context(), &book{is: must(ReadIdentity(must(vfs.PrivateDir(dir))))}); err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	same(r)
	if r.Grows(id) {
		t.Error("changes are appended to what another process wrote, which may be torn")
	}
}

func must[V any](v V, err error) V {
	if err != nil {
		panic(err)
	}
	return v
}

// Only what a power cut tore, or what is left from before the leases were written whole, is left
// out. All else that is wrong is an error: nobody may think that there is no lease.
func TestDamagedChangesAreNoShorterList(t *testing.T) {
	r, dir := ready(t)
	id, all := share.IDOf([]byte("x")), crowd()
	if err := writeWhole(r, id, all); err != nil {
		t.Fatal(err)
	}
	var sizes []int
	name := filepath.Join(dir, Folder(id), "leases.more")
	for i := range 3 {
		if err := change(r, id, depot.Promise{Account: fmt.Sprint("new", i), Expires: until(9)}); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, int(info.Size()))
	}
	good, base := must(os.ReadFile(name)), must(os.ReadFile(filepath.Join(dir, Folder(id), "leases")))
	damaged := func(b []byte) int {
		changes, err := parseChanges(b, base[len(base)-32:])
		if err != nil {
			return -1
		}
		return len(changes)
	}
	for n := range good {
		want := 0
		for _, s := range sizes {
			if n >= s {
				want++
			}
		}
		if got := damaged(good[:n]); got != want {
			t.Errorf("cut to %d bytes of %d: %d leases, want %d", n, len(good), got, want)
		}
		zeros := append(bytes.Clone(good[:n]), make([]byte, len(good)-n)...)
		if got := damaged(zeros); got != want && got != -1 || n == sizes[1] && got != want {
			t.Errorf("zero from %d on: %d leases, want %d", n, got, want)
		}
		flipped := bytes.Clone(good)
		flipped[n] ^= 0x10
		if got := damaged(flipped); got >= 0 && (n < sizes[1] || got != 2) {
			t.Errorf("byte %d is wrong: %d leases of 3", n, got)
		}
	}
	if got := damaged(append(bytes.Clone(good), good[:80]...)); got != -1 {
		t.Errorf("something that is no change follows: %d", got)
	}
	if err := errors.Join(writeWhole(r, id, all), writeWhole(r, id, all[1:]), os.WriteFile(name, good, 0o600)); err != nil {
		t.Fatal(err)
	}
	if got, err := r.Promises(id); err != nil || len(got) != len(all)-1 {
		t.Errorf("changes of older leases count: %d, %v", len(got), err)
	}
	if err := os.WriteFile(name, append(bytes.Clone(good[:20]), good...), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Promises(id); err == nil {
		t.Error("changes that cannot be read are no error")
	}
}

func FuzzParseChanges(f *testing.F) {
	sum := make([]byte, 32)
	head := vfs.EncodeRecord(vfs.MoreLeasesRecord, sum)
	more := vfs.EncodeRecord(vfs.MoreLeasesRecord, encodeLeases([]depot.Promise{{Account: "a", Expires: until(1)}, {Account: "b"}}))
	f.Add(head)
	f.Add(append(bytes.Clone(head), more...))
	f.Add(append(bytes.Clone(head), more[:50]...))
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := parseChanges(b, sum)
		if err != nil || len(all) == 0 {
			return
		}
		if cut, err := parseChanges(b[:len(b)-1], sum); err == nil && len(cut) > len(all) {
			t.Fatalf("%d changes, and %d of a shorter file", len(all), len(cut))
		}
	})
}

// Whatever the power tears, each change that Write has returned is there, and leases that were there
// before it.
func TestAppendedLeasesSurviveThePowerWhateverFailedBefore(t *testing.T) {
	for whole, at := false, 0; !whole; at++ {
		for seed := range uint64(8) {
			whole = appendedAfterFailure(t, at, seed)
		}
	}
}

func appendedAfterFailure(t *testing.T, at int, seed uint64) (whole bool) {
	id, all := share.IDOf([]byte("x")), crowd()
	disk, b, names := storetest.New(1<<20), &book{}, 0
	begin := func() *Root {
		r := New(func() (vfs.FS, error) { return disk.FS(), nil }, func() string { names++; return fmt.Sprint("d", names) })
		if err := r.Ready(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		return r
	}
	r, n := begin(), 0
	put := func(p depot.Promise) error { // as a database does
		if !r.Grows(id) {
			whole := depot.Changed(slices.Clone(all), []depot.Promise{p})
			err := writeWhole(r, id, whole)
			if err == nil {
				all = whole
			}
			return err
		}
		err := change(r, id, p)
		if err == nil {
			all = depot.Changed(all, []depot.Promise{p})
		}
		return err
	}
	if err := writeWhole(r, id, all); err != nil {
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
	whole = true
	for i := range 3 {
		whole = put(depot.Promise{Account: all[i].Account, Expires: until(int64(10 + i))}) == nil && whole
	}
	if at%2 == 0 { // else the power is cut as soon as it failed
		disk.Fault = nil
		for i := range 3 {
			if err := put(depot.Promise{Account: all[i].Account, Expires: until(int64(20 + i))}); err != nil {
				t.Fatal(err)
			}
		}
	}
	disk.CutPower()
	r.Close()
	disk.Fault = nil
	disk.Restart(seed)
	r = begin()
	defer r.Close()
	got, err := r.Promises(id)
	if err != nil {
		t.Fatalf("it failed at change %d; after a power cut, seed %d: %v", at, seed, err)
	}
	for _, p := range all {
		if !slices.ContainsFunc(got, func(o depot.Promise) bool { return o.Account == p.Account && !o.Expires.Before(p.Expires) }) {
			t.Errorf("it failed at change %d; after a power cut, seed %d, %v is gone", at, seed, p)
		}
	}
	return whole
}
