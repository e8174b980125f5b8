//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/piecelease/fetcher/api"
)

// A link that leads nowhere cannot be a folder, and is not said to be missing or a file.
func TestAFolderThatIsALinkToNothingIsRefused(t *testing.T) {
	t.Parallel()
	at := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink("nowhere", at))
	for _, dir := range []string{at, filepath.Join(at, "below")} {
		if _, says, code := inside("man", dir); code != exitUsage || !strings.Contains(says, at+" is a link that leads nowhere") {
			t.Errorf("%s: %d, %s", dir, code, says)
		}
	}
}

// One that is to be shared is not either.
func TestALinkToNothingIsNotSaidToBeMissing(t *testing.T) {
	t.Parallel()
	at := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink("nowhere", at))
	if err := present([]string{at}); exitCode(err) != exitUsage || err.Error() != at+" is a link that leads nowhere" {
		t.Error(err)
	}
}

// A disk is full whoever says so.
func TestAFullDiskHasItsCode(t *testing.T) {
	t.Parallel()
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT} {
		err := &os.PathError{Op: "write", Path: "x", Err: errno}
		if p := api.ProblemOf(err); exitCode(err) != exitDiskFull || !strings.Contains(advice(err), "Make room") || p.Code != "disk_full" || p.Status != 507 || !strings.HasSuffix(p.Detail, "; make room and try again") {
			t.Errorf("%d, %q, %+v", exitCode(err), advice(err), p)
		}
	}
}
