package vfs

import "testing"

func TestKernelsThatTellOfFailedSyncsAreKnown(t *testing.T) {
	for release, want := range map[string]bool{
		"5.7.19": false, "4.18.0-553.el8_10.x86_64": false, "3.10": false, "": false, "x": false,
		"5.8.0": true, "5.15.0-91-generic": true, "6.1.0-13-amd64": true, "10.0": true,
	} {
		if got := atLeast(release, 5, 8); got != want {
			t.Errorf("%q: %v", release, got)
		}
	}
}
