package store_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/storetest"
)

// A share that was given for its secret alone stays so when the note of that cannot be looked at, as where another user has made it.
func TestAGuardedShareStaysGuardedWhenThatCannotBeRead(t *testing.T) {
	t.Parallel()
	d := storetest.New(1 << 20)
	s, err := store.OpenStateIn(d.FS())
	if err != nil {
		t.Fatal(err)
	}
	id := share.IDOf([]byte("a manifest"))
	if s.Guarded(id) {
		t.Fatal("it is guarded before")
	}
	if err := s.SaveGuarded(id); err != nil {
		t.Fatal(err)
	}
	for _, why := range []error{syscall.EACCES, syscall.EIO} {
		d.Fault = func(o storetest.Op) error {
			if strings.HasPrefix(o.Name, "guarded") {
				return why
			}
			return nil
		}
		if !s.Guarded(id) {
			t.Errorf("%v: it is given to peers that do not know its secret", why)
		}
	}
}

// A port that cannot be read is not replaced by another, as tickets name it.
func TestAPortThatCannotBeReadStays(t *testing.T) {
	t.Parallel()
	d := storetest.New(1 << 20)
	s, err := store.OpenStateIn(d.FS())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SavePort(4001); err != nil {
		t.Fatal(err)
	}
	d.Fault = func(o storetest.Op) error {
		if o.Name == "port" && o.Kind == "open" {
			return syscall.EACCES
		}
		return nil
	}
	if err := s.SavePort(4002); s.LoadPort() != 0 || !errors.Is(err, syscall.EACCES) {
		t.Errorf("port %d, %v", s.LoadPort(), err)
	}
	if d.Fault = nil; s.LoadPort() != 4001 {
		t.Errorf("it is %d", s.LoadPort())
	}
}
