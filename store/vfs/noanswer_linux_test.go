package vfs

import (
	"testing"
	"time"
)

// A disk that does not answer keeps nobody from closing a folder or a file on it.
func TestADiskThatDoesNotAnswerHoldsUpNoClose(t *testing.T) {
	fsys, err := Dir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	d := fsys.(dirFS)
	f, err := d.Create("f", false)
	if err != nil {
		t.Fatal(err)
	}
	in, answer := make(chan bool), make(chan bool)
	go d.kept.use(d.root, func(int) error { in <- true; <-answer; return nil }) // a stat that hangs
	go f.(*file).use("read", func(int) error { in <- true; <-answer; return nil })
	<-in
	<-in
	closed := make(chan bool, 2)
	go func() { d.Close(); closed <- true }()
	go func() { f.Close(); closed <- true }()
	late := time.After(time.Minute)
	for range 2 {
		select {
		case <-closed:
		case <-late:
			t.Fatal("what is on a disk that does not answer cannot be closed")
		}
	}
	close(answer)
}
