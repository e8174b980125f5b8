package words

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"
)

func TestFileErrorsAreInWords(t *testing.T) {
	open := &fs.PathError{Op: "openat", Path: "/x", Err: syscall.EACCES}
	for want, err := range map[string]error{
		"":     nil,
		"a: b": errors.New("a: b"),
		"/x cannot be opened: " + syscall.EACCES.Error():                                                    open,
		"the list: /x cannot be opened: " + syscall.EACCES.Error() + "; try again":                          fmt.Errorf("the list: %w; try again", open),
		"/d cannot be made: " + syscall.ENOSPC.Error() + "\n/x cannot be opened: " + syscall.EACCES.Error(): errors.Join(&fs.PathError{Op: "mkdirat", Path: "/d", Err: syscall.ENOSPC}, open),
		"/x cannot be used: there is no file or folder /y":                                                  &fs.PathError{Op: "frob", Path: "/x", Err: &fs.PathError{Op: "lstat", Path: "/y", Err: syscall.ENOENT}},
		"/f cannot be a folder: a file is in its way":                                                       &fs.PathError{Op: "mkdir", Path: "/f", Err: syscall.ENOTDIR},
		"/l is a symbolic link that leads back to itself, and to no file or folder":                         &fs.PathError{Op: "stat", Path: "/l", Err: syscall.ELOOP},
		"/g is not a folder, or lies below something that is not one":                                       &fs.PathError{Op: "open", Path: "/g", Err: syscall.ENOTDIR},
		"a sentence of its own": Error(open, "a sentence of its own"),
	} {
		if got := Plain(err); got != want {
			t.Errorf("%v is %q, want %q", err, got, want)
		}
	}
}
