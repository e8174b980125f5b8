package disk

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/internal/rig"
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
	mark := vfs.EncodeRecord(vfs.MoreLeasesRecord, encodeLeases([]depot.Promise{{Account: vfs.RecordMagic + "er", Expires: until(9)}}))
	if got := damaged(append(bytes.Clone(good), mark[:len(mark)-5]...)); got != 3 {
		t.Errorf("a torn change of an account that is called like the mark of a record follows: %d leases of 3", got)
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

// Only what does not verify can be torn: a change that was synced and ends a byte behind a page, with a zero, is read.
func TestAChangeThatEndsInAZeroBehindAPageIsRead(t *testing.T) {
	t.Parallel()
	head := vfs.EncodeRecord(vfs.MoreLeasesRecord, make([]byte, 32))
	last := depot.Promise{Account: "the last"}
	record := func(p depot.Promise) []byte {
		return vfs.EncodeRecord(vfs.MoreLeasesRecord, encodeLeases([]depot.Promise{p}))
	}
	var b []byte
	for n := int64(0); b == nil || b[len(b)-1] != 0; n++ {
		last.Expires = until(n)
		b = record(last)
	}
	first := depot.Promise{Account: strings.Repeat("f", 4096+1-len(head)-len(b)-vfs.RecordLen(10)), Expires: until(9)}
	file := slices.Concat(head, record(first), b)
	if len(file) != 4096+1 {
		t.Fatal(len(file))
	}
	more := depot.Promise{Account: "more", Expires: until(3)}
	for want, f := range map[int][]byte{2: file, 3: slices.Concat(file, record(more))} {
		if got, err := parseChanges(f, make([]byte, 32)); err != nil || !slices.Equal(got, []depot.Promise{first, last, more}[:want]) {
			t.Errorf("%d of %d changes are read: %v", len(got), want, err)
		}
	}
}

// A power cut leaves out a block of a file, which may be as small as 512 bytes: what is lost was granted to nobody.
func TestAChangeThatLostABlockIsLeftOut(t *testing.T) {
	t.Parallel()
	head := vfs.EncodeRecord(vfs.MoreLeasesRecord, make([]byte, 32))
	whole := depot.Promise{Account: "whole", Expires: until(1)}
	one := vfs.EncodeRecord(vfs.MoreLeasesRecord, encodeLeases([]depot.Promise{whole}))
	long := vfs.EncodeRecord(vfs.MoreLeasesRecord, encodeLeases([]depot.Promise{{Account: strings.Repeat("l", 5000), Expires: until(2)}}))
	good := slices.Concat(head, one, long)
	for _, block := range []int{512, 1024, 4096} {
		lost, damaged := bytes.Clone(good), bytes.Clone(good)
		copy(lost[block:], make([]byte, block))
		if got, err := parseChanges(lost, make([]byte, 32)); err != nil || !slices.Equal(got, []depot.Promise{whole}) {
			t.Errorf("%d bytes are lost: %d changes, %v", block, len(got), err)
		}
		damaged[block]++
		if _, err := parseChanges(damaged, make([]byte, 32)); err == nil {
			t.Errorf("byte %d is damaged, and that is no error", block)
		}
	}
}

// Leases that are written whole again just as they were have no changes, also after a power cut.
func TestLeasesWrittenWholeAgainAsTheyWere(t *testing.T) {
	for seed := range uint64(16) {
		id, all := share.IDOf([]byte("x")), crowd()
		disk, b := storetest.New(1<<20), &book{}
		r := onDisk(t, disk.FS, b)
		for _, err := range []error{writeWhole(r, id, all), change(r, id, depot.Promise{Account: all[7].Account})} { // it is released
			if err != nil {
				t.Fatal(err)
			}
		}
		r.Close()
		r = onDisk(t, disk.FS, b)                      // the node is restarted
		if err := writeWhole(r, id, all); err != nil { // it is held again, until the same second
			t.Fatal(err)
		}
		disk.CutPower()
		r.Close()
		disk.Restart(seed)
		r = onDisk(t, disk.FS, b)
		got, err := r.Promises(id)
		r.Close()
		if err != nil || len(got) != len(all) {
			t.Errorf("seed %d: of %d leases there are %d after a power cut: %v", seed, len(all), len(got), err)
		}
	}
}

func onDisk(t *testing.T, fs func() vfs.FS, b *book) *Root {
	t.Helper()
	names := 0
	r := New(func() (vfs.FS, error) { return fs(), nil }, func() string { names++; return fmt.Sprint("d", names) })
	if err := r.Ready(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	return r
}

// between calls then before leases.more is opened.
type between struct {
	vfs.FS
	then func()
}

func (b *between) Open(name string) (vfs.File, error) {
	if then := b.then; then != nil && strings.HasSuffix(name, "/leases.more") {
		then()
	}
	return b.FS.Open(name)
}

// Whoever reads leases while they are written whole sees those before, or those after; and an error if that never ends.
func TestLeasesAreReadWhileTheyAreWrittenWhole(t *testing.T) {
	t.Parallel()
	dir := &between{FS: storetest.New(1 << 20).FS()}
	r := onDisk(t, func() vfs.FS { return dir }, &book{})
	defer r.Close()
	id, all := share.IDOf([]byte("x")), crowd()
	late := depot.Promise{Account: "granted long ago, and appended", Expires: until(5)}
	if err := errors.Join(writeWhole(r, id, all), change(r, id, late)); err != nil {
		t.Fatal(err)
	}
	n, times := 0, 1
	dir.then = func() {
		if n++; n <= times {
			if err := writeWhole(r, id, append(all, late, depot.Promise{Account: fmt.Sprint("new", n), Expires: until(6)})); err != nil {
				t.Error(err)
			}
		}
	}
	got, err := r.Promises(id)
	if err != nil || !slices.Contains(got, late) {
		t.Errorf("%d leases are read, without one that was there all the time: %v", len(got), err)
	}
	times = 1000
	if got, err := r.Promises(id); err == nil || n >= times {
		t.Errorf("it read them %d times: %d", n, len(got))
	}
}

// What Write takes, Promises reads: changes are as long as the leases and one more transaction.
func TestAsManyChangesAsLeasesAreRead(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	r := onDisk(t, storetest.New(128<<20).FS, &book{})
	defer r.Close()
	id, name := share.IDOf([]byte("x")), strings.Repeat("n", 1<<16-10)
	var all []depot.Promise
	for n := range maxLeases>>16 - 1 { // long names, to be quick
		all = append(all, depot.Promise{Account: fmt.Sprint(100+n, name[:1<<16-13]), Expires: until(0)})
	}
	if err := writeWhole(r, id, all); err != nil {
		t.Fatal(err)
	}
	half := len(all) / 2
	for r.Grows(id) {
		if err := change(r, id, all[:half+1]...); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := r.Promises(id); err != nil || len(got) != len(all) {
		t.Errorf("%d of %d leases are read: %v", len(got), len(all), err)
	}
	if err := writeWhole(r, id, all); err != nil {
		t.Fatal(err)
	}
	if err := change(r, id, append(all, all[:2]...)...); !errors.Is(err, errMany) {
		t.Error("more is appended at once than can be read:", err)
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
