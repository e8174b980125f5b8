package storetest

import "testing"

func TestHeldCountsLocks(t *testing.T) {
	d := New(1 << 20)
	fs := d.FS()
	if err := fs.Mkdir("a"); err != nil {
		t.Fatal(err)
	}
	lock, err := fs.Lock("a/lock")
	if err != nil {
		t.Fatal(err)
	}
	if d.Held() != 1 {
		t.Errorf("%d locks are held, want 1", d.Held())
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if d.Held() != 0 {
		t.Errorf("%d locks are held after the end, want 0", d.Held())
	}
	if _, err := fs.Lock("a/lock"); err != nil {
		t.Fatal(err)
	}
	d.Kill()
	if d.Held() != 0 {
		t.Errorf("%d locks are held after a kill, want 0", d.Held())
	}
}
