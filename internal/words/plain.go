package words

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
)

// Plain returns the text of an error, in which what the system says about files is in words: "open /x: permission
// denied" is "/x cannot be opened: permission denied".
func Plain(err error) string {
	if err == nil {
		return ""
	}
	return plain(err, err.Error())
}

func plain(err error, text string) string {
	switch e := err.(type) {
	case *fs.PathError:
		return strings.ReplaceAll(text, e.Error(), ofFile(e))
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			return plain(inner, text)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			text = plain(inner, text)
		}
	}
	return text
}

// ofFile is what went wrong with a file.
func ofFile(e *fs.PathError) string {
	switch done := done(e.Op); {
	case errors.Is(e.Err, syscall.ELOOP):
		return e.Path + " is a symbolic link that leads back to itself, and to no file or folder"
	case done == "looked at" && errors.Is(e.Err, fs.ErrNotExist):
		return "there is no file or folder " + e.Path
	case done == "opened" && e.Err == syscall.ENOTDIR:
		return e.Path + " is not a folder, or lies below something that is not one"
	case done == "made" && e.Err == syscall.ENOTDIR:
		return e.Path + " cannot be a folder: a file is in its way"
	default:
		return e.Path + " cannot be " + done + ": " + Plain(e.Err)
	}
}

// done is what could not be done, by the operation's name, which is that of a call of the system or of package os.
func done(op string) string {
	for _, x := range []struct{ begins, done string }{{"open", "opened"}, {"edit", "opened"}, {"lock", "locked"}, {"flock", "locked"}, {"create", "made"}, {"mkdir", "made"},
		{"link", "made"}, {"symlink", "made"}, {"stat", "looked at"}, {"lstat", "looked at"}, {"fstat", "looked at"}, {"newfstat", "looked at"}, {"read", "read"}, {"pread", "read"},
		{"write", "written"}, {"pwrite", "written"}, {"truncate", "written"}, {"ftruncate", "written"}, {"remove", "removed"}, {"unlink", "removed"}, {"rmdir", "removed"}, {"rename", "made"},
		{"sync", "written to the disk"}, {"fsync", "written to the disk"}, {"fdatasync", "written to the disk"}} {
		if strings.HasPrefix(op, x.begins) {
			return x.done
		}
	}
	return "used"
}
