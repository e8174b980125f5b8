package vfs

import (
	"os"
	"path/filepath"
	"testing"
)

// What a killed process was writing is removed. A person's file that happens to have such a
// name, in a folder that was given as a state directory, stays.
func TestTempRemovesOnlyWhatItMade(t *testing.T) {
	dir := t.TempDir()
	write := func(name string) {
		t.Helper()
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"temp/0/thesis.txt", "temp/0/7", "temp/1", "temp/2/lock", "temp/2/1", "temp/2/17", "temp/2/thesis.txt", "temp/2/01"} {
		write(name)
	}
	d, err := Dir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var temp Temp
	name, err := temp.Name(d)
	if err != nil || name != "temp/2/1" {
		t.Fatalf("the first name is %q, %v", name, err)
	}
	defer temp.Close()
	for name, there := range map[string]bool{"temp/0/thesis.txt": true, "temp/0/7": true, "temp/1": true, "temp/2/1": false, "temp/2/17": false, "temp/2/thesis.txt": true, "temp/2/01": true} {
		if _, err := os.Lstat(filepath.Join(dir, name)); (err == nil) != there {
			t.Errorf("%s: %v", name, err)
		}
	}
}
