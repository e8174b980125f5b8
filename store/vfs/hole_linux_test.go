package vfs

import "testing"

func TestHolesAreTold(t *testing.T) {
	d, err := Dir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	f, err := d.Create("sparse", false)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const mib = 1 << 20
	for _, at := range []int64{2*mib + 5, 9 * mib} {
		if _, err := f.WriteAt([]byte("x"), at); err != nil {
			t.Fatal(err)
		}
	}
	info, err := f.Stat()
	if err != nil || info.Room >= info.Size {
		t.Skip("this file system keeps no holes")
	}
	for i := range int64(9) {
		if got := Hole(f, i*mib, mib); got != (i != 2) {
			t.Errorf("MiB %d: %v", i, got)
		}
	}
	if Hole(f, 9*mib, 1) {
		t.Error("the last byte is no hole")
	}
	if Hole(plainFile{f}, 0, mib) {
		t.Error("a file that cannot tell has holes")
	}
}

type plainFile struct{ File }
